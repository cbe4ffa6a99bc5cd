//! Batches with the place of their rows in the input, which random numbers of rows go by.

use arrow_array::RecordBatch;

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
