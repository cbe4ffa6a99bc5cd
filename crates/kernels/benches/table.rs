//! The target job on one core: 1 M rows of (int64 key, int64, 84-byte string) through scatter, sort and gather.
//! Criterion reports time per iteration; a million rows make 1 ms per iteration 1 ns per row.

#![allow(clippy::unwrap_used, reason = "a benchmark that fails should stop")]
#![allow(missing_docs, reason = "criterion generates public items")]

use std::hint::black_box;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field, Schema};
use criterion::{criterion_group, criterion_main, Criterion};
use exoshuffle_kernels::{
    choose_boundaries, sample, Assignment, Batches, GatheredRows, Position, RowLayout, Scatter,
    Sections, SortKey,
};

const ROWS: u64 = 1_000_000;
const PARTITIONS: usize = 64;
const MAPS: usize = 64;
const BATCH_ROWS: u64 = 8192;

fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (x ^ x >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

fn layout(key: usize) -> RowLayout {
    let schema = Schema::new(vec![
        Field::new("key", DataType::Int64, true),
        Field::new("id", DataType::Int64, true),
        Field::new("text", DataType::Utf8, true),
    ]);
    RowLayout::try_new(
        &Arc::new(schema),
        &[SortKey {
            column: key,
            descending: false,
            nulls_first: false,
        }],
    )
    .unwrap()
}

/// Makes a batch in which all strings begin with `begin`.
fn batch(start: u64, rows: u64, begin: &str) -> RecordBatch {
    let range = || start..start + rows;
    let keys = Int64Array::from_iter_values(range().map(|i| mix(i) as i64));
    let ids = Int64Array::from_iter_values(range().map(|i| i as i64));
    let text = |i| format!("{:-<84}", format!("{begin}{:016x}", mix(i)));
    let text = StringViewArray::from_iter_values(range().map(text));
    let columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(ids), Arc::new(text)];
    RecordBatch::try_from_iter(["key", "id", "text"].into_iter().zip(columns)).unwrap()
}

fn boundaries(layout: &RowLayout, begin: &str) -> Assignment {
    let keys = batch(ROWS, 6400, begin)
        .project(layout.key_columns())
        .unwrap();
    let positions: Vec<Position> = (0..6400).map(|row| Position { split: 1, row }).collect();
    let blob = sample(&layout.key_layout(), &keys, &positions).unwrap();
    Assignment::Range(choose_boundaries(&layout.key_layout(), &[&blob], PARTITIONS).unwrap())
}

fn table(c: &mut Criterion) {
    let mut group = c.benchmark_group("table");
    group.sample_size(10);
    for (name, key, begin) in [
        ("int", 0, ""),
        ("string", 2, ""),
        ("url", 2, "https://example.org/a/path/"),
    ] {
        let batches: Vec<RecordBatch> = (0..ROWS)
            .step_by(BATCH_ROWS as usize)
            .map(|i| batch(i, BATCH_ROWS.min(ROWS - i), begin))
            .collect();
        let layout = layout(key);
        let boundaries = boundaries(&layout, begin);
        let first = Position { split: 0, row: 0 };
        group.bench_function(format!("{name}/plan"), |b| {
            b.iter(|| Scatter::plan(&layout, &batches, &boundaries, first).unwrap());
        });
        let scatter = Scatter::plan(&layout, &batches, &boundaries, first).unwrap();
        let mut block = vec![0u8; *scatter.slice_offsets().last().unwrap() as usize];
        group.bench_function(format!("{name}/write"), |b| {
            b.iter(|| scatter.write(&mut block).unwrap())
        });
        let everything = Assignment::round_robin(1).unwrap();
        let slices: Vec<Buffer> = (0..)
            .zip(batches.chunks(batches.len().div_ceil(MAPS)))
            .map(|(split, batches)| {
                let first = Position { split, row: 0 };
                let scatter = Scatter::plan(&layout, batches, &everything, first).unwrap();
                let mut block = vec![0u8; scatter.slice_offsets()[1] as usize];
                scatter.write(&mut block).unwrap();
                Buffer::from(block)
            })
            .collect();
        let sections = Arc::new(Sections::open(slices, 0, Some(0), None).unwrap());
        let sorted = || GatheredRows::sorted(&layout, Arc::clone(&sections), 0).unwrap();
        group.bench_function(format!("{name}/sort"), |b| b.iter(sorted));
        let rows = Arc::new(sorted());
        let gather = |batches: Batches| batches.for_each(|batch| drop(black_box(batch.unwrap())));
        let step = BATCH_ROWS as usize;
        group.bench_function(format!("{name}/gather"), |b| {
            b.iter(|| gather(Arc::clone(&rows).batches(step)));
        });
        group.bench_function(format!("{name}/gather with plain strings"), |b| {
            b.iter(|| gather(Arc::clone(&rows).plain_batches(step)));
        });
    }
    group.finish();
}

criterion_group!(benches, table);
criterion_main!(benches);
