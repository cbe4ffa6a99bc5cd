//! The sizes of rows in blocks.

use arrow_array::RecordBatch;

use super::kind::{first_of, RowKind};
use crate::error::Result;
use crate::layout::RowLayout;
use crate::map::assignment::Assignment;
use crate::map::scatter::Scatter;

/// The sizes of some rows in a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Measured {
    /// Their number.
    pub rows: u64,
    /// The bytes of all.
    pub bytes: u64,
    /// The bytes of the largest.
    pub largest: u64,
}

impl Measured {
    /// The sizes of these rows and of others.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            bytes: self.bytes + other.bytes,
            largest: self.largest.max(other.largest),
        }
    }

    /// The sizes of rows that have this size each.
    fn alike(rows: u64, width: usize) -> Self {
        Self {
            rows,
            bytes: rows.saturating_mul(width as u64),
            largest: if rows == 0 { 0 } else { width as u64 },
        }
    }

    /// The sizes of the rows of a batch.
    fn of_rows(layout: &RowLayout, batch: &RecordBatch) -> Result<Self> {
        let (bytes, longest) = block_bytes(layout, batch)?;
        let mut largest = longest.unwrap_or(0);
        if longest.is_none() {
            for row in 0..batch.num_rows() {
                largest = largest.max(block_bytes(layout, &batch.slice(row, 1))?.0);
            }
        }
        Ok(Self {
            rows: batch.num_rows() as u64,
            // All rows at once: otherwise bytes that nested columns take whatever their number would be counted for each
            // row.
            bytes,
            largest,
        })
    }
}

impl RowKind {
    /// Returns the sizes of so many rows in a block, if all rows have one size: nobody has to see them.
    pub fn measure_unseen(&self, rows: u64) -> Option<Measured> {
        let width = match self {
            Self::Records(shape, _) => shape.record_bytes(),
            Self::Table(layout) => layout.fixed_row_bytes()?,
            Self::Permutation(permutation) => permutation.layout().fixed_row_bytes()?,
        };
        Some(Measured::alike(rows, width))
    }

    /// Returns the sizes of the rows of a batch in a block.
    ///
    /// # Errors
    /// Another number of columns, or other types, than the schema has.
    pub fn measure(&self, batch: &RecordBatch) -> Result<Measured> {
        match self {
            Self::Records(shape, _) => {
                let rows = batch.num_rows() as u64;
                Ok(Measured::alike(rows, shape.record_bytes()))
            }
            Self::Table(layout) => Measured::of_rows(layout, batch),
            Self::Permutation(permutation) => {
                let numbered = permutation.number(batch, 0, 0)?;
                Measured::of_rows(permutation.layout(), &numbered)
            }
        }
    }
}

/// Returns the bytes that a batch takes in a block, and those of its longest row, if that is known.
fn block_bytes(layout: &RowLayout, batch: &RecordBatch) -> Result<(u64, Option<u64>)> {
    let all = Assignment::round_robin(1)?;
    let scatter = Scatter::plan(layout, std::slice::from_ref(batch), &all, first_of(0))?;
    Ok((scatter.row_bytes(), scatter.longest_row()?))
}
