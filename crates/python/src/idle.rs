//! Gives memory that lies idle in the allocators of a worker process back to the system while the process has more than
//! is set apart for its task.
//!
//! The engine's process has a guard that does so where the limit of the program is near, but cannot reach into those of
//! others: a worker that wrote 5 MB of 300 columns had 88-100 MB, of which 30-50 were in use, and was blamed for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Once;
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

use crate::memory::{heap_bytes, release_all};

/// As the guard's: a core touches at most 10 MB of fresh memory in this time.
const PERIOD: Duration = Duration::from_millis(5);
/// What is in use stays above the bound for as long as it is in use; it is worth another try when so much has come.
const STEP_BYTES: u64 = 8 << 20;

/// What this process may have before it looks for idle memory.
static BOUND: AtomicU64 = AtomicU64::new(u64::MAX);
static STARTED: Once = Once::new();

/// From now on, idle memory goes back while this process has more than so much.
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
