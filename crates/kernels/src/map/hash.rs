//! Hashing encoded keys: equal keys hash equally, however they came.
//!
//! The hash of a row is `h_n`, with `h_0 = 0` and for the i-th key column `h_i = mix(h_{i-1} ^ word_i)`. `mix` is the
//! finaliser of `mix.rs`. The word of a value is
//!
//! * null, whatever lies beneath: the constant `NULL`;
//! * a boolean: 0 or 1;
//! * an integer, date, time or decimal of up to 64 bits: its value in two's complement, whatever the width of its type;
//! * a float: its bits in the order of the values (`key.rs`), where -0.0 is 0.0 and all NaNs are one;
//! * a wider decimal: its 64-bit words w, from the lowest, chained as `b = mix(b ^ w)` from `b = 0`;
//! * bytes (text, binary or fixed-size binary): the length, then the bytes as little-endian 64-bit words, chained in the
//!   same way. The last word is filled up with zeros.
//!
//! Dictionaries travel as their values, so they hash as these. The hash is stored nowhere, but machines and versions
//! that work on one shuffle must agree on it: it must not change. It is not keyed. Somebody who chooses the data can
//! make one partition large, as with equal keys.

use crate::keys::key::{order_float, read, read_number, KeyField, KeyKind};
use crate::layout::RowLayout;
use crate::mix::mix;

/// The word of a null: the first 64 bits of the fraction of pi.
const NULL: u64 = 0x243F_6A88_85A3_08D3;

/// Fills `hashes[i]` with the hash of the keys of the row at `starts[i]`.
pub(crate) fn hash_keys(layout: &RowLayout, rows: &[u8], starts: &[usize], hashes: &mut [u64]) {
    hashes.fill(0);
    for field in layout.keys() {
        for (hash, &start) in hashes.iter_mut().zip(starts) {
            *hash = mix(*hash ^ word(field, &rows[start..]));
        }
    }
}

#[inline]
fn word(field: &KeyField, row: &[u8]) -> u64 {
    if field.is_null(row) {
        return NULL;
    }
    match field.kind {
        KeyKind::Nothing => NULL,
        KeyKind::Bool { at } => u64::from(row[at] != 0),
        KeyKind::Unsigned { at, width } => read_number(row, at, width),
        KeyKind::Signed { at, width } => {
            let unused = 64 - 8 * width as u32;
            ((read_number(row, at, width) << unused) as i64 >> unused) as u64
        }
        KeyKind::Float { at, width } => order_float(read_number(row, at, width), width),
        KeyKind::Wide { at, width } => {
            let words = (at..at + width).step_by(8);
            words.fold(0, |b, at| mix(b ^ u64::from_le_bytes(read(row, at))))
        }
        KeyKind::Bytes { .. } | KeyKind::Variable { .. } => hash_bytes(field.bytes(row)),
    }
}

fn hash_bytes(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = mix(bytes.len() as u64);
    for word in words {
        hash = mix(hash ^ u64::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = mix(hash ^ u64::from_le_bytes(last));
    }
    hash
}
