//! Which units of the arena are free. Pure bookkeeping, no memory.
//!
//! Guarantee: a unit is handed out to one owner at a time, and free neighbours are one range. Two pools are kept.
//! *Resident* units have been written before and are handed out first, because touching fresh memory is many times
//! slower than remapping used memory. *Untouched* units cost the system nothing. A request takes the smallest range
//! that holds it. Where there is none, it takes the largest ranges, so that it consists of few pieces.

use std::collections::{BTreeMap, BTreeSet};

/// `len` units from unit `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Range {
    pub(crate) start: u64,
    pub(crate) len: u64,
}

/// Returns the number of units in `ranges`.
pub(crate) fn units_in(ranges: &[Range]) -> u64 {
    ranges.iter().map(|range| range.len).sum()
}

/// Free ranges, found by place (to coalesce) and by length (to fit).
#[derive(Debug, Default)]
struct Pool {
    by_start: BTreeMap<u64, u64>,
    by_len: BTreeSet<(u64, u64)>,
    units: u64,
}

impl Pool {
    fn link(&mut self, range: Range) {
        self.by_start.insert(range.start, range.len);
        self.by_len.insert((range.len, range.start));
        self.units += range.len;
    }

    fn unlink(&mut self, range: Range) {
        self.by_start.remove(&range.start);
        self.by_len.remove(&(range.len, range.start));
        self.units -= range.len;
    }

    /// Adds a free range, joined with the free neighbours on both sides.
    fn insert(&mut self, mut range: Range) {
        if let Some((&start, &len)) = self.by_start.range(..range.start).next_back() {
            debug_assert!(start + len <= range.start, "a range was freed twice");
            if start + len == range.start {
                self.unlink(Range { start, len });
                range = Range {
                    start,
                    len: len + range.len,
                };
            }
        }
        let end = range.start + range.len;
        if let Some(&len) = self.by_start.get(&end) {
            self.unlink(Range { start: end, len });
            range.len += len;
        }
        self.link(range);
    }

    /// Takes up to `units` in one piece: the best fit, or else all of the largest range.
    fn take(&mut self, units: u64) -> Option<Range> {
        let fit = self.by_len.range((units, 0)..).next();
        let &(len, start) = fit.or_else(|| self.by_len.last())?;
        self.unlink(Range { start, len });
        let taken = len.min(units);
        if taken < len {
            self.link(Range {
                start: start + taken,
                len: len - taken,
            });
        }
        Some(Range { start, len: taken })
    }

    /// Takes up to `units` in as many pieces as it needs.
    fn take_pieces(&mut self, mut units: u64, pieces: &mut Vec<Range>) -> u64 {
        while units > 0 {
            let Some(range) = self.take(units) else { break };
            units -= range.len;
            pieces.push(range);
        }
        units
    }
}

/// Units that were free.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Taken {
    /// All of them, ordered by place and joined where they touch.
    pub(crate) ranges: Vec<Range>,
    /// The untouched ones among them.
    pub(crate) fresh: Vec<Range>,
}

/// The free units of the arena.
#[derive(Debug)]
pub(crate) struct FreeRanges {
    resident: Pool,
    untouched: Pool,
}

impl FreeRanges {
    /// Makes a pool in which all `units` are free and untouched.
    pub(crate) fn new(units: u64) -> Self {
        let mut untouched = Pool::default();
        if units > 0 {
            untouched.insert(Range {
                start: 0,
                len: units,
            });
        }
        Self {
            resident: Pool::default(),
            untouched,
        }
    }

    /// Returns the number of free units that hold system memory.
    pub(crate) fn resident(&self) -> u64 {
        self.resident.units
    }

    /// Returns the number of free units.
    pub(crate) fn free(&self) -> u64 {
        self.resident.units + self.untouched.units
    }

    /// Takes `units` in few pieces, or returns `None` when fewer are free.
    pub(crate) fn take(&mut self, units: u64) -> Option<Taken> {
        if units > self.free() {
            return None;
        }
        let mut ranges = Vec::with_capacity(1);
        let missing = self.resident.take_pieces(units, &mut ranges);
        let mut fresh = Vec::new();
        self.untouched.take_pieces(missing, &mut fresh);
        ranges.extend_from_slice(&fresh);
        ranges.sort_unstable();
        ranges.dedup_by(|next, before| {
            let touches = before.start + before.len == next.start;
            if touches {
                before.len += next.len;
            }
            touches
        });
        Some(Taken { ranges, fresh })
    }

    /// Gives ranges back, which count as resident from then on.
    pub(crate) fn give_back(&mut self, ranges: &[Range]) {
        for &range in ranges {
            self.resident.insert(range);
        }
    }

    /// Turns up to `units` resident free units into untouched ones; the caller gives their memory to the system.
    pub(crate) fn trim(&mut self, units: u64) -> Vec<Range> {
        let mut pieces = Vec::new();
        self.resident.take_pieces(units, &mut pieces);
        for &range in &pieces {
            self.untouched.insert(range);
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn units_of(range: &Range) -> std::ops::Range<usize> {
        range.start as usize..(range.start + range.len) as usize
    }

    fn taken(free: &mut FreeRanges, units: u64) -> Vec<Range> {
        free.take(units).unwrap().ranges
    }

    #[test]
    fn used_memory_is_recycled_before_fresh_memory() {
        let mut free = FreeRanges::new(100);
        let first = taken(&mut free, 10);
        free.give_back(&first);
        let again = free.take(12).unwrap();
        let fresh = vec![Range { start: 10, len: 2 }];
        let ranges = vec![Range { start: 0, len: 12 }];
        assert_eq!((first[0].len, again), (10, Taken { ranges, fresh }));
        assert_eq!(free.resident(), 0);
    }

    #[test]
    fn the_smallest_range_that_fits_is_taken() {
        let mut free = FreeRanges::new(20);
        let held: Vec<_> = [4, 1, 2, 1, 3]
            .iter()
            .map(|&n| taken(&mut free, n))
            .collect();
        for hole in [0, 2, 4] {
            free.give_back(&held[hole]);
        }
        assert_eq!(taken(&mut free, 2), held[2]);
    }

    #[test]
    fn a_scattered_request_uses_the_largest_holes() {
        let mut free = FreeRanges::new(10);
        let held: Vec<_> = [3, 1, 2, 1, 3]
            .iter()
            .map(|&n| taken(&mut free, n))
            .collect();
        for hole in [0, 2, 4] {
            free.give_back(&held[hole]);
        }
        assert_eq!(taken(&mut free, 6), [held[0][0], held[4][0]]);
        assert_eq!(free.take(3), None);
    }

    #[test]
    fn trimmed_ranges_are_untouched_again() {
        let mut free = FreeRanges::new(8);
        let all = taken(&mut free, 8);
        free.give_back(&all);
        assert_eq!(units_in(&free.trim(5)), 5);
        assert_eq!((free.resident(), free.free()), (3, 8));
        assert_eq!(taken(&mut free, 8), all);
    }

    proptest! {
        /// Compares with a plain array of owners: no unit has two, none is lost, and everything free is one range at
        /// the end.
        #[test]
        fn no_unit_is_handed_out_twice(steps in prop::collection::vec((0u8..3, 1u64..24, any::<prop::sample::Index>()), 1..200)) {
            let mut free = FreeRanges::new(64);
            let mut owned = [false; 64];
            let mut touched = [false; 64];
            let mut held: Vec<Vec<Range>> = Vec::new();
            for (what, units, index) in steps {
                match what {
                    0 => match free.take(units) {
                        Some(Taken { ranges, fresh }) => {
                            prop_assert_eq!(units_in(&ranges), units);
                            for unit in ranges.iter().flat_map(units_of) {
                                let is_fresh = fresh.iter().any(|range| units_of(range).contains(&unit));
                                prop_assert_eq!(is_fresh, !touched[unit]);
                                prop_assert!(!owned[unit]);
                                (owned[unit], touched[unit]) = (true, true);
                            }
                            held.push(ranges);
                        }
                        None => prop_assert!(free.free() < units),
                    },
                    1 if !held.is_empty() => {
                        let ranges = held.swap_remove(index.index(held.len()));
                        for range in &ranges {
                            owned[units_of(range)].fill(false);
                        }
                        free.give_back(&ranges);
                    }
                    _ => {
                        let before = free.resident();
                        let trimmed = free.trim(units);
                        prop_assert_eq!(units_in(&trimmed), units.min(before));
                        trimmed.iter().for_each(|range| touched[units_of(range)].fill(false));
                    }
                }
                prop_assert_eq!(free.free(), owned.iter().filter(|owned| !**owned).count() as u64);
            }
            held.iter().for_each(|ranges| free.give_back(ranges));
            free.trim(64);
            let whole = vec![Range { start: 0, len: 64 }];
            prop_assert_eq!(free.take(64), Some(Taken { ranges: whole.clone(), fresh: whole }));
        }
    }
}
