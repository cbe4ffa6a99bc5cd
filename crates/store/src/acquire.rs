//! Waits for a turn at the budget, and takes the memory.
//!
//! A request joins the queue, and looks at the books whenever `wake` says that they have changed. It ends with ranges
//! of the arena, with a file where an output can get no memory, or with an error.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::arena::Memory;
use crate::budget::{Priority, Ticket, Want};
use crate::error::{Result, StoreError};
use crate::layout::Layout;
use crate::mapping::Mapping;
use crate::policy::Outlook;
use crate::ranges::Taken;
use crate::shared::{Shared, State};

/// How often a waiting thread asks whether it was interrupted.
const ASK_AFTER: Duration = Duration::from_millis(100);

/// How a request for memory ended.
enum Room {
    Arena(Taken),
    FileSystem,
}

impl Shared {
    /// Returns memory for `bytes`, or a file for an output that finds no memory.
    pub(crate) fn memory(self: &Arc<Self>, bytes: u64, priority: Priority) -> Result<Owned> {
        let want = Want::memory(bytes);
        let room = match priority {
            Priority::Output if want.bytes() > self.options.budget_bytes => Room::FileSystem,
            _ => self.acquire(want, priority)?,
        };
        let memory = match room {
            Room::FileSystem => self.file_memory(bytes)?,
            Room::Arena(Taken { ranges, fresh }) => match self.arena.map(&ranges, &fresh) {
                Ok(mapping) => Memory::Ranges { mapping, ranges },
                Err(source) => {
                    let count = ranges.len();
                    self.give_back(&ranges);
                    return Err(StoreError::Map {
                        bytes,
                        ranges: count,
                        source,
                    });
                }
            },
        };
        Ok(Owned {
            shared: Arc::clone(self),
            memory: Some(memory),
        })
    }

    /// Waits for room outside the arena.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Reservation> {
        self.acquire(Want::Reserve { bytes }, Priority::Reservation)?;
        Ok(Reservation {
            shared: Arc::clone(self),
            bytes,
        })
    }

    /// Joins the queue and waits until served.
    fn acquire(self: &Arc<Self>, want: Want, priority: Priority) -> Result<Room> {
        let mut state = self.open_state()?;
        if !state.ledger.is_possible(want) {
            let budget_bytes = state.ledger.budget_bytes;
            return Err(StoreError::TooLarge {
                requested_bytes: want.bytes(),
                budget_bytes,
            });
        }
        let ticket = state.ledger.enqueue(want, priority);
        let (mut state, room) = self.wait_for_turn(state, ticket, want);
        state.ledger.dequeue(ticket);
        self.wake(&mut state);
        room
    }

    fn wait_for_turn<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        ticket: Ticket,
        want: Want,
    ) -> (MutexGuard<'a, State>, Result<Room>) {
        let priority = ticket.0;
        let since = Instant::now();
        let mut asked = since;
        let mut has_waited = false;
        // Sets the spill threads to work first: the outlook depends on what they can do.
        self.wake(&mut state);
        loop {
            if state.closed {
                return (state, Err(StoreError::Closed));
            }
            let situation = state.situation(priority, since);
            if state.ledger.is_served(ticket, want, situation.can_spill()) {
                let taken = self.take(&mut state, want);
                state.gave_up &= !has_waited;
                return (state, Ok(Room::Arena(taken)));
            }
            has_waited = true;
            state.outputs_starve |= priority == Priority::Output && !situation.can_spill();
            let outlook = situation.outlook(&self.options.patience(state.gave_up));
            match outlook {
                Outlook::FallBack => return (state, Ok(Room::FileSystem)),
                Outlook::DiskFull => {
                    let error = disk_full(&mut state, want.bytes());
                    return (state, Err(error));
                }
                Outlook::Wait => state = self.wait_for_room(state, ASK_AFTER),
                Outlook::WaitFor(limit) => state = self.wait_for_room(state, limit.min(ASK_AFTER)),
            }
            if asked.elapsed() >= ASK_AFTER {
                drop(state);
                let mut answer = (self.options.check_interrupted)();
                if answer.is_ok() && outlook == Outlook::Wait && !situation.can_spill() {
                    answer = (self.options.helpless.0)(want.bytes(), situation.quiet);
                }
                (state, asked) = (self.lock(), Instant::now());
                if let Err(why) = answer {
                    return (state, Err(StoreError::Interrupted(why)));
                }
            }
        }
    }

    fn wait_for_room<'a>(
        &self,
        state: MutexGuard<'a, State>,
        limit: Duration,
    ) -> MutexGuard<'a, State> {
        let waited = self.room.wait_timeout(state, limit);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Takes the memory if it fits, and gives memory back to the system where the budget asks for it.
    fn take(&self, state: &mut State, want: Want) -> Taken {
        let grant = state.ledger.take(want);
        self.punch(&grant.trimmed);
        grant.taken
    }

    /// Creates and maps a file in the first directory that takes it.
    fn file_memory(self: &Arc<Self>, bytes: u64) -> Result<Memory> {
        loop {
            let (index, path) = {
                let mut state = self.open_state()?;
                let Some(index) = state.directories.first_usable() else {
                    return Err(disk_full(&mut state, bytes));
                };
                (index, state.directories.path(index).to_owned())
            };
            let file = self.io.create_mappable(&path, bytes);
            let mapped = file.and_then(|file| Mapping::of_file(&file, bytes as usize));
            let mut state = self.lock();
            match mapped {
                Ok(mapping) => {
                    state.fallback_bytes += bytes;
                    return Ok(Memory::File(self.mapped_files.add(mapping)));
                }
                Err(error) => self.directory_failed(&mut state, index, &error),
            }
        }
    }
}

/// Returns the error for a request that has waited too long. From then on, full directories are worth another try: the
/// reader of the error may make room.
fn disk_full(state: &mut State, needed_bytes: u64) -> StoreError {
    let directories = state.directories.describe();
    state.directories.retry_full();
    state.gave_up = true;
    StoreError::DiskFull {
        needed_bytes,
        directories,
    }
}

/// Working memory taken out of the budget; given back on drop.
#[derive(Debug)]
pub struct Reservation {
    shared: Arc<Shared>,
    bytes: u64,
}

impl Reservation {
    /// Returns the number of bytes reserved.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shared.unreserve(self.bytes);
    }
}

/// Memory with an owner; goes back to the budget on drop.
#[derive(Debug)]
pub(crate) struct Owned {
    pub(crate) shared: Arc<Shared>,
    memory: Option<Memory>,
}

impl Owned {
    pub(crate) fn memory(&self) -> &Memory {
        self.memory
            .as_ref()
            .expect("memory is only taken by the methods that consume the owner")
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        self.memory().mapping()
    }

    /// Hands the memory over to the table as a sealed block, and returns the block's number.
    pub(crate) fn seal(mut self, layout: Layout) -> u64 {
        let shared = Arc::clone(&self.shared);
        if shared.is_elsewhere() {
            // No block has this number, and a request for it gets the reason.
            return u64::MAX;
        }
        let memory = self
            .memory
            .take()
            .expect("an owner is sealed once, because sealing consumes it");
        memory.rest();
        let mut state = shared.lock();
        let block = state.table.insert(layout, memory);
        if state.closed {
            let released = state.table.free(block).unwrap_or_default();
            shared.dispose(state, released);
        } else {
            shared.wake(&mut state);
        }
        block
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.shared.give_back(memory.ranges());
        }
    }
}
