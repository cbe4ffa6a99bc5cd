//! Tallies: how many rows there are and what they hold, in whatever order.
//!
//! The sum of the hashes of all rows, modulo 2^64, does not depend on their order. Unlike an exclusive or it notices a
//! row that is there twice. Rows that were lost, repeated or changed by accident give the same sum once in 2^64 cases.
//!
//! A hash costs little for rows in the first-level cache, which were just written or are about to be read. In chunks of
//! 1024 rows, which that cache does not hold, a hash took ten times as long. `benchmarks/checks.py` compares whole
//! programs with a module that hashes nothing.

use crate::checks::row_hash::hash_rows;

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

    /// Returns the number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    /// Adds a row with this hash.
    #[inline(always)]
    pub(crate) fn add_hash(&mut self, hash: u64) {
        self.rows += 1;
        self.sum = self.sum.wrapping_add(hash);
    }

    pub(crate) fn add_rows<'a>(&mut self, rows: impl Iterator<Item = &'a [u8]>) {
        hash_rows(rows.map(|row| ((), row)), |(), hash| self.add_hash(hash));
    }

    /// Adds bytes that belong to rows but are not rows.
    pub(crate) fn add_beside(&mut self, bytes: &[u8]) {
        hash_rows(std::iter::once(((), bytes)), |(), hash| {
            self.sum = self.sum.wrapping_add(hash);
        });
    }

    /// Adds fixed-length rows that lie back to back; bytes left behind the last whole row count as a row.
    pub fn add_records(&mut self, rows: &[u8], row_bytes: usize) {
        self.add_rows(rows.chunks(row_bytes));
    }

    /// Returns the sum of both.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            // A damaged header may say any number.
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
        tally.add_rows(rows.iter().copied());
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
        // These pairs cancel out in an exclusive or.
        assert_ne!(tally(&[b"a", b"a"]).sum(), tally(&[b"b", b"b"]).sum());
    }
}
