//! Records of the sort benchmarks, as Ordinal's `gensort` makes them: 100 bytes, of which the first 10 are the key.
//!
//! Record *n* depends on *n* alone, so any range can be made anywhere. Its source is the 128-bit number *n* + 1 of the
//! linear congruential sequence that starts at 0. The algorithm is public; this code is written from its description.

use crate::records::{RecordError, RecordShape, BENCHMARK_RECORD_BYTES};

/// Bytes of a record.
pub const RECORD_BYTES: usize = BENCHMARK_RECORD_BYTES;
/// Bytes of its key.
pub const KEY_BYTES: usize = 10;

const MULTIPLIER: u128 = 0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645;
const INCREMENT: u128 = 0x4A69_6D47_7261_7952_4950_2020_2020_2001;
/// At most this many bytes of a key are replaced to make it skewed.
const SKEW_BYTES: usize = 6;

/// The kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// Keys are 10 random bytes (the default of `gensort`).
    Binary,
    /// Keys are 10 random printable characters, records are lines (`-a`).
    Ascii,
    /// Binary; three quarters of the keys share their first bits with many others (`-s`).
    SkewedBinary,
    /// ASCII; three quarters of the keys share their first characters with many others (`-a -s`).
    SkewedAscii,
}

impl RecordKind {
    fn is_ascii(self) -> bool {
        matches!(self, Self::Ascii | Self::SkewedAscii)
    }

    fn is_skewed(self) -> bool {
        matches!(self, Self::SkewedBinary | Self::SkewedAscii)
    }
}

/// Fills `out` with the records number `start`, `start + 1`, …
///
/// # Errors
/// [`RecordError::PartialRecord`] if `out` is no whole number of records.
pub fn fill_records(start: u128, kind: RecordKind, out: &mut [u8]) -> Result<(), RecordError> {
    RecordShape::try_new(RECORD_BYTES, KEY_BYTES)?.count(out)?;
    let mut random = random_number(start);
    let mut skew = Skew::default();
    for (i, record) in (0u128..).zip(out.as_chunks_mut().0) {
        let number = start.wrapping_add(i);
        if kind.is_ascii() {
            fill_ascii(record, number, random);
        } else {
            fill_binary(record, number, random);
        }
        if kind.is_skewed() {
            skew.apply(record, kind, number, random);
        }
        random = step(random);
    }
    Ok(())
}

/// Computes the random number that record `number` is made from, in as many steps as `number` has bits.
fn random_number(number: u128) -> u128 {
    let (mut multiplier, mut increment) = (MULTIPLIER, INCREMENT);
    let mut random = 0u128;
    let mut steps = number;
    while steps > 0 {
        if steps & 1 == 1 {
            random = random.wrapping_mul(multiplier).wrapping_add(increment);
        }
        increment = increment.wrapping_mul(multiplier.wrapping_add(1));
        multiplier = multiplier.wrapping_mul(multiplier);
        steps >>= 1;
    }
    step(random)
}

fn step(random: u128) -> u128 {
    random.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT)
}

/// Fills in `[key][00 11][number, 32 hex digits][88 99 AA BB][12 hex digits, each four times][CC DD EE FF]`.
fn fill_binary(record: &mut [u8; RECORD_BYTES], number: u128, random: u128) {
    record[..KEY_BYTES].copy_from_slice(&binary_key(random));
    record[10..12].copy_from_slice(&[0x00, 0x11]);
    fill_hex(&mut record[12..44], number);
    record[44..48].copy_from_slice(&[0x88, 0x99, 0xAA, 0xBB]);
    fill_quadrupled(&mut record[48..96], random);
    record[96..].copy_from_slice(&[0xCC, 0xDD, 0xEE, 0xFF]);
}

/// Fills in `[key][2 spaces][number, 32 hex digits][2 spaces][13 hex digits, each four times]["\r\n"]`.
fn fill_ascii(record: &mut [u8; RECORD_BYTES], number: u128, random: u128) {
    record[..KEY_BYTES].copy_from_slice(&ascii_key(random));
    record[10..12].copy_from_slice(b"  ");
    fill_hex(&mut record[12..44], number);
    record[44..46].copy_from_slice(b"  ");
    fill_quadrupled(&mut record[46..98], random);
    record[98..].copy_from_slice(b"\r\n");
}

fn binary_key(random: u128) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key.copy_from_slice(&random.to_be_bytes()[..KEY_BYTES]);
    key
}

/// Makes a key of ten digits of base 95, least significant first. Eight are from the upper half of the random number, and
/// two from the lower half.
fn ascii_key(random: u128) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    let (upper, lower) = key.split_at_mut(8);
    for (characters, half) in [(upper, (random >> 64) as u64), (lower, random as u64)] {
        let mut rest = half;
        for character in characters {
            *character = b' ' + (rest % 95) as u8;
            rest /= 95;
        }
    }
    key
}

/// Fills `out` with the last hex digits of `number`, two for each byte.
#[inline(always)]
fn fill_hex(out: &mut [u8], number: u128) {
    for (pair, byte) in out.as_chunks_mut().0.iter_mut().zip(number.to_be_bytes()) {
        *pair = HEX_PAIRS[usize::from(byte)];
    }
}

/// Fills `out` with the last hex digits of `random`, each four times.
#[inline(always)]
fn fill_quadrupled(out: &mut [u8], random: u128) {
    for (i, four) in out.as_chunks_mut::<4>().0.iter_mut().rev().enumerate() {
        *four = [HEX[(random as u64 >> (4 * i)) as usize & 15]; 4];
    }
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

const HEX_PAIRS: [[u8; 2]; 256] = {
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < pairs.len() {
        pairs[byte] = [HEX[byte >> 4], HEX[byte & 15]];
        byte += 1;
    }
    pairs
};

/// The key that skewed records share bits with, for the range of record numbers that use it.
#[derive(Default)]
struct Skew {
    index: Option<u32>,
    key: [u8; KEY_BYTES],
}

impl Skew {
    /// Replaces the first bits (binary) or characters (ASCII) of the key; the random number decides how many.
    ///
    /// The replacement is the key of the unskewed record whose number is the bit length of this record's number. So
    /// half of all records share one, a quarter the next, and so on.
    fn apply(
        &mut self,
        record: &mut [u8; RECORD_BYTES],
        kind: RecordKind,
        number: u128,
        random: u128,
    ) {
        let index = skew_index(number);
        if self.index != Some(index) {
            let random = random_number(u128::from(index));
            self.key = match kind.is_ascii() {
                true => ascii_key(random),
                false => binary_key(random),
            };
            self.index = Some(index);
        }
        let choice = (random >> 32) as usize;
        let (bytes, bits) = match kind.is_ascii() {
            true => (choice % 8, 0),
            false => (choice % 64 / 8, choice % 8),
        };
        if 8 * bytes + bits > 8 * SKEW_BYTES {
            return;
        }
        record[..bytes].copy_from_slice(&self.key[..bytes]);
        let kept = 0xFFu8 >> bits;
        record[bytes] = self.key[bytes] & !kept | record[bytes] & kept;
    }
}

/// Returns the bit length of a record number. As in `gensort`, numbers that use the top four bits of either half count
/// as using all of them.
fn skew_index(number: u128) -> u32 {
    let length = u128::BITS - number.leading_zeros();
    match length {
        61..=64 => 64,
        125..=128 => 128,
        _ => length,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(start: u128, kind: RecordKind, records: usize) -> Vec<u8> {
        let mut out = vec![0; records * RECORD_BYTES];
        fill_records(start, kind, &mut out).unwrap();
        out
    }

    fn checksum(records: &[u8]) -> u64 {
        records
            .chunks(RECORD_BYTES)
            .map(|r| u64::from(crc32fast::hash(r)))
            .sum()
    }

    #[test]
    fn binary_records_are_those_of_gensort() {
        let records = make(0, RecordKind::Binary, 1000);
        assert_eq!(records[..10], *b"\x4a\x69\x6d\x47\x72\x61\x79\x52\x49\x50");
        assert_eq!(checksum(&records), 0x1f9_ffe6_45ec);
    }

    #[test]
    fn ascii_records_are_those_of_gensort() {
        let records = make(0, RecordKind::Ascii, 2);
        let expected = concat!(
            "AsfAGHM5om  00000000000000000000000000000000  ",
            "0000222200002222000022220000222200002222000000001111\r\n",
            "~sHd0jDv6X  00000000000000000000000000000001  ",
            "77779999444488885555CCCC777755555555BBBB666644446666\r\n",
        );
        assert_eq!(records, expected.as_bytes());
    }

    #[test]
    fn any_range_is_the_same_as_a_part_of_the_whole() {
        for kind in [
            RecordKind::Binary,
            RecordKind::Ascii,
            RecordKind::SkewedBinary,
            RecordKind::SkewedAscii,
        ] {
            let whole = make((1 << 64) - 300, kind, 600);
            for first in [0, 1, 255, 299, 300, 301] {
                let part = make((1 << 64) - 300 + first as u128, kind, 7);
                assert_eq!(
                    part,
                    whole[first * RECORD_BYTES..(first + 7) * RECORD_BYTES]
                );
            }
        }
    }

    #[test]
    fn skewed_keys_share_the_key_of_their_magnitude() {
        let plain = make(0, RecordKind::Binary, 1024);
        let skewed = make(512, RecordKind::SkewedBinary, 512);
        let shared = &plain[10 * RECORD_BYTES..][..SKEW_BYTES];
        let changed = skewed
            .chunks(RECORD_BYTES)
            .zip(plain[512 * RECORD_BYTES..].chunks(RECORD_BYTES))
            .filter(|(s, p)| {
                assert_eq!(s[SKEW_BYTES..], p[SKEW_BYTES..]);
                s[0] != p[0]
            });
        let with_first_byte = changed.filter(|(s, _)| s[0] == shared[0]).count();
        assert!((300..400).contains(&with_first_byte), "{with_first_byte}");
        let ascii = make(512, RecordKind::SkewedAscii, 512);
        let first = make(10, RecordKind::Ascii, 1)[0];
        let with_first_byte = ascii.chunks(RECORD_BYTES).filter(|r| r[0] == first).count();
        assert!((330..440).contains(&with_first_byte), "{with_first_byte}");
    }

    #[test]
    fn partial_records_are_refused() {
        assert!(fill_records(0, RecordKind::Binary, &mut [0; 150]).is_err());
    }
}
