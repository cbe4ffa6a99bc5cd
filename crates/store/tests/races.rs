//! A block is pinned or freed exactly while it is being written, by holding up the write.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, like tests"
)]
mod support;

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::Arc;
use std::time::{Duration, Instant};

use exoshuffle_store::{BlockId, Helpless, Priority, Store, StoreError};
use support::{broken, content, put, Script, Setup, UNIT};

/// A store whose first block is being written; the write goes on once it is told how it ends.
struct Held {
    _setup: Setup,
    store: Arc<Store>,
    block: BlockId,
    go: Sender<std::io::Result<()>>,
}

fn hold_a_write() -> Held {
    hold_a_write_of(4, &[1000, 2000])
}

fn hold_a_write_of(units: u64, sizes: &[usize]) -> Held {
    let mut setup = Setup::new(units, 1);
    setup.options.spill_threshold = 0.0;
    let (started, wait_for_start) = mpsc::channel();
    let (go, wait_for_go): (_, Receiver<std::io::Result<()>>) = mpsc::channel();
    let script = Script::new(move |_| {
        let _ = started.send(());
        wait_for_go.recv().unwrap()
    });
    let store = Arc::new(setup.open_scripted(&script));
    let block = put(&store, 5, sizes).unwrap();
    wait_for_start.recv().unwrap();
    Held {
        _setup: setup,
        store,
        block,
        go,
    }
}

/// Waits until no block is left in memory: the reservation takes all of it.
fn wait_until_empty(store: &Store) {
    drop(store.reserve(4 * UNIT).unwrap());
}

#[test]
fn a_block_pinned_while_it_is_written_stays_until_unpinned() {
    let held = hold_a_write();
    let slices = held.store.fetch(&[(held.block, Some(1))]).unwrap();
    held.go.send(Ok(())).unwrap();
    // Room beside the pinned block comes at once; the block's own room only when it is let go.
    let beside = held.store.reserve(3 * UNIT).unwrap();
    assert_eq!(held.store.stats().used_blocks_bytes, UNIT);
    assert!(slices[0].as_slice() == content(5, 1, 2000));
    drop((slices, beside));
    wait_until_empty(&held.store);
    assert_eq!(held.store.stats().spilled_bytes, 4096, "written once");
    let again = held.store.fetch(&[(held.block, Some(1))]).unwrap();
    assert!(again[0].as_slice() == content(5, 1, 2000));
    assert!(held.store.stats().restored_bytes > 0);
}

#[test]
fn a_block_freed_while_it_is_written_is_gone_afterwards() {
    let held = hold_a_write();
    held.store.free(held.block).unwrap();
    assert_eq!(
        held.store.stats().used_blocks_bytes,
        UNIT,
        "the write still reads it"
    );
    let gone = held.store.fetch(&[(held.block, None)]);
    assert!(matches!(gone, Err(StoreError::UnknownBlock { .. })));
    held.go.send(Ok(())).unwrap();
    wait_until_empty(&held.store);
    assert_eq!(held.store.stats().num_blocks, 0);
}

#[test]
fn a_block_pinned_and_freed_while_it_is_written_lives_as_long_as_the_slice() {
    let held = hold_a_write();
    let slices = held.store.fetch(&[(held.block, None)]).unwrap();
    held.store.free(held.block).unwrap();
    held.go.send(Ok(())).unwrap();
    let beside = held.store.reserve(3 * UNIT).unwrap();
    assert!(slices[0].as_slice()[..1000] == content(5, 0, 1000));
    assert_eq!(held.store.stats().used_blocks_bytes, UNIT);
    drop((slices, beside));
    wait_until_empty(&held.store);
}

#[test]
fn a_block_whose_write_failed_is_still_in_memory() {
    let held = hold_a_write();
    held.go.send(Err(broken())).unwrap();
    let slices = held.store.fetch(&[(held.block, Some(0))]).unwrap();
    assert!(slices[0].as_slice() == content(5, 0, 1000));
    assert_eq!(held.store.stats().restored_bytes, 0);
    held.store.free(held.block).unwrap();
    drop(slices);
    wait_until_empty(&held.store);
    assert_eq!(held.store.stats().failed_spill_dirs, 1);
}

#[test]
fn a_request_that_is_interrupted_leaves_the_queue() {
    let mut setup = Setup::new(4, 1);
    setup.options.check_interrupted = || Err("a signal".into());
    let store = setup.open();
    let all = store.reserve(4 * UNIT).unwrap();
    let interrupted = store.reserve(4 * UNIT).unwrap_err();
    assert!(matches!(interrupted, StoreError::Interrupted(why) if why.to_string() == "a signal"));
    drop(all);
    assert_eq!(store.stats().reserved_bytes, 0);
    // The request would be refused if it had to wait behind the other.
    store.reserve(UNIT).unwrap();
}

#[test]
fn who_waits_for_what_only_others_can_free_asks_whether_they_will() {
    let mut setup = Setup::new(4, 1);
    setup.options.helpless = Helpless(Arc::new(|bytes, quiet| {
        (quiet < Duration::from_millis(300))
            .then_some(())
            .ok_or_else(|| format!("{bytes} bytes").into())
    }));
    let store = setup.open();
    let block = store.allocate(&[0, 1000], Priority::Output).unwrap().seal();
    // A block that the thread holds itself cannot be spilled.
    let held = store.fetch(&[(block, Some(0))]).unwrap();
    let since = Instant::now();
    let refused = store.reserve(4 * UNIT).unwrap_err();
    assert!(
        matches!(refused, StoreError::Interrupted(why) if why.to_string() == format!("{} bytes", 4 * UNIT))
    );
    assert!(since.elapsed() >= Duration::from_millis(300));
    drop(held);
    // Nobody is asked where a spill makes room.
    store.reserve(4 * UNIT).unwrap();
}

#[test]
fn closing_ends_a_spill_between_writes() {
    // The spill takes three writes; the second one would wait for ever.
    let held = hold_a_write_of(256, &[9 << 20]);
    let store = Arc::clone(&held.store);
    let closing = std::thread::spawn(move || store.close());
    while held.store.num_slices(held.block).is_ok() {
        std::thread::yield_now();
    }
    held.go.send(Ok(())).unwrap();
    closing.join().unwrap();
    let stats = held.store.stats();
    assert_eq!(
        (
            stats.used_blocks_bytes,
            stats.spill_files,
            stats.spilled_bytes
        ),
        (0, 0, 0)
    );
}
