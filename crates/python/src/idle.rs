//! Gives idle memory in the allocators of a worker process back to the system while the process exceeds the memory set
//! apart for its task.
//!
//! The engine's process has a guard that does so where the limit of the program is near, but it cannot reach into other
//! processes. A worker that wrote 5 MB of 300 columns had 88-100 MB, of which 30-50 were in use, and was blamed for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Once;
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

use crate::memory::{heap_bytes, release_all};

/// The same as the guard's: a core touches at most 10 MB of fresh memory in this time.
const PERIOD: Duration = Duration::from_millis(5);
/// Memory in use stays above the bound for as long as it is in use. Another try is worthwhile once the process has
/// grown by this much.
const STEP_BYTES: u64 = 8 << 20;

/// The bytes that this process may have before it looks for idle memory.
static BOUND: AtomicU64 = AtomicU64::new(u64::MAX);
static STARTED: Once = Once::new();

/// Gives idle memory back from now on while this process has more than so much.
#[pyfunction]
pub fn release_idle_above(most: u64) -> PyResult<()> {
    BOUND.store(most, Ordering::Relaxed);
    let mut started = Ok(());
    STARTED.call_once(|| {
        started = thread::Builder::new()
            .name("exoshuffle-idle".into())
            .spawn(watch)
            .map(drop);
    });
    Ok(started?)
}

fn watch() {
    let mut in_use = 0;
    loop {
        thread::sleep(PERIOD);
        let Some(bytes) = heap_bytes() else { continue };
        in_use = in_use.min(bytes);
        let bound = BOUND.load(Ordering::Relaxed);
        if bytes > bound.max(in_use.saturating_add(STEP_BYTES)) {
            release_all();
            in_use = heap_bytes().unwrap_or(bytes);
        }
    }
}
