//! An open store keeps its memory in bounds; a closed one leaves no descriptor, no mapping and no file. Alone in its
//! process, so that the counts are its own.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, like tests"
)]
mod support;

use std::fs;
use std::os::unix::fs::MetadataExt;

use exoshuffle_store::Priority;
use support::{content, push_out, put, Setup, UNIT};

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn mappings() -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .filter(|line| line.contains("memfd:exoshuffle") || line.contains("(deleted)"))
        .count()
}

/// Returns the memory that the system holds for the arena, as the system counts it.
fn measured_arena_bytes() -> u64 {
    let links = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let is_arena = |path: &std::path::PathBuf| {
        fs::read_link(path)
            .is_ok_and(|target| target.to_string_lossy().contains("memfd:exoshuffle"))
    };
    let arena = links.map(|link| link.path()).find(is_arena).unwrap();
    fs::metadata(arena).unwrap().blocks() * 512
}

#[test]
fn nothing_is_left() {
    let before = (descriptors(), mappings());
    let mut setup = Setup::new(8, 2);
    setup.options.fallback_after = std::time::Duration::ZERO;
    let store = setup.open();
    let mut blocks = push_out(&store, 40);
    // Every other block goes, so that the next large one is scattered.
    for index in (0..blocks.len()).rev().step_by(2) {
        store.free(blocks.swap_remove(index)).unwrap();
    }
    blocks.push(put(&store, 1, &[5 * UNIT as usize]).unwrap());
    let slices = store
        .fetch(
            &blocks
                .iter()
                .take(4)
                .map(|&block| (block, None))
                .collect::<Vec<_>>(),
        )
        .unwrap();
    let reservation = store.reserve(3 * UNIT).unwrap();
    let (stats, measured) = (store.stats(), measured_arena_bytes());
    assert!(
        measured > 0 && measured <= stats.resident_arena_bytes,
        "{measured} {stats:?}"
    );
    assert!(measured + reservation.bytes() <= stats.budget_bytes);
    let fallback = put(&store, 2, &[20 * UNIT as usize]).unwrap();
    let view = store.fetch(&[(fallback, Some(0))]).unwrap();
    let unsealed = store.allocate(&[0, 10], Priority::Output).unwrap();
    assert!(mappings() > before.1 && descriptors() > before.0);
    drop(store);
    assert!(view[0].as_slice() == content(2, 0, 20 * UNIT as usize));
    drop((slices, reservation, view, unsealed));
    assert_eq!((descriptors(), mappings()), before);
    for directory in &setup.directories {
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
