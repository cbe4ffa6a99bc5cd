//! The largest row that a reader of text keeps while it looks for its end.
//!
//! Text does not say how long a row is before it has ended. What a process may hold of one is for its engine to say, once.

use std::sync::atomic::{AtomicUsize, Ordering};

static MAX_ROW_BYTES: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Bytes of a row of text beyond which it is an error.
pub fn max_row_bytes() -> usize {
    MAX_ROW_BYTES.load(Ordering::Relaxed)
}

/// Sets what `max_row_bytes` returns in this process.
pub fn set_max_row_bytes(bytes: usize) {
    MAX_ROW_BYTES.store(bytes, Ordering::Relaxed);
}
