//! Four neighbouring columns of four bytes, written together: one write of 16 bytes a row instead of four.

use crate::map::source::{Source, Values};
use crate::slot::{Column, Slot};

/// The values of four columns without nulls, and the place of the first one in a row.
pub(super) struct Quad<'a> {
    at: usize,
    values: [&'a [[u8; 4]]; 4],
}

impl<'a> Quad<'a> {
    /// Returns the first four columns from row `first` on, unless they are of other kinds.
    pub(super) fn of(columns: &[Column], sources: &'a [Source], first: usize) -> Option<Self> {
        let Slot::Fixed { at, .. } = columns.first()?.slot else {
            return None;
        };
        let quad = columns.first_chunk::<4>()?.iter();
        let mut values: [&[[u8; 4]]; 4] = [&[]; 4];
        for (number, (column, source)) in quad.zip(sources.first_chunk::<4>()?).enumerate() {
            let place = Slot::Fixed {
                at: at + 4 * number,
                width: 4,
            };
            match &source.values {
                Values::Fixed(bytes) if column.slot == place && source.nulls.is_none() => {
                    values[number] = bytes[4 * first..].as_chunks().0;
                }
                _ => return None,
            }
        }
        Some(Self { at, values })
    }

    /// Writes a row's values behind each of these starts.
    pub(super) fn write(&self, starts: &[usize], out: &mut [u8]) {
        let [a, b, c, d] = self.values.map(|values| &values[..starts.len()]);
        let values = a.iter().zip(b).zip(c.iter().zip(d));
        for (((a, b), (c, d)), start) in values.zip(starts) {
            let words = [a, b, c, d].map(|word| u128::from(u32::from_le_bytes(*word)));
            let quad = words[0] | words[1] << 32 | words[2] << 64 | words[3] << 96;
            let place = start + self.at;
            out[place..place + 16].copy_from_slice(&quad.to_le_bytes());
        }
    }
}
