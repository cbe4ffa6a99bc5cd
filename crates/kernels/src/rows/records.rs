//! Fixed-length records as batches of one column, and back.

use std::sync::Arc;

use arrow_array::{Array, FixedSizeBinaryArray, RecordBatch};
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;

use super::side::Side;
use crate::checks::tally::Tally;
use crate::error::{KernelError, Result};
use crate::records::RecordShape;
use crate::slices::sections::Section;

/// Returns the bytes of batches of records.
pub(super) fn record_chunks(shape: RecordShape, batches: &[RecordBatch]) -> Result<Vec<&[u8]>> {
    let chunks = batches.iter().map(|batch| record_bytes(shape, batch));
    chunks.collect()
}

/// Returns the bytes of a batch of records.
pub(super) fn record_bytes(shape: RecordShape, batch: &RecordBatch) -> Result<&[u8]> {
    let column = batch
        .columns()
        .first()
        .and_then(|column| column.as_any().downcast_ref::<FixedSizeBinaryArray>())
        .filter(|column| usize::try_from(column.value_length()) == Ok(shape.record_bytes()))
        .filter(|column| column.null_count() == 0);
    let column = column.map(FixedSizeBinaryArray::value_data);
    column.ok_or_else(|| KernelError::NoRecords {
        record_bytes: shape.record_bytes(),
    })
}

/// Makes a batch of the records in a buffer; `schema` has their one column.
pub(super) fn record_batch(
    shape: RecordShape,
    schema: &SchemaRef,
    records: Buffer,
) -> Result<RecordBatch> {
    let width = shape.record_bytes();
    shape.count(&records)?;
    let failed = |e| KernelError::arrow(format!("making a column of records of {width} bytes"), e);
    let bytes = i32::try_from(width).unwrap_or(i32::MAX);
    let column = FixedSizeBinaryArray::try_new(bytes, records, None).map_err(failed)?;
    RecordBatch::try_new(Arc::clone(schema), vec![Arc::new(column)]).map_err(failed)
}

/// Counts the records that a section has now, as its map did.
pub(super) fn recount(
    shape: RecordShape,
    side: &Side,
) -> impl Fn(&Section) -> Option<Tally> + use<'_> {
    move |section| {
        let mut tally = Tally::default();
        tally.add_records(side.sections.bytes(section), shape.record_bytes());
        Some(tally)
    }
}
