//! The rows of splits, with the columns that are wanted, each with its place in its file.

use std::borrow::Borrow;
use std::iter;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use exoshuffle_io::open_split;
use exoshuffle_kernels::rows::{follow, Placed, RowOrigin};
use pyo3::prelude::*;

use crate::columns::column_index;
use crate::errors::RowError;
use crate::ipc::schema_from_ipc;
use crate::read_options::ReadOptions;
use crate::split::Split;

/// Rows of so many bytes are long.
const LONG_ROW_BYTES: u64 = 1 << 10;
/// Bytes of a batch of long rows. Buffers of larger ones grow in several steps while they are decoded, and come from the
/// system each time.
const BATCH_BYTES: u64 = 1 << 20;
/// Rows of a batch of some columns, at least: what makes rows long may be in the others.
const LEAST_CHOSEN_ROWS: usize = 256;

/// How rows are read from files.
#[derive(Clone)]
pub struct FileColumns {
    /// The schema of the files.
    pub schema: SchemaRef,
    /// The places of the rows' columns in it; `None` for all.
    pub places: Option<Vec<usize>>,
    /// How files are read.
    pub options: ReadOptions,
}

impl FileColumns {
    /// Finds the columns of `rows` in the schema of the files by their names; without that schema they are all.
    pub fn find(
        rows: &SchemaRef,
        file_schema: Option<&[u8]>,
        options: ReadOptions,
    ) -> PyResult<Self> {
        let Some(file_schema) = file_schema else {
            return Ok(Self {
                schema: Arc::clone(rows),
                places: None,
                options,
            });
        };
        let schema = schema_from_ipc(file_schema)?;
        let places = { rows.fields().iter() }
            .map(|field| column_index(&schema, field.name()))
            .collect::<PyResult<_>>()?;
        Ok(Self {
            schema,
            places: Some(places),
            options,
        })
    }

    /// Returns the places in the files of some columns of the rows; `None` for all of both.
    pub fn places_of(&self, columns: Option<&[usize]>) -> Option<Vec<usize>> {
        match (&self.places, columns) {
            (None, columns) => columns.map(<[usize]>::to_vec),
            (Some(places), None) => Some(places.clone()),
            (Some(places), Some(columns)) => {
                Some(columns.iter().map(|&column| places[column]).collect())
            }
        }
    }
}

/// Splits, one after the other, and how to read them.
pub struct Reading {
    splits: Vec<Split>,
    columns: FileColumns,
}

impl Reading {
    /// Prepares to read splits.
    pub fn new(splits: Vec<Split>, columns: &FileColumns) -> Self {
        Self {
            splits,
            columns: columns.clone(),
        }
    }

    /// Returns the pieces of the splits; see [`pieces_of`].
    pub fn pieces(&self) -> Option<Vec<(RowOrigin, u64)>> {
        pieces_of(&self.splits)
    }

    /// Opens each split when its turn comes, and returns its rows, at most `batch_rows` at a time.
    pub fn batches(
        &self,
        batch_rows: usize,
    ) -> impl Iterator<Item = Result<Placed, RowError>> + '_ {
        let FileColumns {
            schema,
            places,
            options,
        } = &self.columns;
        let least_rows = places.as_ref().map_or(1, |_| LEAST_CHOSEN_ROWS);
        self.splits.iter().flat_map(move |split| {
            let split = split.borrow();
            let batch_rows = batch_rows.min(rows_of_batch(split).max(least_rows));
            let opened = open_split(split, schema, &options.0, places.as_deref(), batch_rows);
            let batches = opened.unwrap_or_else(|error| Box::new(iter::once(Err(error))));
            follow(
                batches.map(|batch| batch.map_err(RowError::Io)),
                origin(split),
            )
        })
    }
}

/// Returns the origin of the first row of each split, and its number of rows; `None` where a split does not tell it.
pub fn pieces_of(splits: &[Split]) -> Option<Vec<(RowOrigin, u64)>> {
    { splits.iter().map(Borrow::borrow) }
        .map(|split: &exoshuffle_io::Split| Some((origin(split), split.rows?)))
        .collect()
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
