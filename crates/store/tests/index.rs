//! How often the index of a spilled block is read.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, like tests"
)]
mod support;

use std::sync::Arc;
use std::thread;

use exoshuffle_store::{BlockId, Store, StoreError};
use support::{content, put, Script, Setup, UNIT};

/// Makes a store with one spilled block of slices of 100 bytes, and no reads so far.
fn with_spilled_block(num_slices: usize) -> (Setup, Arc<Script>, Store, BlockId) {
    let setup = Setup::new(16, 1);
    let script = Script::new(|_| Ok(()));
    let store = setup.open_scripted(&script);
    let block = put(&store, 1, &vec![100; num_slices]).unwrap();
    drop(store.reserve(16 * UNIT).unwrap());
    assert_eq!(
        (store.stats().used_blocks_bytes, script.num_reads()),
        (0, 0)
    );
    (setup, script, store, block)
}

fn fetch(store: &Store, block: BlockId, slice: usize) {
    let slices = store.fetch(&[(block, Some(slice))]).unwrap();
    assert!(slices[0].as_slice() == content(1, slice, 100));
}

#[test]
fn slices_read_in_order_share_the_pages_of_the_index() {
    for (num_slices, most_index_reads) in [(200, 2), (1000, 5)] {
        let (_setup, script, store, block) = with_spilled_block(num_slices);
        (0..num_slices).for_each(|slice| fetch(&store, block, slice));
        let num_index_reads = script.num_reads() - num_slices;
        assert!(
            (1..=most_index_reads).contains(&num_index_reads),
            "{num_index_reads}"
        );
    }
}

#[test]
fn slices_of_one_fetch_and_of_several_threads_share_them_too() {
    let (_setup, script, store, block) = with_spilled_block(200);
    let wanted: Vec<_> = (0..200).map(|slice| (block, Some(slice))).collect();
    drop(store.fetch(&wanted).unwrap());
    assert!(script.num_reads() <= 202, "{}", script.num_reads());
    thread::scope(|scope| {
        for first in 0..2 {
            let store = &store;
            scope.spawn(move || {
                (first..200)
                    .step_by(2)
                    .for_each(|slice| fetch(store, block, slice));
            });
        }
    });
}

#[test]
fn any_order_finds_every_slice() {
    let (_setup, _script, store, block) = with_spilled_block(1000);
    (0..1000)
        .rev()
        .for_each(|slice| fetch(&store, block, slice));
    (0..1000).for_each(|step| fetch(&store, block, step * 379 % 1000));
}

#[test]
fn a_page_that_was_read_wrong_is_read_again() {
    let (_setup, script, store, block) = with_spilled_block(200);
    // The checksum of slice 3, in the index behind 20000 bytes of data.
    script.flip(Some(20_000 + 3 * 16 + 8));
    let damaged = store.fetch(&[(block, Some(3))]);
    assert!(
        matches!(damaged, Err(StoreError::Corrupt { slice: 3, .. })),
        "{damaged:?}"
    );
    script.flip(None);
    fetch(&store, block, 3);
}

#[test]
fn sizes_of_slices_are_known_wherever_the_block_is() {
    let sizes: Vec<usize> = (0..1000).map(|slice| slice * 7 % 50).collect();
    let wanted: Vec<u64> = sizes.iter().map(|&size| size as u64).collect();
    let setup = Setup::new(16, 1);
    let script = Script::new(|_| Ok(()));
    let store = setup.open_scripted(&script);
    let block = put(&store, 1, &sizes).unwrap();
    assert_eq!(store.slice_bytes(block).unwrap(), wanted);
    assert_eq!(script.num_reads(), 0);
    drop(store.reserve(16 * UNIT).unwrap());
    assert_eq!(store.slice_bytes(block).unwrap(), wanted);
    assert!((1..=5).contains(&script.num_reads()), "the index alone");
    assert_eq!(store.stats().restored_bytes, 0);
    store.free(block).unwrap();
    assert!(matches!(
        store.slice_bytes(block),
        Err(StoreError::UnknownBlock { .. })
    ));
}
