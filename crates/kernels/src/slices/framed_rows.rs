//! The columns beside the rows of a reduce, and how to find a row in them.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::ArrowError;
use arrow_select::interleave::interleave;

use crate::slices::pieces::Piece;

/// The columns beside the rows, and how to find a row in them.
#[derive(Debug)]
pub(crate) struct FramedRows {
    /// For each column its array in every frame.
    columns: Vec<Vec<ArrayRef>>,
    /// Location of every row in input order, which is ascending.
    locs: Vec<u64>,
    /// Number of rows before each frame, and of all.
    starts: Vec<usize>,
}

impl FramedRows {
    /// Collects the columns of all pieces, if they have columns beside their rows. `locs` returns the locations of the
    /// rows, ascending.
    pub(crate) fn new(pieces: &[Piece], locs: impl FnOnce() -> Vec<u64>) -> Option<Self> {
        let batches: Vec<&RecordBatch> = pieces
            .iter()
            .filter_map(|piece| Some(&piece.beside.as_ref()?.columns))
            .collect();
        if batches.is_empty() {
            return None;
        }
        let mut starts = vec![0];
        starts.extend(batches.iter().scan(0, |end, batch| {
            *end += batch.num_rows();
            Some(*end)
        }));
        let num_columns = batches.first().map_or(0, |batch| batch.num_columns());
        let columns = (0..num_columns)
            .map(|c| batches.iter().map(|b| Arc::clone(b.column(c))).collect())
            .collect();
        Some(Self {
            columns,
            locs: locs(),
            starts,
        })
    }

    /// Returns frame and row within the frame for each location.
    pub(crate) fn places(&self, locs: &[u64]) -> Vec<(usize, usize)> {
        let place = |loc| {
            let row = self.locs.partition_point(|&l| l < loc);
            let frame = self.starts.partition_point(|&start| start <= row) - 1;
            (frame, row - self.starts[frame])
        };
        locs.iter().map(|&loc| place(loc)).collect()
    }

    /// Returns the values of one column at these places.
    pub(crate) fn take(
        &self,
        column: usize,
        places: &[(usize, usize)],
    ) -> std::result::Result<ArrayRef, ArrowError> {
        let arrays: Vec<&dyn Array> = self.columns[column].iter().map(AsRef::as_ref).collect();
        interleave(&arrays, places)
    }
}
