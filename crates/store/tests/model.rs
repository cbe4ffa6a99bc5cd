//! Random sequences of operations under a tiny budget, against a map of vectors.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, like tests"
)]
mod support;

use std::collections::HashMap;
use std::time::Duration;

use exoshuffle_store::{
    ArenaView, BlockId, Codec, Priority, Reservation, Slice, Store, StoreError,
};
use proptest::prelude::*;
use support::{content, offsets, put, Setup, UNIT};

const BUDGET_UNITS: u64 = 16;
const MOST_SLICES: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    Put(Vec<usize>),
    DropUnsealed(Vec<usize>),
    Fetch(Vec<(prop::sample::Index, Option<prop::sample::Index>)>),
    Free(prop::sample::Index),
    Reserve(u64),
    LetGo,
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![Just(0usize), 1usize..300, 1usize..60_000];
    let sizes = prop::collection::vec(size, 0..MOST_SLICES);
    let slice = prop::option::weighted(0.8, any::<prop::sample::Index>());
    let wanted = prop::collection::vec((any::<prop::sample::Index>(), slice), 0..3);
    prop_oneof![
        6 => sizes.clone().prop_map(Step::Put),
        1 => sizes.prop_map(Step::DropUnsealed),
        6 => wanted.prop_map(Step::Fetch),
        2 => any::<prop::sample::Index>().prop_map(Step::Free),
        2 => (0..BUDGET_UNITS * UNIT).prop_map(Step::Reserve),
        1 => Just(Step::LetGo),
    ]
}

/// The store next to its expected content.
struct Model {
    store: Store,
    view: ArenaView,
    blocks: Vec<(BlockId, Vec<Vec<u8>>)>,
    held: Vec<(Slice, Vec<u8>)>,
    reservations: Vec<Reservation>,
    seed: u64,
}

impl Model {
    fn apply(&mut self, step: Step) {
        match step {
            Step::Put(sizes) => {
                self.seed += 1;
                let block = put(&self.store, self.seed, &sizes).unwrap();
                let slices = sizes
                    .iter()
                    .enumerate()
                    .map(|(slice, &size)| content(self.seed, slice, size));
                self.blocks.push((block, slices.collect()));
            }
            Step::DropUnsealed(sizes) => {
                drop(
                    self.store
                        .allocate(&offsets(&sizes), Priority::Output)
                        .unwrap(),
                );
            }
            Step::Fetch(wanted) => self.fetch(&wanted),
            Step::Free(index) if !self.blocks.is_empty() => {
                let (block, _) = self.blocks.swap_remove(index.index(self.blocks.len()));
                self.store.free(block).unwrap();
                let again = self.store.fetch(&[(block, None)]);
                assert!(matches!(again, Err(StoreError::UnknownBlock { .. })));
            }
            Step::Free(_) => {}
            Step::Reserve(bytes) => {
                let stats = self.store.stats();
                let taken = stats.used_blocks_bytes + stats.reserved_bytes;
                // A thread that waits for its own pins, alone in the world, waits for ever.
                if taken + bytes > stats.budget_bytes {
                    self.let_go();
                }
                self.reservations.push(self.store.reserve(bytes).unwrap());
            }
            Step::LetGo => self.let_go(),
        }
        let stats = self.store.stats();
        let reserved: u64 = self.reservations.iter().map(Reservation::bytes).sum();
        assert_eq!(stats.reserved_bytes, reserved);
        assert!(
            stats.resident_arena_bytes + reserved <= stats.budget_bytes,
            "{stats:?}"
        );
        assert!(
            stats.used_blocks_bytes <= stats.resident_arena_bytes
                && stats.peak_bytes <= stats.budget_bytes
        );
        assert_eq!(stats.num_blocks, self.blocks.len() as u64);
        self.check_held();
    }

    fn fetch(&mut self, wanted: &[(prop::sample::Index, Option<prop::sample::Index>)]) {
        if self.blocks.is_empty() {
            return;
        }
        self.let_go();
        let (mut ask, mut expect) = (Vec::new(), Vec::new());
        for (block, slice) in wanted {
            let (block, slices) = &self.blocks[block.index(self.blocks.len())];
            let slice = slice
                .filter(|_| !slices.is_empty())
                .map(|slice| slice.index(slices.len()));
            ask.push((*block, slice));
            expect.push(slice.map_or_else(|| slices.concat(), |slice| slices[slice].clone()));
        }
        let got = self.store.fetch(&ask).unwrap();
        assert_eq!(got.len(), expect.len());
        self.held = got.into_iter().zip(expect).collect();
    }

    fn check_held(&self) {
        for (slice, expect) in &self.held {
            assert!(slice.as_slice() == expect, "a held slice has changed");
            if let Some(pieces) = slice.pieces() {
                // SAFETY: the slice is held for longer than its mapping.
                let mapped = unsafe { self.view.slice(&pieces) }.unwrap();
                assert!(mapped.as_slice() == expect, "the view shows something else");
            }
        }
    }

    fn let_go(&mut self) {
        self.held.clear();
        self.reservations.clear();
    }
}

fn run(steps: Vec<Step>, directories: usize, codec: Option<Codec>) {
    let mut setup = Setup::new(BUDGET_UNITS, directories);
    setup.options.fallback_after = Duration::ZERO;
    setup.options.fuse_bytes = 5 * UNIT;
    setup.options.spill_codec = codec;
    let store = setup.open();
    let view = ArenaView::open(store.arena_file().unwrap()).unwrap();
    let mut model = Model {
        store,
        view,
        blocks: vec![],
        held: vec![],
        reservations: vec![],
        seed: 0,
    };
    for step in steps {
        model.apply(step);
    }
    let everything: HashMap<_, _> = model.blocks.drain(..).collect();
    model.let_go();
    for (block, slices) in everything {
        let got = model.store.fetch(&[(block, None)]).unwrap();
        assert!(got[0].as_slice() == slices.concat());
        model.store.free(block).unwrap();
    }
    model.store.close();
    let stats = model.store.stats();
    assert_eq!(
        (stats.used_blocks_bytes, stats.num_blocks, stats.spill_files),
        (0, 0, 0)
    );
    assert_eq!(stats.resident_arena_bytes, 0);
    assert!(matches!(model.store.reserve(1), Err(StoreError::Closed)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_is_a_map_of_vectors(
        steps in prop::collection::vec(step(), 1..120),
        directories in 1usize..3,
        codec in prop::sample::select(vec![None, Some(Codec::Lz4), Some(Codec::Zstd)]),
    ) {
        run(steps, directories, codec);
    }
}
