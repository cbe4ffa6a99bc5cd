//! The rows of one partition on their way out, as batches: lazily, in order, on any thread.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::{Schema, SchemaRef};

use super::records::{record_batch, recount};
use super::side::Side;
use crate::checks::tally::Tally;
use crate::error::Result;
use crate::records::{RecordError, RecordOrder, RecordShape, SortedRecords};
use crate::reduce::gather::GatheredRows;

/// Bytes of rows that are gathered at a time: with the columns made of them, half a second-level cache.
pub const BATCH_BYTES: usize = 1 << 19;
/// The most rows of a batch.
pub const MAX_BATCH_ROWS: usize = 8 * 1024;
/// Bytes per column: a table with very many columns gets larger batches. Each column of a batch is an array, and half a
/// megabyte of 10,000 columns is six rows. Whoever takes a batch has 1.5 kB for each array. With at most 4 MB, a window
/// function of 400 rows of 10,000 columns had 456 MB resident within 400, and has 376.
const COLUMN_BYTES: usize = 2 << 10;
const WIDE_BATCH_BYTES: usize = 16 << 20;

type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// The rows of a partition, found and in order.
pub struct PartitionRows {
    pub(super) rows: Found,
    pub(super) side: Side,
}

pub(super) enum Found {
    /// Rows of a table.
    Table(Arc<GatheredRows>),
    /// Records, sorted when they go out, since the order refers to the slices. The schema has their one column.
    Records(RecordShape, SchemaRef),
}

impl PartitionRows {
    /// Returns the batches. Their strings may be views, and dictionaries plain values. Sorts records at once, so that a
    /// failure at the beginning happens here.
    ///
    /// # Errors
    /// Records that cannot be sorted.
    pub fn batches(&self) -> Result<Batches> {
        self.batches_by(gathered)
    }

    /// Like `batches`. Where rows are gathered, each batch has so many bytes of them, and strings are as declared.
    ///
    /// # Errors
    /// As `batches`.
    pub fn plain_batches(&self, bytes: usize) -> Result<Batches> {
        self.batches_by(|rows| Box::new(Arc::clone(rows).plain_batches(step(rows, bytes))))
    }

    fn batches_by(&self, gather: impl FnOnce(&Arc<GatheredRows>) -> Batches) -> Result<Batches> {
        let side = &self.side;
        Ok(match &self.rows {
            Found::Table(rows) => reported(gather(rows), side),
            Found::Records(shape, schema) => {
                let batches = RecordBatches::new(*shape, schema, side);
                reported(Box::new(batches.inspect_err(|e| side.failed(e))?), side)
            }
        })
    }

    /// Returns the number of batches of `plain_batches`, and the most that their buffers take with the declared types.
    /// Each buffer is padded to a multiple of `alignment`. Returns `None` where that shows only when they are made.
    pub fn declared_bytes(
        &self,
        declared: &Schema,
        bytes: usize,
        alignment: usize,
    ) -> Option<(usize, usize)> {
        let Found::Table(rows) = &self.rows else {
            return None;
        };
        let step = step(rows, bytes);
        let most = rows.declared_bytes(declared, step, alignment)?;
        Some((rows.num_rows().div_ceil(step), most))
    }
}

/// Returns the rows of sections, a few at a time.
pub(super) fn gathered(rows: &Arc<GatheredRows>) -> Batches {
    Box::new(Arc::clone(rows).batches(step(rows, BATCH_BYTES)))
}

/// Returns a number of rows that have about so many bytes.
fn step(rows: &GatheredRows, bytes: usize) -> usize {
    let mean = (rows.num_bytes() / rows.num_rows().max(1)).max(1);
    let columns = rows.output_schema().fields().len();
    let bytes = bytes.max(WIDE_BATCH_BYTES.min(columns * COLUMN_BYTES));
    (bytes / mean).clamp(1, bytes / BATCH_BYTES * MAX_BATCH_ROWS)
}

/// Returns the batches; tells the sections when all were handed on, or why that cannot be.
pub(super) fn reported(mut batches: Batches, side: &Side) -> Batches {
    let side = side.clone();
    Box::new(std::iter::from_fn(move || {
        let item = batches.next();
        match &item {
            None => side.conserved(),
            Some(Err(error)) => side.failed(error),
            Some(Ok(_)) => {}
        }
        item
    }))
}

/// Sorted records, counted as they go out; if they are not those that the maps sent, an error follows the last batch.
struct RecordBatches {
    shape: RecordShape,
    schema: SchemaRef,
    side: Side,
    /// Absent only while a batch is made.
    order: Option<RecordOrder>,
    next: usize,
    len: usize,
    handed_on: Tally,
}

impl RecordBatches {
    fn new(shape: RecordShape, schema: &SchemaRef, side: &Side) -> Result<Self> {
        let sorted = SortedRecords::try_new(shape, &records(side)).map_err(|error| {
            let intact = side.sections.intact(side.tag, recount(shape, side));
            intact.err().map_or(error, RecordError::from)
        })?;
        Ok(Self {
            shape,
            schema: Arc::clone(schema),
            len: sorted.len(),
            order: Some(sorted.into_order()),
            side: side.clone(),
            next: 0,
            handed_on: Tally::default(),
        })
    }

    fn batch(&mut self, order: RecordOrder) -> Result<RecordBatch> {
        let width = self.shape.record_bytes();
        let count = (BATCH_BYTES / width).max(1).min(self.len - self.next);
        let slices = records(&self.side);
        let sorted = SortedRecords::resume(self.shape, &slices, order)?;
        let mut records = vec![0; count * width];
        sorted.gather(self.next, &mut records)?;
        self.handed_on.add_records(&records, width);
        self.order = Some(sorted.into_order());
        self.next += count;
        record_batch(self.shape, &self.schema, Buffer::from(records))
    }

    /// Checks that the records handed on are those that the maps sent.
    fn check(&self) -> Result<()> {
        let Side { sections, tag, .. } = &self.side;
        let compared = sections.compare(*tag, self.handed_on, recount(self.shape, &self.side));
        Ok(compared.map_err(RecordError::from)?)
    }
}

impl Iterator for RecordBatches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let order = self.order.take()?;
        if self.next == self.len {
            return self.check().err().map(Err);
        }
        Some(self.batch(order))
    }
}

/// Returns the records of each section.
fn records(side: &Side) -> Vec<&[u8]> {
    let sections = side.sections.tagged(side.tag);
    sections
        .map(|section| side.sections.bytes(section))
        .collect()
}
