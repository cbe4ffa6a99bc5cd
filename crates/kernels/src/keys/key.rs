//! One key column within a row: reading its value as an ordered number or as bytes, and comparing two rows by it.
//!
//! The order of values: NaN is one value, greater than all others; -0.0 equals 0.0; strings and binary compare as
//! unsigned bytes; false < true. A descending key reverses the values; the place of nulls does not depend on direction.

use std::cmp::Ordering;

use arrow_schema::DataType;

use crate::error::{KernelError, Result};
use crate::slot::{item_width, Column, Slot};

/// One column of the sort order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortKey {
    /// Index of the column in the schema.
    pub column: usize,
    /// Whether the largest value comes first.
    pub descending: bool,
    /// Whether nulls come before all values, whatever the direction.
    pub nulls_first: bool,
}

/// How the bytes of a value are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// The null type: all rows are equal.
    Nothing,
    /// One byte, 0 is false.
    Bool { at: usize },
    /// Unsigned little-endian integer of 1, 2, 4 or 8 bytes.
    Unsigned { at: usize, width: usize },
    /// Two's complement little-endian integer of 1, 2, 4 or 8 bytes.
    Signed { at: usize, width: usize },
    /// IEEE 754 of 2, 4 or 8 bytes.
    Float { at: usize, width: usize },
    /// Two's complement little-endian integer of 16 or 32 bytes.
    Wide { at: usize, width: usize },
    /// `width` bytes that compare as they are.
    Bytes { at: usize, width: usize },
    /// A string or binary value, found through the lengths.
    Variable {
        lengths_at: usize,
        index: usize,
        fixed_bytes: usize,
    },
}

/// One key column, compiled against a row layout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyField {
    pub(crate) kind: KeyKind,
    pub(crate) null_bit: Option<usize>,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

impl KeyField {
    pub(crate) fn try_new(
        column: &Column,
        key: &SortKey,
        lengths_at: usize,
        fixed_bytes: usize,
    ) -> Result<Self> {
        let kind = match column.slot {
            Slot::Nothing => KeyKind::Nothing,
            Slot::Bool { at } => KeyKind::Bool { at },
            Slot::Variable { .. } if item_width(&column.value_type).is_some() => {
                return Err(unsortable(column))
            }
            Slot::Variable { index } => KeyKind::Variable {
                lengths_at,
                index,
                fixed_bytes,
            },
            Slot::Fixed { at, width } => {
                fixed_kind(&column.value_type, at, width).ok_or_else(|| unsortable(column))?
            }
            Slot::Framed { .. } => return Err(unsortable(column)),
        };
        let SortKey {
            descending,
            nulls_first,
            ..
        } = *key;
        Ok(Self {
            kind,
            null_bit: column.null_bit,
            descending,
            nulls_first,
        })
    }

    /// Returns whether the field is null in this row.
    #[inline]
    pub(crate) fn is_null(&self, row: &[u8]) -> bool {
        self.null_bit
            .is_some_and(|bit| row[bit / 8] >> (bit % 8) & 1 == 1)
    }

    /// Compares two rows by this field.
    pub(crate) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match (self.is_null(a), self.is_null(b)) {
            (true, true) => return Ordering::Equal,
            (true, false) => {
                return if self.nulls_first {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            (false, true) => {
                return if self.nulls_first {
                    Ordering::Greater
                } else {
                    Ordering::Less
                }
            }
            (false, false) => {}
        }
        let order = match self.kind {
            KeyKind::Nothing => Ordering::Equal,
            KeyKind::Wide { at, width: 16 } => read_i128(a, at).cmp(&read_i128(b, at)),
            KeyKind::Wide { at, .. } => (read_i128(a, at + 16), read_u128(a, at))
                .cmp(&(read_i128(b, at + 16), read_u128(b, at))),
            KeyKind::Bytes { .. } | KeyKind::Variable { .. } => self.bytes(a).cmp(self.bytes(b)),
            _ => self.number(a).cmp(&self.number(b)),
        };
        if self.descending {
            order.reverse()
        } else {
            order
        }
    }

    /// Returns the value of a kind of at most 8 bytes as a number with the order of the values; 0 for other kinds.
    pub(crate) fn number(&self, row: &[u8]) -> u64 {
        match self.kind {
            KeyKind::Bool { at } => u64::from(row[at] != 0),
            KeyKind::Unsigned { at, width } => read_number(row, at, width),
            KeyKind::Signed { at, width } => flip_sign(read_number(row, at, width), width),
            KeyKind::Float { at, width } => order_float(read_number(row, at, width), width),
            _ => 0,
        }
    }

    /// Returns the value of a kind that compares as bytes; empty for other kinds.
    #[inline]
    pub(crate) fn bytes<'a>(&self, row: &'a [u8]) -> &'a [u8] {
        match self.kind {
            KeyKind::Bytes { at, width } => &row[at..at + width],
            KeyKind::Variable {
                lengths_at,
                index,
                fixed_bytes,
            } => {
                let mut start = fixed_bytes;
                for before in 0..index {
                    start += read_length(row, lengths_at + 4 * before);
                }
                &row[start..start + read_length(row, lengths_at + 4 * index)]
            }
            _ => &[],
        }
    }
}

fn fixed_kind(value_type: &DataType, at: usize, width: usize) -> Option<KeyKind> {
    use DataType as T;
    Some(match value_type {
        T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64 => KeyKind::Unsigned { at, width },
        T::Float16 | T::Float32 | T::Float64 => KeyKind::Float { at, width },
        T::Decimal128(_, _) | T::Decimal256(_, _) => KeyKind::Wide { at, width },
        T::FixedSizeBinary(_) => KeyKind::Bytes { at, width },
        // Days, months and nanoseconds do not convert into each other.
        T::Interval(
            arrow_schema::IntervalUnit::DayTime | arrow_schema::IntervalUnit::MonthDayNano,
        ) => return None,
        _ if width <= 8 => KeyKind::Signed { at, width },
        _ => return None,
    })
}

fn unsortable(column: &Column) -> KernelError {
    KernelError::UnsortableKey {
        column: column.name.clone(),
        data_type: column.value_type.clone(),
    }
}

/// Reads `N` bytes of a row.
#[inline]
pub(crate) fn read<const N: usize>(row: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&row[at..at + N]);
    bytes
}

/// Reads a length word.
#[inline]
pub(crate) fn read_length(row: &[u8], at: usize) -> usize {
    u32::from_le_bytes(read(row, at)) as usize
}

/// Reads an unsigned number of 1, 2, 4 or 8 bytes.
#[inline]
pub(crate) fn read_number(row: &[u8], at: usize, width: usize) -> u64 {
    match width {
        1 => u64::from(row[at]),
        2 => u64::from(u16::from_le_bytes(read(row, at))),
        4 => u64::from(u32::from_le_bytes(read(row, at))),
        _ => u64::from_le_bytes(read(row, at)),
    }
}

fn read_i128(row: &[u8], at: usize) -> i128 {
    i128::from_le_bytes(read(row, at))
}

fn read_u128(row: &[u8], at: usize) -> u128 {
    u128::from_le_bytes(read(row, at))
}

/// Turns two's complement in `width` bytes into an unsigned number with the same order.
#[inline]
pub(crate) fn flip_sign(bits: u64, width: usize) -> u64 {
    bits ^ 1 << (8 * width - 1)
}

/// Turns IEEE 754 bits in `width` bytes into an unsigned number with the order of the values.
#[inline]
pub(crate) fn order_float(bits: u64, width: usize) -> u64 {
    let (sign, infinity) = match width {
        2 => (1 << 15, 0x7C00),
        4 => (1 << 31, 0x7F80_0000),
        _ => (1 << 63, 0x7FF0_0000_0000_0000),
    };
    let all = sign | (sign - 1);
    let magnitude = bits & !sign;
    if magnitude > infinity {
        all
    } else if bits & sign == 0 || magnitude == 0 {
        magnitude | sign
    } else {
        !bits & all
    }
}

/// Turns a wide integer into big-endian bytes that compare like the values; 16-byte integers fill the first half.
pub(crate) fn wide_bytes(row: &[u8], at: usize, width: usize) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (i, byte) in bytes[..width].iter_mut().enumerate() {
        *byte = row[at + width - 1 - i];
    }
    bytes[0] ^= 0x80;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_ordered_as_numbers_with_nan_last() {
        let ascending = [
            f64::NEG_INFINITY,
            -1.5,
            -f64::MIN_POSITIVE,
            0.0,
            1e-300,
            2.0,
            f64::INFINITY,
            f64::NAN,
        ];
        let ordered: Vec<u64> = ascending
            .iter()
            .map(|v| order_float(v.to_bits(), 8))
            .collect();
        assert!(ordered.is_sorted_by(|a, b| a < b), "{ordered:x?}");
        assert_eq!(order_float((-0.0f64).to_bits(), 8), order_float(0, 8));
        assert_eq!(
            order_float((-f64::NAN).to_bits(), 8),
            order_float(f64::NAN.to_bits(), 8)
        );
        assert_eq!(
            order_float(u64::from((-1.0f32).to_bits()), 4),
            u64::from(!(-1.0f32).to_bits())
        );
        assert!(
            order_float(0xFC00, 2) < order_float(0xBC00, 2),
            "half -inf < -1"
        );
    }

    #[test]
    fn signed_numbers_keep_their_order_at_every_width() {
        for (low, high, width) in [
            (0x80u64, 0x7F, 1),
            (0xFFFF, 0, 2),
            (0x8000_0000, 0xFFFF_FFFF, 4),
            (u64::MAX, 1, 8),
        ] {
            assert!(
                flip_sign(low, width) < flip_sign(high, width),
                "width {width}"
            );
        }
    }

    #[test]
    fn wide_bytes_compare_like_the_integers() {
        let bytes = |v: i128| wide_bytes(&v.to_le_bytes(), 0, 16);
        assert!(bytes(i128::MIN) < bytes(-1));
        assert!(bytes(-1) < bytes(0));
        assert!(bytes(255) < bytes(256));
    }
}
