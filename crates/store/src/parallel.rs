//! Runs a few jobs at once on borrowed data, for queue depth at the disk.

use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::error::Result;

/// Reads that one fetch has under way at once.
pub(crate) const READERS: usize = 4;

/// Runs `work` on every item on up to `threads` threads, this one included. Returns the first error seen; each thread
/// stops at its own.
pub(crate) fn for_each<T: Send>(
    threads: usize,
    items: Vec<T>,
    work: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    let helpers = threads.min(items.len()).saturating_sub(1);
    let queue = Mutex::new(items.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        while let Some(item) = next() {
            work(item)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        // If a thread cannot be started, the others do its work.
        let spawn = |_| {
            thread::Builder::new()
                .name("exoshuffle-restore".into())
                .spawn_scoped(scope, run)
                .ok()
        };
        let helpers: Vec<_> = (0..helpers).filter_map(spawn).collect();
        let mut result = run();
        for helper in helpers {
            match helper.join() {
                Ok(other) => result = result.and(other),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::StoreError;

    #[test]
    fn every_item_is_worked_on_once() {
        for threads in 0..5 {
            let mut items = vec![0; 100];
            for_each(threads, items.iter_mut().collect(), |item| {
                *item += 1;
                Ok(())
            })
            .unwrap();
            assert_eq!(items, [1; 100]);
        }
    }

    #[test]
    fn an_error_of_any_thread_comes_out() {
        let result = for_each(4, (0..100).collect(), |item| match item {
            57 => Err(StoreError::Closed),
            _ => Ok(()),
        });
        assert!(matches!(result, Err(StoreError::Closed)));
    }
}
