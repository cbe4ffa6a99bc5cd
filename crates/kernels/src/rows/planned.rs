//! The rows of a map between planning and writing: the block is allocated in between.

use arrow_array::RecordBatch;

use super::records::record_chunks;
use crate::error::Result;
use crate::map::scatter::Scatter;
use crate::records::{self, RecordShape};

/// Where each row goes.
pub enum Planned {
    /// Rows of a table.
    Table(Scatter),
    /// The records themselves are still in the buffers they were read into.
    Records(RecordShape, records::Scatter, Vec<RecordBatch>),
}

impl Planned {
    /// Marks the slices as coming from the input with this tag.
    #[must_use]
    pub fn tagged(self, tag: u8) -> Self {
        match self {
            Self::Table(scatter) => Self::Table(scatter.tagged(tag)),
            Self::Records(shape, scatter, batches) => {
                Self::Records(shape, scatter.tagged(tag), batches)
            }
        }
    }

    /// Returns the slice offsets of the block.
    pub fn slice_offsets(&self) -> &[u64] {
        match self {
            Self::Table(scatter) => scatter.slice_offsets(),
            Self::Records(_, scatter, _) => scatter.slice_offsets(),
        }
    }

    /// Returns the bytes of the rows: those of the block without the headers of slices.
    pub fn row_bytes(&self) -> u64 {
        match self {
            Self::Table(scatter) => scatter.row_bytes(),
            Self::Records(shape, scatter, _) => (shape.record_bytes() * scatter.records()) as u64,
        }
    }

    /// Returns the bytes of the longest row; `None` if columns lie beside rows.
    ///
    /// # Errors
    /// Values that the layout does not fit.
    pub fn longest_row(&self) -> Result<Option<u64>> {
        match self {
            Self::Table(scatter) => scatter.longest_row(),
            Self::Records(shape, ..) => Ok(Some(shape.record_bytes() as u64)),
        }
    }

    /// Fills the block.
    ///
    /// # Errors
    /// Another size than the last offset says; rows that were not conserved.
    pub fn write(&self, block: &mut [u8]) -> Result<()> {
        match self {
            Self::Table(scatter) => scatter.write(block),
            Self::Records(shape, scatter, batches) => {
                let chunks = record_chunks(*shape, batches)?;
                Ok(scatter.write(&chunks, block)?)
            }
        }
    }
}
