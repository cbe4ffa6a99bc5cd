//! Several threads push ten times the budget through the store, as a shuffle does: map, merge, reduce.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, like tests"
)]
mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use exoshuffle_store::{BlockId, Store};
use support::{content, put, Setup, UNIT};

const BUDGET_UNITS: u64 = 96;
const THREADS: usize = 4;
const MAPS: usize = 160;
const REDUCES: usize = 16;

fn sizes_of(map: usize) -> Vec<usize> {
    (0..REDUCES)
        .map(|slice| (map * 7919 + slice * 104_729) % 49_000)
        .collect()
}

/// Runs jobs 0..`count` on all threads.
fn on_all_threads(count: usize, job: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let (next, job) = (&next, &job);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(move || loop {
                match next.fetch_add(1, Ordering::Relaxed) {
                    number if number < count => job(number),
                    _ => break,
                }
            });
        }
    });
}

fn check_budget(store: &Store) {
    let stats = store.stats();
    assert!(
        stats.resident_arena_bytes + stats.reserved_bytes <= stats.budget_bytes,
        "{stats:?}"
    );
}

#[test]
fn ten_times_the_budget_goes_through() {
    let mut setup = Setup::new(BUDGET_UNITS, 2);
    setup.options.fuse_bytes = 2 << 20;
    setup.options.fallback_after = Duration::from_secs(30);
    let store = setup.open();
    let blocks: Mutex<Vec<Option<BlockId>>> = Mutex::new(vec![None; MAPS]);
    on_all_threads(MAPS, |map| {
        let _working = store.reserve(6 * UNIT).unwrap();
        let block = put(&store, map as u64, &sizes_of(map)).unwrap();
        blocks.lock().unwrap()[map] = Some(block);
        check_budget(&store);
    });
    let blocks: Vec<BlockId> = blocks.into_inner().unwrap().into_iter().flatten().collect();
    let total: usize = (0..MAPS).flat_map(sizes_of).sum();
    assert!(total as u64 >= 9 * BUDGET_UNITS * UNIT);
    on_all_threads(REDUCES * MAPS / 8, |job| {
        let (slice, first) = (job % REDUCES, job / REDUCES * 8);
        let wanted: Vec<_> = (first..first + 8)
            .map(|map| (blocks[map], Some(slice)))
            .collect();
        let slices = store.fetch(&wanted).unwrap();
        for (map, got) in (first..).zip(&slices) {
            assert!(got.as_slice() == content(map as u64, slice, sizes_of(map)[slice]));
        }
        check_budget(&store);
    });
    on_all_threads(MAPS, |map| store.free(blocks[map]).unwrap());
    let stats = store.stats();
    assert!(
        stats.peak_bytes <= stats.budget_bytes && stats.spilled_bytes > 5 * stats.budget_bytes,
        "{stats:?}"
    );
    assert_eq!((stats.num_blocks, stats.fallback_bytes), (0, 0));
    store.close();
    assert_eq!(store.stats().used_blocks_bytes, 0);
}
