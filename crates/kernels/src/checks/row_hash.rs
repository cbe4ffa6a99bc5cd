//! The hash of a row, from rounds of AES: two for every 16 bytes, and four to mix the result.
//!
//! Guarantee: the hash is the same on machines with instructions for AES and on those that look rounds up in a table.
//! Maps and reduces may run on different ones. The keys are no secret: it finds accidents, not attacks.
//!
//! A row of 100 bytes takes 7 ns, read from memory in order (`benches/steps.rs`). Rounds from the table take 24 times
//! as long as the instructions.

/// Calls `add` with the hash of each row, in order, and with the value paired with the row.
///
/// It takes many rows at once, because code with the instructions can only be inlined where they are known to exist.
#[inline(always)]
pub(crate) fn hash_rows<'a, T>(
    rows: impl Iterator<Item = (T, &'a [u8])>,
    mut add: impl FnMut(T, u64),
) {
    // Only `benchmarks/checks.py` sets it, to find out what hashes cost.
    if cfg!(exoshuffle_without_hashes) {
        return rows.for_each(|(what, _)| add(what, 0));
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if instructions::are_there() {
        // SAFETY: the instructions exist.
        return unsafe { instructions::hash_rows(rows, add) };
    }
    rows.for_each(|(what, row)| add(what, hash::<Table>(row)));
}

/// 16 bytes of state.
trait Block: Copy {
    fn new(bytes: u128) -> Self;

    /// One round of AES with this key: `SubBytes`, `ShiftRows`, `MixColumns`, then the key is added (FIPS 197, 5.1).
    fn round(self, key: Self) -> Self;

    /// Returns its first 8 bytes.
    fn low(self) -> u64;
}

/// Digits of pi, as in Blowfish: nothing up the sleeve.
const KEYS: [u128; 3] = [
    0x243f_6a88_85a3_08d3_1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0_082e_fa98_ec4e_6c89,
    0x4528_21e6_38d0_1377_be54_66cf_34e9_0c6c,
];

/// Hashes by two rounds for each block, so that a change of one byte and a few of the next do not cancel out.
#[inline(always)]
fn hash<B: Block>(row: &[u8]) -> u64 {
    let key = B::new(KEYS[2]);
    let absorb =
        |state: B, block: &[u8; 16]| state.round(B::new(u128::from_le_bytes(*block))).round(key);
    let (mut even, mut odd) = (B::new(KEYS[0] ^ row.len() as u128), B::new(KEYS[1]));
    if let Some((_, last)) = ends::<32>(row) {
        let mut absorb_pair = |pair: &[u8; 32]| {
            let halves = pair.as_chunks::<16>().0;
            (even, odd) = (absorb(even, &halves[0]), absorb(odd, &halves[1]));
        };
        // As one chain of pairs this took twice the time.
        let before = row[..row.len() - 1].as_chunks::<32>().0;
        before.iter().for_each(&mut absorb_pair);
        // The last pair may overlap the one before.
        absorb_pair(last);
    } else if let Some((first, last)) = ends::<16>(row) {
        (even, odd) = (absorb(even, first), absorb(odd, last));
    } else {
        even = even.round(B::new(short(row))).round(key);
    }
    even.round(key).round(odd).round(key).round(key).low()
}

/// Returns the first and the last `N` bytes, which may overlap.
#[inline(always)]
fn ends<const N: usize>(row: &[u8]) -> Option<(&[u8; N], &[u8; N])> {
    Some((row.first_chunk()?, row.last_chunk()?))
}

/// Packs up to 15 bytes, so that all rows of one length differ.
#[inline(always)]
fn short(row: &[u8]) -> u128 {
    let both = |first: u64, last: u64| u128::from(first) | u128::from(last) << 64;
    if let Some((&first, &last)) = ends::<8>(row) {
        return both(u64::from_le_bytes(first), u64::from_le_bytes(last));
    }
    if let Some((&first, &last)) = ends::<4>(row) {
        let [first, last] = [first, last].map(|bytes| u64::from(u32::from_le_bytes(bytes)));
        return both(first, last);
    }
    row.iter().fold(0, |all, &byte| all << 8 | u128::from(byte))
}

/// A state for machines without instructions for AES.
#[derive(Clone, Copy)]
struct Table(u128);

impl Block for Table {
    #[inline(always)]
    fn new(bytes: u128) -> Self {
        Self(bytes)
    }

    #[inline]
    fn round(self, key: Self) -> Self {
        let state = self.0.to_le_bytes();
        let column = |first: usize| {
            (0..4).fold(0, |column, row: usize| {
                // `ShiftRows`: row r of column c comes from column c + r.
                let byte = state[(first + 5 * row) % 16];
                column ^ ROUND[usize::from(byte)].rotate_left(8 * row as u32)
            })
        };
        let columns = [12, 8, 4, 0].map(column);
        let all = columns
            .iter()
            .fold(0, |all, &column| all << 32 | u128::from(column));
        Self(all ^ key.0)
    }

    #[inline(always)]
    fn low(self) -> u64 {
        self.0 as u64
    }
}

/// The result of `SubBytes` and `MixColumns` for a byte in the first row of a column.
static ROUND: [u32; 256] = round_table();

const fn round_table() -> [u32; 256] {
    let mut table = [0; 256];
    let (mut byte, mut inverse) = (1u8, 1u8);
    // All bytes but 0, as powers of the generator 3, beside their inverses, as powers of 1/3 = 0xf6.
    loop {
        table[byte as usize] = mixed(substituted(inverse));
        byte ^= double(byte);
        inverse = times_f6(inverse);
        if byte == 1 {
            break;
        }
    }
    table[0] = mixed(substituted(0));
    table
}

/// Returns the affine part of `SubBytes` (FIPS 197, 5.1.1).
const fn substituted(inverse: u8) -> u8 {
    let i = inverse;
    i ^ i.rotate_left(1) ^ i.rotate_left(2) ^ i.rotate_left(3) ^ i.rotate_left(4) ^ 0x63
}

/// Multiplies by 2, 1, 1 and 3 (FIPS 197, 5.1.3).
const fn mixed(byte: u8) -> u32 {
    u32::from_le_bytes([double(byte), byte, byte, double(byte) ^ byte])
}

/// Doubles in the field of AES.
const fn double(byte: u8) -> u8 {
    (byte << 1) ^ ((byte >> 7) * 0x1b)
}

/// Multiplies by 0xf6, which is 0x80 + 0x40 + 0x20 + 0x10 + 0x04 + 0x02.
const fn times_f6(byte: u8) -> u8 {
    let (mut product, mut power, mut bits) = (0, byte, 0xf6);
    while bits > 0 {
        if bits & 1 == 1 {
            product ^= power;
        }
        power = double(power);
        bits >>= 1;
    }
    product
}

/// Uses the instructions for AES. Only `hash_rows` may call this module: everywhere else they may be missing.
#[cfg(target_arch = "x86_64")]
mod instructions {
    use std::arch::x86_64::{__m128i, _mm_aesenc_si128, _mm_cvtsi128_si64, _mm_set_epi64x};

    use super::{hash, Block};

    pub(super) fn are_there() -> bool {
        is_x86_feature_detected!("aes") && is_x86_feature_detected!("avx")
    }

    // AVX reads from any address in the same instruction: an eighth less time.
    #[target_feature(enable = "aes,avx")]
    pub(super) unsafe fn hash_rows<'a, T>(
        rows: impl Iterator<Item = (T, &'a [u8])>,
        mut add: impl FnMut(T, u64),
    ) {
        rows.for_each(|(what, row)| add(what, hash::<Register>(row)));
    }

    #[derive(Clone, Copy)]
    struct Register(__m128i);

    impl Block for Register {
        #[inline(always)]
        fn new(bytes: u128) -> Self {
            // SAFETY: SSE2 is part of x86-64.
            Self(unsafe { _mm_set_epi64x((bytes >> 64) as i64, bytes as i64) })
        }

        #[inline(always)]
        fn round(self, key: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm_aesenc_si128(self.0, key.0) })
        }

        #[inline(always)]
        fn low(self) -> u64 {
            // SAFETY: as `new`.
            unsafe { _mm_cvtsi128_si64(self.0) as u64 }
        }
    }
}

/// Uses the instructions for AES. Only `hash_rows` may call this module: everywhere else they may be missing.
#[cfg(target_arch = "aarch64")]
mod instructions {
    use std::arch::aarch64::{
        uint8x16_t, vaeseq_u8, vaesmcq_u8, vdupq_n_u8, veorq_u8, vgetq_lane_u64,
        vreinterpretq_u64_u8, vreinterpretq_u8_p128,
    };

    use super::{hash, Block};

    pub(super) fn are_there() -> bool {
        std::arch::is_aarch64_feature_detected!("aes")
    }

    #[target_feature(enable = "aes")]
    pub(super) unsafe fn hash_rows<'a, T>(
        rows: impl Iterator<Item = (T, &'a [u8])>,
        mut add: impl FnMut(T, u64),
    ) {
        rows.for_each(|(what, row)| add(what, hash::<Register>(row)));
    }

    #[derive(Clone, Copy)]
    struct Register(uint8x16_t);

    impl Block for Register {
        #[inline(always)]
        fn new(bytes: u128) -> Self {
            // SAFETY: NEON is part of the targets that Rust has for aarch64.
            Self(unsafe { vreinterpretq_u8_p128(bytes) })
        }

        #[inline(always)]
        fn round(self, key: Self) -> Self {
            // SAFETY: see the module. NEON adds the key first, so this round gets none, and the key is added
            // afterwards.
            unsafe {
                let mixed = vaesmcq_u8(vaeseq_u8(self.0, vdupq_n_u8(0)));
                Self(veorq_u8(mixed, key.0))
            }
        }

        #[inline(always)]
        fn low(self) -> u64 {
            // SAFETY: as `new`.
            unsafe { vgetq_lane_u64::<0>(vreinterpretq_u64_u8(self.0)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn hash_of(row: &[u8]) -> u64 {
        let mut found = None;
        hash_rows(std::iter::once(((), row)), |(), hash| found = Some(hash));
        found.unwrap()
    }

    #[test]
    fn a_round_is_that_of_aes() {
        // FIPS 197, appendix B: the state at the start of round 1, the key of round 1, the state at the start of round 2.
        let [state, key, next] = [
            0x193d_e3be_a0f4_e22b_9ac6_8d2a_e9f8_4808,
            0xa0fa_fe17_8854_2cb1_23a3_3939_2a6c_7605,
            0xa49c_7ff2_689f_352b_6b5b_ea43_026a_5049,
        ]
        .map(u128::swap_bytes);
        assert_eq!(Table::new(state).round(Table::new(key)).0, next);
    }

    #[test]
    fn hashes_stay_what_they_are() {
        // Numbers written down, so that machines of all kinds are compared with the same ones.
        let row: Vec<u8> = (0..100).collect();
        let hashes = [0, 3, 5, 15, 31, 64, 100].map(|length| hash_of(&row[..length]));
        let expected = [
            0xc3a5_bd1e_66e6_4e6c,
            0xee2e_c898_8927_9668,
            0x77e0_afb6_e24b_8b3e,
            0x06c7_62fe_58d2_fbc5,
            0x0ae3_2fff_d263_c99d,
            0x2730_213c_5548_565f,
            0x43c6_b3af_8ae8_398f,
        ];
        assert_eq!(hashes, expected);
    }

    #[test]
    fn every_bit_and_the_length_count() {
        for length in 0..200 {
            let mut row = vec![0; length];
            let mut seen = HashSet::from([hash_of(&row), hash_of(&vec![0; length + 1])]);
            for bit in 0..8 * length {
                row[bit / 8] ^= 1 << (bit % 8);
                seen.insert(hash_of(&row));
                row[bit / 8] ^= 1 << (bit % 8);
            }
            assert_eq!(seen.len(), 2 + 8 * length, "{length}");
        }
    }

    proptest! {
        #[test]
        fn instructions_and_table_agree(row in vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(hash_of(&row), hash::<Table>(&row));
        }

        /// Checks that bytes that rows have in common do not cancel out in the sum.
        #[test]
        fn parts_of_rows_are_not_exchanged(
            one in vec(any::<u8>(), 1..100),
            other in vec(any::<u8>(), 1..100),
            at in any::<prop::sample::Index>(),
            end in any::<prop::sample::Index>(),
        ) {
            let length = one.len().min(other.len());
            let (one, other) = (&one[..length], &other[..length]);
            let at = at.index(length);
            let end = at + 1 + end.index(length - at);
            let (mut first, mut second) = (one.to_vec(), other.to_vec());
            first[at..end].swap_with_slice(&mut second[at..end]);
            let sum = |one: &[u8], other: &[u8]| hash_of(one).wrapping_add(hash_of(other));
            let same = (one, other) == (&first[..], &second[..]) || (one, other) == (&second[..], &first[..]);
            prop_assert_eq!(sum(one, other) == sum(&first, &second), same);
        }
    }
}
