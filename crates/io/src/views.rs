//! Text and binary as views, without the bytes that no row of a batch points to.
//!
//! A batch that was cut from a larger one may come with all buffers of that. 2,500 batches of one row each had 82 kB of
//! them each. Code that holds batches then took 590 MB within 512 for rows of 50 kB. Code that writes batches wrote all
//! buffers with each.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{Array, ArrayRef, GenericByteViewArray, RecordBatch};
use arrow_buffer::Buffer;
use arrow_schema::DataType;

/// A view holds values of up to so many bytes itself.
const INLINE_BYTES: usize = 12;
/// Offsets of views are signed 32-bit numbers.
const MAX_BUFFER_BYTES: usize = i32::MAX as usize;

/// Returns the batch with buffers of about the size of the values that its rows point to.
pub fn compacted(batch: RecordBatch) -> RecordBatch {
    let columns: Vec<ArrayRef> = batch.columns().iter().map(compact).collect();
    let mut pairs = columns.iter().zip(batch.columns());
    if pairs.all(|(new, old)| Arc::ptr_eq(new, old)) {
        return batch;
    }
    // The columns have the same types and length.
    RecordBatch::try_new(batch.schema(), columns).unwrap_or(batch)
}

/// Copies the values of views that use less than three quarters of their buffers; returns other arrays as they are.
pub(crate) fn compact(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => in_use(array.as_string_view()),
        DataType::BinaryView => in_use(array.as_binary_view()),
        _ => None,
    }
    .unwrap_or_else(|| Arc::clone(array))
}

fn in_use<T: ByteViewType>(array: &GenericByteViewArray<T>) -> Option<ArrayRef> {
    let held: usize = array.data_buffers().iter().map(|buffer| buffer.len()).sum();
    if held == 0 {
        return None;
    }
    let used: usize = values_beside(array).sum();
    // Values that repeat have more bytes in all than the buffers that they are views of.
    (used < held / 4 * 3 || used == 0)
        .then(|| Arc::new(copied(array, used, MAX_BUFFER_BYTES)) as ArrayRef)
}

/// Returns the length of each value that its view does not hold. The view of a null may hold anything.
fn values_beside<T: ByteViewType>(
    array: &GenericByteViewArray<T>,
) -> impl Iterator<Item = usize> + use<'_, T> {
    let is_valid = |row| array.nulls().is_none_or(|nulls| nulls.is_valid(row));
    let views = array.views().iter().enumerate();
    views
        .map(|(row, view)| (row, *view as u32 as usize))
        .filter(move |&(row, length)| length > INLINE_BYTES && is_valid(row))
        .map(|(_, length)| length)
}

/// Copies values with `used` bytes beside their views into buffers of at most so many bytes, unless one value is longer.
fn copied<T: ByteViewType>(
    array: &GenericByteViewArray<T>,
    used: usize,
    max_buffer_bytes: usize,
) -> GenericByteViewArray<T> {
    let nulls = array.nulls();
    let old: Vec<&[u8]> = array.data_buffers().iter().map(Buffer::as_slice).collect();
    let mut full: Vec<Buffer> = Vec::new();
    let mut bytes: Vec<u8> = Vec::with_capacity(used.min(max_buffer_bytes));
    let mut views: Vec<u128> = Vec::with_capacity(array.len());
    for (row, &view) in array.views().iter().enumerate() {
        let length = view as u32 as usize;
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            views.push(0);
        } else if length <= INLINE_BYTES {
            views.push(view);
        } else {
            let (buffer, start) = ((view >> 64) as u32 as usize, (view >> 96) as usize);
            if bytes.len() + length > max_buffer_bytes && !bytes.is_empty() {
                full.push(Buffer::from_vec(std::mem::take(&mut bytes)));
            }
            let place = (bytes.len() as u128) << 96 | (full.len() as u128) << 64;
            views.push(place | u128::from(view as u64));
            bytes.extend_from_slice(&old[buffer][start..start + length]);
        }
    }
    if !bytes.is_empty() {
        full.push(Buffer::from_vec(bytes));
    }
    // SAFETY: each view is that of a value of the array, with the place that this value was copied to.
    unsafe { GenericByteViewArray::new_unchecked(views.into(), full.into(), nulls.cloned()) }
}

#[cfg(test)]
mod tests {
    use arrow_array::{BinaryViewArray, StringViewArray};
    use arrow_buffer::NullBuffer;
    use arrow_schema::{Field, Schema};

    use super::*;

    fn texts() -> StringViewArray {
        let text = |i: usize| match i % 3 {
            0 => None,
            1 => Some("short".to_owned()),
            _ => Some(format!("a text that no view holds {i:04}")),
        };
        (0..300).map(text).collect()
    }

    fn held(array: &ArrayRef) -> usize {
        let buffers = array.as_string_view().data_buffers().iter();
        buffers.map(|buffer| buffer.len()).sum()
    }

    #[test]
    fn a_part_of_a_batch_keeps_the_bytes_of_its_rows_alone() {
        let whole: ArrayRef = Arc::new(texts());
        let part = whole.slice(150, 30);
        let made = compact(&part);
        assert_eq!(&made, &part);
        assert_eq!((held(&part), held(&made)), (100 * 30, 10 * 30));
        made.to_data().validate_full().unwrap();
        assert_eq!(held(&compact(&whole.slice(150, 2))), 0);
    }

    #[test]
    fn what_is_mostly_used_is_not_copied() {
        let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8View, true)]));
        let batch = RecordBatch::try_new(schema, vec![Arc::new(texts())]).unwrap();
        let made = compacted(batch.slice(0, 290));
        let (new, old) = (
            made.column(0).as_string_view(),
            batch.column(0).as_string_view(),
        );
        assert!(new.data_buffers()[0].ptr_eq(&old.data_buffers()[0]));
    }

    #[test]
    fn buffers_are_no_longer_than_offsets_reach() {
        let array = texts();
        let made = copied(&array, 3000, 100);
        assert_eq!(made, array);
        assert!(made
            .data_buffers()
            .iter()
            .all(|buffer| buffer.len() == 90 || buffer.len() == 30));
    }

    #[test]
    fn what_lies_behind_a_null_is_not_looked_at() {
        let wild = u128::from(u32::MAX) | 7 << 64;
        let nulls = NullBuffer::from(vec![false]);
        let buffers = vec![Buffer::from(vec![0u8; 100])];
        // SAFETY: the value is null.
        let array = unsafe {
            BinaryViewArray::new_unchecked(vec![wild].into(), buffers.into(), Some(nulls))
        };
        let made = compact(&(Arc::new(array) as ArrayRef));
        assert_eq!(made.as_binary_view().views().as_ref(), [0]);
    }
}
