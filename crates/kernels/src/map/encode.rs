//! Encoding rows: the bytes of each row, and writing a chunk of rows column by column to given places.
//!
//! Columns are outermost, so each inner loop knows its type. A chunk is small enough that its rows stay in cache from
//! the first column to the last.

use arrow_buffer::NullBuffer;

use crate::error::{KernelError, Result};
use crate::layout::RowLayout;
use crate::map::lists::Lists;
use crate::map::quads::Quad;
use crate::map::source::{Source, Sources, Values};
use crate::slot::{Column, Slot};

/// Arrow views hold lengths as signed 32-bit numbers.
const MAX_VALUE_BYTES: usize = i32::MAX as usize;

/// Replaces `lengths` by the encoded lengths of `count` rows from `first` on.
pub(crate) fn row_lengths(
    layout: &RowLayout,
    sources: &Sources,
    first: usize,
    count: usize,
    lengths: &mut Vec<usize>,
) -> Result<()> {
    lengths.clear();
    lengths.resize(count, layout.fixed_bytes());
    for (column, source) in layout.columns().iter().zip(&sources.columns) {
        if let Slot::Variable { .. } = column.slot {
            add_lengths(source, first, lengths).map_err(|bytes| KernelError::ValueTooLong {
                column: column.name.clone(),
                bytes: bytes as u64,
                limit: MAX_VALUE_BYTES as u64,
            })?;
        }
    }
    Ok(())
}

/// Adds the length of each value; fails with the length of a value that is too long.
fn add_lengths(
    source: &Source,
    first: usize,
    lengths: &mut [usize],
) -> std::result::Result<(), usize> {
    let nulls = source.nulls.as_ref();
    match &source.values {
        Values::Short(offsets, _) => add(lengths, first, nulls, |i| {
            (offsets[i + 1] - offsets[i]) as usize
        }),
        Values::Long(offsets, _) => add(lengths, first, nulls, |i| {
            (offsets[i + 1] - offsets[i]) as usize
        }),
        Values::Views(views, _) => add(lengths, first, nulls, |i| views[i] as u32 as usize),
        Values::Lists(lists) => add(lengths, first, None, |i| {
            lists.bytes(i, nulls.is_some_and(|n| n.is_null(i)))
        }),
        _ => Ok(()),
    }
}

fn add(
    lengths: &mut [usize],
    first: usize,
    nulls: Option<&NullBuffer>,
    length: impl Fn(usize) -> usize,
) -> std::result::Result<(), usize> {
    let mut longest = 0;
    let mut add = |sum: &mut usize, bytes: usize| {
        longest = longest.max(bytes);
        *sum += bytes;
    };
    let rows = lengths.iter_mut().zip(first..);
    match nulls {
        None => rows.for_each(|(sum, row)| add(sum, length(row))),
        Some(nulls) => rows
            .filter(|(_, row)| nulls.is_valid(*row))
            .for_each(|(sum, row)| add(sum, length(row))),
    }
    if longest > MAX_VALUE_BYTES {
        return Err(longest);
    }
    Ok(())
}

/// Replaces `starts` by the places of back-to-back rows of the given lengths, and returns where the last one ends.
pub(crate) fn pack(lengths: &[usize], starts: &mut Vec<usize>) -> usize {
    starts.clear();
    let mut end = 0;
    for length in lengths {
        starts.push(end);
        end += length;
    }
    end
}

/// Writes rows from `first` on to `out`, the i-th at `starts[i]`; `tails` is scratch space.
///
/// # Panics
/// If a row does not fit at its place: `starts` must come from the sums of `row_lengths` of the same rows.
pub(crate) fn write_rows(
    layout: &RowLayout,
    sources: &Sources,
    first: usize,
    starts: &[usize],
    tails: &mut Vec<usize>,
    out: &mut [u8],
) {
    write_nulls(layout, sources, first, starts, out);
    tails.clear();
    tails.extend(starts.iter().map(|start| start + layout.fixed_bytes()));
    let (mut columns, mut values) = (layout.columns(), &sources.columns[..]);
    while let (Some(column), Some(source)) = (columns.first(), values.first()) {
        let quad = Quad::of(columns, values, first);
        let written = if quad.is_some() { 4 } else { 1 };
        match (quad, column.slot) {
            (Some(quad), _) => quad.write(starts, out),
            (None, Slot::Nothing | Slot::Framed { .. }) => {}
            (None, Slot::Bool { at }) => write_bools(source, first, starts, at, out),
            (None, Slot::Fixed { at, width }) => {
                write_fixed(source, first, starts, (at, width), out);
            }
            (None, Slot::Variable { index }) => {
                let length_at = layout.lengths_at() + 4 * index;
                write_variable(source, first, starts, length_at, tails, out);
            }
        }
        (columns, values) = (&columns[written..], &values[written..]);
    }
}

fn write_nulls(
    layout: &RowLayout,
    sources: &Sources,
    first: usize,
    starts: &[usize],
    out: &mut [u8],
) {
    match layout.null_bytes() {
        // Without null bits, the first byte is padding or is overwritten.
        0 | 1 => starts.iter().for_each(|&start| out[start] = 0),
        bytes => starts
            .iter()
            .for_each(|&start| out[start..start + bytes].fill(0)),
    }
    let with_nulls = |(column, source): (&'_ Column, &'_ Source)| {
        Some((column.null_bit?, source.nulls.clone()?))
    };
    for (bit, nulls) in layout
        .columns()
        .iter()
        .zip(&sources.columns)
        .filter_map(with_nulls)
    {
        for (i, &start) in starts.iter().enumerate() {
            out[start + bit / 8] |= u8::from(nulls.is_null(first + i)) << (bit % 8);
        }
    }
}

fn write_bools(source: &Source, first: usize, starts: &[usize], at: usize, out: &mut [u8]) {
    let Values::Bool(values) = &source.values else {
        return;
    };
    for (i, &start) in starts.iter().enumerate() {
        let valid = source.nulls.as_ref().is_none_or(|n| n.is_valid(first + i));
        out[start + at] = u8::from(valid && values.value(first + i));
    }
}

fn write_fixed(
    source: &Source,
    first: usize,
    starts: &[usize],
    (at, width): (usize, usize),
    out: &mut [u8],
) {
    let Values::Fixed(values) = &source.values else {
        return;
    };
    let values = &values[first * width..];
    let nulls = source.nulls.as_ref().map(|n| (n, first));
    match width {
        1 => write_array::<1>(values, nulls, starts, at, out),
        2 => write_array::<2>(values, nulls, starts, at, out),
        4 => write_array::<4>(values, nulls, starts, at, out),
        8 => write_array::<8>(values, nulls, starts, at, out),
        16 => write_array::<16>(values, nulls, starts, at, out),
        32 => write_array::<32>(values, nulls, starts, at, out),
        _ => {
            for (i, &start) in starts.iter().enumerate() {
                let field = &mut out[start + at..start + at + width];
                match nulls {
                    Some((nulls, first)) if nulls.is_null(first + i) => field.fill(0),
                    _ => field.copy_from_slice(&values[i * width..(i + 1) * width]),
                }
            }
        }
    }
}

fn write_array<const N: usize>(
    values: &[u8],
    nulls: Option<(&NullBuffer, usize)>,
    starts: &[usize],
    at: usize,
    out: &mut [u8],
) {
    let (values, _) = values.as_chunks::<N>();
    match nulls {
        None => {
            for (value, &start) in values.iter().zip(starts) {
                out[start + at..start + at + N].copy_from_slice(value);
            }
        }
        Some((nulls, first)) => {
            for (i, (value, &start)) in values.iter().zip(starts).enumerate() {
                let value = if nulls.is_valid(first + i) {
                    *value
                } else {
                    [0; N]
                };
                out[start + at..start + at + N].copy_from_slice(&value);
            }
        }
    }
}

fn write_variable(
    source: &Source,
    first: usize,
    starts: &[usize],
    length_at: usize,
    tails: &mut [usize],
    out: &mut [u8],
) {
    let nulls = source.nulls.as_ref();
    if let Values::Lists(lists) = &source.values {
        return write_lists((lists, nulls), first, starts, length_at, tails, out);
    }
    let mut write = |i: usize, value: &[u8]| {
        let value = if nulls.is_none_or(|n| n.is_valid(first + i)) {
            value
        } else {
            &[]
        };
        let length = starts[i] + length_at;
        out[length..length + 4].copy_from_slice(&(value.len() as u32).to_le_bytes());
        out[tails[i]..tails[i] + value.len()].copy_from_slice(value);
        tails[i] += value.len();
    };
    match &source.values {
        Values::Short(offsets, values) => {
            for (i, ends) in offsets[first..].windows(2).take(starts.len()).enumerate() {
                write(i, &values[ends[0] as usize..ends[1] as usize]);
            }
        }
        Values::Long(offsets, values) => {
            for (i, ends) in offsets[first..].windows(2).take(starts.len()).enumerate() {
                write(i, &values[ends[0] as usize..ends[1] as usize]);
            }
        }
        Values::Views(views, buffers) => {
            let buffers: Vec<&[u8]> = buffers.iter().map(|b| b.as_slice()).collect();
            for (i, view) in views[first..].iter().take(starts.len()).enumerate() {
                let length = *view as u32 as usize;
                if nulls.is_some_and(|n| n.is_null(first + i)) {
                    // The contents of a null's view are undefined.
                    write(i, &[]);
                } else if length <= 12 {
                    write(i, &view.to_le_bytes()[4..4 + length]);
                } else {
                    let (buffer, offset) = ((view >> 64) as u32 as usize, (view >> 96) as usize);
                    write(i, &buffers[buffer][offset..offset + length]);
                }
            }
        }
        _ => {}
    }
}

fn write_lists(
    (lists, nulls): (&Lists, Option<&NullBuffer>),
    first: usize,
    starts: &[usize],
    length_at: usize,
    tails: &mut [usize],
    out: &mut [u8],
) {
    for ((row, start), tail) in (first..).zip(starts).zip(tails) {
        let is_null = nulls.is_some_and(|n| n.is_null(row));
        let bytes = lists.bytes(row, is_null);
        out[start + length_at..][..4].copy_from_slice(&(bytes as u32).to_le_bytes());
        lists.write(row, is_null, &mut out[*tail..*tail + bytes]);
        *tail += bytes;
    }
}
