//! Which process a store is of. After `fork` a child has a copy of the books and of every handle, but no thread of its
//! parent's, and shares the arena and the spill files: what it gave back there would be taken from its parent.
//!
//! Guarantee: it is found out without a lock, since a thread may have held one that the child does not have, and without
//! a system call.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

/// How many forks lie between this process and the one that asked first.
static FORKS: AtomicU64 = AtomicU64::new(0);
/// What the system said when it was asked to have forks counted: 0, or the number of an error.
static COUNTING: OnceLock<i32> = OnceLock::new();

unsafe extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home(u64);

impl Home {
    /// This process.
    pub(crate) fn here() -> io::Result<Self> {
        // SAFETY: the handler adds to a number, which a child may do right after a fork; it stays loaded, since modules of
        // Python are never unloaded.
        let said =
            *COUNTING.get_or_init(|| unsafe { libc::pthread_atfork(None, None, Some(count)) });
        match said {
            0 => Ok(Self(FORKS.load(Ordering::Relaxed))),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Whether it is this one, and not one that this was forked from.
    pub(crate) fn is_here(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }
}
