//! The heart of the store: the state behind one lock, and every transition that gives something back.
//!
//! There are two conditions: `room` wakes requests, `work` wakes the spill threads. Every change of state ends in
//! `wake`, which notifies both if anyone could care, so that no transition can forget to. Waking is rare and cheap
//! compared with the work on the blocks.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::arena::{Arena, UNIT_BYTES};
use crate::budget::{Ledger, Priority};
use crate::directories::Directories;
use crate::error::{Result, StoreError};
use crate::home::Home;
use crate::mapped_files::MappedFiles;
use crate::options::StoreOptions;
use crate::policy::{Pressure, Situation};
use crate::ranges::Range;
use crate::spill_io::SpillIo;
use crate::stats::Stats;
use crate::table::{Released, Table};
use crate::unpacking::Unpackers;

/// The state that all handles of a store share.
pub(crate) struct Shared {
    pub(crate) options: StoreOptions,
    pub(crate) io: Arc<dyn SpillIo>,
    pub(crate) arena: Arena,
    pub(crate) mapped_files: MappedFiles,
    /// Where spilled bytes are compressed.
    pub(crate) unpackers: Option<Unpackers>,
    state: Mutex<State>,
    pub(crate) room: Condvar,
    work: Condvar,
    /// A copy of `State::closed` for loops that do not hold the lock.
    closed: AtomicBool,
    home: Home,
}

/// Everything that the lock guards.
pub(crate) struct State {
    pub(crate) closed: bool,
    pub(crate) ledger: Ledger,
    pub(crate) table: Table,
    pub(crate) directories: Directories,
    pub(crate) spillers: Vec<JoinHandle<()>>,
    pub(crate) spilled_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) restored_bytes: u64,
    pub(crate) fallback_bytes: u64,
    last_release: Instant,
    /// Whether a request has waited in vain for room on disks, and none has got what it waited for since.
    pub(crate) gave_up: bool,
    /// Whether an output found nothing to spill, and memory has been short since.
    pub(crate) outputs_starve: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl State {
    pub(crate) fn situation(&self, priority: Priority, since: Instant) -> Situation {
        Situation {
            priority,
            spilling: self.table.spilling_bytes() > 0,
            victims: self.table.has_spillable(),
            directories: self.directories.first_usable().is_some(),
            quiet: since.max(self.last_release).elapsed(),
        }
    }

    /// Returns how full the budget is.
    pub(crate) fn pressure(&self, options: &StoreOptions) -> Pressure {
        Pressure {
            budget_bytes: self.ledger.budget_bytes,
            threshold_bytes: options.threshold_bytes(),
            committed_bytes: self.ledger.committed_bytes(),
            leaving_bytes: self.table.spilling_bytes(),
            wanted_bytes: self.ledger.wanted_bytes(),
        }
    }
}

impl Shared {
    pub(crate) fn new(options: StoreOptions, io: Arc<dyn SpillIo>) -> Result<Self> {
        let bytes = options.budget_bytes;
        let refused = |source| StoreError::Arena { bytes, source };
        let home = Home::here().map_err(refused)?;
        let arena = Arena::create(bytes / UNIT_BYTES).map_err(refused)?;
        let unpackers = options.spill_codec.map(Unpackers::new).transpose();
        let unpackers = unpackers.map_err(refused)?;
        let state = State {
            closed: false,
            ledger: Ledger::new(bytes),
            table: Table::default(),
            directories: Directories::new(&options.spill_dirs),
            spillers: Vec::new(),
            spilled_bytes: 0,
            written_bytes: 0,
            restored_bytes: 0,
            fallback_bytes: 0,
            last_release: Instant::now(),
            gave_up: false,
            outputs_starve: false,
        };
        Ok(Self {
            options,
            io,
            arena,
            mapped_files: MappedFiles::new(home),
            unpackers,
            state: Mutex::new(state),
            room: Condvar::new(),
            work: Condvar::new(),
            closed: AtomicBool::new(false),
            home,
        })
    }

    /// Returns whether this process was forked from the one that has the store: it must neither lock nor give back
    /// anything.
    pub(crate) fn is_elsewhere(&self) -> bool {
        !self.home.is_here()
    }

    /// Locks the state, whether or not the store is closed. Not for a forked process.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // Every transition leaves the state whole before it can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state of an open store.
    pub(crate) fn open_state(&self) -> Result<MutexGuard<'_, State>> {
        if self.is_elsewhere() {
            return Err(StoreError::Forked);
        }
        let state = self.lock();
        if state.closed {
            return Err(StoreError::Closed);
        }
        Ok(state)
    }

    /// Returns whether long work should stop.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Lets every waiting thread look at the changed state.
    pub(crate) fn wake(self: &Arc<Self>, state: &mut State) {
        if state.ledger.someone_waits() {
            self.room.notify_all();
        }
        if !state.closed
            && state.table.has_spillable()
            && state.pressure(&self.options).excess_bytes() > 0
        {
            crate::spill::start(self, state);
            self.work.notify_all();
        }
    }

    /// Waits until there may be something to spill.
    pub(crate) fn wait_for_work<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.work
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn punch(&self, ranges: &[Range]) {
        for range in ranges {
            let punched = self.arena.punch(*range);
            debug_assert!(
                punched.is_ok(),
                "the arena could be punched when it was set up"
            );
        }
    }

    /// Notes that a directory takes no more files, and lets requests reconsider.
    pub(crate) fn directory_failed(
        self: &Arc<Self>,
        state: &mut State,
        index: usize,
        error: &io::Error,
    ) {
        state.directories.fail(index, error);
        self.wake(state);
    }

    pub(crate) fn give_back(self: &Arc<Self>, ranges: &[Range]) {
        if self.is_elsewhere() {
            return;
        }
        let mut state = self.lock();
        self.give_back_locked(&mut state, ranges);
        self.wake(&mut state);
    }

    fn give_back_locked(&self, state: &mut State, ranges: &[Range]) {
        state.ledger.give_back(ranges);
        state.last_release = Instant::now();
        if state.closed {
            self.punch(&state.ledger.trim_all());
        }
    }

    /// Books the memory that a transition released; the caller drops the value once the lock is gone.
    pub(crate) fn book(&self, state: &mut State, released: &Released) {
        if let Some(memory) = &released.memory {
            self.give_back_locked(state, memory.ranges());
        }
    }

    pub(crate) fn unreserve(self: &Arc<Self>, bytes: u64) {
        if self.is_elsewhere() {
            return;
        }
        let mut state = self.lock();
        state.ledger.unreserve(bytes);
        state.last_release = Instant::now();
        self.wake(&mut state);
    }

    /// Releases one pin of a block.
    pub(crate) fn unpin(self: &Arc<Self>, block: u64) {
        if self.is_elsewhere() {
            return;
        }
        let mut state = self.lock();
        let released = state.table.unpin(block);
        self.dispose(state, released);
    }

    /// Frees a block.
    pub(crate) fn free(self: &Arc<Self>, block: u64) -> Result<()> {
        let mut state = self.open_state()?;
        let released = state.table.free(block)?;
        self.dispose(state, released);
        Ok(())
    }

    /// Books released memory, then closes files and mappings outside the lock.
    pub(crate) fn dispose(self: &Arc<Self>, mut state: MutexGuard<'_, State>, released: Released) {
        self.book(&mut state, &released);
        self.wake(&mut state);
        drop(state);
        let freed_disk = released.disk.is_some();
        drop(released);
        if freed_disk {
            // A full directory may take files again.
            self.wake(&mut self.lock());
        }
    }

    /// Ends everything: wakes all waiters with `Closed`, joins the spill threads, frees all blocks that are not pinned.
    pub(crate) fn close(self: &Arc<Self>) {
        if self.is_elsewhere() {
            return;
        }
        let spillers = {
            let mut state = self.lock();
            state.closed = true;
            self.closed.store(true, Ordering::Relaxed);
            self.room.notify_all();
            self.work.notify_all();
            std::mem::take(&mut state.spillers)
        };
        for spiller in spillers {
            // A panic of a spill thread has been reported by its hook; closing goes on.
            let _ = spiller.join();
        }
        let mut state = self.lock();
        let mut released = Vec::new();
        for block in state.table.blocks() {
            released.extend(state.table.free(block));
        }
        for released in &released {
            self.book(&mut state, released);
        }
        self.punch(&state.ledger.trim_all());
        drop(state);
        drop(released);
    }

    pub(crate) fn stats(&self) -> Stats {
        if self.is_elsewhere() {
            return Stats::default();
        }
        let state = self.lock();
        Stats {
            budget_bytes: state.ledger.budget_bytes,
            used_blocks_bytes: state.ledger.used_bytes(),
            reserved_bytes: state.ledger.reserved_bytes,
            resident_arena_bytes: state.ledger.resident_bytes(),
            peak_bytes: state.ledger.peak_bytes,
            spilled_bytes: state.spilled_bytes,
            written_bytes: state.written_bytes,
            spill_files: state.directories.live_files(),
            restored_bytes: state.restored_bytes,
            fallback_bytes: state.fallback_bytes,
            num_blocks: state.table.len(),
            failed_spill_dirs: state.directories.failed() as u64,
        }
    }
}
