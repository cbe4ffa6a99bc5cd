//! Every way in which rows can get lost between maps and reduces is found, and named.

#![allow(clippy::unwrap_used, reason = "a test that fails should stop")]

mod support;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use exoshuffle_kernels::{
    Assignment, CheckError, GatheredRows, KernelError, Position, Result, RowLayout, Scatter,
    Sections,
};
use proptest::prelude::*;
use support::columns::Random;
use support::tables::{shape, table, Shape};

const HEADER_BYTES: usize = 40;

/// Returns the slice that each split sends to one partition.
fn slices(layout: &RowLayout, splits: &[Vec<RecordBatch>]) -> Vec<Vec<u8>> {
    let assignment = Assignment::round_robin(1).unwrap();
    let slice = |(split, batches): (u32, &Vec<RecordBatch>)| {
        let first = Position { split, row: 0 };
        let scatter = Scatter::plan(layout, batches, &assignment, first).unwrap();
        let mut out = vec![0xEE; scatter.slice_offsets()[1] as usize];
        scatter.write(&mut out).unwrap();
        out
    };
    (0..).zip(splits).map(slice).collect()
}

fn open(slices: &[Vec<u8>], num_maps: usize) -> std::result::Result<Sections, CheckError> {
    let slices = slices.iter().map(|slice| Buffer::from(slice.as_slice()));
    Sections::open(slices.collect(), 0, Some(0), Some(num_maps as u32))
}

type Gather = fn(&RowLayout, Arc<Sections>, u8) -> Result<GatheredRows>;

/// Opens, gathers, and hands on all rows; returns how many.
fn run(layout: &RowLayout, gather: Gather, slices: &[Vec<u8>], num_maps: usize) -> Result<usize> {
    let rows = gather(layout, Arc::new(open(slices, num_maps)?), 0)?;
    let mut count = 0;
    for batch in Arc::new(rows).batches(100) {
        count += batch?.num_rows();
    }
    Ok(count)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn lost_repeated_and_misplaced_outputs_are_named(shape in shape(), at in any::<u64>(), merged in any::<bool>()) {
        let table = table(&Shape { splits: shape.splits + 3, ..shape });
        let layout = table.layout();
        let good = slices(&layout, &table.splits);
        let (num_maps, random) = (good.len(), &mut Random(at));
        let at = random.below(num_maps - 1);
        let map = at as u32;
        let check = |slices: Vec<Vec<u8>>| {
            let slices = if merged { vec![slices.concat()] } else { slices };
            open(&slices, num_maps).map(|sections| sections.len())
        };
        prop_assert_eq!(check(good.clone()), Ok(num_maps));

        let mut lost = good.clone();
        lost.remove(at);
        prop_assert_eq!(check(lost.clone()), Err(CheckError::Missing { map, count: 1 }));
        lost.insert(at, Vec::new());
        prop_assert_eq!(check(lost.clone()), Err(CheckError::Missing { map, count: 1 }));
        lost.remove(at + 1);
        prop_assert_eq!(check(lost), Err(CheckError::Missing { map, count: 2 }));

        let mut repeated = good.clone();
        repeated.insert(random.below(num_maps), good[at].clone());
        prop_assert_eq!(check(repeated.clone()), Err(CheckError::Repeated { map }));
        let mut instead = good.clone();
        instead[at + 1] = good[at].clone();
        prop_assert_eq!(check(instead), Err(CheckError::Repeated { map }));

        let mut swapped = good.clone();
        swapped.swap(at, at + 1);
        prop_assert_eq!(check(swapped), Err(CheckError::Misplaced { map, before: map + 1 }));

        let last = map;
        let few = open(&good, at + 1).map(|sections| sections.len());
        prop_assert_eq!(few, Err(CheckError::Unknown { map: map + 1, first: 0, last }));
    }

    #[test]
    fn every_changed_byte_is_found(shape in shape(), damage in any::<u64>(), sorted in any::<bool>()) {
        let table = table(&Shape { splits: shape.splits + 1, rows: shape.rows % 200, ..shape });
        let layout = table.layout();
        let good = slices(&layout, &table.splits);
        let gather: Gather = if sorted { GatheredRows::sorted } else { GatheredRows::in_order };
        prop_assert_eq!(run(&layout, gather, &good, good.len()).unwrap(), table.rows.len());
        let random = &mut Random(damage);
        for _ in 0..5 {
            let map = random.below(good.len());
            let mut bad = good.clone();
            let at = random.below(bad[map].len());
            bad[map][at] ^= 1 << random.below(8);
            let error = run(&layout, gather, &bad, good.len()).unwrap_err();
            let KernelError::Check(check) = error else {
                return Err(TestCaseError::fail(format!("byte {at} of map {map}: {error}")));
            };
            match check {
                CheckError::Changed { map: named } => prop_assert_eq!(named as usize, map),
                CheckError::Unreadable { slice, .. } => {
                    prop_assert!(at < HEADER_BYTES, "byte {}", at);
                    prop_assert_eq!(slice, map);
                }
                check => prop_assert!(false, "byte {} of map {}: {}", at, map, check),
            }
        }
    }

    #[test]
    fn no_bytes_in_place_of_rows_panic_or_pass(
        shape in shape(),
        noise in prop::collection::vec(any::<u8>(), 1..200),
        at in any::<u64>(),
    ) {
        let table = table(&Shape { splits: 1, rows: shape.rows % 200 + 1, ..shape });
        let layout = table.layout();
        let mut slices = slices(&layout, &table.splits);
        let rows = &mut slices[0][HEADER_BYTES..];
        let before = rows.to_vec();
        let start = Random(at).below(rows.len());
        rows[start..].iter_mut().zip(&noise).for_each(|(byte, noise)| *byte = *noise);
        let same = rows == before;
        for gather in [GatheredRows::sorted, GatheredRows::in_order] {
            match run(&layout, gather, &slices, 1) {
                Ok(_) => prop_assert!(same),
                Err(error) => prop_assert!(matches!(error, KernelError::Check(_)), "{}", error),
            }
        }
    }

    #[test]
    fn any_bytes_can_be_opened(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let opened = Sections::open(vec![Buffer::from(bytes.as_slice())], 0, Some(0), None);
        prop_assert_eq!(opened.is_ok(), bytes.is_empty());
    }
}
