//! Batches with the place of their rows in the input, which random numbers of rows go by.

use std::vec;

use arrow_array::RecordBatch;

use crate::checks::check::CheckError;
use crate::error::KernelError;

/// Says which row of the input a row is.
#[derive(Debug, Clone, Copy)]
pub struct RowOrigin {
    /// Number of the file, or of the other source of the rows.
    pub source: u64,
    /// Number of the row in that source.
    pub row: u64,
}

/// Some rows, and the origin of the first of them.
pub type Placed = (RowOrigin, RecordBatch);

/// Gives batches map number `map_index` as their only origin.
pub fn placed<E>(
    batches: impl Iterator<Item = Result<RecordBatch, E>>,
    map_index: u32,
) -> impl Iterator<Item = Result<Placed, E>> {
    let source = u64::from(map_index);
    follow(batches, RowOrigin { source, row: 0 })
}

/// Gives batches their origins: the first row has this one, and the others follow.
pub fn follow<E>(
    batches: impl Iterator<Item = Result<RecordBatch, E>>,
    first: RowOrigin,
) -> impl Iterator<Item = Result<Placed, E>> {
    let mut next = first;
    batches.map(move |batch| {
        let (batch, origin) = (batch?, next);
        next.row += batch.num_rows() as u64;
        Ok((origin, batch))
    })
}

/// Gives batches the origins of pieces, whose rows they have one after the other. A batch is cut where a piece ends, and
/// so that no part has more than `most_rows`.
///
/// # Errors
/// Those of the batches; other rows than the pieces have.
pub fn along<E: From<KernelError>>(
    batches: impl Iterator<Item = Result<RecordBatch, E>>,
    pieces: Vec<(RowOrigin, u64)>,
    most_rows: usize,
) -> impl Iterator<Item = Result<Placed, E>> {
    Along {
        batches,
        rest: None,
        expected: pieces.iter().map(|(_, rows)| rows).sum(),
        pieces: pieces.into_iter(),
        next: RowOrigin { source: 0, row: 0 },
        left: 0,
        most_rows: most_rows.max(1),
    }
}

/// See [`along`].
struct Along<I> {
    batches: I,
    /// The rest of the batch.
    rest: Option<RecordBatch>,
    expected: u64,
    /// The pieces behind this one.
    pieces: vec::IntoIter<(RowOrigin, u64)>,
    /// The next row of this piece, and how many are left of it.
    next: RowOrigin,
    left: u64,
    most_rows: usize,
}

impl<E: From<KernelError>, I: Iterator<Item = Result<RecordBatch, E>>> Along<I> {
    /// Goes to the next row; returns whether there is one.
    fn reach(&mut self) -> bool {
        while self.left == 0 {
            let Some((origin, rows)) = self.pieces.next() else {
                return false;
            };
            (self.next, self.left) = (origin, rows);
        }
        true
    }

    fn other_rows(&self) -> E {
        let expected = self.expected;
        KernelError::from(CheckError::Numbered { expected }).into()
    }

    fn placed(&mut self, batch: RecordBatch) -> Result<Placed, E> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok((self.next, batch));
        }
        if !self.reach() {
            return Err(self.other_rows());
        }
        let count = rows.min(self.most_rows).min(self.left as usize);
        if count < rows {
            self.rest = Some(batch.slice(count, rows - count));
        }
        let origin = self.next;
        self.next.row += count as u64;
        self.left -= count as u64;
        Ok((origin, batch.slice(0, count)))
    }
}

impl<E: From<KernelError>, I: Iterator<Item = Result<RecordBatch, E>>> Iterator for Along<I> {
    type Item = Result<Placed, E>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.rest.take().map(Ok).or_else(|| self.batches.next()) {
            Some(batch) => Some(batch.and_then(|batch| self.placed(batch))),
            None if self.reach() => {
                self.left = 0;
                self.pieces = Vec::new().into_iter();
                Some(Err(self.other_rows()))
            }
            None => None,
        }
    }
}
