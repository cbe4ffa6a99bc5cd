//! The decisions of the store as pure functions: how much to spill, which blocks, and the next move of a waiting
//! request.

use std::time::Duration;

use crate::budget::Priority;

/// How full the budget is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pressure {
    pub(crate) budget_bytes: u64,
    pub(crate) threshold_bytes: u64,
    /// Bytes of blocks and reservations.
    pub(crate) committed_bytes: u64,
    /// The part of them in blocks that are being spilled.
    pub(crate) leaving_bytes: u64,
    /// Bytes that waiting requests ask for.
    pub(crate) wanted_bytes: u64,
}

impl Pressure {
    /// Returns the bytes to spill besides those already on their way: down to the threshold, and far enough for every
    /// waiting request.
    pub(crate) fn excess_bytes(&self) -> u64 {
        let above_threshold = self.staying_bytes().saturating_sub(self.threshold_bytes);
        above_threshold.max(self.missing_bytes())
    }

    /// Returns the bytes of the newest blocks that are left alone as long as no request needs their memory. Results
    /// that are taken as soon as they are made come and go above the threshold. Spilling them cost a random shuffle of
    /// 4 GB within 2 GB 2.9 GB of writing that nobody read.
    pub(crate) fn spared_bytes(&self) -> u64 {
        match self.missing_bytes() {
            0 => ((self.budget_bytes - self.threshold_bytes) / 2).min(self.threshold_bytes / 8),
            _ => 0,
        }
    }

    /// Returns whether memory is short (above the threshold), or will be with `more_bytes` more.
    pub(crate) fn is_short(&self, more_bytes: u64) -> bool {
        self.committed_bytes + more_bytes > self.threshold_bytes
    }

    fn staying_bytes(&self) -> u64 {
        self.committed_bytes.saturating_sub(self.leaving_bytes)
    }

    /// Returns the bytes that waiting requests ask for and that are not free.
    fn missing_bytes(&self) -> u64 {
        match self.wanted_bytes {
            0 => 0,
            wanted => (self.staying_bytes() + wanted.min(self.budget_bytes))
                .saturating_sub(self.budget_bytes),
        }
    }
}

/// Picks the victims of one spill from `candidates` (block, bytes), oldest first. They are enough for `excess_bytes`,
/// and not more than `batch_bytes` unless one block alone is larger. None is of the newest that make up `spared_bytes`.
pub(crate) fn choose_victims(
    (excess_bytes, spared_bytes): (u64, u64),
    batch_bytes: u64,
    candidates: impl DoubleEndedIterator<Item = (u64, u64)> + Clone,
) -> Vec<u64> {
    let mut newest = 0;
    let mut youngest_first = candidates.clone().rev();
    let oldest_spared = youngest_first.find(|(_, bytes)| {
        newest += bytes;
        newest >= spared_bytes
    });
    let mut victims = Vec::new();
    let mut chosen = 0;
    for (block, bytes) in candidates {
        let is_spared = spared_bytes > 0 && oldest_spared.is_none_or(|(oldest, _)| block >= oldest);
        if is_spared
            || chosen >= excess_bytes
            || (!victims.is_empty() && chosen + bytes > batch_bytes)
        {
            break;
        }
        victims.push(block);
        chosen += bytes;
    }
    victims
}

/// The facts that decide what the store can do about a waiting request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    pub(crate) priority: Priority,
    /// A spill is under way.
    pub(crate) spilling: bool,
    /// Some block could be spilled.
    pub(crate) victims: bool,
    /// Some directory takes files.
    pub(crate) directories: bool,
    /// Time since the request began or memory was last released, whichever is later.
    pub(crate) quiet: Duration,
}

/// How long requests wait once the store itself can make no room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) fallback_after: Duration,
    pub(crate) disk_full_timeout: Duration,
}

/// The next move of a waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// Wait until something changes.
    Wait,
    /// Wait, but look again after this long.
    WaitFor(Duration),
    /// Take a file instead of memory.
    FallBack,
    /// Fail.
    DiskFull,
}

impl Situation {
    /// Returns whether the store itself can make room.
    pub(crate) fn can_spill(&self) -> bool {
        self.spilling || (self.victims && self.directories)
    }

    /// Decides what the request does next. Once nothing can be spilled, only others can help it. Outputs then go to the
    /// file system, because the task that makes them may be the one whose end frees memory. All other requests wait for
    /// frees.
    pub(crate) fn outlook(&self, patience: &Patience) -> Outlook {
        if self.can_spill() {
            return Outlook::Wait;
        }
        let (limit, then) = match (self.priority, self.victims, self.directories) {
            (Priority::Output, _, true) => (patience.fallback_after, Outlook::FallBack),
            (Priority::Output, _, false) | (_, true, _) => {
                (patience.disk_full_timeout, Outlook::DiskFull)
            }
            (_, false, _) => return Outlook::Wait,
        };
        match limit.checked_sub(self.quiet) {
            None | Some(Duration::ZERO) => then,
            Some(rest) => Outlook::WaitFor(rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Pressure = Pressure {
        budget_bytes: 100,
        threshold_bytes: 80,
        committed_bytes: 0,
        leaving_bytes: 0,
        wanted_bytes: 0,
    };

    #[test]
    fn nothing_is_spilled_below_the_threshold() {
        assert_eq!(
            Pressure {
                committed_bytes: 80,
                ..CALM
            }
            .excess_bytes(),
            0
        );
        assert_eq!(
            Pressure {
                committed_bytes: 90,
                ..CALM
            }
            .excess_bytes(),
            10
        );
        assert_eq!(
            Pressure {
                committed_bytes: 90,
                leaving_bytes: 10,
                ..CALM
            }
            .excess_bytes(),
            0
        );
    }

    #[test]
    fn waiting_requests_are_made_room_for() {
        assert_eq!(
            Pressure {
                committed_bytes: 60,
                wanted_bytes: 70,
                ..CALM
            }
            .excess_bytes(),
            30
        );
        assert_eq!(
            Pressure {
                committed_bytes: 60,
                wanted_bytes: 40,
                ..CALM
            }
            .excess_bytes(),
            0
        );
        assert_eq!(
            Pressure {
                committed_bytes: 60,
                wanted_bytes: 1000,
                ..CALM
            }
            .excess_bytes(),
            60
        );
    }

    #[test]
    fn victims_are_the_oldest_up_to_one_batch() {
        let blocks = [(1, 4), (2, 4), (3, 4)];
        let choose = |excess, batch| choose_victims((excess, 0), batch, blocks.into_iter());
        assert_eq!(choose(0, 100), []);
        assert_eq!(choose(5, 100), [1, 2]);
        assert_eq!(choose(100, 8), [1, 2]);
        assert_eq!(
            choose(100, 1),
            [1],
            "a block larger than the batch goes alone"
        );
    }

    #[test]
    fn the_newest_blocks_are_spared_until_a_request_needs_their_memory() {
        let blocks = [(1, 4), (2, 4), (3, 4)];
        let choose = |spared| choose_victims((100, spared), 100, blocks.into_iter());
        assert_eq!(choose(4), [1, 2]);
        assert_eq!(choose(5), [1]);
        assert_eq!(choose(12), []);
        assert_eq!(choose(13), []);
        let full = Pressure {
            committed_bytes: 95,
            ..CALM
        };
        assert_eq!(full.spared_bytes(), 10);
        let wanted = |wanted_bytes| Pressure {
            wanted_bytes,
            ..full
        };
        assert_eq!(wanted(5).spared_bytes(), 10, "there is room for it");
        assert_eq!(wanted(6).spared_bytes(), 0);
    }

    #[test]
    fn outlook_by_priority() {
        let patience = Patience {
            fallback_after: Duration::from_secs(2),
            disk_full_timeout: Duration::from_secs(10),
        };
        let seconds = Duration::from_secs;
        let look = |priority, spilling, victims, directories, quiet| {
            Situation {
                priority,
                spilling,
                victims,
                directories,
                quiet: seconds(quiet),
            }
            .outlook(&patience)
        };
        use Priority::*;
        assert_eq!(
            look(Output, true, false, true, 99),
            Outlook::Wait,
            "a spill is under way"
        );
        assert_eq!(
            look(Argument, false, true, true, 99),
            Outlook::Wait,
            "a spill will start"
        );
        assert_eq!(
            look(Output, false, false, true, 1),
            Outlook::WaitFor(seconds(1))
        );
        assert_eq!(look(Output, false, false, true, 2), Outlook::FallBack);
        assert_eq!(
            look(Reservation, false, false, true, 99),
            Outlook::Wait,
            "only others can make room"
        );
        assert_eq!(
            look(Reservation, false, true, false, 4),
            Outlook::WaitFor(seconds(6))
        );
        assert_eq!(look(Argument, false, true, false, 10), Outlook::DiskFull);
        assert_eq!(look(Output, false, false, false, 11), Outlook::DiskFull);
    }
}
