//! Merging blocks on one core: 64 MB in 2 and 10 blocks of small and of large slices.

#![allow(missing_docs, reason = "criterion generates public items")]

use std::hint::black_box;

use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use exoshuffle_kernels::{merge_into, merged_offsets};

const BYTES: usize = 64_000_000;

fn merge(c: &mut Criterion) {
    let mut group = c.benchmark_group("merge");
    group.sample_size(10);
    for fan_in in [2, 10] {
        for slice_bytes in [1_000, 1_000_000] {
            let num_slices = BYTES / fan_in / slice_bytes;
            let slices: Vec<Vec<u8>> = vec![vec![7; slice_bytes * num_slices]; fan_in];
            let blocks: Vec<Vec<&[u8]>> = slices
                .iter()
                .map(|block| block.chunks(slice_bytes).collect())
                .collect();
            let sizes = vec![vec![slice_bytes as u64; num_slices]; fan_in];
            let mut out = vec![0; fan_in * num_slices * slice_bytes];
            group.throughput(Throughput::Bytes(out.len() as u64));
            group.bench_function(format!("{fan_in} blocks, slices of {slice_bytes}"), |b| {
                b.iter(|| {
                    let offsets = merged_offsets(&sizes);
                    (offsets, merge_into(black_box(&blocks), &mut out))
                })
            });
        }
    }
    group.finish();
}

criterion_group!(benches, merge);
criterion_main!(benches);
