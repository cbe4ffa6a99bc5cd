//! Keeps the program under its memory limit. Idle memory in allocators goes back to the system when the limit is near.
//! A worker process that would take the program beyond the limit is stopped.
//!
//! Freed memory is kept for reuse, since fresh pages cost more to touch than to fill. The engine's budget covers memory
//! in use; idle memory beside it is harmless only as long as there is room. A thread looks every few milliseconds, so
//! no code on the way of the data has to. Why not a limit of the system for each worker (`RLIMIT_DATA`)? It counts
//! memory that allocators set aside without touching it. And native code ends the process without a word when an
//! allocation fails.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use exoshuffle_allocator::libraries;
use exoshuffle_allocator::Recycling;
use exoshuffle_io::BufferPool;
use pyo3::prelude::*;

use crate::family::Family;
use crate::own_memory::OwnSize;
use crate::releaser::Releaser;
use crate::store::Store;
use crate::workers::{Worker, Workers, GROWTH_BYTES};

/// Two cores touch at most 20 MB of fresh memory in this time, less than the slack that the engine keeps.
pub const PERIOD: Duration = Duration::from_millis(5);
/// The period while a worker takes memory: one core fills up to 10 MB in this time, where it gets huge pages.
const HURRY: Duration = Duration::from_millis(1);

type Running = (Sender<()>, JoinHandle<()>);

/// Bounds of the program's resident memory.
#[derive(Clone, Copy)]
struct Limits {
    /// Above this, idle memory goes back to the system.
    release_bytes: u64,
    /// A worker is stopped if the program is about to exceed this, and one has more than is set apart for it.
    stop_bytes: u64,
}

/// Watches the memory of the program until it is closed.
#[pyclass(frozen)]
pub struct MemoryGuard {
    running: Mutex<Option<Running>>,
    workers: Arc<Mutex<Workers>>,
    peak: Arc<Mutex<Peak>>,
    /// The bytes that the program could take before idle memory goes back.
    room: Arc<AtomicU64>,
}

/// The most resident bytes that were found: in all, and of this process beside the store.
type Peak = (u64, u64);

#[pymethods]
impl MemoryGuard {
    /// Releases idle memory whenever the program has more than `release_bytes`, and stops a worker beyond `stop_bytes`.
    /// `code_bytes` of libraries count even when they were released: workers have them, or they come back.
    #[new]
    fn new(store: &Store, release_bytes: u64, stop_bytes: u64, code_bytes: u64) -> PyResult<Self> {
        let limits = Limits {
            release_bytes,
            stop_bytes,
        };
        let store = Arc::downgrade(&store.0);
        let workers: Arc<Mutex<Workers>> = Arc::default();
        let watched = Arc::clone(&workers);
        let peak: Arc<Mutex<Peak>> = Arc::default();
        let noted = Arc::clone(&peak);
        let room = Arc::new(AtomicU64::new(0));
        let left = Arc::clone(&room);
        let (sender, receiver) = channel::<()>();
        let releaser = Releaser::of(&store)?;
        let watch = move || {
            prefer_this_thread();
            let mut size = OwnSize::open();
            let mut grown = 0;
            loop {
                let period = if grown > GROWTH_BYTES { HURRY } else { PERIOD };
                if receiver.recv_timeout(period) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                let Some(store) = store.upgrade() else { return };
                // Pages of the store come and go in the resident memory as blocks are mapped, faster than can be
                // watched. So all memory of the store is counted, mapped or not.
                let arena = store.stats().resident_arena_bytes;
                let Some((heap, files)) = size.bytes() else {
                    continue;
                };
                let own = heap + files.max(code_bytes);
                let total = {
                    let mut workers = lock(&watched);
                    grown = workers.measure();
                    if own + arena + workers.soon_bytes() > limits.stop_bytes {
                        workers.weigh_shared();
                    }
                    let total = own + arena + workers.used_bytes();
                    // All cores may be busy with what grows, so the next look may be later than this one was. Without
                    // this, two workers took a program to 521 of 512 MB.
                    if total + 2 * workers.grown_beyond() > limits.stop_bytes {
                        workers.stop_worst();
                    }
                    total
                };
                left.store(
                    limits.release_bytes.saturating_sub(total),
                    Ordering::Relaxed,
                );
                {
                    let mut most = lock(&noted);
                    *most = (total, own).max(*most);
                }
                if total > limits.release_bytes {
                    releaser.start();
                }
            }
        };
        let thread = thread::Builder::new()
            .name("exoshuffle-guard".into())
            .spawn(watch)?;
        Ok(Self {
            running: Mutex::new(Some((sender, thread))),
            workers,
            peak,
            room,
        })
    }

    /// Returns the most resident bytes that were found: of the program, and of this process beside the store at that
    /// time.
    fn peak(&self, py: Python<'_>) -> (u64, u64) {
        py.detach(|| *lock(&self.peak))
    }

    /// Starts the peak anew.
    fn restart_peak(&self, py: Python<'_>) {
        py.detach(|| *lock(&self.peak) = (0, 0));
    }

    /// Returns the bytes that the program could take before idle memory goes back, when it was measured last.
    fn room(&self) -> u64 {
        self.room.load(Ordering::Relaxed)
    }

    /// Watches a worker from now on, with so much set apart for it.
    fn watch(&self, py: Python<'_>, process: i32, allowed_bytes: u64) -> PyResult<()> {
        py.detach(|| {
            let mut workers = lock(&self.workers);
            if workers.allow(process, allowed_bytes) {
                return Ok(());
            }
            workers.insert(process, Worker::of(Family::of(process)?, allowed_bytes));
            Ok(())
        })
    }

    /// Counts a process that workers are forked from. Nothing stops it: what it has is no task's fault.
    fn count(&self, py: Python<'_>, process: i32) -> PyResult<()> {
        py.detach(|| {
            let server = Worker::of(Family::alone(process)?, u64::MAX);
            lock(&self.workers).insert(process, server);
            Ok(())
        })
    }

    /// Returns the memory that a worker had when it was stopped, and the number of processes beside its own. Returns
    /// None if it was not stopped.
    fn stopped(&self, py: Python<'_>, process: i32) -> Option<(u64, usize)> {
        py.detach(|| lock(&self.workers).stopped(process))
    }

    /// Stops watching a child; to be called before another process can get its number.
    fn forget(&self, py: Python<'_>, process: i32) {
        py.detach(|| lock(&self.workers).remove(process));
    }

    /// Ends watching and releases idle memory; harmless when repeated.
    fn close(&self, py: Python<'_>) {
        let Some((sender, thread)) = lock(&self.running).take() else {
            return;
        };
        drop(sender);
        py.detach(|| {
            // A panic of the thread has been reported by its hook; closing goes on.
            let _ = thread.join();
            release_idle();
        });
    }
}

/// Has the system run this thread as soon as it wakes, where it can be told: cores may be busy with what is watched.
///
/// A short slice is for everybody, since Linux 6.12; to come before others is for the superuser.
#[cfg(target_os = "linux")]
fn prefer_this_thread() {
    const NICE: i32 = -10;
    const SLICE_NANOSECONDS: u64 = 100_000;
    // As `sched_setattr(2)` describes it, for the usual policy, 0.
    #[repr(C)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    for nice in [NICE, 0] {
        let attributes = Attributes {
            size: size_of::<Attributes>() as u32,
            policy: 0,
            flags: 0,
            nice,
            priority: 0,
            runtime: SLICE_NANOSECONDS,
            deadline: 0,
            period: 0,
        };
        // SAFETY: the call reads as many bytes as `size` says; 0 is this thread, and there are no flags.
        if unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } == 0 {
            return;
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn prefer_this_thread() {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives idle memory in the allocators of this process back to the system.
#[pyfunction]
pub fn release_idle_memory(py: Python<'_>) {
    py.detach(release_all);
}

/// Lets go of the pages of libraries that nobody has changed. Returns the most bytes that they had when it was called.
#[pyfunction]
pub fn release_libraries(py: Python<'_>) -> u64 {
    py.detach(libraries::release);
    libraries::most_released()
}

/// Releases all idle memory, for callers without Python.
pub fn release_all() {
    release_idle();
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number of bytes to keep, and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Releases idle memory of the native module's allocators.
pub fn release_idle() {
    BufferPool::trim();
    Recycling::release_idle();
}
