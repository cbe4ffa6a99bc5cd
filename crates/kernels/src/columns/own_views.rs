//! Views of strings and binary that own their bytes, instead of pointing into the slices that rows came in.
//!
//! A batch that is written or kept keeps whole buffers. Views into the slices of a partition bring all of these with
//! each batch: a batch of 2,400 rows took 250 MB of store. Views here have the bytes of their own rows, copied while
//! the rows are in the cache, in one buffer for each 2 GiB.

use std::mem;
use std::sync::Arc;

use arrow_buffer::{Buffer, MutableBuffer};
use arrow_schema::DataType;

use crate::keys::key::read_length;
use crate::layout::RowLayout;
use crate::slot::Slot;

/// A view holds values of up to so many bytes itself.
pub(crate) const INLINE_BYTES: usize = 12;
/// Offsets of views are signed 32-bit numbers.
pub(crate) const MAX_VIEW_BUFFER_BYTES: usize = i32::MAX as usize;

/// The bytes of the values that views do not hold themselves.
#[derive(Debug)]
pub(crate) struct OwnBytes {
    full: Vec<Buffer>,
    bytes: MutableBuffer,
    max_buffer_bytes: usize,
}

impl OwnBytes {
    /// Takes memory for so many bytes; for more it is doubled.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            full: Vec::new(),
            bytes: MutableBuffer::with_capacity(capacity.min(MAX_VIEW_BUFFER_BYTES)),
            max_buffer_bytes: MAX_VIEW_BUFFER_BYTES,
        }
    }

    /// Appends to `views` those of a column whose lengths are at `length_at`. `tails[i]` is where the value of row i
    /// starts, and is moved on. Nulls have no bytes, so their views are zeros.
    pub(crate) fn append(
        &mut self,
        views: &mut MutableBuffer,
        rows: &[&[u8]],
        length_at: usize,
        tails: &mut [usize],
    ) {
        let start = views.len();
        views.resize(start + size_of::<u128>() * rows.len(), 0);
        let (places, _) = views.as_slice_mut()[start..].as_chunks_mut::<16>();
        for ((place, row), tail) in places.iter_mut().zip(rows).zip(tails) {
            let length = read_length(row, length_at);
            let view = if length > INLINE_BYTES {
                self.add(&row[*tail..*tail + length])
            } else {
                inline_view(&row[*tail..], length)
            };
            *tail += length;
            *place = view.to_le_bytes();
        }
    }

    /// Returns the buffers that the views point into.
    pub(crate) fn finish(mut self) -> Arc<[Buffer]> {
        if !self.bytes.is_empty() {
            self.full.push(self.bytes.into());
        }
        self.full.into()
    }

    #[inline]
    fn add(&mut self, value: &[u8]) -> u128 {
        if self.bytes.len() + value.len() > self.max_buffer_bytes {
            self.full.push(mem::take(&mut self.bytes).into());
        }
        let offset = self.bytes.len();
        self.bytes.extend_from_slice(value);
        let prefix = [value[0], value[1], value[2], value[3]];
        view(self.full.len() as u32, offset as u32, value.len(), prefix)
    }
}

/// Counts the bytes of rows that will not be beside views, because views hold them.
///
/// A walk of the rows for this alone would take as long as finding them, so they are counted as they are found.
pub(crate) struct InlineBytes {
    /// Where the lengths of columns of views lie in a row.
    lengths_at: Vec<usize>,
    sum: usize,
}

impl InlineBytes {
    pub(crate) fn new(layout: &RowLayout) -> Self {
        let views =
            layout
                .columns()
                .iter()
                .filter_map(|column| match (column.slot, &column.value_type) {
                    (Slot::Variable { index }, DataType::Utf8View | DataType::BinaryView) => {
                        Some(layout.lengths_at() + 4 * index)
                    }
                    _ => None,
                });
        Self {
            lengths_at: views.collect(),
            sum: 0,
        }
    }

    /// Adds rows that start there in the slice.
    pub(crate) fn add(&mut self, slice: &[u8], starts: &[usize]) {
        for at in &self.lengths_at {
            let lengths = starts.iter().map(|start| read_length(slice, start + at));
            self.sum += lengths
                .map(|length| if length > INLINE_BYTES { 0 } else { length })
                .sum::<usize>();
        }
    }

    pub(crate) fn sum(&self) -> usize {
        self.sum
    }
}

/// Makes the view of a value of more than 12 bytes that starts with `prefix`.
#[inline]
pub(crate) fn view(buffer: u32, offset: u32, length: usize, prefix: [u8; 4]) -> u128 {
    u128::from(offset) << 96
        | u128::from(buffer) << 64
        | u128::from(u32::from_le_bytes(prefix)) << 32
        | length as u128
}

/// Makes the view of a value of at most 12 bytes that `rest` starts with.
#[inline]
pub(crate) fn inline_view(rest: &[u8], length: usize) -> u128 {
    let value = match rest.first_chunk::<16>() {
        Some(first) => u128::from_le_bytes(*first) & ((1 << (8 * length)) - 1),
        None => {
            let mut padded = [0; 16];
            padded[..length].copy_from_slice(&rest[..length]);
            u128::from_le_bytes(padded)
        }
    };
    value << 32 | length as u128
}

#[cfg(test)]
mod tests {
    use arrow_array::StringViewArray;
    use arrow_buffer::ScalarBuffer;

    use super::*;

    /// Returns the texts as views, with buffers of at most so many bytes.
    fn viewed(texts: &[&str], max_buffer_bytes: usize) -> StringViewArray {
        let rows: Vec<Vec<u8>> = texts
            .iter()
            .map(|text| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat())
            .collect();
        let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        let mut own = OwnBytes::new(1);
        own.max_buffer_bytes = max_buffer_bytes;
        let mut views = MutableBuffer::new(0);
        own.append(&mut views, &rows, 0, &mut vec![4; rows.len()]);
        let views = ScalarBuffer::new(views.into(), 0, rows.len());
        StringViewArray::try_new(views, own.finish(), None).unwrap()
    }

    const TEXTS: [&str; 6] = [
        "",
        "twelve bytes",
        "thirteen byte",
        "",
        "a text of twenty-two b",
        "another thirteen byte",
    ];

    #[test]
    fn only_long_values_take_bytes_beside_their_views() {
        let array = viewed(&TEXTS, MAX_VIEW_BUFFER_BYTES);
        assert_eq!(array, StringViewArray::from_iter_values(TEXTS));
        let sizes: Vec<usize> = array.data_buffers().iter().map(|b| b.len()).collect();
        assert_eq!(sizes, [13 + 22 + 21]);
        assert!(viewed(&TEXTS[..2], MAX_VIEW_BUFFER_BYTES)
            .data_buffers()
            .is_empty());
    }

    #[test]
    fn a_buffer_that_offsets_cannot_number_is_followed_by_another() {
        let array = viewed(&TEXTS, 40);
        assert_eq!(array, StringViewArray::from_iter_values(TEXTS));
        let sizes: Vec<usize> = array.data_buffers().iter().map(|b| b.len()).collect();
        assert_eq!(sizes, [13 + 22, 21]);
    }
}
