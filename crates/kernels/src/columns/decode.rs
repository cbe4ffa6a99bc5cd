//! Decoding rows: one builder per column, fed with chunks of rows.
//!
//! Strings are not copied where views of the slices that hold the rows will do. Strings may be wanted as declared, plain
//! or views with buffers of their own. They are copied at once, while their rows are in the cache. Copied later, they
//! came from memory a second time.

use std::sync::Arc;

use arrow_array::{
    make_array, ArrayRef, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, NullArray,
    OffsetSizeTrait, StringViewArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use crate::columns::lists::{Lists, Unread};
use crate::columns::own_views::{inline_view, view, OwnBytes, INLINE_BYTES};
use crate::error::{KernelError, Result};
use crate::keys::key::{read, read_length};
use crate::layout::RowLayout;
use crate::order::slice_and_offset;
use crate::slot::{item_width, Column, Slot};

/// The slices as data buffers of view arrays.
///
/// The offset of a view has 31 bits. So a longer slice appears as several windows that start 2 GiB apart and overlap. A
/// value (below 2 GiB) lies whole in the window in which it starts.
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

    /// Makes the view of a value of more than 12 bytes that starts with `prefix`.
    #[inline]
    fn view(&self, slice: usize, offset: usize, length: usize, prefix: [u8; 4]) -> u128 {
        let buffer = self.first[slice] + (offset >> WINDOW_BITS) as u32;
        let offset = (offset & ((1 << WINDOW_BITS) - 1)) as u32;
        view(buffer, offset, length, prefix)
    }
}

/// How strings and binary come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strings {
    /// As views into the slices.
    Pointed,
    /// As declared, plain or views, with buffers of their own.
    Copied,
}

/// Rows to decode: `rows[i]` starts with the row at `locs[i]`.
pub(crate) struct Chunk<'a, 'b> {
    pub(crate) rows: &'b [&'a [u8]],
    pub(crate) locs: &'b [u64],
    /// The null bits that are set in any of the rows.
    pub(crate) null_bits: &'b [u8],
    pub(crate) views: &'b ViewBuffers,
}

/// Collects one column.
#[derive(Debug)]
pub(crate) struct Decoder<'a> {
    pub(super) column: &'a Column,
    /// The type of the result: strings and binary may be plain or views.
    data_type: &'a DataType,
    pub(super) values: MutableBuffer,
    /// Where the values of plain strings start, and where the last one ends.
    offsets: MutableBuffer,
    /// The bytes of views that do not point into slices.
    own: Option<OwnBytes>,
    lists: Option<Lists<'a>>,
    /// Made with the first null.
    validity: Option<MutableBuffer>,
    pub(super) rows: usize,
}

impl<'a> Decoder<'a> {
    /// Takes memory for so many rows, and so many bytes of copied strings. For more bytes the memory is doubled.
    pub(crate) fn new(
        column: &'a Column,
        data_type: &'a DataType,
        strings: Strings,
        (capacity, string_bytes): (usize, usize),
    ) -> Self {
        let offset_bytes = offset_bytes(data_type);
        let lists = item_width(&column.value_type)
            .map(|width| Lists::new(&column.value_type, width, (capacity, string_bytes)));
        let is_view =
            matches!(column.slot, Slot::Variable { .. }) && offset_bytes == 0 && lists.is_none();
        let is_own = is_view && strings == Strings::Copied;
        let bytes = match column.slot {
            Slot::Nothing | Slot::Framed { .. } => 0,
            Slot::Bool { .. } => capacity.div_ceil(8),
            Slot::Fixed { width, .. } => width * capacity,
            Slot::Variable { .. } if offset_bytes > 0 => string_bytes,
            Slot::Variable { .. } if is_view => size_of::<u128>() * capacity,
            Slot::Variable { .. } => 0,
        };
        let mut offsets = MutableBuffer::with_capacity(offset_bytes * (capacity + 1));
        offsets.extend_zeros(offset_bytes);
        Self {
            column,
            data_type,
            values: MutableBuffer::with_capacity(bytes),
            offsets,
            own: is_own.then(|| OwnBytes::new(string_bytes)),
            lists,
            validity: None,
            rows: 0,
        }
    }

    /// Appends a chunk. All chunks but the last must have a multiple of 64 rows, so that bits stay byte-aligned.
    /// `tails[i]` is where the next string of row i starts, and is moved on.
    ///
    /// # Errors
    /// Plain strings with more bytes than their offsets can number, or lists with more items; bytes that are no list.
    pub(crate) fn append(
        &mut self,
        layout: &RowLayout,
        chunk: &Chunk<'_, '_>,
        tails: &mut [usize],
    ) -> Result<()> {
        let rows = chunk.rows;
        self.append_validity(chunk);
        self.rows += rows.len();
        match self.column.slot {
            Slot::Nothing | Slot::Framed { .. } => {}
            Slot::Bool { at } => append_bits(&mut self.values, rows.len(), |i| rows[i][at] != 0),
            Slot::Fixed { at, width } => append_fixed(&mut self.values, rows, at, width),
            Slot::Variable { index } => {
                let length_at = layout.lengths_at() + 4 * index;
                if let Some(lists) = &mut self.lists {
                    let appended = lists.append(rows, length_at, tails);
                    return appended.map_err(|(row, why)| self.unread(chunk.locs[row], why));
                }
                match (offset_bytes(self.data_type), &mut self.own) {
                    (0, Some(own)) => own.append(&mut self.values, rows, length_at, tails),
                    (0, None) => {
                        let null_bit = self.column.null_bit;
                        append_views(&mut self.values, chunk, length_at, null_bit, tails);
                    }
                    (4, _) => self.append_strings::<i32>(rows, length_at, tails)?,
                    _ => self.append_strings::<i64>(rows, length_at, tails)?,
                }
            }
        }
        Ok(())
    }

    /// Appends the validity of a chunk, unless no row had a null so far.
    pub(super) fn append_validity(&mut self, chunk: &Chunk<'_, '_>) {
        let Some(bit) = self.column.null_bit else {
            return;
        };
        let (rows, is_null) = (chunk.rows, |bits: &[u8]| {
            bits[bit / 8] >> (bit % 8) & 1 == 1
        });
        if is_null(chunk.null_bits) {
            let before = self.rows;
            let validity = self.validity.get_or_insert_with(|| {
                let mut bits = MutableBuffer::new((before + rows.len()).div_ceil(8));
                bits.resize(before / 8, u8::MAX);
                bits
            });
            append_bits(validity, rows.len(), |i| !is_null(rows[i]));
        } else if let Some(validity) = &mut self.validity {
            append_bits(validity, rows.len(), |_| true);
        }
    }

    fn unread(&self, loc: u64, why: Unread) -> KernelError {
        match why {
            Unread::Corrupt => KernelError::CorruptSlice {
                offset: slice_and_offset(loc).1 as u64,
                reason: "a list has other bytes than its items",
            },
            Unread::TooMany => self.too_long(),
        }
    }

    fn too_long(&self) -> KernelError {
        KernelError::BatchTooLong {
            column: self.column.name.clone(),
            data_type: self.data_type.clone(),
        }
    }

    fn append_strings<O: OffsetSizeTrait>(
        &mut self,
        rows: &[&[u8]],
        length_at: usize,
        tails: &mut [usize],
    ) -> Result<()> {
        let more: usize = rows.iter().map(|row| read_length(row, length_at)).sum();
        if O::from_usize(self.values.len() + more).is_none() {
            return Err(self.too_long());
        }
        for (row, tail) in rows.iter().zip(tails) {
            let end = *tail + read_length(row, length_at);
            self.values.extend_from_slice(&row[*tail..end]);
            self.offsets.push(O::usize_as(self.values.len()));
            *tail = end;
        }
        Ok(())
    }

    /// Returns the finished column; views that own no bytes point into `views`.
    pub(crate) fn finish(self, views: &ViewBuffers) -> Result<ArrayRef> {
        let nulls = self
            .validity
            .map(|bits| NullBuffer::new(BooleanBuffer::new(bits.into(), 0, self.rows)));
        let nulls = nulls.filter(|n| n.null_count() > 0);
        if let Some(lists) = self.lists {
            return lists.finish(nulls).map_err(|e| decoding(self.column, e));
        }
        let values = Buffer::from(self.values);
        Ok(match (&self.column.slot, &self.column.value_type) {
            (Slot::Nothing | Slot::Framed { .. }, _) => Arc::new(NullArray::new(self.rows)),
            (Slot::Bool { .. }, _) => Arc::new(BooleanArray::new(
                BooleanBuffer::new(values, 0, self.rows),
                nulls,
            )),
            (Slot::Variable { .. }, _) if offset_bytes(self.data_type) > 0 => {
                let data = ArrayData::builder(self.data_type.clone())
                    .len(self.rows)
                    .add_buffer(self.offsets.into())
                    .add_buffer(values)
                    .nulls(nulls);
                // SAFETY: offsets ascend from 0 to the number of bytes, and the values between them are whole strings.
                // They are UTF-8 where the type asks for it (see below).
                make_array(unsafe { data.build_unchecked() })
            }
            (Slot::Variable { .. }, value_type) => {
                let pointers = ScalarBuffer::new(values, 0, self.rows);
                let buffers = match self.own {
                    Some(own) => own.finish(),
                    None => Arc::clone(&views.buffers),
                };
                if matches!(
                    value_type,
                    DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
                ) {
                    // SAFETY: every view was made from a value whose bounds were checked when its row was walked. The
                    // view lies in the window of its slice, or in the buffer that the value was copied to. It has the
                    // value's own first bytes. The bytes are UTF-8, because scatter copied them whole out of a string
                    // array, and the store verifies a slice's checksum before handing it out.
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

/// Returns the bytes of an offset of plain strings or binary; 0 for all other types.
fn offset_bytes(data_type: &DataType) -> usize {
    match data_type {
        DataType::Utf8 | DataType::Binary => size_of::<i32>(),
        DataType::LargeUtf8 | DataType::LargeBinary => size_of::<i64>(),
        _ => 0,
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
        let view = if length > INLINE_BYTES {
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

#[cfg(test)]
mod tests {
    use arrow_schema::{Field, Schema};

    use super::*;

    #[test]
    fn more_bytes_than_offsets_number_are_refused() {
        let fields = vec![Field::new("text", DataType::Utf8, false)];
        let layout = RowLayout::try_new(&Arc::new(Schema::new(fields)), &[]).unwrap();
        // The rows only claim to be so long: nobody has read their bytes when they are refused.
        let mut row = vec![0; layout.fixed_bytes()];
        row[layout.lengths_at()..][..4].copy_from_slice(&(1u32 << 30).to_le_bytes());
        let chunk = Chunk {
            rows: &[&row, &row],
            locs: &[0, 0],
            null_bits: &[],
            views: &ViewBuffers::new(&[]),
        };
        let mut decoder = Decoder::new(
            &layout.columns()[0],
            &DataType::Utf8,
            Strings::Copied,
            (2, 0),
        );
        let tails = &mut [row.len(), row.len()];
        let error = decoder.append(&layout, &chunk, tails).unwrap_err();
        assert!(
            matches!(&error, KernelError::BatchTooLong { column, .. } if column == "text"),
            "{error}"
        );
    }
}
