//! Table rows from end to end, against a naive stable sort.

#![allow(clippy::unwrap_used, reason = "a test that fails should stop")]

mod support;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use exoshuffle_kernels::{
    choose_boundaries, sample, Boundaries, KernelError, Position, RowLayout, Scatter, SortKey,
    SortedRows,
};
use proptest::prelude::*;
use support::columns::{delivered, Random};
use support::oracle::{compare_rows, Value};
use support::tables::{shape, table, Shape};

fn block(scatter: &Scatter) -> Vec<Vec<u8>> {
    let offsets = scatter.slice_offsets();
    let mut out = vec![0xEE; offsets[offsets.len() - 1] as usize];
    scatter.write(&mut out).unwrap();
    offsets
        .windows(2)
        .map(|w| out[w[0] as usize..w[1] as usize].to_vec())
        .collect()
}

fn scatter_split(
    layout: &RowLayout,
    boundaries: &Boundaries,
    split: usize,
    batches: &[RecordBatch],
) -> Vec<Vec<u8>> {
    let first = Position {
        split: split as u32,
        row: 0,
    };
    block(&Scatter::plan(layout, batches, boundaries, first).unwrap())
}

/// The sorted rows in batches of `step`, with the declared types.
fn collect(schema: &SchemaRef, rows: &SortedRows, step: usize) -> RecordBatch {
    let batches: Vec<RecordBatch> = (0..rows.num_rows().max(1))
        .step_by(step)
        .map(|start| {
            let batch = rows.batch(start, step).unwrap();
            assert_eq!(batch.schema(), rows.output_schema());
            rows.cast_to_user_schema(&batch).unwrap()
        })
        .collect();
    concat_batches(schema, &batches).unwrap()
}

fn check_round_trip(shape: &Shape) {
    const SAMPLE_STEP: usize = 3;
    let table = table(shape);
    let random = &mut Random(!shape.seed);
    let layout = table.layout();
    let samples = table.samples(&layout, SAMPLE_STEP);
    let samples: Vec<&[u8]> = samples.iter().map(Vec::as_slice).collect();
    let chosen = choose_boundaries(&layout.key_layout(), &samples, shape.partitions).unwrap();
    let boundaries = Boundaries::from_bytes(&layout.key_layout(), &chosen.to_bytes()).unwrap();

    let blocks: Vec<Vec<Vec<u8>>> = table
        .splits
        .iter()
        .enumerate()
        .map(|(i, batches)| {
            let batches: Vec<RecordBatch> = batches.iter().map(|b| delivered(b, random)).collect();
            scatter_split(&layout, &boundaries, i, &batches)
        })
        .collect();

    let limits = table.expected_boundaries(SAMPLE_STEP, shape.partitions);
    let mut counts = vec![0; shape.partitions];
    for row in &table.rows {
        let below = |b: &&&(Vec<Value>, Position)| {
            compare_rows(&table.keys, &b.0, &row.0)
                .then(b.1.cmp(&row.1))
                .is_le()
        };
        counts[limits.iter().filter(below).count()] += 1;
    }

    let mut outputs = Vec::new();
    for (partition, count) in counts.into_iter().enumerate() {
        let slices: Vec<Buffer> = match random.below(2) {
            0 => blocks
                .iter()
                .map(|b| Buffer::from(b[partition].clone()))
                .collect(),
            // Merging blocks is concatenation.
            _ => vec![Buffer::from(
                blocks
                    .iter()
                    .flat_map(|b| b[partition].clone())
                    .collect::<Vec<u8>>(),
            )],
        };
        let rows = SortedRows::try_new(&layout, slices).unwrap();
        assert_eq!(rows.num_rows(), count, "rows of partition {partition}");
        outputs.push(collect(&table.schema, &rows, 64 + random.below(2000)));
    }
    assert_eq!(
        concat_batches(&table.schema, &outputs).unwrap(),
        table.sorted()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn scatter_and_gather_are_a_stable_sort(shape in shape()) {
        check_round_trip(&shape);
    }

    #[test]
    fn scattering_in_two_parts_gives_the_same_slices(shape in shape(), cut in 0usize..2000) {
        let table = table(&Shape { splits: 1, nested: false, ..shape });
        let layout = table.layout();
        let samples = table.samples(&layout, 5);
        let boundaries = choose_boundaries(&layout.key_layout(), &[&samples[0]], shape.partitions).unwrap();
        let all = concat_batches(&table.schema, &table.splits[0]).unwrap();
        let cut = cut.min(all.num_rows());
        let whole = scatter_split(&layout, &boundaries, 0, std::slice::from_ref(&all));
        let head = scatter_split(&layout, &boundaries, 0, &[all.slice(0, cut)]);
        let position = Position { split: 0, row: cut as u64 };
        let tail = block(&Scatter::plan(&layout, &[all.slice(cut, all.num_rows() - cut)], &boundaries, position).unwrap());
        for (whole, (head, tail)) in whole.iter().zip(head.iter().zip(&tail)) {
            prop_assert_eq!(whole, &[head.as_slice(), tail].concat());
        }
    }

    #[test]
    fn damaged_slices_never_panic(shape in shape(), damage in any::<u64>()) {
        let random = &mut Random(damage);
        let table = table(&Shape { rows: shape.rows % 50 + 1, ..shape });
        let layout = table.layout();
        let samples = table.samples(&layout, 1);
        let boundaries = choose_boundaries(&layout.key_layout(), &[&samples[0]], 1).unwrap();
        let mut slice = scatter_split(&layout, &boundaries, 0, &table.splits[0]).remove(0);
        match random.below(3) {
            0 => slice.truncate(random.below(slice.len())),
            1 => slice.extend((0..random.below(9)).map(|_| 0xFF)),
            _ => for _ in 0..4 {
                let at = random.below(slice.len());
                slice[at] ^= 1 << random.below(8);
            },
        }
        if let Ok(rows) = SortedRows::try_new(&layout, vec![Buffer::from(slice)]) {
            // Nested columns may be refused here; the bytes of strings are not looked at.
            let _ = rows.batch(0, rows.num_rows());
        }
        let mut blob = samples[0].clone();
        blob.truncate(random.below(blob.len()));
        let _ = choose_boundaries(&layout.key_layout(), &[&blob], 3);
        let mut bytes = boundaries.to_bytes();
        bytes.truncate(random.below(bytes.len()));
        let _ = Boundaries::from_bytes(&layout.key_layout(), &bytes);
    }
}

fn int_layout(nullable: bool) -> RowLayout {
    let schema = Schema::new(vec![Field::new("k", DataType::Int64, nullable)]);
    RowLayout::try_new(
        &Arc::new(schema),
        &[SortKey {
            column: 0,
            descending: false,
            nulls_first: true,
        }],
    )
    .unwrap()
}

fn one_column(array: impl Array + 'static) -> RecordBatch {
    RecordBatch::try_from_iter([("k", Arc::new(array) as ArrayRef)]).unwrap()
}

#[test]
fn equal_keys_are_split_evenly() {
    const ROWS: u64 = 10_000;
    const PARTITIONS: usize = 16;
    let layout = int_layout(true);
    for key in [Some(7), None, Some(i64::MIN)] {
        let batch = one_column(Int64Array::from(vec![key; ROWS as usize]));
        let samples: Vec<Vec<u8>> = (0..3)
            .map(|split| {
                let positions: Vec<Position> = (0..ROWS)
                    .step_by(100)
                    .map(|row| Position { split, row })
                    .collect();
                sample(
                    &layout.key_layout(),
                    &batch.slice(0, positions.len()),
                    &positions,
                )
                .unwrap()
            })
            .collect();
        let samples: Vec<&[u8]> = samples.iter().map(Vec::as_slice).collect();
        let boundaries = choose_boundaries(&layout.key_layout(), &samples, PARTITIONS).unwrap();
        let mut bytes = [0; PARTITIONS];
        for split in 0..3 {
            for (sum, slice) in bytes.iter_mut().zip(scatter_split(
                &layout,
                &boundaries,
                split,
                std::slice::from_ref(&batch),
            )) {
                *sum += slice.len();
            }
        }
        let mean = bytes.iter().sum::<usize>() / PARTITIONS;
        assert!(
            bytes.iter().all(|&b| b > mean / 2 && b < mean * 2),
            "{bytes:?}"
        );
    }
}

#[test]
fn without_samples_all_rows_go_to_the_first_partition() {
    let layout = int_layout(false);
    let boundaries = choose_boundaries(&layout.key_layout(), &[], 3).unwrap();
    assert_eq!(boundaries.num_partitions(), 3);
    let slices = scatter_split(
        &layout,
        &boundaries,
        0,
        &[one_column(Int64Array::from(vec![1, 2]))],
    );
    assert_eq!(slices.iter().map(Vec::len).collect::<Vec<_>>(), [16, 0, 0]);
    for count in [0, 1 << 21] {
        let error = choose_boundaries(&layout.key_layout(), &[], count).unwrap_err();
        assert!(matches!(error, KernelError::PartitionCount { .. }));
    }
}

#[test]
fn rows_without_columns_are_still_counted() {
    let layout = RowLayout::try_new(&Arc::new(Schema::empty()), &[]).unwrap();
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(5));
    let batch =
        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
    let boundaries = choose_boundaries(&layout.key_layout(), &[], 1).unwrap();
    let slices = scatter_split(&layout, &boundaries, 0, &[batch]);
    let rows =
        SortedRows::try_new(&layout, slices.into_iter().map(Buffer::from).collect()).unwrap();
    assert_eq!(rows.batch(0, 10).unwrap().num_rows(), 5);
}

#[test]
fn long_equal_beginnings_are_sorted_in_few_passes() {
    // A comparison or a pass for every 15 bytes would take minutes.
    let begin = "x".repeat(20_000);
    let strings: Vec<String> = (0..2_000)
        .map(|i| format!("{begin}{:03}", i * 7 % 500))
        .collect();
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Utf8, false)]));
    let layout = RowLayout::try_new(
        &schema,
        &[SortKey {
            column: 0,
            descending: true,
            nulls_first: true,
        }],
    )
    .unwrap();
    let boundaries = choose_boundaries(&layout.key_layout(), &[], 1).unwrap();
    let slices = scatter_split(
        &layout,
        &boundaries,
        0,
        &[one_column(StringArray::from(strings.clone()))],
    );
    let rows =
        SortedRows::try_new(&layout, slices.into_iter().map(Buffer::from).collect()).unwrap();
    let mut expected = strings;
    expected.sort_by(|a, b| b.cmp(a));
    assert_eq!(
        collect(&schema, &rows, 500).column(0).as_ref(),
        &StringArray::from(expected)
    );
}

#[test]
fn a_dictionary_that_overflows_is_named() {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Binary));
    let schema = Arc::new(Schema::new(vec![Field::new("word", dictionary, false)]));
    let layout = RowLayout::try_new(&schema, &[]).unwrap();
    let boundaries = choose_boundaries(&layout.key_layout(), &[], 1).unwrap();
    let words = BinaryArray::from_iter_values((0..300u32).map(|i| i.to_le_bytes()));
    let slices = scatter_split(&layout, &boundaries, 0, &[one_column(words)]);
    let rows =
        SortedRows::try_new(&layout, slices.into_iter().map(Buffer::from).collect()).unwrap();
    let batch = |len| rows.cast_to_user_schema(&rows.batch(0, len).unwrap());
    assert_eq!(batch(128).unwrap().schema(), schema);
    let error = batch(300).unwrap_err();
    assert!(
        matches!(&error, KernelError::DictionaryOverflow { column, .. } if column == "word"),
        "{error}"
    );
}

#[test]
fn a_block_must_be_given_its_exact_size() {
    let layout = int_layout(false);
    let boundaries = choose_boundaries(&layout.key_layout(), &[], 1).unwrap();
    let first = Position { split: 0, row: 0 };
    let scatter = Scatter::plan(
        &layout,
        &[one_column(Int64Array::from(vec![1]))],
        &boundaries,
        first,
    )
    .unwrap();
    assert_eq!(scatter.rows(), 1);
    let error = scatter.write(&mut [0; 9]).unwrap_err();
    assert!(matches!(
        error,
        KernelError::OutputSize {
            expected: 8,
            actual: 9
        }
    ));
}

#[test]
fn kernels_can_move_between_threads() {
    fn check<T: Send + Sync>() {}
    check::<RowLayout>();
    check::<Boundaries>();
    check::<Scatter>();
    check::<SortedRows>();
}
