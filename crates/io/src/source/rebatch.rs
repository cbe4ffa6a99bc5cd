//! Cuts batches that are larger than wanted; slices share the memory of the batch.

use arrow_array::RecordBatch;

use crate::error::Result;

/// The batches of `inner` in pieces of at most `batch_rows` rows. Empty batches are left out.
pub(crate) struct Rebatch<I> {
    inner: I,
    batch_rows: usize,
    rest: Option<RecordBatch>,
}

impl<I> Rebatch<I> {
    pub(crate) fn new(inner: I, batch_rows: usize) -> Self {
        Self {
            inner,
            batch_rows,
            rest: None,
        }
    }
}

impl<I: Iterator<Item = Result<RecordBatch>>> Iterator for Rebatch<I> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let batch = match self.rest.take() {
                Some(batch) => batch,
                None => match self.inner.next()? {
                    Ok(batch) => batch,
                    Err(e) => return Some(Err(e)),
                },
            };
            if batch.num_rows() > self.batch_rows {
                self.rest = Some(batch.slice(self.batch_rows, batch.num_rows() - self.batch_rows));
                return Some(Ok(batch.slice(0, self.batch_rows)));
            }
            if batch.num_rows() > 0 {
                return Some(Ok(batch));
            }
        }
    }
}
