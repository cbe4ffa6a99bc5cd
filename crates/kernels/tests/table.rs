//! Table rows from end to end, against a naive stable sort.

#![allow(clippy::unwrap_used, reason = "a test that fails should stop")]

mod support;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int16Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, FixedSizeListArray, Int64Array, RecordBatch, StringArray,
    StringViewArray,
};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use exoshuffle_kernels::{
    cast_to_user_schema, choose_boundaries, has_declared_bytes, sample, Assignment, Batches,
    GatheredRows, KernelError, Position, RowLayout, Scatter, Sections, SortKey,
};
use proptest::prelude::*;
use support::columns::{delivered, Random};
use support::oracle::{compare_rows, Value};
use support::tables::{shape, table, Shape};

/// Bytes of the header of every slice.
const HEADER_BYTES: usize = 40;

fn block(scatter: &Scatter) -> Vec<Vec<u8>> {
    let offsets = scatter.slice_offsets();
    let mut out = vec![0xEE; offsets[offsets.len() - 1] as usize];
    scatter.write(&mut out).unwrap();
    offsets
        .windows(2)
        .map(|w| out[w[0] as usize..w[1] as usize].to_vec())
        .collect()
}

/// Returns the assignment by boundaries out of samples.
fn ranges(layout: &RowLayout, samples: &[&[u8]], partitions: usize) -> Assignment {
    let boundaries = choose_boundaries(&layout.key_layout(), samples, partitions);
    Assignment::Range(boundaries.unwrap())
}

fn scatter_split(
    layout: &RowLayout,
    assignment: &Assignment,
    split: usize,
    batches: &[RecordBatch],
) -> Vec<Vec<u8>> {
    let first = Position {
        split: split as u32,
        row: 0,
    };
    block(&Scatter::plan(layout, batches, assignment, first).unwrap())
}

/// Opens slices.
fn opened(slices: Vec<Buffer>, partition: usize) -> Arc<Sections> {
    Arc::new(Sections::open(slices, partition as u32, Some(0), None).unwrap())
}

fn sorted(layout: &RowLayout, slices: Vec<Vec<u8>>) -> GatheredRows {
    let slices = slices.into_iter().map(Buffer::from).collect();
    GatheredRows::sorted(layout, opened(slices, 0), 0).unwrap()
}

/// Returns the sorted rows in batches of `step`, with the declared types, which strings may have had before.
fn collect(schema: &SchemaRef, rows: GatheredRows, step: usize) -> RecordBatch {
    let output_schema = rows.output_schema();
    let rows = Arc::new(rows);
    let declared = |batches: Batches| {
        let cast = batches.map(|batch| cast_to_user_schema(schema, &batch.unwrap()).unwrap());
        concat_batches(schema, &cast.collect::<Vec<_>>()).unwrap()
    };
    for batch in Arc::clone(&rows).batches(step) {
        assert_eq!(batch.unwrap().schema(), output_schema);
    }
    let collected = declared(Arc::clone(&rows).batches(step));
    check_size(schema, &rows, step);
    assert_eq!(collected, declared(rows.plain_batches(step)));
    collected
}

/// Checks that the buffers of batches as declared are no longer than was said before.
fn check_size(schema: &SchemaRef, rows: &Arc<GatheredRows>, step: usize) {
    const ALIGNMENT: usize = 64;
    let Some(most) = rows.declared_bytes(schema, step, ALIGNMENT) else {
        return;
    };
    let padded = |data: &ArrayData| -> usize {
        let buffers = data.buffers().iter().map(Buffer::len);
        let nulls = data.nulls().map(|_| data.len().div_ceil(8));
        buffers
            .chain(nulls)
            .map(|bytes| bytes.next_multiple_of(ALIGNMENT))
            .sum()
    };
    let batches = Arc::clone(rows).plain_batches(step);
    let size = |batch: RecordBatch| -> usize {
        let columns = batch.columns().iter();
        columns.map(|column| padded(&column.to_data())).sum()
    };
    let made: usize = batches.map(|batch| size(batch.unwrap())).sum();
    assert!(made <= most, "{made} bytes were made, and {most} foretold");
}

#[test]
fn batches_of_declared_views_have_the_bytes_of_their_own_rows_alone() {
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8View, true)]));
    let layout = RowLayout::try_new(&schema, &[]).unwrap();
    let texts: Vec<Option<String>> = (0..1000)
        .map(|i| match i % 4 {
            0 => None,
            1 => Some(format!("short {i}")),
            _ => Some(format!("a text that no view holds {i:04}")),
        })
        .collect();
    let slices = scatter_split(
        &layout,
        &ranges(&layout, &[], 1),
        0,
        &[one_column(StringArray::from(texts.clone()))],
    );
    let rows = Arc::new(sorted(&layout, slices));
    let long_bytes = 30 * 500;
    let mut held = 0;
    for (batch, expected) in Arc::clone(&rows).plain_batches(100).zip(texts.chunks(100)) {
        let batch = batch.unwrap();
        let column = batch.column(0).as_string_view();
        assert_eq!(column, &StringViewArray::from_iter(expected));
        held += column.data_buffers().iter().map(|b| b.len()).sum::<usize>();
    }
    assert_eq!(held, long_bytes);
    // Ten batches of a hundred rows: views, null bits, the long texts, and what batches are rounded up by.
    let most = rows.declared_bytes(&schema, 100, 1).unwrap();
    let exact = 1000 * 16 + 1000usize.div_ceil(8) + long_bytes;
    assert!(
        (exact..exact + 10 * 16).contains(&most),
        "{most}, not {exact}"
    );
}

fn check_round_trip(shape: &Shape) {
    const SAMPLE_STEP: usize = 3;
    let table = table(shape);
    let random = &mut Random(!shape.seed);
    let layout = table.layout();
    let samples = table.samples(&layout, SAMPLE_STEP);
    let samples: Vec<&[u8]> = samples.iter().map(Vec::as_slice).collect();
    let chosen = ranges(&layout, &samples, shape.partitions);
    let assignment = Assignment::from_bytes(&layout, &chosen.to_bytes()).unwrap();

    let blocks: Vec<Vec<Vec<u8>>> = table
        .splits
        .iter()
        .enumerate()
        .map(|(i, batches)| {
            let batches: Vec<RecordBatch> = batches.iter().map(|b| delivered(b, random)).collect();
            scatter_split(&layout, &assignment, i, &batches)
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
        let rows = GatheredRows::sorted(&layout, opened(slices, partition), 0).unwrap();
        assert_eq!(rows.num_rows(), count, "rows of partition {partition}");
        outputs.push(collect(&table.schema, rows, 64 + random.below(2000)));
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
    fn rows_that_are_not_sorted_keep_the_order_of_their_slices(shape in shape()) {
        let table = table(&shape);
        let layout = RowLayout::try_new(&table.schema, &[]).unwrap();
        let assignment = Assignment::round_robin(1).unwrap();
        let slices: Vec<Buffer> = table
            .splits
            .iter()
            .enumerate()
            .map(|(i, batches)| Buffer::from(scatter_split(&layout, &assignment, i, batches).remove(0)))
            .collect();
        let all = concat_batches(&table.schema, table.splits.iter().flatten()).unwrap();
        for layout in [layout, table.layout()] {
            let rows = GatheredRows::in_order(&layout, opened(slices.clone(), 0), 0).unwrap();
            prop_assert_eq!(collect(&table.schema, rows, 300), all.clone());
        }
    }

    #[test]
    fn several_inputs_share_slices(left in shape(), right in shape(), merged in any::<bool>()) {
        let partitions = left.partitions;
        let tables = [table(&left), table(&Shape { partitions, ..right })];
        let assignment = Assignment::round_robin(partitions).unwrap();
        let (mut blocks, mut alone) = (Vec::new(), [Vec::new(), Vec::new()]);
        for (tag, table) in (0u8..).zip(&tables) {
            for batches in &table.splits {
                let first = Position { split: blocks.len() as u32, row: 0 };
                let plan = || Scatter::plan(&table.layout(), batches, &assignment, first).unwrap();
                alone[usize::from(tag)].push(block(&plan()));
                blocks.push(block(&plan().tagged(tag)));
            }
        }
        for partition in 0..partitions {
            let slices = |blocks: &[Vec<Vec<u8>>]| -> Vec<Vec<u8>> {
                blocks.iter().map(|block| block[partition].clone()).collect()
            };
            let mut together = slices(&blocks);
            if merged {
                together = vec![together.concat()];
            }
            let open = |slices: Vec<Vec<u8>>, first: usize| {
                let slices = slices.into_iter().map(Buffer::from).collect();
                Arc::new(Sections::open(slices, partition as u32, Some(first as u32), None).unwrap())
            };
            let together = open(together, 0);
            let firsts = [0, tables[0].splits.len()];
            for (tag, table) in (0u8..).zip(&tables) {
                let found = GatheredRows::in_order(&table.layout(), Arc::clone(&together), tag).unwrap();
                let own = open(slices(&alone[usize::from(tag)]), firsts[usize::from(tag)]);
                let expected = GatheredRows::in_order(&table.layout(), own, 0).unwrap();
                prop_assert_eq!(collect(&table.schema, found, 77), collect(&table.schema, expected, 50));
            }
        }
    }

    #[test]
    fn scattering_in_two_parts_gives_the_same_slices(shape in shape(), cut in 0usize..2000) {
        let table = table(&Shape { splits: 1, nested: false, ..shape });
        let layout = table.layout();
        let samples = table.samples(&layout, 5);
        let assignment = ranges(&layout, &[&samples[0]], shape.partitions);
        let all = concat_batches(&table.schema, &table.splits[0]).unwrap();
        let cut = cut.min(all.num_rows());
        let whole = scatter_split(&layout, &assignment, 0, std::slice::from_ref(&all));
        let head = scatter_split(&layout, &assignment, 0, &[all.slice(0, cut)]);
        let position = Position { split: 0, row: cut as u64 };
        let tail = block(&Scatter::plan(&layout, &[all.slice(cut, all.num_rows() - cut)], &assignment, position).unwrap());
        for (whole, (head, tail)) in whole.iter().zip(head.iter().zip(&tail)) {
            prop_assert_eq!(&whole[HEADER_BYTES..], [&head[HEADER_BYTES..], &tail[HEADER_BYTES..]].concat());
        }
    }

    #[test]
    fn damaged_slices_never_panic(shape in shape(), damage in any::<u64>()) {
        let random = &mut Random(damage);
        let table = table(&Shape { rows: shape.rows % 50 + 1, ..shape });
        let layout = table.layout();
        let samples = table.samples(&layout, 1);
        let assignment = ranges(&layout, &[&samples[0]], 1);
        let mut slice = scatter_split(&layout, &assignment, 0, &table.splits[0]).remove(0);
        match random.below(3) {
            0 => slice.truncate(random.below(slice.len())),
            1 => slice.extend((0..random.below(9)).map(|_| 0xFF)),
            _ => for _ in 0..4 {
                let at = random.below(slice.len());
                slice[at] ^= 1 << random.below(8);
            },
        }
        if let Ok(sections) = Sections::open(vec![Buffer::from(slice)], 0, Some(0), None) {
            let sections = Arc::new(sections);
            for gather in [GatheredRows::sorted, GatheredRows::in_order] {
                if let Ok(rows) = gather(&layout, Arc::clone(&sections), 0) {
                    // Nested columns may be refused here; the bytes of strings are not checked.
                    Arc::new(rows).batches(100).for_each(drop);
                }
            }
        }
        let mut blob = samples[0].clone();
        blob.truncate(random.below(blob.len()));
        let _ = choose_boundaries(&layout.key_layout(), &[&blob], 3);
        let mut bytes = assignment.to_bytes();
        bytes.truncate(random.below(bytes.len()));
        let _ = Assignment::from_bytes(&layout, &bytes);
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
        let assignment = ranges(&layout, &samples, PARTITIONS);
        let mut bytes = [0; PARTITIONS];
        for split in 0..3 {
            for (sum, slice) in bytes.iter_mut().zip(scatter_split(
                &layout,
                &assignment,
                split,
                std::slice::from_ref(&batch),
            )) {
                *sum += slice.len() - HEADER_BYTES;
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
    let assignment = ranges(&layout, &[], 3);
    assert_eq!(assignment.num_partitions(), 3);
    let slices = scatter_split(
        &layout,
        &assignment,
        0,
        &[one_column(Int64Array::from(vec![1, 2]))],
    );
    let lengths = slices.iter().map(|slice| slice.len() - HEADER_BYTES);
    assert_eq!(lengths.collect::<Vec<_>>(), [16, 0, 0]);
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
    let assignment = ranges(&layout, &[], 1);
    let slices = scatter_split(&layout, &assignment, 0, &[batch]);
    let mut batches = Arc::new(sorted(&layout, slices)).batches(10);
    assert_eq!(batches.next().unwrap().unwrap().num_rows(), 5);
    assert!(batches.next().is_none());
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
    let assignment = ranges(&layout, &[], 1);
    let slices = scatter_split(
        &layout,
        &assignment,
        0,
        &[one_column(StringArray::from(strings.clone()))],
    );
    let rows = sorted(&layout, slices);
    let mut expected = strings;
    expected.sort_by(|a, b| b.cmp(a));
    assert_eq!(
        collect(&schema, rows, 500).column(0).as_ref(),
        &StringArray::from(expected)
    );
}

#[test]
fn a_dictionary_that_overflows_is_named() {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Binary));
    let schema = Arc::new(Schema::new(vec![Field::new("word", dictionary, false)]));
    let layout = RowLayout::try_new(&schema, &[]).unwrap();
    let assignment = ranges(&layout, &[], 1);
    let words = BinaryArray::from_iter_values((0..300u32).map(|i| i.to_le_bytes()));
    let slices = scatter_split(&layout, &assignment, 0, &[one_column(words)]);
    let rows = Arc::new(sorted(&layout, slices));
    let batch = |len| {
        let first = Arc::clone(&rows).batches(len).next().unwrap().unwrap();
        cast_to_user_schema(&schema, &first)
    };
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
    let assignment = ranges(&layout, &[], 1);
    let first = Position { split: 0, row: 0 };
    let scatter = Scatter::plan(
        &layout,
        &[one_column(Int64Array::from(vec![1]))],
        &assignment,
        first,
    )
    .unwrap();
    assert_eq!(scatter.rows(), 1);
    assert_eq!(scatter.row_bytes(), 8);
    let error = scatter.write(&mut [0; 49]).unwrap_err();
    assert!(matches!(
        error,
        KernelError::OutputSize {
            expected: 48,
            actual: 49
        }
    ));
}

#[test]
fn the_longest_row_is_as_long_as_a_block_of_it() {
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8, false)]));
    let layout = RowLayout::try_new(&schema, &[]).unwrap();
    let all = Assignment::round_robin(1).unwrap();
    let first = Position { split: 0, row: 0 };
    let plan = |batches: &[RecordBatch]| Scatter::plan(&layout, batches, &all, first).unwrap();
    let batch = |texts: &[&str]| one_column(StringArray::from(texts.to_vec()));
    for batches in [
        &[&["a", "a text", "bb"][..], &["four"]],
        &[&["a"][..], &["ccc", "a text"]],
    ] {
        let scatter = plan(&batches.map(batch));
        let alone = plan(&[batch(&["a text"])]).row_bytes();
        assert_eq!(scatter.longest_row().unwrap(), Some(alone));
    }
    assert_eq!(plan(&[]).longest_row().unwrap(), Some(0));

    let list = Field::new("l", DataType::new_list(DataType::Utf8, true), true);
    let nested = RowLayout::try_new(&Arc::new(Schema::new(vec![list])), &[]).unwrap();
    let empty = RecordBatch::new_empty(nested.schema().clone());
    let scatter = Scatter::plan(&nested, &[empty], &all, first).unwrap();
    assert_eq!(scatter.longest_row().unwrap(), None);
}

#[test]
fn lists_of_numbers_lie_in_rows() {
    let number = Arc::new(Field::new("item", DataType::Int16, true));
    let types = [
        DataType::List(Arc::clone(&number)),
        DataType::LargeList(Arc::clone(&number)),
        DataType::FixedSizeList(number, 2),
    ];
    let all = Assignment::round_robin(1).unwrap();
    for data_type in types {
        let schema = Arc::new(Schema::new(vec![Field::new("l", data_type.clone(), true)]));
        let layout = RowLayout::try_new(&schema, &[]).unwrap();
        let lists = [
            Some(vec![Some(1), Some(2)]),
            None,
            Some(vec![Some(3), None]),
        ];
        let lists = FixedSizeListArray::from_iter_primitive::<Int16Type, _, _>(lists, 2);
        let lists = arrow_cast::cast(&lists, &data_type).unwrap();
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![lists]).unwrap();
        let first = Position { split: 0, row: 0 };
        let scatter = Scatter::plan(&layout, std::slice::from_ref(&batch), &all, first).unwrap();
        // A byte of null bits, a length, two numbers, a byte of their null bits, and one that says so.
        assert_eq!(scatter.longest_row().unwrap(), Some(1 + 4 + 4 + 1 + 1));
        assert!(has_declared_bytes(&layout, &schema));
        let slices = scatter_split(&layout, &all, 0, std::slice::from_ref(&batch));
        let rows = GatheredRows::in_order(&layout, opened(vec![slices[0].clone().into()], 0), 0);
        let mut made = Arc::new(rows.unwrap()).plain_batches(100);
        assert_eq!(made.next().unwrap().unwrap(), batch);
        assert!(made.next().is_none());
    }
}

#[test]
fn kernels_can_move_between_threads() {
    fn check<T: Send + Sync>() {}
    check::<RowLayout>();
    check::<Assignment>();
    check::<Scatter>();
    check::<GatheredRows>();
}
