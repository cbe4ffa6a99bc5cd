//! Slices and blocks seen through a view of the arena, as another process sees them.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, like tests"
)]
mod support;

use std::fs;
use std::io::ErrorKind;

use exoshuffle_store::{ArenaView, BlockId, Priority, Slice, Store};
use support::{content, put, Setup, UNIT};

fn view_of(store: &Store) -> ArenaView {
    ArenaView::open(store.arena_file().unwrap()).unwrap()
}

fn fetch(store: &Store, block: BlockId, slice: usize) -> Slice {
    store.fetch(&[(block, Some(slice))]).unwrap().remove(0)
}

/// Checks that the view shows the bytes of the slice; returns the number of pieces.
fn check(view: &ArenaView, slice: &Slice, expect: &[u8]) -> usize {
    let pieces = slice.pieces().unwrap();
    let total: u64 = pieces.iter().map(|(_, len)| len).sum();
    assert_eq!(total, slice.len() as u64);
    // SAFETY: the slice is held by the caller.
    let mapped = unsafe { view.slice(&pieces) }.unwrap();
    assert!(slice.as_slice() == expect && mapped.as_slice() == expect);
    pieces.len()
}

/// Leaves every other unit of an arena of 16 free, so that every larger block is scattered. Returns the blocks in the
/// other units.
fn scatter(store: &Store) -> Vec<BlockId> {
    let size = UNIT as usize - 4096;
    let blocks: Vec<_> = (0..16)
        .map(|seed| put(store, seed, &[size]).unwrap())
        .collect();
    let (kept, freed): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|block| block.0 % 2 == 0);
    freed
        .into_iter()
        .for_each(|block| store.free(block).unwrap());
    kept
}

#[test]
fn slices_of_a_contiguous_block_start_anywhere() {
    let setup = Setup::new(16, 0);
    let store = setup.open();
    let view = view_of(&store);
    let sizes = [0, 1, 4095, 5, 70_000, 0, 4096, 131_072, 3, 0];
    let block = put(&store, 1, &sizes).unwrap();
    for (index, &size) in sizes.iter().enumerate() {
        let slice = fetch(&store, block, index);
        let num_pieces = check(&view, &slice, &content(1, index, size));
        assert_eq!(num_pieces, usize::from(size > 0));
    }
    let whole = store.fetch(&[(block, None)]).unwrap();
    check(&view, &whole[0], whole[0].as_slice());
}

#[test]
fn slices_of_a_scattered_block_are_contiguous_in_the_view() {
    let setup = Setup::new(16, 0);
    let store = setup.open();
    let _others = scatter(&store);
    let view = view_of(&store);
    let sizes = [1000, 65_000, 65_072, 200_000, 7];
    let block = put(&store, 1, &sizes).unwrap();
    let num_pieces: Vec<_> = (0..sizes.len())
        .map(|index| {
            let expect = content(1, index, sizes[index]);
            check(&view, &fetch(&store, block, index), &expect)
        })
        .collect();
    // Ranges end at every 65 536 bytes, and so does the third slice.
    assert_eq!(num_pieces, [1, 2, 1, 4, 1]);
    let whole = store.fetch(&[(block, None)]).unwrap();
    assert_eq!(check(&view, &whole[0], whole[0].as_slice()), 6);
}

#[test]
fn restored_slices_are_seen_too() {
    let mut setup = Setup::new(16, 1);
    // Only the reservation below makes anything spill.
    setup.options.spill_threshold = 1.0;
    let store = setup.open();
    let view = view_of(&store);
    let sizes = [5000, 0, 100_001, 70_000, 1];
    let block = put(&store, 1, &sizes).unwrap();
    drop(store.reserve(16 * UNIT).unwrap());
    assert_eq!(store.stats().used_blocks_bytes, 0, "the block is on disk");
    let fillers = scatter(&store);
    let wanted: Vec<_> = (0..sizes.len()).map(|index| (block, Some(index))).collect();
    let slices = store.fetch(&wanted).unwrap();
    let mut num_pieces = 0;
    for (index, slice) in slices.iter().enumerate() {
        num_pieces += check(&view, slice, &content(1, index, sizes[index]));
    }
    assert!(store.stats().restored_bytes > 0);
    assert!(
        num_pieces > 4,
        "some of the four that have bytes are scattered"
    );
    fillers
        .into_iter()
        .for_each(|filler| store.free(filler).unwrap());
    let whole = store.fetch(&[(block, None)]).unwrap();
    check(&view, &whole[0], whole[0].as_slice());
}

#[test]
fn a_block_filled_through_the_view_is_what_is_fetched() {
    let setup = Setup::new(16, 0);
    let store = setup.open();
    let _others = scatter(&store);
    let view = view_of(&store);
    let sizes = [100_000, 1, 150_001];
    let mut block = store
        .allocate(&support::offsets(&sizes), Priority::Output)
        .unwrap();
    block.as_mut_slice().fill(0xee);
    let pieces = block.pieces().unwrap();
    assert!(pieces.len() > 3);
    // SAFETY: the block is held, and touched by nobody else until the view of it is dropped.
    let mut mapped = unsafe { view.block(&pieces) }.unwrap();
    let expect: Vec<u8> = (0..sizes.len())
        .flat_map(|index| content(9, index, sizes[index]))
        .collect();
    assert_eq!(mapped.as_mut_slice().len(), expect.len());
    mapped.as_mut_slice().copy_from_slice(&expect);
    drop(mapped);
    let block = block.seal();
    for (index, &size) in sizes.iter().enumerate() {
        check(
            &view,
            &fetch(&store, block, index),
            &content(9, index, size),
        );
    }
}

#[test]
fn memory_outside_the_arena_has_no_pieces() {
    let mut setup = Setup::new(4, 1);
    setup.options.fallback_after = std::time::Duration::ZERO;
    let store = setup.open();
    let offsets = [0, 0, 5 * UNIT];
    let block = store.allocate(&offsets, Priority::Output).unwrap();
    assert_eq!(block.pieces(), None);
    let block = block.seal();
    assert_eq!(fetch(&store, block, 0).pieces(), Some(vec![]));
    assert_eq!(fetch(&store, block, 1).pieces(), None);
}

#[test]
fn pieces_are_known_after_the_block_is_freed_and_the_store_closed() {
    let setup = Setup::new(4, 0);
    let store = setup.open();
    let view = view_of(&store);
    let block = put(&store, 3, &[100, 200]).unwrap();
    let slice = fetch(&store, block, 1);
    store.free(block).unwrap();
    check(&view, &slice, &content(3, 1, 200));
    store.close();
    check(&view, &slice, &content(3, 1, 200));
}

/// Returns the access of this process to the page of `address`, as the system shows it: `rw-s`.
fn access_to(address: *const u8) -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let covers = |line: &&str| {
        let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let span = usize::from_str_radix(from, 16).unwrap()..usize::from_str_radix(to, 16).unwrap();
        span.contains(&address.addr())
    };
    let line = maps.lines().find(covers).unwrap();
    line.split(' ').nth(1).unwrap().to_owned()
}

#[test]
fn slices_cannot_be_written_and_blocks_can() {
    let setup = Setup::new(4, 0);
    let store = setup.open();
    let view = view_of(&store);
    let block = store.allocate(&[0, 10], Priority::Output).unwrap();
    let pieces = block.pieces().unwrap();
    // SAFETY: the block is held, and nobody reads or writes any data here.
    let (read, mut write) = unsafe { (view.slice(&pieces).unwrap(), view.block(&pieces).unwrap()) };
    assert_eq!(access_to(read.as_slice().as_ptr()), "r--s");
    assert_eq!(access_to(write.as_mut_slice().as_ptr()), "rw-s");
}

#[test]
fn the_file_is_not_inherited_by_chance() {
    use std::os::fd::AsRawFd;
    let store = Setup::new(4, 0).open();
    let file = store.arena_file().unwrap();
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).unwrap();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = i32::from_str_radix(flags.unwrap().trim(), 8).unwrap();
    assert_ne!(flags & 0o2_000_000, 0, "O_CLOEXEC");
}

#[test]
fn pieces_that_are_no_slice_are_refused() {
    let store = Setup::new(4, 0).open();
    let view = view_of(&store);
    let end = 4 * UNIT;
    let refused: [&[(u64, u64)]; 8] = [
        &[(0, end + 1)],
        &[(end, 1)],
        &[(u64::MAX, 2)],
        &[(0, 0)],
        &[(UNIT, UNIT), (0, 0)],
        &[(0, 100), (UNIT, 100)],
        &[(0, UNIT), (UNIT + 100, 100)],
        &[(UNIT, UNIT - 1), (3 * UNIT, UNIT)],
    ];
    for pieces in refused {
        // SAFETY: nobody writes to this arena.
        let error = unsafe { view.slice(pieces) }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{pieces:?}: {error}");
    }
    // SAFETY: as above.
    let (last, none) = unsafe { (view.slice(&[(end - 5, 5)]), view.slice(&[])) };
    assert_eq!(last.unwrap().as_slice(), [0; 5]);
    assert!(none.unwrap().as_slice().is_empty());
}
