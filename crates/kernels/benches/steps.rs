//! The smaller kernels on one core, beside those of `table.rs`: they decide where rows go, and check them.
//! Criterion reports time per iteration; a million rows make 1 ms per iteration 1 ns per row.

#![allow(clippy::unwrap_used, reason = "a benchmark that fails should stop")]
#![allow(missing_docs, reason = "criterion generates public items")]

use std::hint::black_box;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow_schema::{DataType, Field, Schema};
use criterion::{criterion_group, criterion_main, Criterion};
use exoshuffle_kernels::{
    cast_to_user_schema, choose_boundaries, sample, Assignment, Permutation, Position, RowLayout,
    Scatter, SortKey, Tally,
};

const ROWS: i64 = 1_000_000;
const BATCH_ROWS: i64 = 8192;
const PARTITIONS: usize = 64;
const SAMPLES: i64 = 6400;

fn schema(text: DataType) -> Arc<Schema> {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Int64, true),
        Field::new("text", text, true),
    ]))
}

fn batch(start: i64, rows: i64) -> RecordBatch {
    let keys = || (start..start + rows).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64));
    let text = keys().map(|key| format!("{:-<84}", format!("{key:016x}")));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(keys())),
        Arc::new(StringViewArray::from_iter_values(text)),
    ];
    RecordBatch::try_new(schema(DataType::Utf8View), columns).unwrap()
}

fn batches() -> Vec<RecordBatch> {
    (0..ROWS)
        .step_by(BATCH_ROWS as usize)
        .map(|start| batch(start, BATCH_ROWS.min(ROWS - start)))
        .collect()
}

fn steps(c: &mut Criterion) {
    let mut group = c.benchmark_group("steps");
    group.sample_size(10);
    let batches = batches();
    let key = SortKey {
        column: 0,
        descending: false,
        nulls_first: false,
    };
    let layout = RowLayout::try_new(&schema(DataType::Utf8), &[key]).unwrap();

    let keys = batch(ROWS, SAMPLES).project(&[0]).unwrap();
    let positions: Vec<Position> = (0..SAMPLES as u64)
        .map(|row| Position { split: 1, row })
        .collect();
    group.bench_function("sample 6400 keys and choose 64 boundaries", |b| {
        b.iter(|| {
            let samples = sample(&layout.key_layout(), &keys, &positions).unwrap();
            choose_boundaries(&layout.key_layout(), &[&samples], PARTITIONS).unwrap()
        });
    });

    let by_hash = Assignment::hash(&layout, PARTITIONS).unwrap();
    let first = Position { split: 0, row: 0 };
    group.bench_function("plan by hash", |b| {
        b.iter(|| Scatter::plan(&layout, &batches, &by_hash, first).unwrap());
    });

    let permutation = Permutation::try_new(&schema(DataType::Utf8), 1).unwrap();
    group.bench_function("number for a permutation", |b| {
        b.iter(|| {
            for batch in &batches {
                black_box(permutation.number(batch, 0, 0).unwrap());
            }
        });
    });

    let rows = vec![1; 100 * ROWS as usize];
    group.bench_function("tally rows of 100 bytes", |b| {
        b.iter(|| {
            let mut tally = Tally::default();
            tally.add_records(black_box(&rows), 100);
            tally
        });
    });

    let declared = schema(DataType::Utf8);
    group.bench_function("strings from views", |b| {
        b.iter(|| {
            for batch in &batches {
                black_box(cast_to_user_schema(&declared, batch).unwrap());
            }
        });
    });
    group.finish();
}

criterion_group!(benches, steps);
criterion_main!(benches);
