//! The one budget: how much each holder has, and in which order requests are served. Pure bookkeeping; `shared.rs`
//! waits.
//!
//! Guarantees: blocks + reservations <= budget; free memory kept for reuse never takes reserved bytes; requests are
//! served by priority, then in order of arrival. Later requests pass an earlier one only when the store cannot make
//! room for it. Then only other tasks can, and these may be the ones behind it in the queue.

use std::collections::BTreeMap;

use crate::arena::UNIT_BYTES;
use crate::ranges::{units_in, FreeRanges, Range, Taken};

/// The order in which requests are served when memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Results of running tasks: these tasks free memory when they are done.
    Output,
    /// Working memory of tasks that are about to run.
    Reservation,
    /// Spilled arguments of tasks that do not run yet.
    Argument,
}

/// The memory that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// Units of the arena.
    Memory { units: u64 },
    /// Bytes outside the arena.
    Reserve { bytes: u64 },
}

impl Want {
    /// Asks for memory for `bytes`, at least one unit.
    pub(crate) fn memory(bytes: u64) -> Self {
        Want::Memory {
            units: bytes.div_ceil(UNIT_BYTES).max(1),
        }
    }

    /// Returns the bytes of the budget that this asks for.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Want::Memory { units } => units * UNIT_BYTES,
            Want::Reserve { bytes } => bytes,
        }
    }
}

/// A place in the queue.
pub(crate) type Ticket = (Priority, u64);

/// The memory of a served request, and the free ranges whose memory must go back to the system first.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Grant {
    pub(crate) taken: Taken,
    pub(crate) trimmed: Vec<Range>,
}

/// The books of the budget.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) budget_bytes: u64,
    pub(crate) reserved_bytes: u64,
    pub(crate) peak_bytes: u64,
    used_units: u64,
    free: FreeRanges,
    waiting: BTreeMap<Ticket, Want>,
    tickets: u64,
}

impl Ledger {
    /// Makes an empty budget over an arena of as many whole units as the budget holds.
    pub(crate) fn new(budget_bytes: u64) -> Self {
        Self {
            budget_bytes,
            reserved_bytes: 0,
            peak_bytes: 0,
            used_units: 0,
            free: FreeRanges::new(budget_bytes / UNIT_BYTES),
            waiting: BTreeMap::new(),
            tickets: 0,
        }
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_units * UNIT_BYTES
    }

    /// Returns the bytes of blocks and reservations.
    pub(crate) fn committed_bytes(&self) -> u64 {
        self.used_bytes() + self.reserved_bytes
    }

    /// Returns the memory that the arena may hold from the system.
    pub(crate) fn resident_bytes(&self) -> u64 {
        (self.used_units + self.free.resident()) * UNIT_BYTES
    }

    pub(crate) fn wanted_bytes(&self) -> u64 {
        self.waiting
            .values()
            .map(|want| want.bytes())
            .fold(0, u64::saturating_add)
    }

    pub(crate) fn someone_waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns whether `want` can ever be served.
    pub(crate) fn is_possible(&self, want: Want) -> bool {
        want.bytes() <= self.budget_bytes
    }

    fn fits(&self, want: Want) -> bool {
        want.bytes() <= self.budget_bytes - self.committed_bytes()
    }

    /// Adds a request to the queue.
    pub(crate) fn enqueue(&mut self, want: Want, priority: Priority) -> Ticket {
        let ticket = (priority, self.tickets);
        self.tickets += 1;
        self.waiting.insert(ticket, want);
        ticket
    }

    /// Removes a request from the queue, served or not.
    pub(crate) fn dequeue(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
    }

    /// Returns whether it is this request's turn. `can_spill`: the store can make room for the requests before it.
    pub(crate) fn is_served(&self, ticket: Ticket, want: Want, can_spill: bool) -> bool {
        let mut earlier = self
            .waiting
            .range(..ticket)
            .map(|(_, &want)| want)
            .peekable();
        let may_pass = earlier.peek().is_none() || !can_spill;
        may_pass && self.fits(want) && !earlier.any(|want| self.fits(want))
    }

    /// Takes the memory of a request, which must fit.
    pub(crate) fn take(&mut self, want: Want) -> Grant {
        let taken = match want {
            Want::Memory { units } => {
                let taken = self.free.take(units);
                self.used_units += units;
                taken.expect(
                    "the arena has as many units as the budget, and the request fits the budget",
                )
            }
            Want::Reserve { bytes } => {
                self.reserved_bytes += bytes;
                Taken::default()
            }
        };
        self.peak_bytes = self.peak_bytes.max(self.committed_bytes());
        let over = (self.resident_bytes() + self.reserved_bytes).saturating_sub(self.budget_bytes);
        Grant {
            taken,
            trimmed: self.free.trim(over.div_ceil(UNIT_BYTES)),
        }
    }

    pub(crate) fn give_back(&mut self, ranges: &[Range]) {
        self.used_units -= units_in(ranges);
        self.free.give_back(ranges);
    }

    pub(crate) fn unreserve(&mut self, bytes: u64) {
        self.reserved_bytes -= bytes;
    }

    /// Takes all free ranges that hold memory, to give it back to the system.
    pub(crate) fn trim_all(&mut self) -> Vec<Range> {
        self.free.trim(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: Want = Want::Memory { units: 1 };

    fn ledger(units: u64) -> Ledger {
        Ledger::new(units * UNIT_BYTES)
    }

    #[test]
    fn a_reservation_trims_free_memory_that_it_needs() {
        let mut ledger = ledger(10);
        let block = ledger.take(Want::Memory { units: 8 });
        ledger.give_back(&block.taken.ranges);
        assert_eq!(ledger.resident_bytes(), 8 * UNIT_BYTES);
        let grant = ledger.take(Want::Reserve {
            bytes: 5 * UNIT_BYTES + 1,
        });
        assert_eq!(units_in(&grant.trimmed), 4);
        assert!(ledger.resident_bytes() + ledger.reserved_bytes <= ledger.budget_bytes);
    }

    #[test]
    fn priority_comes_before_arrival_and_arrival_before_size() {
        let mut ledger = ledger(10);
        let argument = ledger.enqueue(UNIT, Priority::Argument);
        let first = ledger.enqueue(UNIT, Priority::Output);
        let second = ledger.enqueue(UNIT, Priority::Output);
        for expected in [first, second, argument] {
            let waiting: Vec<Ticket> = ledger.waiting.keys().copied().collect();
            for ticket in waiting {
                assert_eq!(ledger.is_served(ticket, UNIT, true), ticket == expected);
            }
            ledger.dequeue(expected);
        }
    }

    #[test]
    fn a_request_that_cannot_be_helped_is_passed() {
        let mut ledger = ledger(4);
        ledger.take(Want::Memory { units: 2 });
        let big = Want::Memory { units: 3 };
        ledger.enqueue(big, Priority::Output);
        let small = ledger.enqueue(UNIT, Priority::Argument);
        assert!(
            !ledger.is_served(small, UNIT, true),
            "the store is making room for the first"
        );
        assert!(ledger.is_served(small, UNIT, false));
    }
}
