//! Small parts of blocks are copied once outputs find no room, so that the blocks stay free to be spilled.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, like tests"
)]
mod support;

use std::time::Duration;

use exoshuffle_store::{BlockId, Slice, Store};
use support::{content, put, Setup, UNIT};

/// Three slices in two units: small, small, most of the block. They start at odd places.
const SIZES: [usize; 3] = [101, 5000, 100_000];

fn fetched(store: &Store, block: BlockId, wanted: &[usize]) -> Vec<Slice> {
    let wanted: Vec<_> = wanted.iter().map(|&slice| (block, Some(slice))).collect();
    let slices = store.fetch(&wanted).unwrap();
    for (slice, &(_, index)) in slices.iter().zip(&wanted) {
        let index = index.unwrap();
        assert!(slice.as_slice() == content(7, index, SIZES[index]));
    }
    slices
}

/// Makes a store of eight units with one block. Memory is short once so many hundredths of it are taken.
fn store_of(hundredths: u32) -> (Setup, Store, BlockId) {
    let mut setup = Setup::new(8, 1);
    setup.options.spill_threshold = f64::from(hundredths) / 100.0;
    setup.options.fallback_after = Duration::from_millis(1);
    let store = setup.open();
    let block = put(&store, 7, &SIZES).unwrap();
    (setup, store, block)
}

/// Lets an output find neither room nor anything to be spilled: all is pinned or reserved.
fn starve(store: &Store, block: BlockId) {
    let _pinned = store.fetch(&[(block, None)]).unwrap();
    let _rest = store.reserve(6 * UNIT).unwrap();
    let output = put(store, 9, &[1000]).unwrap();
    assert!(store.stats().fallback_bytes > 0);
    store.free(output).unwrap();
}

#[test]
fn small_parts_are_copied_when_outputs_find_no_room() {
    let (_setup, store, block) = store_of(50);
    starve(&store, block);
    let _short = store.reserve(2 * UNIT + 1).unwrap();
    let slices = fetched(&store, block, &[1, 0]);
    assert_eq!(
        store.stats().restored_bytes,
        0,
        "the block was still in memory"
    );
    assert_eq!(store.stats().used_blocks_bytes, 3 * UNIT);
    drop(store.reserve(4 * UNIT).unwrap());
    assert_eq!(
        store.stats().used_blocks_bytes,
        UNIT,
        "the block was spilled meanwhile"
    );
    assert!(slices[0].as_slice() == content(7, 1, SIZES[1]));
    assert!(slices[1].as_slice() == content(7, 0, SIZES[0]));
}

#[test]
fn copies_are_aligned_as_in_the_block() {
    let (_setup, store, block) = store_of(50);
    let places = |slices: &[Slice]| -> Vec<usize> {
        let place = |slice: &Slice| slice.as_slice().as_ptr().addr() % 64;
        slices.iter().map(place).collect()
    };
    let pinned = places(&fetched(&store, block, &[0, 1]));
    assert_eq!(pinned, [0, 101 % 64]);
    starve(&store, block);
    let _short = store.reserve(2 * UNIT + 1).unwrap();
    let copied = fetched(&store, block, &[0, 1]);
    assert_eq!(store.stats().used_blocks_bytes, 3 * UNIT);
    assert_eq!(places(&copied), pinned);
}

#[test]
fn while_outputs_find_room_nothing_is_copied() {
    let (_setup, store, block) = store_of(50);
    let _short = store.reserve(2 * UNIT + 1).unwrap();
    let slices = fetched(&store, block, &[0, 1]);
    assert_eq!(store.stats().used_blocks_bytes, 2 * UNIT);
    assert!(slices[0].pieces() == Some(vec![(0, 101)]));
}

#[test]
fn once_memory_is_no_longer_short_nothing_is_copied() {
    let (_setup, store, block) = store_of(50);
    starve(&store, block);
    drop(fetched(&store, block, &[0, 1]));
    let _short = store.reserve(2 * UNIT + 1).unwrap();
    let _slices = fetched(&store, block, &[0, 1]);
    assert_eq!(store.stats().used_blocks_bytes, 2 * UNIT);
}

#[test]
fn most_of_a_block_is_pinned_as_it_is() {
    let (_setup, store, block) = store_of(50);
    starve(&store, block);
    let _short = store.reserve(2 * UNIT + 1).unwrap();
    let slices = fetched(&store, block, &[0, 2]);
    assert_eq!(store.stats().used_blocks_bytes, 2 * UNIT);
    drop(slices);
    let whole = store.fetch(&[(block, None)]).unwrap();
    assert_eq!(whole[0].len(), SIZES.iter().sum::<usize>());
    assert_eq!(store.stats().used_blocks_bytes, 2 * UNIT);
}

#[test]
fn without_a_place_to_spill_to_nothing_is_copied() {
    let mut setup = Setup::new(8, 0);
    setup.options.disk_full_timeout = Duration::from_millis(1);
    let store = setup.open();
    let block = put(&store, 7, &SIZES).unwrap();
    let _short = store.reserve(6 * UNIT).unwrap();
    assert!(put(&store, 9, &[1000]).is_err());
    let _slices = fetched(&store, block, &[0]);
    assert_eq!(store.stats().used_blocks_bytes, 2 * UNIT);
}

#[test]
fn what_is_copied_and_what_is_read_come_together() {
    let (_setup, store, spilled) = store_of(75);
    starve(&store, spilled);
    let resident = put(&store, 8, &SIZES).unwrap();
    let _short = store.reserve(5 * UNIT).unwrap();
    let wanted = [(resident, Some(0)), (spilled, Some(1)), (resident, Some(1))];
    let slices = store.fetch(&wanted).unwrap();
    assert!(slices[0].as_slice() == content(8, 0, SIZES[0]));
    assert!(slices[1].as_slice() == content(7, 1, SIZES[1]));
    assert!(slices[2].as_slice() == content(8, 1, SIZES[1]));
    let stats = store.stats();
    assert_eq!(stats.restored_bytes, 8192, "two pages of one block");
    assert_eq!(
        stats.used_blocks_bytes,
        3 * UNIT,
        "the other is still in memory"
    );
}
