//! Spilled bytes that are compressed: the same bytes come back, files are smaller, and damage is found.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, like tests"
)]
mod support;

use std::thread;
use std::time::Duration;

use exoshuffle_store::{BlockId, Codec, Priority, Store, StoreError, StoreOptions};
use support::{content, offsets, Script, Setup, UNIT};

const CODECS: [Codec; 2] = [Codec::Lz4, Codec::Zstd];
/// Around frames (256 KiB), reads (1 MiB) and writes (2 MiB).
const SIZES: [usize; 9] = [
    0,
    1,
    5000,
    (256 << 10) - 1,
    256 << 10,
    0,
    (256 << 10) + 1,
    3_000_000,
    77,
];

/// Words that repeat, or bytes without any pattern.
fn bytes(is_noise: bool, slice: usize, len: usize) -> Vec<u8> {
    match is_noise {
        true => content(3, slice, len),
        false => (0..len).map(|at| (at / 9 % 50 + slice) as u8).collect(),
    }
}

fn put(store: &Store, is_noise: bool, sizes: &[usize]) -> BlockId {
    let offsets = offsets(sizes);
    let mut block = store.allocate(&offsets, Priority::Output).unwrap();
    for (slice, &size) in sizes.iter().enumerate() {
        let start = offsets[slice] as usize;
        block.as_mut_slice()[start..start + size].copy_from_slice(&bytes(is_noise, slice, size));
    }
    block.seal()
}

/// Makes a store in which everything goes to disk at once.
fn packing(codec: Codec, units: u64) -> Setup {
    let mut setup = Setup::new(units, 1);
    setup.options.spill_threshold = 0.0;
    setup.options.spill_codec = Some(codec);
    // A spill that fails is an error, and not a wait.
    setup.options.disk_full_timeout = Duration::from_secs(1);
    setup
}

fn push_all_out(store: &Store) {
    drop(store.reserve(store.stats().budget_bytes).unwrap());
    assert_eq!(store.stats().used_blocks_bytes, 0);
}

#[test]
fn what_was_packed_comes_back_in_slices_and_whole() {
    for codec in CODECS {
        for is_noise in [false, true] {
            let setup = packing(codec, 200);
            let store = setup.open();
            let blocks = [(); 3].map(|()| put(&store, is_noise, &SIZES));
            push_all_out(&store);
            let stats = store.stats();
            match is_noise {
                true => assert!(
                    stats.written_bytes < stats.spilled_bytes + 3 * 8192,
                    "{stats:?}"
                ),
                false => assert!(stats.written_bytes < stats.spilled_bytes / 10, "{stats:?}"),
            }
            let starts = offsets(&SIZES);
            for block in blocks {
                let all: Vec<_> = (0..SIZES.len()).map(|slice| (block, Some(slice))).collect();
                let found = store.fetch(&all).unwrap();
                for (slice, found) in found.iter().enumerate() {
                    assert!(found.as_slice() == bytes(is_noise, slice, SIZES[slice]));
                    let is_aligned = found.as_slice().as_ptr() as u64 % 64 == starts[slice] % 64;
                    assert!(is_aligned || found.is_empty());
                }
                drop(found);
                // Alone, and in another order: where a slice comes to lie does not depend on those beside it.
                for order in [&[7][..], &[8, 2], &[6, 4, 1]] {
                    let wanted: Vec<_> = order.iter().map(|&slice| (block, Some(slice))).collect();
                    for (found, &slice) in store.fetch(&wanted).unwrap().iter().zip(order) {
                        assert!(found.as_slice() == bytes(is_noise, slice, SIZES[slice]));
                        assert_eq!(found.as_slice().as_ptr() as u64 % 64, starts[slice] % 64);
                    }
                }
                let whole = store.fetch(&[(block, None)]).unwrap().remove(0);
                for (slice, &size) in SIZES.iter().enumerate() {
                    let start = starts[slice] as usize;
                    assert!(whole.as_slice()[start..start + size] == bytes(is_noise, slice, size));
                }
                assert_eq!(
                    store.slice_bytes(block).unwrap(),
                    SIZES.map(|size| size as u64)
                );
            }
        }
    }
}

#[test]
fn more_readers_than_buffers_take_turns() {
    let setup = packing(Codec::Lz4, 400);
    let store = setup.open();
    let block = put(&store, false, &[200_000; 30]);
    push_all_out(&store);
    thread::scope(|scope| {
        for reader in 0..12 {
            let store = &store;
            scope.spawn(move || {
                for slice in (0..30).map(|slice| (slice + reader) % 30) {
                    let found = store.fetch(&[(block, Some(slice))]).unwrap();
                    assert!(found[0].as_slice() == bytes(false, slice, 200_000));
                }
            });
        }
    });
}

#[test]
fn a_damaged_byte_is_found_or_was_of_no_use() {
    const SIZES: [usize; 3] = [5000, 0, 9000];
    for codec in CODECS {
        let script = Script::new(|_| Ok(()));
        let setup = packing(codec, 4);
        let store = setup.open_scripted(&script);
        let block = put(&store, false, &SIZES);
        push_all_out(&store);
        let written = store.stats().written_bytes;
        let mut num_found = 0;
        for byte in 0..written {
            script.flip(Some(byte));
            for (slice, size) in SIZES.into_iter().enumerate() {
                match store.fetch(&[(block, Some(slice))]) {
                    Ok(found) => assert!(found[0].as_slice() == bytes(false, slice, size)),
                    Err(StoreError::Corrupt { slice: named, .. }) => {
                        assert_eq!(named, slice);
                        num_found += 1;
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
            // The part of the index that is kept must not outlive the damage.
            script.flip(None);
            let sound = store.fetch(&[(block, Some(0)), (block, Some(2))]);
            assert!(sound.is_ok(), "byte {byte}: {sound:?}");
        }
        assert!(num_found > 100, "{num_found} of {written}");
        assert_eq!(store.stats().used_blocks_bytes, 0);
    }
}

#[test]
fn a_damaged_head_of_a_frame_is_found_wherever_it_lies() {
    const SIZE: usize = 3_000_000;
    let script = Script::new(|_| Ok(()));
    let setup = packing(Codec::Lz4, 100);
    let store = setup.open_scripted(&script);
    let block = put(&store, true, &[SIZE]);
    push_all_out(&store);
    // Noise stays as it is, so that heads lie this far from each other.
    let frame = (256 << 10) + 4;
    for byte in (0..11).flat_map(|number| (0..4).map(move |byte| number * frame + byte)) {
        script.flip(Some(byte));
        let found = store.fetch(&[(block, Some(0))]);
        assert!(
            matches!(found, Err(StoreError::Corrupt { slice: 0, .. })),
            "byte {byte}: {found:?}"
        );
    }
    script.flip(None);
    let sound = store.fetch(&[(block, Some(0))]).unwrap();
    assert!(sound[0].as_slice() == content(3, 0, SIZE));
}

#[test]
fn its_buffers_are_counted_beside_the_budget() {
    let bytes = |codec, directories| {
        let mut options = StoreOptions::new(UNIT, vec!["/".into(); directories]);
        options.spill_codec = codec;
        options.packing_bytes()
    };
    assert_eq!(bytes(None, 1), 0);
    let one = bytes(Some(Codec::Lz4), 1);
    assert!((5 << 20..9 << 20).contains(&one), "{one}");
    assert!(bytes(Some(Codec::Lz4), 2) > one + (2 << 20));
    assert!(bytes(Some(Codec::Zstd), 1) > one);
}

#[test]
fn a_full_disk_leaves_blocks_in_memory() {
    let mut num_writes = 0;
    // Two writes of a block find room, and the third does not.
    let script = Script::new(move |_| {
        num_writes += 1;
        match num_writes {
            3.. => Err(support::no_space()),
            _ => Ok(()),
        }
    });
    let mut setup = packing(Codec::Lz4, 200);
    setup.options.disk_full_timeout = Duration::from_millis(1);
    setup.options.fallback_after = Duration::from_millis(1);
    let store = setup.open_scripted(&script);
    let block = put(&store, true, &[9_000_000, 40_000]);
    let full = store.reserve(store.stats().budget_bytes);
    assert!(matches!(full, Err(StoreError::DiskFull { .. })), "{full:?}");
    assert_eq!(store.stats().written_bytes, 0);
    let found = store.fetch(&[(block, Some(0)), (block, Some(1))]).unwrap();
    assert!(found[0].as_slice() == content(3, 0, 9_000_000));
    assert!(found[1].as_slice() == content(3, 1, 40_000));
}
