//! Gathered rows as batches, counted as they go out. If they are not the rows that the maps sent, an error follows the
//! last batch.
//!
//! Rows cannot be checked later than this, so the check covers every step before: scattering, merging, spilling,
//! sorting and gathering.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::checks::tally::Tally;
use crate::columns::decode::Strings;
use crate::error::Result;
use crate::reduce::gather::GatheredRows;

/// The batches of a partition; ends after the first error.
pub struct Batches {
    rows: Arc<GatheredRows>,
    schema: SchemaRef,
    strings: Strings,
    step: usize,
    next: usize,
    handed_on: Tally,
    ended: bool,
}

impl Batches {
    pub(crate) fn new(
        rows: Arc<GatheredRows>,
        schema: SchemaRef,
        strings: Strings,
        step: usize,
    ) -> Self {
        Self {
            rows,
            schema,
            strings,
            step,
            next: 0,
            handed_on: Tally::default(),
            ended: false,
        }
    }

    fn step(&mut self) -> Result<Option<RecordBatch>> {
        if self.next >= self.rows.num_rows() {
            self.rows.check(self.handed_on)?;
            return Ok(None);
        }
        let end = self.next.saturating_add(self.step);
        let (form, handed_on) = ((&self.schema, self.strings), &mut self.handed_on);
        let batch = self.rows.batch(form, self.next..end, handed_on)?;
        self.next = end;
        Ok(Some(batch))
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.step().transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}
