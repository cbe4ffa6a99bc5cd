//! Zeroed memory comes from kept memory. A program of its own, because it would also take memory that other tests free.
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

/// Returns the number of pages that the system has given to this thread.
fn pages_touched() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    // Field 10 of proc(5), where the name is field 2: faults that needed no disk.
    fields.split_whitespace().nth(7).unwrap().parse().unwrap()
}

#[test]
fn zeroed_memory_is_memory_that_was_kept() {
    const BYTES: usize = 1 << 20;
    const TIMES: u64 = 100;
    drop(black_box(vec![7_u8; BYTES]));
    let before = pages_touched();
    for _ in 0..TIMES {
        let zeroed = black_box(vec![0_u8; BYTES]);
        assert!(zeroed.iter().all(|&byte| byte == 0));
        drop(black_box(vec![7_u8; BYTES]));
    }
    let touched = pages_touched() - before;
    let fresh = TIMES * BYTES as u64 / PAGE_BYTES;
    assert!(
        touched < fresh / 10,
        "{touched} pages of {fresh} were fresh"
    );
}
