//! Idle memory goes back. A program of its own, because it looks at the resident memory of the whole process.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, like tests"
)]

use std::fs;
use std::hint::black_box;

use exoshuffle_allocator::Recycling;

#[global_allocator]
static ALLOCATOR: Recycling = Recycling;

const PAGE_BYTES: u64 = 4096;

fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * PAGE_BYTES
}

#[test]
fn idle_memory_goes_back() {
    let before = resident_bytes();
    // Not one piece: pieces larger than 8 MB go back by themselves.
    let pieces: Vec<_> = (0..200).map(|_| vec![1_u8; 1_000_000]).collect();
    drop(black_box(pieces));
    let kept = resident_bytes();
    Recycling::release_idle();
    let after = resident_bytes();
    assert!(
        kept > before + 20_000_000,
        "{before} bytes before, {kept} when freed: nothing was kept"
    );
    assert!(
        after < before + 10_000_000,
        "{before} bytes before, {after} after"
    );
}
