//! Hash and round robin assignments keep their promises; ranges are tested with sorting.

#![allow(clippy::unwrap_used, reason = "a test that fails should stop")]

mod support;

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema};
use exoshuffle_kernels::rows::RowKind;
use exoshuffle_kernels::{Assignment, KernelError, Position, RowLayout, Scatter, SortKey};
use proptest::prelude::*;
use support::columns::{delivered, Random};
use support::oracle::compare_rows;
use support::tables::{shape, table, Shape};

fn key(column: usize) -> SortKey {
    SortKey {
        column,
        descending: false,
        nulls_first: true,
    }
}

/// Returns a layout of one key column, and a batch for it.
fn one_column(declared: &DataType, array: ArrayRef) -> (RowLayout, RecordBatch) {
    let field = |kind: &DataType| Arc::new(Schema::new(vec![Field::new("k", kind.clone(), true)]));
    let layout = RowLayout::try_new(&field(declared), &[key(0)]).unwrap();
    let batch = RecordBatch::try_new(field(array.data_type()), vec![array]).unwrap();
    (layout, batch)
}

/// Returns the bytes of the rows of each slice, behind its header.
fn sizes(
    layout: &RowLayout,
    batch: &RecordBatch,
    assignment: &Assignment,
    first: Position,
) -> Vec<u64> {
    let scatter = Scatter::plan(layout, std::slice::from_ref(batch), assignment, first).unwrap();
    let offsets = scatter.slice_offsets();
    offsets.windows(2).map(|w| w[1] - w[0] - 40).collect()
}

const START: Position = Position { split: 0, row: 0 };

/// Returns the partition of every row, row by row.
fn partitions(layout: &RowLayout, batch: &RecordBatch, assignment: &Assignment) -> Vec<usize> {
    let of_row = |row| {
        let sizes = sizes(layout, &batch.slice(row, 1), assignment, START);
        sizes.iter().position(|&bytes| bytes > 0).unwrap()
    };
    (0..batch.num_rows()).map(of_row).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn equal_keys_meet_whatever_form_they_came_in(shape in shape()) {
        let shape = Shape { rows: shape.rows % 60, key_columns: shape.key_columns.max(1), partitions: 1000, ..shape };
        let (table, random) = (table(&shape), &mut Random(!shape.seed));
        let layout = table.layout();
        let chosen = Assignment::hash(&layout, shape.partitions).unwrap();
        let assignment = Assignment::from_bytes(&layout, &chosen.to_bytes()).unwrap();
        let mut found = Vec::new();
        for batch in table.splits.iter().flatten() {
            found.extend(partitions(&layout, &delivered(batch, random), &assignment));
        }
        for (a, (left, _)) in table.rows.iter().enumerate() {
            for (b, (right, _)) in table.rows.iter().enumerate().take(a) {
                if compare_rows(&table.keys, left, right).is_eq() {
                    prop_assert_eq!(found[a], found[b], "{:?} and {:?}", left, right);
                }
            }
        }
    }

    #[test]
    fn dealing_in_turn_evens_out(shape in shape(), split in any::<u32>(), cut in 0usize..2000) {
        let table = table(&Shape { splits: 1, nested: false, ..shape });
        let layout = RowLayout::try_new(&table.schema, &[]).unwrap();
        let all = arrow_select::concat::concat_batches(&table.schema, &table.splits[0]).unwrap();
        let assignment = Assignment::round_robin(shape.partitions).unwrap();
        let assignment = Assignment::from_bytes(&layout, &assignment.to_bytes()).unwrap();
        let cut = cut.min(all.num_rows());
        let at = |row: usize| Position { split, row: row as u64 };
        let head = sizes(&layout, &all.slice(0, cut), &assignment, at(0));
        let tail = sizes(&layout, &all.slice(cut, all.num_rows() - cut), &assignment, at(cut));
        let whole = sizes(&layout, &all, &assignment, at(0));
        let parts: Vec<u64> = head.iter().zip(&tail).map(|(a, b)| a + b).collect();
        prop_assert_eq!(&whole, &parts, "a split may be planned in parts");
        if let Some(bytes) = layout.fixed_row_bytes() {
            let (least, most) = (whole.iter().min().unwrap(), whole.iter().max().unwrap());
            prop_assert!(most - least <= bytes as u64, "{:?}", whole);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn rows_of_a_table_are_measured_as_they_are_written(shape in shape(), nested in any::<bool>()) {
        let table = table(&Shape { splits: 1, nested, ..shape });
        let layout = RowLayout::try_new(&table.schema, &[]).unwrap();
        let all = arrow_select::concat::concat_batches(&table.schema, &table.splits[0]).unwrap();
        let kind = RowKind::Table(layout.clone());
        let one = Assignment::round_robin(1).unwrap();
        let bytes = |rows: &RecordBatch| sizes(&layout, rows, &one, START)[0];
        let each = (0..all.num_rows()).map(|row| bytes(&all.slice(row, 1)));
        let found = kind.measure(&all).unwrap();
        prop_assert_eq!(found.rows, all.num_rows() as u64);
        prop_assert_eq!(found.bytes, bytes(&all));
        prop_assert_eq!(found.largest, each.max().unwrap_or(0));
        if let Some(unseen) = kind.measure_unseen(found.rows) {
            prop_assert_eq!(unseen, found);
        }
    }
}

/// Returns chi-square of how often each of the cells was hit.
fn chi_square(counts: &[u64]) -> f64 {
    let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    counts
        .iter()
        .map(|&n| (n as f64 - mean).powi(2) / mean)
        .sum()
}

#[test]
fn distinct_keys_spread_evenly() {
    const ROWS: i64 = 64_000;
    // The mean is 63 and the deviation 11.
    const LIMIT: f64 = 63.0 + 5.0 * 11.3;
    type Number = fn(i64) -> i64;
    let numbers: [(&str, Number); 3] = [
        ("consecutive", |i| i),
        ("multiples of 64", |i| 64 * i),
        ("high bits", |i| i << 40),
    ];
    for (name, number) in numbers {
        let ints = Int64Array::from_iter_values((0..ROWS).map(number));
        for declared in [
            DataType::Int64,
            DataType::Float64,
            DataType::Utf8,
            DataType::Decimal128(30, 0),
        ] {
            let (layout, batch) = one_column(&declared, cast(&ints, &declared).unwrap());
            let assignment = Assignment::hash(&layout, 64).unwrap();
            let mut counts = vec![0; 64];
            for (partition, bytes) in sizes(&layout, &batch, &assignment, START)
                .into_iter()
                .enumerate()
            {
                counts[partition] = bytes;
            }
            if layout.fixed_row_bytes().is_some() {
                let row_bytes = counts.iter().sum::<u64>() / ROWS as u64;
                counts.iter_mut().for_each(|n| *n /= row_bytes);
                let found = chi_square(&counts);
                assert!(found < LIMIT, "{name} as {declared}: {found}");
            }
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(least * 4 > most * 3, "{name} as {declared}: {counts:?}");
        }
    }
}

/// Compares with hashes computed from the description in `hash.rs` by other means: machines and versions must agree.
#[test]
fn hashes_stay_what_they_are() {
    let ints = Int64Array::from(vec![Some(0), Some(1), Some(-1), Some(42), None]);
    let floats = Float64Array::from(vec![0.5, -0.0, f64::NAN, f64::INFINITY]);
    let found = |declared: &DataType, array: &dyn Array| {
        let (layout, batch) = one_column(declared, cast(array, declared).unwrap());
        partitions(
            &layout,
            &batch,
            &Assignment::hash(&layout, 1 << 20).unwrap(),
        )
    };
    let mut all: HashMap<String, Vec<usize>> = HashMap::new();
    for declared in [
        DataType::Int64,
        DataType::Utf8,
        DataType::Boolean,
        DataType::Decimal128(20, 1),
    ] {
        all.insert(declared.to_string(), found(&declared, &ints));
    }
    all.insert("Float64".to_owned(), found(&DataType::Float64, &floats));
    assert_eq!(all["Int64"], [926218, 594082, 937367, 777587, 183055]);
    assert_eq!(all["Utf8"], [314069, 1001248, 602734, 350330, 183055]);
    assert_eq!(all["Boolean"], [926218, 594082, 594082, 594082, 183055]);
    assert_eq!(
        all["Decimal128(20, 1)"],
        [145447, 600277, 221900, 66805, 183055]
    );
    assert_eq!(all["Float64"], [188527, 295404, 937367, 577068]);
}

#[test]
fn the_width_of_an_integer_and_the_form_of_a_text_do_not_matter() {
    let ints = Int64Array::from(vec![Some(0), Some(-7), Some(100), None]);
    let found = |declared: &DataType| {
        let (layout, batch) = one_column(declared, cast(&ints, declared).unwrap());
        partitions(
            &layout,
            &batch,
            &Assignment::hash(&layout, 1 << 20).unwrap(),
        )
    };
    for narrow in [DataType::Int8, DataType::Int16, DataType::Int32] {
        assert_eq!(found(&narrow), found(&DataType::Int64), "{narrow}");
    }
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    for text in [
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        dictionary,
    ] {
        let utf8 = cast(&ints, &DataType::Utf8).unwrap();
        let (layout, batch) = one_column(&text, cast(&utf8, &text).unwrap());
        let assignment = Assignment::hash(&layout, 1 << 20).unwrap();
        assert_eq!(
            partitions(&layout, &batch, &assignment),
            found(&DataType::Utf8),
            "{text}"
        );
    }
}

#[test]
fn small_splits_do_not_all_begin_at_the_first_partition() {
    let (layout, batch) = one_column(&DataType::Int64, Arc::new(Int64Array::from(vec![1])));
    for num_partitions in [2, 7, 64] {
        let assignment = Assignment::round_robin(num_partitions).unwrap();
        let mut counts = vec![0; num_partitions];
        for split in 0..1000 {
            let sizes = sizes(&layout, &batch, &assignment, Position { split, row: 0 });
            counts[sizes.iter().position(|&bytes| bytes > 0).unwrap()] += 1;
        }
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(most - least <= 4, "{counts:?}");
    }
}

#[test]
fn every_level_divides_what_another_brings_together() {
    let values = Int64Array::from_iter_values(0..20_000);
    let (layout, batch) = one_column(&DataType::Int64, Arc::new(values));
    let found: Vec<Vec<usize>> = (0..3)
        .map(|level| {
            let chosen = Assignment::hash_level(&layout, 10, level).unwrap();
            let assignment = Assignment::from_bytes(&layout, &chosen.to_bytes()).unwrap();
            partitions(&layout, &batch, &assignment)
        })
        .collect();
    assert_eq!(
        Assignment::hash(&layout, 10).unwrap().to_bytes(),
        Assignment::hash_level(&layout, 10, 0).unwrap().to_bytes()
    );
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        let mut counts = vec![0; 10];
        for (_, &part) in found[a].iter().zip(&found[b]).filter(|(&p, _)| p == 3) {
            counts[part] += 1;
        }
        // About 200 each.
        assert!(
            counts.iter().all(|&n| (130..270).contains(&n)),
            "{counts:?}"
        );
    }
}

#[test]
fn what_cannot_be_assigned_is_refused() {
    let (layout, _) = one_column(&DataType::Int64, Arc::new(Int64Array::from(vec![1])));
    let keyless = RowLayout::try_new(layout.schema(), &[]).unwrap();
    assert!(matches!(
        Assignment::hash(&keyless, 3),
        Err(KernelError::NoKeys)
    ));
    for count in [0, 1 << 21] {
        let error = Assignment::round_robin(count).unwrap_err();
        assert!(
            matches!(error, KernelError::PartitionCount { .. }),
            "{error}"
        );
    }
    let good = Assignment::hash(&layout, 3).unwrap().to_bytes();
    let good_level = Assignment::hash_level(&layout, 3, 2).unwrap().to_bytes();
    let unknown = [vec![9], good[1..].to_vec()].concat();
    let zero = [vec![1], vec![0; 8]].concat();
    for bytes in [
        &[][..],
        &good[..5],
        &[good.as_slice(), &[0]].concat(),
        &unknown,
        &zero,
        &[3],
        &good_level[..9],
        &[good_level.as_slice(), &[0]].concat(),
    ] {
        assert!(Assignment::from_bytes(&layout, bytes).is_err(), "{bytes:?}");
    }
}
