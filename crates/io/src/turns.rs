//! Turns of tasks that read rows so large that memory has room for one of them at a time.
//!
//! No plan knows where such rows are. Text does not tell the size of a row before its end. A page of Parquet tells only the
//! size of all its rows. Six texts of 20 MB among 100,000 short ones took 376 MB within 300, because two tasks came to
//! one each at the same time.
//!
//! Guarantee: a turn limits memory, but never stops progress. A task that has waited for [`PATIENCE`] goes on without the
//! turn, because the holder may wait for something that only others can do.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Longest wait. Reading a row of 100 MB and writing it takes less than a second, and a few in a debug build.
const PATIENCE: Duration = Duration::from_secs(10);

static TAKEN: Mutex<bool> = Mutex::new(false);
static GIVEN_BACK: Condvar = Condvar::new();

/// The only turn of this process, or none where waiting was in vain. Dropping it gives the turn back.
#[derive(Debug)]
pub(crate) struct Turn {
    is_held: bool,
}

impl Turn {
    /// Waits for the turn.
    pub(crate) fn take() -> Self {
        Self::take_within(PATIENCE)
    }

    fn take_within(patience: Duration) -> Self {
        let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = GIVEN_BACK.wait_timeout_while(taken, patience, |taken| *taken);
        let (mut taken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        let is_held = !timeout.timed_out();
        *taken |= is_held;
        Self { is_held }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.is_held {
            *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) = false;
            GIVEN_BACK.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn one_has_the_turn_and_nobody_waits_for_ever() {
        let first = Turn::take();
        assert!(first.is_held);
        let in_vain = Turn::take_within(Duration::ZERO);
        assert!(!in_vain.is_held);
        // A turn that was not held is not given back.
        drop(in_vain);
        assert!(!Turn::take_within(Duration::ZERO).is_held);
        let (sender, receiver) = channel();
        let waiting = std::thread::spawn(move || {
            let turn = Turn::take();
            sender.send(turn.is_held).unwrap();
        });
        drop(first);
        assert!(receiver.recv().unwrap());
        waiting.join().unwrap();
        assert!(Turn::take_within(Duration::ZERO).is_held);
    }
}
