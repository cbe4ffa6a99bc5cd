//! Scripted failures of the disk, and the errors that requests get.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, like tests"
)]
mod support;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use exoshuffle_store::{Priority, Store, StoreError, StoreOptions};
use support::{broken, content, no_space, push_out, put, Script, Setup, UNIT};

/// Makes a store whose block 0 of three slices is on disk, at the start of the first file.
fn with_spilled_block(
    script: &std::sync::Arc<Script>,
) -> (Setup, Store, exoshuffle_store::BlockId) {
    let mut setup = Setup::new(4, 1);
    setup.options.spill_threshold = 0.0;
    let store = setup.open_scripted(script);
    let block = put(&store, 7, &[5000, 0, 9000]).unwrap();
    drop(store.reserve(4 * UNIT).unwrap());
    assert_eq!(store.stats().used_blocks_bytes, 0);
    (setup, store, block)
}

#[test]
fn corruption_is_found_in_the_slice_that_has_it() {
    let script = Script::new(|_| Ok(()));
    let (_setup, store, block) = with_spilled_block(&script);
    script.flip(Some(6000));
    let damaged = store.fetch(&[(block, Some(0)), (block, Some(2))]);
    assert!(
        matches!(
            damaged,
            Err(StoreError::Corrupt {
                slice: 2,
                offset: 5000,
                ..
            })
        ),
        "{damaged:?}"
    );
    let whole = store.fetch(&[(block, None)]);
    assert!(
        matches!(whole, Err(StoreError::Corrupt { slice: 2, .. })),
        "{whole:?}"
    );
    let sound = store.fetch(&[(block, Some(0)), (block, Some(1))]).unwrap();
    assert!(sound[0].as_slice() == content(7, 0, 5000) && sound[1].is_empty());
    drop(sound);
    assert_eq!(
        store.stats().used_blocks_bytes,
        0,
        "failed fetches keep no memory"
    );
}

#[test]
fn corruption_is_found_in_what_is_read_in_pieces() {
    const LARGE: usize = 9 << 20;
    let script = Script::new(|_| Ok(()));
    let mut setup = Setup::new(320, 1);
    setup.options.spill_threshold = 0.0;
    let store = setup.open_scripted(&script);
    let block = put(&store, 7, &[LARGE, 5000]).unwrap();
    drop(store.reserve(320 * UNIT).unwrap());
    assert_eq!(store.stats().used_blocks_bytes, 0);
    for byte in [1000, LARGE as u64 - 1000] {
        script.flip(Some(byte));
        for slice in [Some(0), None] {
            let damaged = store.fetch(&[(block, slice)]);
            assert!(
                matches!(damaged, Err(StoreError::Corrupt { slice: 0, .. })),
                "{damaged:?}"
            );
        }
    }
    script.flip(None);
    assert_eq!(store.fetch(&[(block, Some(0))]).unwrap()[0].len(), LARGE);
}

#[test]
fn a_damaged_index_is_corruption_too() {
    let script = Script::new(|_| Ok(()));
    let (_setup, store, block) = with_spilled_block(&script);
    // Entry 1 (offset 5000, checksum) of the index behind 14000 bytes of data.
    for byte in 14000 + 16..14000 + 16 + 12 {
        script.flip(Some(byte));
        let damaged = store.fetch(&[(block, Some(1))]);
        assert!(
            matches!(damaged, Err(StoreError::Corrupt { slice: 1, .. })),
            "{damaged:?}"
        );
        assert!(matches!(
            store.fetch(&[(block, None)]),
            Err(StoreError::Corrupt { .. })
        ));
    }
    script.flip(None);
    assert_eq!(store.fetch(&[(block, None)]).unwrap()[0].len(), 14000);
}

#[test]
fn a_full_directory_gives_way_to_the_other() {
    let mut setup = Setup::new(8, 2);
    setup.options.fuse_bytes = 2 * UNIT;
    let full: PathBuf = setup.directories[0].path().to_owned();
    let mut writes = 0;
    let script = Script::new(move |directory| {
        writes += u32::from(directory == full);
        if directory == full && writes > 1 {
            Err(no_space())
        } else {
            Ok(())
        }
    });
    let store = setup.open_scripted(&script);
    let blocks = push_out(&store, 40);
    assert_eq!(store.stats().num_blocks, 40);
    for (seed, block) in blocks.into_iter().enumerate() {
        let slice = store.fetch(&[(block, Some(0))]).unwrap();
        assert!(slice[0].as_slice() == content(1 << 32 | seed as u64, 0, slice[0].len()));
        drop(slice);
        store.free(block).unwrap();
    }
}

#[test]
fn one_request_waits_long_for_a_full_disk_and_others_do_not() {
    static HAS_WAITED: AtomicBool = AtomicBool::new(false);
    let mut setup = Setup::new(4, 1);
    setup.options.disk_full_timeout = Duration::from_secs(4);
    setup.options.check_interrupted = || {
        HAS_WAITED.store(true, Ordering::Relaxed);
        Ok(())
    };
    let store = setup.open_scripted(&Script::new(|_| Err(no_space())));
    let mut blocks: Vec<_> = (0..4)
        .map(|seed| put(&store, seed, &[1000]).unwrap())
        .collect();
    let refused = || {
        let begun = Instant::now();
        let error = store.reserve(5).unwrap_err();
        assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
        begun.elapsed()
    };
    let half = Duration::from_secs(2);
    assert!(refused() > half);
    assert!(refused() < half, "nothing was freed since");
    thread::scope(|scope| {
        HAS_WAITED.store(false, Ordering::Relaxed);
        let waiting = scope.spawn(|| store.reserve(5).unwrap());
        while !HAS_WAITED.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        store.free(blocks.pop().unwrap()).unwrap();
        waiting.join().unwrap();
    });
    put(&store, 5, &[1000]).unwrap();
    assert!(refused() > half, "a wait has helped");
}

#[test]
fn when_all_directories_are_full_the_error_names_them() {
    let mut setup = Setup::new(4, 2);
    setup.options.disk_full_timeout = Duration::from_millis(1);
    let first = setup.directories[0].path().to_owned();
    let named = first.display().to_string();
    let script = Script::new(move |directory| {
        Err(if directory == first {
            no_space()
        } else {
            broken()
        })
    });
    let store = setup.open_scripted(&script);
    let blocks: Vec<_> = (0..4)
        .map(|seed| put(&store, seed, &[1000]).unwrap())
        .collect();
    for error in [
        store.allocate(&[0, 5], Priority::Output).unwrap_err(),
        store.allocate(&[0, 5], Priority::Argument).unwrap_err(),
        store.reserve(5).unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(matches!(error, StoreError::DiskFull { .. }), "{text}");
        assert!(
            text.contains(&named) && text.contains("No space left") && text.contains("spill_dirs="),
            "{text}"
        );
    }
    let failed = store.stats().failed_spill_dirs;
    assert!(failed >= 1, "the broken one is never tried again");
    for (seed, block) in blocks.into_iter().enumerate() {
        let slice = store.fetch(&[(block, Some(0))]).unwrap();
        assert!(
            slice[0].as_slice() == content(seed as u64, 0, 1000),
            "nothing was lost"
        );
        store.free(block).unwrap();
    }
    store.reserve(4 * UNIT).unwrap();
}

#[test]
fn a_free_helps_while_the_disk_is_full() {
    let setup = Setup::new(4, 1);
    let (tried, wait_for_try) = mpsc::channel();
    let script = Script::new(move |_| {
        tried.send(()).unwrap();
        Err(no_space())
    });
    let store = setup.open_scripted(&script);
    let blocks: Vec<_> = (0..4)
        .map(|seed| put(&store, seed, &[1000]).unwrap())
        .collect();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| put(&store, 9, &[1000]).unwrap());
        wait_for_try.recv().unwrap();
        store.free(blocks[2]).unwrap();
        waiting.join().unwrap();
    });
}

#[test]
fn outputs_fall_back_to_the_file_system_when_all_is_pinned() {
    let mut setup = Setup::new(4, 1);
    setup.options.fallback_after = Duration::from_millis(1);
    let store = setup.open();
    let all = store.reserve(4 * UNIT).unwrap();
    let block = put(&store, 1, &[100_000, 3]).unwrap();
    assert!(store.stats().fallback_bytes >= 100_003);
    let slices = store.fetch(&[(block, Some(0)), (block, Some(1))]).unwrap();
    assert!(
        slices[0].as_slice() == content(1, 0, 100_000) && slices[1].as_slice() == content(1, 1, 3)
    );
    assert_eq!(store.stats().used_blocks_bytes, 0);
    store.free(block).unwrap();
    assert!(slices[0].as_slice() == content(1, 0, 100_000));
    drop((all, slices));
}

#[test]
fn requests_beyond_the_budget_fail_at_once_and_outputs_take_a_file() {
    let setup = Setup::new(4, 1);
    let store = setup.open();
    let text = store.reserve(5 * UNIT).unwrap_err().to_string();
    assert!(text.contains("327680") && text.contains("262144"), "{text}");
    assert!(matches!(
        store.allocate(&[0, 4 * UNIT], Priority::Argument),
        Err(StoreError::TooLarge { .. })
    ));
    let block = put(&store, 3, &[5 * UNIT as usize]).unwrap();
    let whole = store.fetch(&[(block, None)]).unwrap();
    assert!(whole[0].as_slice() == content(3, 0, 5 * UNIT as usize));
}

#[test]
fn close_wakes_everyone() {
    let mut setup = Setup::new(4, 1);
    setup.options.spill_threshold = 0.0;
    let (started, wait_for_start) = mpsc::channel();
    let script = Script::new(move |_| {
        let _ = started.send(());
        Ok(())
    });
    let store = setup.open_scripted(&script);
    let spilled = put(&store, 1, &[100]).unwrap();
    wait_for_start.recv().unwrap();
    let all = store.reserve(4 * UNIT).unwrap();
    thread::scope(|scope| {
        let (ready, wait_for_ready) = mpsc::channel();
        let spawn = |request: fn(&Store, exoshuffle_store::BlockId) -> StoreError| {
            let (ready, store) = (ready.clone(), &store);
            scope.spawn(move || {
                ready.send(()).unwrap();
                (request(store, spilled), Instant::now())
            })
        };
        let requests = [
            spawn(|store, _| store.allocate(&[0, 1], Priority::Output).unwrap_err()),
            spawn(|store, _| store.reserve(1).unwrap_err()),
            spawn(|store, block| store.fetch(&[(block, Some(0))]).unwrap_err()),
        ];
        (0..3).for_each(|_| wait_for_ready.recv().unwrap());
        let closing = Instant::now();
        store.close();
        for request in requests {
            let (error, woken) = request.join().unwrap();
            assert!(matches!(error, StoreError::Closed), "{error}");
            assert!(woken.saturating_duration_since(closing) < Duration::from_secs(2));
        }
    });
    drop(all);
    assert!(matches!(store.free(spilled), Err(StoreError::Closed)));
    assert!(matches!(store.reserve(0), Err(StoreError::Closed)));
}

#[test]
fn slices_survive_the_store() {
    let setup = Setup::new(4, 1);
    let store = setup.open();
    let block = put(&store, 1, &[100]).unwrap();
    let slice = store.fetch(&[(block, Some(0))]).unwrap().remove(0);
    let copy = slice.clone();
    let unsealed = store.allocate(&[0, 10], Priority::Output).unwrap();
    drop((store, slice));
    assert!(copy.as_slice() == content(1, 0, 100));
    unsealed.seal();
}

#[test]
fn bad_options_are_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let open = |path: PathBuf| Store::open(StoreOptions::new(1 << 20, vec![path])).unwrap_err();
    assert!(matches!(
        open(directory.path().join("none")),
        StoreError::SpillDirectoryMissing { .. }
    ));
    assert!(matches!(
        open(file),
        StoreError::SpillDirectoryNotADirectory { .. }
    ));
    assert!(matches!(
        open("/proc/self".into()),
        StoreError::SpillDirectoryNotWritable { .. }
    ));
    let small = Store::open(StoreOptions::new(100, vec![])).unwrap_err();
    assert!(small.to_string().contains("65536"), "{small}");
    let mut options = StoreOptions::new(1 << 20, vec![]);
    options.spill_threshold = 1.5;
    assert!(matches!(
        Store::open(options),
        Err(StoreError::InvalidThreshold { .. })
    ));
}

#[test]
fn unknown_slices_and_blocks_are_named() {
    let setup = Setup::new(4, 0);
    let store = setup.open();
    let block = put(&store, 1, &[10, 20]).unwrap();
    assert_eq!(
        (
            store.num_slices(block).unwrap(),
            store.block_bytes(block).unwrap()
        ),
        (2, 30)
    );
    assert!(matches!(
        store.fetch(&[(block, Some(2))]),
        Err(StoreError::NoSuchSlice {
            slice: 2,
            num_slices: 2,
            ..
        })
    ));
    store.free(block).unwrap();
    assert!(matches!(
        store.free(block),
        Err(StoreError::UnknownBlock { .. })
    ));
    assert!(store.fetch(&[]).unwrap().is_empty());
}
