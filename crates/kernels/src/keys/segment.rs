//! Segments of a prefix: some bits of one key field, shifted to their place.
//!
//! A segment is filled for many rows at a time, in a loop of its own for each type and width.

use crate::keys::key::{flip_sign, order_float, read_number, wide_bytes, KeyField, KeyKind};
use crate::order::Prefix;

/// Which bits of a field a segment holds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    /// One bit: where nulls go.
    Marker,
    /// A whole number.
    Number,
    /// `bytes` of a value whose length is fixed.
    Bytes { from: usize, bytes: usize },
    /// `bytes` of a string, and a byte for the length of what is left of it: at most `bytes`, or one more.
    Text { from: usize, bytes: usize },
}

/// Bits of one field within a prefix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) field: KeyField,
    pub(crate) part: Part,
    pub(crate) shift: u32,
}

/// Returns the bits of a field that is packed whole or not at all.
pub(crate) fn number_bits(field: &KeyField) -> Option<u32> {
    match field.kind {
        KeyKind::Bool { .. } => Some(1),
        KeyKind::Unsigned { width, .. }
        | KeyKind::Signed { width, .. }
        | KeyKind::Float { width, .. } => Some(8 * width as u32),
        _ => None,
    }
}

impl Segment {
    /// Adds the segment of `row(i)` to `out[i]`.
    pub(crate) fn fill<'a, P: Prefix>(
        &self,
        row: impl Fn(usize) -> &'a [u8] + Copy,
        out: &mut [P],
    ) {
        let field = &self.field;
        match (self.part, field.kind) {
            (Part::Marker, _) => {
                let nulls_first = field.nulls_first;
                self.put(out, 0, |i| u128::from(field.is_null(row(i)) != nulls_first));
            }
            (Part::Text { from, bytes }, _) => {
                let flip = self.flip(8 * bytes as u32 + 8);
                self.put(out, flip, |i| text(field.bytes(row(i)), from, bytes));
            }
            (Part::Bytes { from, bytes }, KeyKind::Wide { at, width }) => {
                let flip = self.flip(8 * bytes as u32);
                self.put(out, flip, |i| {
                    leading(&wide_bytes(row(i), at, width)[from..], bytes)
                });
            }
            (Part::Bytes { from, bytes }, _) => {
                let flip = self.flip(8 * bytes as u32);
                self.put(out, flip, |i| leading(&field.bytes(row(i))[from..], bytes));
            }
            (Part::Number, _) => self.fill_number(row, out),
        }
    }

    /// Fills in numbers, in one loop per type and width.
    fn fill_number<'a, P: Prefix>(&self, row: impl Fn(usize) -> &'a [u8] + Copy, out: &mut [P]) {
        let flip = self.flip(number_bits(&self.field).unwrap_or(0));
        macro_rules! widths {
            ($width:expr, |$bits:ident, $w:ident| $order:expr, $at:expr) => {
                match $width {
                    1 => widths!(@put 1, |$bits, $w| $order, $at),
                    2 => widths!(@put 2, |$bits, $w| $order, $at),
                    4 => widths!(@put 4, |$bits, $w| $order, $at),
                    _ => widths!(@put 8, |$bits, $w| $order, $at),
                }
            };
            (@put $literal:literal, |$bits:ident, $w:ident| $order:expr, $at:expr) => {
                self.put(out, flip, |i| {
                    let ($bits, $w) = (read_number(row(i), $at, $literal), $literal);
                    u128::from($order)
                })
            };
        }
        match self.field.kind {
            KeyKind::Unsigned { at, width } => widths!(width, |bits, _w| bits, at),
            KeyKind::Signed { at, width } => widths!(width, |bits, w| flip_sign(bits, w), at),
            KeyKind::Float { at, width } => widths!(width, |bits, w| order_float(bits, w), at),
            _ => self.put(out, flip, |i| u128::from(self.field.number(row(i)))),
        }
    }

    #[inline]
    fn put<P: Prefix>(&self, out: &mut [P], flip: u128, value: impl Fn(usize) -> u128) {
        for (i, prefix) in out.iter_mut().enumerate() {
            *prefix = prefix.with(P::place(value(i) ^ flip, self.shift));
        }
    }

    fn flip(&self, bits: u32) -> u128 {
        if self.field.descending {
            u128::MAX >> (128 - bits)
        } else {
            0
        }
    }
}

/// Returns the first `count <= 16` bytes as a big-endian number, with zeros behind the end.
#[inline]
fn leading(value: &[u8], count: usize) -> u128 {
    let number = match value.first_chunk::<16>() {
        Some(first) => u128::from_be_bytes(*first),
        None => {
            let mut padded = [0; 16];
            padded[..value.len()].copy_from_slice(value);
            u128::from_be_bytes(padded)
        }
    };
    number >> (128 - 8 * count)
}

/// Packs `bytes < 16` bytes of a string from `from` on, and the length byte.
#[inline]
fn text(value: &[u8], from: usize, bytes: usize) -> u128 {
    let rest = value.get(from..).unwrap_or(&[]);
    leading(rest, bytes) << 8 | rest.len().min(bytes + 1) as u128
}
