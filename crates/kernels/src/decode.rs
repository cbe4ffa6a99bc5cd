//! Decoding rows: one builder per column, fed with chunks of rows.
//!
//! Strings are not copied: their views point into the slices that hold the rows.

use std::sync::Arc;

use arrow_array::{
    make_array, ArrayRef, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, NullArray,
    StringViewArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use crate::error::{KernelError, Result};
use crate::key::{read, read_length};
use crate::layout::RowLayout;
use crate::order::slice_and_offset;
use crate::slot::{Column, Slot};

/// Slices as the data buffers of view arrays.
///
/// A view's offset has 31 bits, so a longer slice appears as several windows that start 2 GiB apart and overlap: a value
/// (below 2 GiB) lies whole in the window in which it starts.
#[derive(Debug)]
pub(crate) struct ViewBuffers {
    buffers: Arc<[Buffer]>,
    /// Index of the first window of each slice.
    first: Vec<u32>,
}

const WINDOW_BITS: u32 = 31;

impl ViewBuffers {
    pub(crate) fn new(slices: &[Buffer]) -> Self {
        let mut buffers = Vec::new();
        let mut first = Vec::with_capacity(slices.len());
        for slice in slices {
            first.push(buffers.len() as u32);
            for start in (0..slice.len()).step_by(1 << WINDOW_BITS) {
                buffers.push(
                    slice.slice_with_length(start, (slice.len() - start).min(2 << WINDOW_BITS)),
                );
            }
        }
        Self {
            buffers: buffers.into(),
            first,
        }
    }

    /// The view of a value of more than 12 bytes that starts with `prefix`.
    #[inline]
    fn view(&self, slice: usize, offset: usize, length: usize, prefix: [u8; 4]) -> u128 {
        let buffer = self.first[slice] + (offset >> WINDOW_BITS) as u32;
        let offset = (offset & ((1 << WINDOW_BITS) - 1)) as u32;
        u128::from(offset) << 96
            | u128::from(buffer) << 64
            | u128::from(u32::from_le_bytes(prefix)) << 32
            | length as u128
    }
}

/// Rows to decode: `rows[i]` starts with the row at `locs[i]`.
pub(crate) struct Chunk<'a, 'b> {
    pub(crate) rows: &'b [&'a [u8]],
    pub(crate) locs: &'b [u64],
    pub(crate) views: &'b ViewBuffers,
}

/// Collects one column.
#[derive(Debug)]
pub(crate) struct Decoder<'a> {
    column: &'a Column,
    values: MutableBuffer,
    validity: Option<MutableBuffer>,
    rows: usize,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(column: &'a Column, capacity: usize) -> Self {
        let bytes = match column.slot {
            Slot::Nothing | Slot::Framed { .. } => 0,
            Slot::Bool { .. } => capacity.div_ceil(8),
            Slot::Fixed { width, .. } => width * capacity,
            Slot::Variable { .. } => size_of::<u128>() * capacity,
        };
        let validity = column
            .null_bit
            .map(|_| MutableBuffer::with_capacity(capacity.div_ceil(8)));
        Self {
            column,
            values: MutableBuffer::with_capacity(bytes),
            validity,
            rows: 0,
        }
    }

    /// Appends a chunk. All chunks but the last must have a multiple of 64 rows, so that bits stay byte-aligned.
    /// `tails[i]` is where the next string of row i starts, and is moved on.
    pub(crate) fn append(
        &mut self,
        layout: &RowLayout,
        chunk: &Chunk<'_, '_>,
        tails: &mut [usize],
    ) {
        let rows = chunk.rows;
        self.rows += rows.len();
        if let (Some(bit), Some(validity)) = (self.column.null_bit, &mut self.validity) {
            append_bits(validity, rows.len(), |i| {
                rows[i][bit / 8] >> (bit % 8) & 1 == 0
            });
        }
        match self.column.slot {
            Slot::Nothing | Slot::Framed { .. } => {}
            Slot::Bool { at } => append_bits(&mut self.values, rows.len(), |i| rows[i][at] != 0),
            Slot::Fixed { at, width } => append_fixed(&mut self.values, rows, at, width),
            Slot::Variable { index } => {
                append_views(
                    &mut self.values,
                    chunk,
                    layout.lengths_at() + 4 * index,
                    self.column.null_bit,
                    tails,
                );
            }
        }
    }

    /// The finished column; strings and binary as views into `views`.
    pub(crate) fn finish(self, views: &ViewBuffers) -> Result<ArrayRef> {
        let nulls = self
            .validity
            .map(|bits| NullBuffer::new(BooleanBuffer::new(bits.into(), 0, self.rows)));
        let nulls = nulls.filter(|n| n.null_count() > 0);
        let values = Buffer::from(self.values);
        Ok(match (&self.column.slot, &self.column.value_type) {
            (Slot::Nothing | Slot::Framed { .. }, _) => Arc::new(NullArray::new(self.rows)),
            (Slot::Bool { .. }, _) => Arc::new(BooleanArray::new(
                BooleanBuffer::new(values, 0, self.rows),
                nulls,
            )),
            (Slot::Variable { .. }, value_type) => {
                let pointers = ScalarBuffer::new(values, 0, self.rows);
                let buffers = Arc::clone(&views.buffers);
                if matches!(
                    value_type,
                    DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
                ) {
                    // SAFETY: `append_views` made every view from a value whose bounds were checked when its row was
                    // walked, in the window of its slice, with its own first bytes. The bytes are UTF-8 because scatter
                    // copied them whole out of a string array, and the store verifies a slice's checksum before handing
                    // it out.
                    Arc::new(unsafe { StringViewArray::new_unchecked(pointers, buffers, nulls) })
                } else {
                    // SAFETY: as above, without a demand on the bytes.
                    Arc::new(unsafe { BinaryViewArray::new_unchecked(pointers, buffers, nulls) })
                }
            }
            (Slot::Fixed { .. }, DataType::FixedSizeBinary(width)) => {
                let array =
                    FixedSizeBinaryArray::try_new_with_len(*width, values, nulls, self.rows);
                Arc::new(array.map_err(|e| decoding(self.column, e))?)
            }
            (Slot::Fixed { .. }, value_type) => {
                let data = ArrayData::builder(value_type.clone())
                    .len(self.rows)
                    .add_buffer(values)
                    .nulls(nulls)
                    .build();
                make_array(data.map_err(|e| decoding(self.column, e))?)
            }
        })
    }
}

fn decoding(column: &Column, source: arrow_schema::ArrowError) -> KernelError {
    KernelError::arrow(format!("decoding column '{}'", column.name), source)
}

fn append_bits(bits: &mut MutableBuffer, count: usize, bit: impl FnMut(usize) -> bool) {
    bits.extend_from_slice(MutableBuffer::collect_bool(count, bit).as_slice());
}

fn append_fixed(values: &mut MutableBuffer, rows: &[&[u8]], at: usize, width: usize) {
    match width {
        1 => append_array::<1>(values, rows, at),
        2 => append_array::<2>(values, rows, at),
        4 => append_array::<4>(values, rows, at),
        8 => append_array::<8>(values, rows, at),
        16 => append_array::<16>(values, rows, at),
        32 => append_array::<32>(values, rows, at),
        _ => rows
            .iter()
            .for_each(|row| values.extend_from_slice(&row[at..at + width])),
    }
}

fn append_array<const N: usize>(values: &mut MutableBuffer, rows: &[&[u8]], at: usize) {
    let start = values.len();
    values.resize(start + N * rows.len(), 0);
    let (places, _) = values.as_slice_mut()[start..].as_chunks_mut::<N>();
    for (place, row) in places.iter_mut().zip(rows) {
        *place = read(row, at);
    }
}

fn append_views(
    values: &mut MutableBuffer,
    chunk: &Chunk<'_, '_>,
    length_at: usize,
    null_bit: Option<usize>,
    tails: &mut [usize],
) {
    let start = values.len();
    values.resize(start + size_of::<u128>() * chunk.rows.len(), 0);
    let (places, _) = values.as_slice_mut()[start..].as_chunks_mut::<16>();
    for (((place, row), loc), tail) in places.iter_mut().zip(chunk.rows).zip(chunk.locs).zip(tails)
    {
        let length = read_length(row, length_at);
        let view = if length > 12 {
            let (slice, offset) = slice_and_offset(*loc);
            chunk
                .views
                .view(slice, offset + *tail, length, read(row, *tail))
        } else {
            inline_view(&row[*tail..], length)
        };
        *tail += length;
        let null = null_bit.is_some_and(|bit| row[bit / 8] >> (bit % 8) & 1 == 1);
        *place = if null { [0; 16] } else { view.to_le_bytes() };
    }
}

/// The view of a value of at most 12 bytes that `rest` starts with.
#[inline]
fn inline_view(rest: &[u8], length: usize) -> u128 {
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
