//! A child that the process has forked gets an error from the store, and harms nothing of its parent's.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, like tests"
)]
mod support;

use exoshuffle_store::{Priority, StoreError};
use support::{content, put, Setup};

/// Runs `child` in a forked process; returns whether it came to its end and returned true.
fn holds_in_a_child(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child allocates and frees, which the allocator is made for. It touches nothing else that belongs to
    // other threads, and ends without coming back.
    unsafe {
        let process = libc::fork();
        if process == 0 {
            let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
            libc::_exit(i32::from(!held.unwrap_or(false)));
        }
        let mut status = -1;
        assert_eq!(libc::waitpid(process, &raw mut status, 0), process);
        status == 0
    }
}

#[test]
fn what_a_child_drops_and_closes_stays_with_its_parent() {
    let setup = Setup::new(16, 1);
    let store = setup.open();
    let kept = put(&store, 1, &[100_000]).unwrap();
    let block = store.allocate(&[0, 1000], Priority::Output).unwrap();
    let reservation = store.reserve(1000).unwrap();
    let slices = store.fetch(&[(kept, Some(0))]).unwrap();
    let before = store.stats();
    let handles = (store, block, reservation, slices);
    let handles = std::mem::ManuallyDrop::new(handles);
    let child = || {
        let mine = unsafe {
            // SAFETY: only in the child, which has a copy of its own.
            std::ptr::read(&raw const *handles)
        };
        let (store, block, reservation, slices) = mine;
        let is_read = slices[0].as_slice() == content(1, 0, 100_000);
        let is_refused = matches!(store.reserve(1), Err(StoreError::Forked))
            && matches!(store.free(kept), Err(StoreError::Forked))
            && matches!(store.fetch(&[(kept, None)]), Err(StoreError::Forked))
            && matches!(
                store.allocate(&[0, 1], Priority::Output),
                Err(StoreError::Forked)
            );
        block.seal();
        drop((reservation, slices));
        store.close();
        drop(store);
        is_read && is_refused
    };
    assert!(holds_in_a_child(child));
    let (store, block, reservation, slices) = std::mem::ManuallyDrop::into_inner(handles);
    assert_eq!(store.stats(), before);
    assert!(slices[0].as_slice() == content(1, 0, 100_000));
    drop((slices, reservation));
    store.free(block.seal()).unwrap();
    let again = store.fetch(&[(kept, Some(0))]).unwrap();
    assert!(again[0].as_slice() == content(1, 0, 100_000));
}

#[test]
fn a_child_of_a_child_and_a_store_of_its_own() {
    let setup = Setup::new(16, 1);
    let store = setup.open();
    let child = || {
        let own = setup.open();
        let block = put(&own, 2, &[1000]).unwrap();
        let is_mine = own.fetch(&[(block, None)]).is_ok();
        let grandchild = || {
            matches!(own.reserve(1), Err(StoreError::Forked))
                && matches!(store.reserve(1), Err(StoreError::Forked))
        };
        is_mine && holds_in_a_child(grandchild) && own.free(block).is_ok()
    };
    assert!(holds_in_a_child(child));
    assert!(store.reserve(1).is_ok());
}
