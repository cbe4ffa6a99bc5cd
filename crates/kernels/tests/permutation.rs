//! Random permutations: cells are multinomial, and the test of that rejects generators for which they are not.

#![allow(clippy::unwrap_used, reason = "a test that fails should stop")]

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Int64Array, RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field, Schema};
use exoshuffle_kernels::{
    Assignment, GatheredRows, KernelError, Permutation, Position, RowLayout, Scatter, Sections,
    SortKey,
};

const SOURCES: usize = 40;
const PARTITIONS: usize = 50;
const CELLS: usize = 25;
const SEEDS: [u64; 6] = [0, 1, 2, 3, 1 << 63, u64::MAX];

/// Returns the numbers of the first rows of a source.
type Numbers<'a> = dyn Fn(u64, usize) -> Vec<u64> + 'a;

/// Returns the numbers of the first rows of a source, for a seed.
type Generator<'a> = dyn Fn(u64, u64, usize) -> Vec<u64> + 'a;

/// Returns chi-square of counts that should all be the same, in deviations from its mean. Far below the mean is as
/// suspect as far above: numbers may be too even.
fn deviation(counts: &[u64], degrees: usize) -> f64 {
    let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    let chi_square: f64 = counts
        .iter()
        .map(|&n| (n as f64 - mean).powi(2) / mean)
        .sum();
    (chi_square - degrees as f64) / (2.0 * degrees as f64).sqrt()
}

/// Compares rows of each source per partition of the numbers; and of all sources together, which shows their common
/// parts.
fn sources_by_partitions(numbers: &Numbers<'_>) -> [f64; 2] {
    let mut counts = vec![0; SOURCES * PARTITIONS];
    let mut totals = vec![0; PARTITIONS];
    for source in 0..SOURCES {
        for number in numbers(source as u64, 5_000) {
            let partition = ((u128::from(number) * PARTITIONS as u128) >> 64) as usize;
            counts[source * PARTITIONS + partition] += 1;
            totals[partition] += 1;
        }
    }
    [
        deviation(&counts, SOURCES * (PARTITIONS - 1)),
        deviation(&totals, PARTITIONS - 1),
    ]
}

/// Compares where rows stood before with where they stand afterwards, both as a part of the whole.
fn positions_by_positions(before: &[u64], after: &[u64]) -> f64 {
    let rank = |numbers: &[u64]| {
        let mut order: Vec<usize> = (0..numbers.len()).collect();
        order.sort_by_key(|&row| numbers[row]);
        let mut ranks = vec![0; numbers.len()];
        for (rank, row) in order.into_iter().enumerate() {
            ranks[row] = rank * CELLS / numbers.len();
        }
        ranks
    };
    let mut counts = vec![0; CELLS * CELLS];
    for (a, b) in rank(before).into_iter().zip(rank(after)) {
        counts[a * CELLS + b] += 1;
    }
    deviation(&counts, (CELLS - 1) * (CELLS - 1))
}

/// Returns the largest of all deviations, with its name.
fn worst(numbers: &Generator<'_>) -> (f64, String) {
    const ROWS: usize = 62_500;
    let mut found = Vec::new();
    for seed in SEEDS {
        let of_seed = |source, rows| numbers(seed, source, rows);
        let [each, together] = sources_by_partitions(&of_seed);
        found.push((each, format!("sources, seed {seed}")));
        found.push((together, format!("sources together, seed {seed}")));
        let counted: Vec<u64> = (0..ROWS as u64).collect();
        let first = of_seed(0, ROWS);
        found.push((
            positions_by_positions(&counted, &first),
            format!("rows, seed {seed}"),
        ));
        let next = of_seed(1, ROWS);
        found.push((
            positions_by_positions(&first, &next),
            format!("two sources, seed {seed}"),
        ));
        let other = numbers(seed ^ 5, 0, ROWS);
        found.push((
            positions_by_positions(&first, &other),
            format!("two seeds, seed {seed}"),
        ));
    }
    found
        .into_iter()
        .max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()))
        .unwrap()
}

fn rows(count: usize) -> RecordBatch {
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap()
}

fn ours(seed: u64, source: u64, count: usize) -> Vec<u64> {
    let permutation = Permutation::try_new(&Arc::new(Schema::empty()), seed).unwrap();
    let numbered = permutation.number(&rows(count), source, 0).unwrap();
    numbered
        .column(0)
        .as_primitive::<UInt64Type>()
        .values()
        .to_vec()
}

#[test]
fn cells_are_multinomial() {
    let (deviation, name) = worst(&ours);
    assert!(deviation.abs() < 5.0, "{name}: {deviation} deviations");
}

/// Does one round of mixing, as in `mix.rs`.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[test]
fn bad_generators_are_rejected() {
    let rows = |count| 0..count as u64;
    let bad: [(&str, &Generator<'_>); 4] = [
        (
            "sources that share their numbers",
            &|seed, source, count| rows(count).map(|row| mix(seed ^ source ^ row)).collect(),
        ),
        ("too even", &|seed, source, count| {
            let start = mix(mix(seed) ^ source);
            let step = 0x9E37_79B9_7F4A_7C15u64;
            rows(count)
                .map(|row| start.wrapping_add(row.wrapping_mul(step)))
                .collect()
        }),
        ("no high bits", &|seed, source, count| {
            rows(count)
                .map(|row| mix(mix(seed ^ mix(source)) ^ row) >> 1)
                .collect()
        }),
        (
            "one number for a stretch of rows",
            &|seed, source, count| {
                rows(count)
                    .map(|row| mix(mix(seed ^ mix(source)) ^ (row / 64)))
                    .collect()
            },
        ),
    ];
    for (name, numbers) in bad {
        let (deviation, place) = worst(numbers);
        assert!(
            deviation.abs() > 10.0,
            "{name} passes: {deviation} at {place}"
        );
    }
}

#[test]
fn numbers_belong_to_rows_however_they_were_cut() {
    let permutation = Permutation::try_new(&Arc::new(Schema::empty()), 7).unwrap();
    let whole = ours(7, 3, 1_000);
    let found: Vec<u64> = [(10, 400), (0, 410), (90, 410)]
        .into_iter()
        .flat_map(|(count, first)| {
            permutation
                .number(&rows(count), 3, first)
                .unwrap()
                .column(0)
                .as_primitive::<UInt64Type>()
                .values()
                .to_vec()
        })
        .collect();
    assert_eq!(found, whole[400..500]);
}

#[test]
fn partitions_are_equal_ranges_of_numbers() {
    let schema = Arc::new(Schema::new(vec![Field::new("row", DataType::Int64, false)]));
    let permutation = Permutation::try_new(&schema, 11).unwrap();
    let values = Int64Array::from_iter_values(0..20_000);
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(values)]).unwrap();
    let numbered = permutation.number(&batch, 0, 0).unwrap();
    let numbers = numbered
        .column(1)
        .as_primitive::<UInt64Type>()
        .values()
        .to_vec();
    for partitions in [1, 2, 3, 7, 64, 1000] {
        let assignment = Assignment::even(permutation.layout(), partitions).unwrap();
        let first = Position { split: 0, row: 0 };
        let layout = permutation.layout();
        let bytes = assignment.to_bytes();
        let assignment = Assignment::from_bytes(layout, &bytes).unwrap();
        let numbered = std::slice::from_ref(&numbered);
        let scatter = Scatter::plan(layout, numbered, &assignment, first).unwrap();
        let mut block = vec![0; *scatter.slice_offsets().last().unwrap() as usize];
        scatter.write(&mut block).unwrap();
        let mut order = Vec::new();
        for (partition, ends) in scatter.slice_offsets().windows(2).enumerate() {
            let slice = Buffer::from(&block[ends[0] as usize..ends[1] as usize]);
            let sections = Sections::open(vec![slice], partition as u32, Some(0), Some(1)).unwrap();
            let rows = GatheredRows::sorted(layout, sections.into(), 0).unwrap();
            let Some(batch) = Arc::new(rows).batches(20_000).next() else {
                continue;
            };
            let batch = batch.unwrap();
            for &row in batch
                .column(0)
                .as_primitive::<arrow_array::types::Int64Type>()
                .values()
            {
                let expected = (u128::from(numbers[row as usize]) * partitions as u128) >> 64;
                assert_eq!(expected as usize, partition);
                order.push(row);
            }
        }
        let mut expected: Vec<i64> = (0..20_000).collect();
        expected.sort_by_key(|&row| numbers[row as usize]);
        assert_eq!(order, expected, "{partitions} partitions");
    }
    assert!(Assignment::even(permutation.layout(), 0).is_err());
}

#[test]
fn only_numbers_have_equal_ranges() {
    let layout = |data_type, nullable, descending| {
        let schema = Schema::new(vec![Field::new("key", data_type, nullable)]);
        let key = SortKey {
            column: 0,
            descending,
            nulls_first: false,
        };
        RowLayout::try_new(&Arc::new(schema), &[key]).unwrap()
    };
    assert!(Assignment::even(&layout(DataType::UInt64, false, false), 4).is_ok());
    for other in [
        layout(DataType::UInt64, true, false),
        layout(DataType::UInt64, false, true),
        layout(DataType::Int64, false, false),
        layout(DataType::Utf8, false, false),
    ] {
        let bytes = Assignment::even(&layout(DataType::UInt64, false, false), 4).unwrap();
        let refused = Assignment::from_bytes(&other, &bytes.to_bytes());
        assert!(matches!(refused, Err(KernelError::NotANumber)));
    }
}
