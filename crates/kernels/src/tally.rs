//! Tallies: how many rows there are and what they hold, in whatever order.
//!
//! The sum of the hashes of all rows, modulo 2^64, does not depend on their order, and unlike an exclusive or it notices
//! a row that is there twice. Rows that were lost, repeated or changed by accident give the same sum once in 2^64 cases.
//! The hash is XXH3 of the row's bytes, the same in every process, and is no secret: it finds accidents, not attacks.
//! 6 ns for a row of 100 bytes in the first-level cache, 9 in a sort of 4 GB, which is 4.4 % of its processor time; in five
//! pairs with and without it took 0.83 to 1.05 of the time, in the middle the same. In chunks of 1024 rows, which that
//! cache does not hold, it was 40 ns.

use twox_hash::XxHash3_64;

/// A count of rows and the sum of their hashes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    rows: u64,
    sum: u64,
}

impl Tally {
    pub(crate) fn new(rows: u64, sum: u64) -> Self {
        Self { rows, sum }
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    #[inline(always)]
    pub(crate) fn add_row(&mut self, row: &[u8]) {
        self.rows += 1;
        self.add_beside(row);
    }

    /// Adds bytes that belong to rows and are none.
    #[inline(always)]
    pub(crate) fn add_beside(&mut self, bytes: &[u8]) {
        self.sum = self.sum.wrapping_add(XxHash3_64::oneshot(bytes));
    }

    /// Adds fixed-length rows that lie back to back; what is left behind the last whole one counts as a row.
    pub fn add_rows(&mut self, rows: &[u8], row_bytes: usize) {
        rows.chunks(row_bytes).for_each(|row| self.add_row(row));
    }

    /// Both together.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            // What a damaged header says may be any number.
            rows: self.rows.wrapping_add(other.rows),
            sum: self.sum.wrapping_add(other.sum),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(rows: &[&[u8]]) -> Tally {
        let mut tally = Tally::default();
        rows.iter().for_each(|row| tally.add_row(row));
        tally
    }

    #[test]
    fn the_order_of_rows_does_not_matter_and_all_else_does() {
        let all = tally(&[b"one", b"two", b"three"]);
        assert_eq!(all, tally(&[b"three", b"one", b"two"]));
        assert_eq!(all, tally(&[b"one"]).and(tally(&[b"two", b"three"])));
        for other in [
            &[b"one" as &[u8], b"two"] as &[&[u8]],
            &[b"one", b"two", b"three", b"three"],
            &[b"one", b"two", b"thref"],
            &[b"onet", b"wo", b"three"],
            &[b"one", b"one", b"three"],
        ] {
            assert_ne!(all, tally(other), "{other:?}");
        }
        // Pairs that cancel out in an exclusive or.
        assert_ne!(tally(&[b"a", b"a"]).sum(), tally(&[b"b", b"b"]).sum());
    }

    #[test]
    fn hashes_are_those_of_xxh3() {
        // The specification's value of the empty input: every process and version must agree.
        assert_eq!(tally(&[b""]).sum(), 0x2D06_8005_38D3_94C2);
    }
}
