//! Slices that lie side by side are brought back together: each page is read once, and takes memory once.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, like tests"
)]
mod support;

use exoshuffle_store::{BlockId, PAGE_BYTES};
use support::{content, put, Script, Setup, UNIT};

/// Returns the sizes of slices: most of a few bytes, some of none and a few of several pages, in 13 units.
fn sizes() -> Vec<usize> {
    (0..2_000)
        .map(|slice| match slice % 500 {
            499 => 3 * PAGE_BYTES as usize + 7,
            small => small % 83,
        })
        .collect()
}

fn check(store: &exoshuffle_store::Store, block: BlockId, wanted: &[usize]) {
    let requests: Vec<_> = wanted.iter().map(|&slice| (block, Some(slice))).collect();
    let found = store.fetch(&requests).unwrap();
    for (slice, &index) in found.iter().zip(wanted) {
        assert!(slice.as_slice() == content(7, index, sizes()[index]));
    }
}

#[test]
fn many_small_slices_take_no_page_each() {
    let mut setup = Setup::new(4, 1);
    setup.options.spill_threshold = 0.0;
    let script = Script::new(|_| Ok(()));
    let store = setup.open_scripted(&script);
    let block = put(&store, 7, &sizes()).unwrap();
    drop(store.reserve(4 * UNIT).unwrap());
    assert_eq!(store.stats().used_blocks_bytes, 0, "the block was spilled");
    let all: Vec<usize> = (0..sizes().len()).collect();
    // With a page for each it would wait for ever: the store has four units, of 16 pages each or more.
    assert!(sizes().len() as u64 * PAGE_BYTES > 4 * UNIT);
    check(&store, block, &all);
    let data: usize = sizes().iter().sum();
    let pages = (data as u64).next_multiple_of(PAGE_BYTES);
    assert!(store.stats().restored_bytes <= pages);
    assert_eq!(script.largest_read() as u64, pages, "one request for all");
    // In other orders, with gaps, and twice.
    check(&store, block, &[5, 4, 3, 900, 901, 901, 499, 500, 0]);
    check(&store, block, &[499, 498, 999, 1999]);
    // A damaged byte is found in a page that slices share.
    script.flip(Some(100));
    let damaged = store.fetch(&[(block, Some(13)), (block, Some(14)), (block, Some(15))]);
    assert!(damaged.is_err());
}
