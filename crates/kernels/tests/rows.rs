//! Each kind of row, moved from maps to the reduces of two partitions: sampled, planned, written, sorted and checked.

#![allow(clippy::unwrap_used, reason = "a test that fails should stop")]

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, FixedSizeBinaryArray, Int64Array, RecordBatch};
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use exoshuffle_kernels::records::RecordShape;
use exoshuffle_kernels::rows::{placed, CheckedSections, RowKind};
use exoshuffle_kernels::{
    CheckError, KernelError, Permutation, Result, RowLayout, Sections, SortKey,
};

const MAPS: u32 = 3;
const ROWS: i64 = 1000;

/// The numbers of a map: each number below `MAPS * ROWS` is in one map.
fn numbers(map: u32) -> Vec<i64> {
    let number = |row| (row * 7919) % ROWS * i64::from(MAPS) + i64::from(map);
    (0..ROWS).map(number).collect()
}

fn table(map: u32) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from(numbers(map)));
    RecordBatch::try_from_iter([("number", column)]).unwrap()
}

/// The same numbers as records of eight bytes.
fn records(map: u32) -> RecordBatch {
    let bytes = numbers(map).into_iter().map(i64::to_be_bytes);
    let column = FixedSizeBinaryArray::try_from_iter(bytes).unwrap();
    RecordBatch::try_from_iter([("record", Arc::new(column) as ArrayRef)]).unwrap()
}

fn of_tables() -> RowKind {
    let key = SortKey {
        column: 0,
        descending: false,
        nulls_first: false,
    };
    RowKind::Table(RowLayout::try_new(&table(0).schema(), &[key]).unwrap())
}

fn of_records() -> RowKind {
    let shape = RecordShape::try_new(8, 8).unwrap();
    RowKind::Records(shape, records(0).schema())
}

fn of_random_order(schema: &SchemaRef) -> RowKind {
    RowKind::Permutation(Permutation::try_new(schema, 5).unwrap())
}

/// Returns the slices of each partition.
fn mapped(kind: &RowKind, input: fn(u32) -> RecordBatch) -> [Vec<Buffer>; 2] {
    let batches = |map| std::iter::once(Ok::<_, KernelError>(input(map)));
    let sample = |map| kind.sample_batches(batches(map), map, 100, 1).unwrap();
    let samples: Vec<Vec<u8>> = (0..MAPS).map(sample).collect();
    let samples: Vec<&[u8]> = samples.iter().map(Vec::as_slice).collect();
    let assignment = kind.choose_boundaries(&samples, 2).unwrap();
    let mut slices = [Vec::new(), Vec::new()];
    for map in 0..MAPS {
        let planned = kind.plan(placed(batches(map), map), map, &assignment);
        let planned = planned.unwrap();
        let offsets: Vec<usize> = planned
            .slice_offsets()
            .iter()
            .map(|&at| at as usize)
            .collect();
        let mut block = vec![0; offsets[2]];
        planned.write(&mut block).unwrap();
        for (partition, slices) in slices.iter_mut().enumerate() {
            let slice = &block[offsets[partition]..offsets[partition + 1]];
            slices.push(Buffer::from(slice));
        }
    }
    slices
}

fn opened(slices: Vec<Buffer>, partition: u32) -> CheckedSections {
    CheckedSections::new(Sections::open(slices, partition, Some(0), Some(MAPS)).unwrap())
}

/// Returns the numbers of a partition in their order.
fn reduced(kind: &RowKind, sections: &CheckedSections) -> Result<Vec<i64>> {
    let mut found = Vec::new();
    for batch in kind.sorted(sections.side(0))?.batches()? {
        let batch = batch?;
        let column = batch.column(0);
        match column.as_fixed_size_binary_opt() {
            None => found.extend(column.as_primitive::<Int64Type>().values()),
            Some(records) => found.extend(
                records
                    .iter()
                    .flatten()
                    .map(|record| i64::from_be_bytes(record.try_into().unwrap())),
            ),
        }
    }
    Ok(found)
}

fn moved(kind: &RowKind, input: fn(u32) -> RecordBatch) -> Vec<i64> {
    let mut all = Vec::new();
    for (partition, slices) in (0..).zip(mapped(kind, input)) {
        let sections = opened(slices.clone(), partition);
        let rows = sections.num_rows();
        assert!(
            rows > ROWS as u64,
            "partitions are about equal: {rows} rows"
        );
        assert_eq!(sections.check(None), Err(CheckError::Unread { rows }));
        let sections = opened(slices, partition);
        all.extend(reduced(kind, &sections).unwrap());
        assert_eq!(sections.check(Some(0)), Ok(()));
        assert_eq!(sections.failure(), None);
    }
    all
}

#[test]
fn tables_and_records_arrive_sorted() {
    let sorted: Vec<i64> = (0..i64::from(MAPS) * ROWS).collect();
    assert!(moved(&of_tables(), table) == sorted);
    assert!(moved(&of_records(), records) == sorted);
}

#[test]
fn a_random_order_has_the_same_rows() {
    let sorted: Vec<i64> = (0..i64::from(MAPS) * ROWS).collect();
    let mut found = moved(&of_random_order(&table(0).schema()), table);
    assert!(found != sorted);
    found.sort_unstable();
    assert!(found == sorted);
}

#[test]
fn rows_that_were_changed_are_noted_as_the_failure() {
    for (kind, input) in [
        (of_tables(), table as fn(u32) -> RecordBatch),
        (of_records(), records),
    ] {
        let [mut slices, _] = mapped(&kind, input);
        let mut changed = slices[1].to_vec();
        *changed.last_mut().unwrap() ^= 1;
        slices[1] = Buffer::from(changed);
        let sections = opened(slices, 0);
        let error = reduced(&kind, &sections).unwrap_err();
        let failure = CheckError::Changed { map: 1 };
        assert_eq!(error.to_string(), failure.to_string());
        assert_eq!(sections.failure(), Some(failure));
        assert!(sections.check(None).is_err());
    }
}

#[test]
fn rows_are_measured_by_what_they_take_in_a_block() {
    let measured = of_records()
        .measure(&records(0))
        .unwrap()
        .and(of_records().measure(&records(1)).unwrap());
    assert_eq!(
        (measured.rows, measured.bytes, measured.largest),
        (2000, 16_000, 8)
    );
    let numbered = of_random_order(&table(0).schema())
        .measure(&table(0))
        .unwrap();
    let plain = of_tables().measure(&table(0)).unwrap();
    assert_eq!(numbered.bytes, plain.bytes + 8 * plain.rows);
}

#[test]
fn batches_that_hold_no_records_are_refused() {
    let batches = std::iter::once(Ok::<_, KernelError>(table(0)));
    let refused = of_records().sample_batches(batches, 0, 10, 1);
    assert!(matches!(
        refused,
        Err(KernelError::NoRecords { record_bytes: 8 })
    ));
    assert!(matches!(of_records().table(), Err(KernelError::OnlySorts)));
}
