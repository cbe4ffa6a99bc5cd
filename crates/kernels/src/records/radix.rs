//! Sorts `u64` entries by their upper half; the lower half must already be in order.
//!
//! Most significant digit first, out of place between two buffers. The digit is wide enough for buckets of a few dozen
//! entries. So a million entries take two passes and then small sorts inside the first-level cache. A digit in which all
//! entries agree costs one histogram and no move, so skewed input is no slower.

/// Bits of the key: the upper half of an entry.
const KEY_BITS: u32 = 32;
/// Wider digits than this write to more streams than the first-level cache and TLB can hold.
const MAX_DIGIT_BITS: u32 = 9;
/// Up to this many entries the standard library's sort is faster than another pass.
const SMALL: usize = 96;
/// The wanted size of a bucket, as a power of two.
const BUCKET_BITS: u32 = 5;

/// Sorts `entries`; `scratch` has the same length and ends up with arbitrary contents.
///
/// Entries must be in ascending order of their lower halves, so that a stable sort of the upper halves is a sort of
/// the whole.
pub(super) fn sort_entries(entries: &mut [u64], scratch: &mut [u64]) {
    sort_digits(entries, scratch, KEY_BITS, true);
}

/// Sorts `from` by its lowest `bits_left` key bits; the result ends up in `from` if `stay`, else in `to`.
fn sort_digits(from: &mut [u64], to: &mut [u64], bits_left: u32, stay: bool) {
    if from.len() <= SMALL || bits_left == 0 {
        if bits_left > 0 {
            from.sort_unstable();
        }
        if !stay {
            to.copy_from_slice(from);
        }
        return;
    }
    let wanted = from.len().ilog2().saturating_sub(BUCKET_BITS);
    let bits = wanted.clamp(1, MAX_DIGIT_BITS).min(bits_left);
    let shift = 64 - KEY_BITS + bits_left - bits;
    let mut ends = [0usize; 1 << MAX_DIGIT_BITS];
    let ends = &mut ends[..1 << bits];
    let mask = ends.len() - 1;
    for &entry in from.iter() {
        ends[(entry >> shift) as usize & mask] += 1;
    }
    let first = (from[0] >> shift) as usize & mask;
    if ends[first] == from.len() {
        return sort_digits(from, to, bits_left - bits, stay);
    }
    let mut start = 0;
    for end in ends.iter_mut() {
        start += std::mem::replace(end, start);
    }
    for &entry in from.iter() {
        let end = &mut ends[(entry >> shift) as usize & mask];
        to[*end] = entry;
        *end += 1;
    }
    let mut start = 0;
    for &end in ends.iter() {
        if start < end {
            let bucket = start..end;
            sort_digits(
                &mut to[bucket.clone()],
                &mut from[bucket],
                bits_left - bits,
                !stay,
            );
        }
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(keys: impl Iterator<Item = u32>) {
        let mut entries: Vec<u64> = (0u64..)
            .zip(keys)
            .map(|(i, k)| u64::from(k) << 32 | i)
            .collect();
        let mut expected = entries.clone();
        expected.sort();
        let mut scratch = vec![0; entries.len()];
        sort_entries(&mut entries, &mut scratch);
        assert_eq!(entries, expected);
    }

    #[test]
    fn all_patterns_are_sorted() {
        for n in [0, 1, 2, 31, 96, 97, 1000, 4096, 70_000] {
            let hash = |i: u32| i.wrapping_mul(0x9E37_79B9).rotate_left(7) ^ i;
            check((0..n).map(hash));
            check((0..n).map(|i| hash(i) % 5));
            check((0..n).map(|i| hash(i) << 30));
            check((0..n).map(|i| u32::MAX - hash(i) % 1000));
            check(0..n);
            check((0..n).rev());
            check((0..n).map(|_| 7));
            check((0..n).map(|i| if i % 9 == 0 { hash(i) } else { 3 }));
        }
    }
}
