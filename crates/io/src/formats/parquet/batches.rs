//! Decoded batches on their way to the caller: checked for missing rows, arranged as asked for, and cut into small ones.

use std::path::PathBuf;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use super::columns;
use super::windows::Windows;
use super::{FORMAT, HELD_COPIES};
use crate::error::{IoError, Result};
use crate::long_rows::LongRows;
use crate::source::{conform, ReadOptions};

/// Rows of a batch that is handed on have at most about this many bytes.
const BATCH_BYTES: usize = 16 << 20;

/// The decoder's words for a first number, or a least step, that does not fit into the type.
const WIDE_STEPS: [&str; 2] = ["first value too large", "'min_delta' too large"];

/// Decoded batches, with columns in the order of the file.
pub(super) struct Batches {
    pub(super) reader: ParquetRecordBatchReader,
    pub(super) windows: Windows,
    pub(super) path: PathBuf,
    /// Rows that are still to come.
    pub(super) missing: usize,
    /// A column that is read whose numbers may be stored with steps that the decoder refuses.
    pub(super) may_have_wide_steps: Option<String>,
    /// Whether each row group has one row: a page has no other rows then, so that nothing holds it once it is decoded.
    pub(super) are_rows_alone: bool,
}

impl Batches {
    /// Returns the error for one of the decoder.
    fn explained(&self, error: &ArrowError) -> IoError {
        let text = error.to_string();
        let is_wide = WIDE_STEPS.iter().any(|words| text.contains(words));
        match &self.may_have_wide_steps {
            Some(column) if is_wide => IoError::WideSteps {
                path: self.path.clone(),
                column: column.clone(),
            },
            _ => IoError::corrupt(&self.path, FORMAT, text),
        }
    }

    /// Waits for the turn before a batch is handed on that has rows which one task at a time may have.
    ///
    /// The decoder holds the page that they came from until its last row. A dictionary has a long value once, and each
    /// reference to it becomes a copy. A text of 100 MB in a dictionary, written within 422 MB, peaked at 467.
    pub(super) fn with_turns(
        self,
        options: &ReadOptions,
    ) -> impl Iterator<Item = Result<RecordBatch>> {
        let (windows, path) = (self.windows.clone(), self.path.clone());
        let (beside_page, are_alone) = (LongRows::of(options), self.are_rows_alone);
        let alone = beside_page.without(HELD_COPIES);
        self.map(move |batch| {
            let batch = batch?;
            let bytes = columns::written_out_bytes(&batch) as u64;
            let is_alone = are_alone && batch.num_rows() == 1;
            let long_rows = if is_alone { alone } else { beside_page };
            let are_long = long_rows.found(&batch, bytes, &path, |_| "a row".to_owned())?;
            windows.take_turn_with_rows(are_long);
            Ok(batch)
        })
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.reader.next() {
            Some(Ok(batch)) => {
                self.missing = self.missing.saturating_sub(batch.num_rows());
                Some(Ok(batch))
            }
            // The decoder passes on a failure of the file as text only.
            Some(Err(e)) => {
                let failure = self.windows.failure();
                Some(Err(failure.unwrap_or_else(|| self.explained(&e))))
            }
            // The decoder takes the end of a column that is too short for the end of the data.
            None if self.missing > 0 => {
                let reason = format!("{} rows are missing from a row group", self.missing);
                self.missing = 0;
                Some(Err(IoError::corrupt(&self.path, FORMAT, reason)))
            }
            None => None,
        }
    }
}

/// Turns decoded batches into the batches that were asked for.
pub(super) struct Arrangement {
    pub(super) order: Option<Vec<usize>>,
    pub(super) wanted: SchemaRef,
    pub(super) path: PathBuf,
}

impl Arrangement {
    pub(super) fn apply(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let batch = match &self.order {
            Some(order) => batch.project(order),
            None => Ok(batch),
        };
        let batch = batch.and_then(|batch| conform(batch, &self.wanted));
        batch.map_err(|e| IoError::corrupt(&self.path, FORMAT, e))
    }
}

/// Cuts batches into pieces of at most `batch_rows` rows, and of few bytes if their strings are written out.
pub(super) struct Cut<I> {
    inner: I,
    batch_rows: usize,
    /// Pieces to hand on, the last one first.
    pieces: Vec<RecordBatch>,
}

impl<I> Cut<I> {
    pub(super) fn new(inner: I, batch_rows: usize) -> Self {
        Self {
            inner,
            batch_rows,
            pieces: Vec::new(),
        }
    }
}

impl<I: Iterator<Item = Result<RecordBatch>>> Iterator for Cut<I> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let batch = match self.pieces.pop() {
                Some(piece) => piece,
                None => match self.inner.next()? {
                    Ok(batch) => batch,
                    Err(e) => return Some(Err(e)),
                },
            };
            let rows = batch.num_rows();
            let first = if rows > self.batch_rows {
                self.batch_rows
            } else if rows > 1 && columns::view_bytes(&batch) > BATCH_BYTES {
                rows / 2
            } else if rows == 0 {
                continue;
            } else {
                return Some(Ok(batch));
            };
            self.pieces.push(batch.slice(first, rows - first));
            self.pieces.push(batch.slice(0, first));
        }
    }
}
