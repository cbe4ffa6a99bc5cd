//! Keeps the process under its memory limit: what lies idle in allocators goes back to the system when the limit is
//! near.
//!
//! Freed memory is kept for reuse, since fresh pages cost more to touch than to fill. The engine's budget covers what is
//! in use; what lies idle beside it is harmless only as long as there is room. A thread looks every few milliseconds, so
//! nothing on the way of the data has to.

use std::fs;
use std::process;
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use exoshuffle_allocator::Recycling;
use exoshuffle_io::BufferPool;
use pyo3::prelude::*;

use crate::store::Store;

/// Two cores touch at most 20 MB of fresh memory in this time, less than the slack that the engine keeps.
const PERIOD: Duration = Duration::from_millis(5);

type Running = (Sender<()>, JoinHandle<()>);

/// Watches the memory of the process until it is closed.
#[pyclass(frozen)]
pub struct MemoryGuard {
    running: Mutex<Option<Running>>,
    /// Which has the thread; a forked child has none.
    process: u32,
}

#[pymethods]
impl MemoryGuard {
    /// Releases idle memory whenever the process and its store have more than `limit_bytes`.
    #[new]
    fn new(store: &Store, limit_bytes: u64) -> PyResult<Self> {
        let store = Arc::downgrade(&store.0);
        let (sender, receiver) = channel::<()>();
        let watch = move || {
            while receiver.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                let Some(store) = store.upgrade() else { return };
                // Pages of the store come and go in the resident memory as blocks are mapped, faster than can be
                // watched, so all that it has is counted, mapped or not.
                let arena = store.stats().resident_arena_bytes;
                if own_bytes().is_some_and(|own| own + arena > limit_bytes) {
                    release_idle();
                }
            }
        };
        let thread = thread::Builder::new()
            .name("exoshuffle-guard".into())
            .spawn(watch)?;
        Ok(Self {
            running: Mutex::new(Some((sender, thread))),
            process: process::id(),
        })
    }

    /// Ends watching and releases what lies idle; harmless when repeated.
    fn close(&self, py: Python<'_>) {
        if self.is_elsewhere() {
            return;
        }
        let running = self
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some((sender, thread)) = running else {
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

impl MemoryGuard {
    /// Whether this process was forked from the one that is watched.
    fn is_elsewhere(&self) -> bool {
        self.process != process::id()
    }
}

impl Drop for MemoryGuard {
    fn drop(&mut self) {
        if self.is_elsewhere() {
            // The thread may have held for ever what it waits with, and there is no thread to let go of.
            let running = self.running.get_mut();
            std::mem::forget(running.unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

/// Gives back to the system what lies idle in the allocators of this process.
#[pyfunction]
pub fn release_idle_memory(py: Python<'_>) {
    py.detach(|| {
        release_idle();
        #[cfg(target_env = "gnu")]
        // SAFETY: it takes a number of bytes to keep, and may be called at any time.
        unsafe {
            libc::malloc_trim(0);
        }
    });
}

fn release_idle() {
    BufferPool::trim();
    Recycling::release_idle();
}

/// Resident memory of this process beside the store's: heaps, stacks and files; nothing where the system does not tell.
fn own_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some(field_bytes(&status, "RssAnon:")? + field_bytes(&status, "RssFile:")?)
}

fn field_bytes(status: &str, name: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
