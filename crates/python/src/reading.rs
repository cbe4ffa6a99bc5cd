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

/// Rows of so many bytes are long.
const LONG_ROW_BYTES: u64 = 1 << 10;
/// Bytes of a batch of long rows. Buffers of larger ones grow in several steps while they are decoded, and come from the
/// system each time.
const BATCH_BYTES: u64 = 1 << 20;

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

    /// Opens each split when its turn comes, and returns its rows, at most `batch_rows` at a time.
    pub fn batches(
        &self,
        batch_rows: usize,
    ) -> impl Iterator<Item = Result<Placed, RowError>> + '_ {
        self.splits.iter().flat_map(move |split| {
            let split = split.borrow();
            let batch_rows = batch_rows.min(rows_of_batch(split));
            let opened = open_split(split, &self.schema, &self.options.0, None, batch_rows);
            let batches = opened.unwrap_or_else(|error| Box::new(iter::once(Err(error))));
            follow(
                batches.map(|batch| batch.map_err(RowError::Io)),
                origin(split),
            )
        })
    }
}

/// The most rows of a batch: any number, unless the rows of the split are long.
fn rows_of_batch(split: &exoshuffle_io::Split) -> usize {
    let row_bytes = split.rows.map_or(0, |rows| split.bytes / rows.max(1));
    if row_bytes < LONG_ROW_BYTES {
        return usize::MAX;
    }
    (BATCH_BYTES / row_bytes).max(1) as usize
}

fn origin(split: &exoshuffle_io::Split) -> RowOrigin {
    RowOrigin {
        source: split.file_index,
        row: split.first_row(),
    }
}
