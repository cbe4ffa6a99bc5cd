//! Fixed-length records: 1 M benchmark records (100 MB) generated, validated, scattered and sorted, and the same
//! records sorted whole by the standard library for comparison.

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that cannot set up its input has nothing to report"
)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{criterion_group, criterion_main, BatchSize, Criterion, Throughput};
use exoshuffle_kernels::gensort::{fill_records, RecordKind, KEY_BYTES, RECORD_BYTES};
use exoshuffle_kernels::records::{
    choose_boundaries, sample, sort_into, Boundaries, RecordError, RecordShape, Scatter,
    SortedRecords,
};
use exoshuffle_kernels::valsort::Summary;
use exoshuffle_kernels::Position;

const RECORDS: usize = 1_000_000;
const START: Position = Position { split: 0, row: 0 };

fn shape() -> RecordShape {
    RecordShape::try_new(RECORD_BYTES, KEY_BYTES).unwrap()
}

fn records(kind: RecordKind) -> Vec<u8> {
    let mut out = vec![0; RECORDS * RECORD_BYTES];
    fill_records(0, kind, &mut out).unwrap();
    out
}

fn ordered_by(
    records: &[u8],
    order: impl Fn(&[u8; RECORD_BYTES], &[u8; RECORD_BYTES]) -> std::cmp::Ordering,
) -> Vec<u8> {
    let mut rows = records.as_chunks::<RECORD_BYTES>().0.to_vec();
    rows.sort_by(order);
    rows.into_flattened()
}

/// Returns the inputs that a sort must not be slow on.
fn inputs() -> Vec<(&'static str, Vec<u8>)> {
    let random = records(RecordKind::Binary);
    let with_keys = |key: fn(&mut [u8])| {
        let mut out = random.clone();
        out.chunks_mut(RECORD_BYTES)
            .for_each(|r| key(&mut r[..KEY_BYTES]));
        out
    };
    vec![
        ("skewed", records(RecordKind::SkewedBinary)),
        ("all equal", with_keys(|key| key.fill(7))),
        (
            "ten distinct",
            with_keys(|key| {
                let k = key[9] % 10;
                key.fill(k)
            }),
        ),
        ("last bytes only", with_keys(|key| key[..7].fill(0))),
        ("narrow", with_keys(|key| key[..2].fill(0))),
        (
            "presorted",
            ordered_by(&random, |a, b| a[..KEY_BYTES].cmp(&b[..KEY_BYTES])),
        ),
        (
            "reversed",
            ordered_by(&random, |a, b| b[..KEY_BYTES].cmp(&a[..KEY_BYTES])),
        ),
        ("random", random),
    ]
}

fn sort(c: &mut Criterion) {
    let mut group = c.benchmark_group("sort");
    group.throughput(Throughput::Bytes((RECORDS * RECORD_BYTES) as u64));
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    let mut buffer = vec![0; 4 << 20];
    for (name, input) in inputs() {
        group.bench_function(format!("sort_into/{name}"), |b| {
            b.iter(|| {
                sort_into(shape(), &[&input], &mut buffer, |out| {
                    black_box(out);
                    Ok::<_, RecordError>(())
                })
            })
        });
    }
    let input = records(RecordKind::Binary);
    group.bench_function("entries only", |b| {
        b.iter(|| SortedRecords::try_new(shape(), &[&input]).unwrap().len())
    });
    let slices: Vec<&[u8]> = input.chunks(20_000 * RECORD_BYTES).collect();
    group.bench_function("sort_into/50 slices", |b| {
        b.iter(|| {
            sort_into(shape(), &slices, &mut buffer, |out| {
                black_box(out);
                Ok::<_, RecordError>(())
            })
        })
    });
    group.bench_function("std sort_unstable of whole records", |b| {
        b.iter_batched_ref(
            || input.as_chunks::<RECORD_BYTES>().0.to_vec(),
            |rows| rows.sort_unstable_by(|a, b| a[..KEY_BYTES].cmp(&b[..KEY_BYTES])),
            BatchSize::LargeInput,
        )
    });
    group.finish();
}

fn even_boundaries(input: &[u8], partitions: usize) -> Boundaries {
    let rows: Vec<u64> = (0..RECORDS as u64).step_by(10).collect();
    let samples = sample(shape(), input, START, &rows);
    choose_boundaries(shape(), &[&samples], partitions).unwrap()
}

fn scatter(c: &mut Criterion) {
    let mut group = c.benchmark_group("scatter");
    group.throughput(Throughput::Bytes((RECORDS * RECORD_BYTES) as u64));
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    let mut out = vec![0; RECORDS * RECORD_BYTES];
    for (name, input) in inputs() {
        for partitions in [40, 640] {
            if partitions != 640 && name != "random" {
                continue;
            }
            let boundaries = even_boundaries(&input, partitions);
            group.bench_function(format!("plan/{partitions}/{name}"), |b| {
                b.iter(|| {
                    Scatter::plan(&[&input], &boundaries, START)
                        .unwrap()
                        .records()
                })
            });
            if name != "random" {
                continue;
            }
            let plan = Scatter::plan(&[&input], &boundaries, START).unwrap();
            let mut out = vec![0; plan.slice_offsets()[partitions] as usize];
            group.bench_function(format!("write/{partitions}/{name}"), |b| {
                b.iter(|| plan.write(&[&input], &mut out))
            });
        }
    }
    group.bench_function("memcpy", |b| {
        let input = records(RecordKind::Binary);
        b.iter(|| out.copy_from_slice(black_box(&input)))
    });
    group.finish();
}

fn cloudsort(c: &mut Criterion) {
    let mut group = c.benchmark_group("cloudsort");
    group.throughput(Throughput::Bytes((RECORDS * RECORD_BYTES) as u64));
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    let mut out = vec![0; RECORDS * RECORD_BYTES];
    for kind in [
        RecordKind::Binary,
        RecordKind::Ascii,
        RecordKind::SkewedBinary,
    ] {
        group.bench_function(format!("gensort/{kind:?}"), |b| {
            b.iter(|| fill_records(0, kind, &mut out))
        });
    }
    group.bench_function("valsort", |b| {
        b.iter(|| {
            let mut summary = Summary::new(shape());
            summary.update(&out).map(|()| summary.checksum)
        })
    });
    group.finish();
}

criterion_group!(benches, sort, scatter, cloudsort);
criterion_main!(benches);
