//! Knows which process a store belongs to. After `fork` a child has a copy of the books and of every handle, but none
//! of its parent's threads. It shares the arena and the spill files: memory that the child gave back would be taken
//! from its parent.
//!
//! Guarantee: the check takes no lock, since a thread that the child does not have may have held one, and no system
//! call.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

/// How many forks lie between this process and the one that asked first.
static FORKS: AtomicU64 = AtomicU64::new(0);
/// The answer of the system when it was asked to count forks: 0, or the number of an error.
static COUNTING: OnceLock<i32> = OnceLock::new();

unsafe extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home(u64);

impl Home {
    /// Returns this process.
    pub(crate) fn here() -> io::Result<Self> {
        // SAFETY: the handler adds to a number, which a child may do right after a fork. The handler stays loaded,
        // since modules of Python are never unloaded.
        let said =
            *COUNTING.get_or_init(|| unsafe { libc::pthread_atfork(None, None, Some(count)) });
        match said {
            0 => Ok(Self(FORKS.load(Ordering::Relaxed))),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Returns whether it is this process, and not one that this was forked from.
    pub(crate) fn is_here(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }
}
