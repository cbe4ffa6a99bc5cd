//! Gives idle memory in the allocators of a worker process back to the system while the process exceeds the memory set
//! apart for its task.
//!
//! The engine's process has a guard that does so where the limit of the program is near, but it cannot reach into other
//! processes. A worker that wrote 5 MB of 300 columns had 88-100 MB, of which 30-50 were in use, and was blamed for it.
//!
//! The thread that looks rests while no task runs. A look used to take 100 µs on busy cores, two hundred times a second
//! in each worker, also between tasks. With eight workers that was a third of the CPU time of tasks that only wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use pyo3::prelude::*;

use crate::memory::release_all;
use crate::own_memory::HeapSize;

/// The same as the guard's: a core touches at most 10 MB of fresh memory in this time.
const PERIOD: Duration = Duration::from_millis(5);
/// Memory in use stays above the bound for as long as it is in use. Another try is worthwhile once the process has
/// grown by this much.
const STEP_BYTES: u64 = 8 << 20;
/// The bound that says that nobody has to look.
const NO_BOUND: u64 = u64::MAX;

/// The bytes that this process may have before it looks for idle memory.
static BOUND: AtomicU64 = AtomicU64::new(NO_BOUND);
/// The thread that looks, once there is one.
static LOOKING: Mutex<Option<Thread>> = Mutex::new(None);

/// Gives idle memory back from now on while this process has more than so much; no longer, if that is None.
#[pyfunction]
#[pyo3(signature = (most))]
pub fn release_idle_above(most: Option<u64>) -> PyResult<()> {
    BOUND.store(most.unwrap_or(NO_BOUND), Ordering::SeqCst);
    if most.is_none() {
        return Ok(());
    }
    let mut looking = LOOKING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(thread) = looking.as_ref() {
        thread.unpark();
        return Ok(());
    }
    let begun = thread::Builder::new()
        .name("exoshuffle-idle".into())
        .spawn(|| watch(&HeapSize::open()))?;
    *looking = Some(begun.thread().clone());
    Ok(())
}

fn watch(size: &HeapSize) {
    let mut in_use = 0;
    loop {
        let bound = BOUND.load(Ordering::SeqCst);
        if bound == NO_BOUND {
            // If the bound is set in between, the thread goes on at once.
            thread::park();
            continue;
        }
        thread::sleep(PERIOD);
        let Some(bytes) = size.bytes() else { continue };
        in_use = in_use.min(bytes);
        if bytes > bound.max(in_use.saturating_add(STEP_BYTES)) {
            release_all();
            in_use = size.bytes().unwrap_or(bytes);
        }
    }
}
