//! Finds rows of decoded batches that are so long that memory has room for one of them at a time, or for none.
//!
//! A batch or page tells the size of all its rows, so no plan knows where a single long one lies.

use std::path::Path;

use arrow_array::RecordBatch;

use crate::error::{IoError, Result};
use crate::row_bytes::longest_row;
use crate::source::{ReadOptions, RowLimit};

/// The rows that memory has room for: the longest row of one task, and the longest that several may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LongRows {
    limit: Option<RowLimit>,
    shared_bytes: u64,
}

impl LongRows {
    pub(crate) fn of(options: &ReadOptions) -> Self {
        Self {
            limit: options.max_row,
            shared_bytes: options.shared_limit(),
        }
    }

    /// The same where rows take so many copies fewer.
    pub(crate) fn without(self, fewer_copies: u64) -> Self {
        Self {
            limit: self.limit.map(|limit| limit.without(fewer_copies)),
            ..self
        }
    }

    /// Whether a batch of so many bytes has a row that one task at a time may have. Its values are looked at only where they
    /// are large together.
    ///
    /// # Errors
    /// Memory has no room for the longest row; `place` names it by its number in the batch.
    pub(crate) fn found(
        self,
        batch: &RecordBatch,
        bytes: u64,
        path: &Path,
        place: impl FnOnce(usize) -> String,
    ) -> Result<bool> {
        if bytes <= self.shared_bytes {
            return Ok(false);
        }
        let Some((row, bytes)) = longest_row(batch) else {
            return Ok(false);
        };
        match self.limit.filter(|limit| bytes > limit.row_bytes) {
            None => Ok(bytes > self.shared_bytes),
            Some(limit) => Err(IoError::LargeRow {
                path: path.to_path_buf(),
                place: place(row),
                bytes,
                limit_bytes: limit.row_bytes,
                enough_bytes: limit.enough_bytes(bytes),
            }),
        }
    }
}
