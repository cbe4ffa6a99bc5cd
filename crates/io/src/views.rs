//! Text and binary as views, without the bytes that no row of a batch points to.
//!
//! A batch that was cut from a larger one may come with all buffers of that. 2,500 batches of one row each had 82 kB of
//! them each. Code that holds batches then took 590 MB within 512 for rows of 50 kB.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{Array, ArrayRef, GenericByteViewArray, RecordBatch};
use arrow_schema::DataType;

/// Smaller buffers are left alone, as are those of which a quarter is in use: copying them would cost more than it
/// saves.
const MIN_BYTES: usize = 16 * 1024;
const MAX_PER_USED: usize = 4;

/// Returns the batch with buffers of about the size of the values that its rows point to.
pub(crate) fn compacted(batch: RecordBatch) -> RecordBatch {
    let columns: Vec<ArrayRef> = batch.columns().iter().map(compact).collect();
    let pairs = columns.iter().zip(batch.columns());
    if pairs.into_iter().all(|(new, old)| Arc::ptr_eq(new, old)) {
        return batch;
    }
    // The columns have the same types and length.
    RecordBatch::try_new(batch.schema(), columns).unwrap_or(batch)
}

fn compact(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => in_use(array.as_string_view()),
        DataType::BinaryView => in_use(array.as_binary_view()),
        _ => None,
    }
    .unwrap_or_else(|| Arc::clone(array))
}

fn in_use<T: ByteViewType>(array: &GenericByteViewArray<T>) -> Option<ArrayRef> {
    let bytes: usize = array.data_buffers().iter().map(|buffer| buffer.len()).sum();
    let is_mostly_waste =
        bytes >= MIN_BYTES && bytes / MAX_PER_USED > array.total_buffer_bytes_used();
    is_mostly_waste.then(|| Arc::new(array.gc()) as ArrayRef)
}
