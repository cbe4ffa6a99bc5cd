//! The rows of splits, each with its place in its file.

use std::borrow::Borrow;
use std::iter;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use exoshuffle_io::open_split;
use exoshuffle_kernels::rows::{follow, Placed, RowOrigin};

use crate::errors::RowError;
use crate::read_options::ReadOptions;
use crate::split::Split;

/// Splits, one after the other, and how to read them.
pub struct Reading {
    splits: Vec<Split>,
    schema: SchemaRef,
    options: ReadOptions,
}

impl Reading {
    /// Prepares to read splits with all columns of the schema.
    pub fn new(splits: Vec<Split>, schema: &SchemaRef, options: &ReadOptions) -> Self {
        Self {
            splits,
            schema: Arc::clone(schema),
            options: options.clone(),
        }
    }

    /// Returns the origin of the first row of each split, and its number of rows; `None` where a split does not tell it.
    pub fn pieces(&self) -> Option<Vec<(RowOrigin, u64)>> {
        let splits = self.splits.iter();
        { splits.map(Borrow::borrow) }
            .map(|split: &exoshuffle_io::Split| Some((origin(split), split.rows?)))
            .collect()
    }

    /// Opens each split when its turn comes, and returns its rows.
    pub fn batches(
        &self,
        batch_rows: usize,
    ) -> impl Iterator<Item = Result<Placed, RowError>> + '_ {
        self.splits.iter().flat_map(move |split| {
            let split = split.borrow();
            let opened = open_split(split, &self.schema, &self.options.0, None, batch_rows);
            let batches = opened.unwrap_or_else(|error| Box::new(iter::once(Err(error))));
            follow(
                batches.map(|batch| batch.map_err(RowError::Io)),
                origin(split),
            )
        })
    }
}

fn origin(split: &exoshuffle_io::Split) -> RowOrigin {
    RowOrigin {
        source: split.file_index,
        row: split.first_row(),
    }
}
