//! Searching boundaries by 64 bits: a window onto the part of their prefixes that differs, searched without branches.

use std::hint::select_unpredictable;

/// The 64 bits of a prefix behind those that all boundaries have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    base: u128,
    shift: u32,
}

impl Window {
    /// Makes a window for sorted prefixes of `bits` bits.
    pub(crate) fn new(prefixes: &[u128], bits: u32) -> Self {
        let (first, last) = (
            prefixes.first().copied().unwrap_or(0),
            prefixes.last().copied().unwrap_or(0),
        );
        let common = ((first ^ last).leading_zeros() + bits - 128).min(bits - 64);
        let shift = bits - 64 - common;
        Self {
            base: first >> shift >> 64 << shift << 64,
            shift,
        }
    }

    /// Keeps the order; a prefix that does not begin like the boundaries becomes 0 or the maximum.
    #[inline]
    pub(crate) fn of(self, prefix: u128) -> u64 {
        u64::try_from(prefix.saturating_sub(self.base) >> self.shift).unwrap_or(u64::MAX)
    }
}

/// Counts the boundaries below. No branch depends on the data (a mispredicted one costs more than all the comparisons),
/// so searches of several rows overlap.
#[inline]
pub(crate) fn count_below(boundaries: &[u64], window: u64) -> usize {
    let (mut start, mut size) = (0, boundaries.len());
    while size > 1 {
        let half = size / 2;
        start = select_unpredictable(boundaries[start + half] < window, start + half, start);
        size -= half;
    }
    start + usize::from(size == 1 && boundaries[start] < window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_keep_the_order() {
        let inside = [7 << 100 | 5 << 60, 7 << 100 | 9 << 60];
        let window = Window::new(&inside, 128);
        assert!(window.of(inside[0]) < window.of(inside[1]));
        assert_eq!((window.of(6 << 100), window.of(9 << 100)), (0, u64::MAX));
        assert_eq!(Window::new(&[3, 4], 64).of(4), 4);
        assert_eq!(Window::new(&[], 128).of(1 << 127), u64::MAX);
    }

    #[test]
    fn counting_matches_a_plain_count() {
        for size in 0..40u64 {
            let boundaries: Vec<u64> = (0..size).map(|b| b / 3 * 10).collect();
            for prefix in 0..150 {
                assert_eq!(
                    count_below(&boundaries, prefix),
                    boundaries.iter().filter(|&&b| b < prefix).count()
                );
            }
        }
    }
}
