//! Throughput of spill and restore: 2 GiB through a budget of 512 MiB in the temporary directory.
//!
//! A plain program, because each phase runs once over data that must not fit into memory.

use std::time::Instant;

use exoshuffle_store::{BlockId, Priority, Result, Store, StoreOptions};

const BUDGET_BYTES: u64 = 512 << 20;
const BLOCKS: usize = 64;
const SLICES: usize = 64;
const SLICE_BYTES: usize = 512 << 10;

fn report(phase: &str, bytes: usize, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{phase:<24} {:>6.2} GB/s ({seconds:.2} s)",
        bytes as f64 / seconds / 1e9
    );
}

fn write_blocks(store: &Store) -> Result<Vec<BlockId>> {
    let offsets: Vec<u64> = (0..=SLICES)
        .map(|slice| (slice * SLICE_BYTES) as u64)
        .collect();
    let write = |number: usize| {
        let mut block = store.allocate(&offsets, Priority::Output)?;
        block.as_mut_slice().fill(number as u8);
        Ok(block.seal())
    };
    (0..BLOCKS).map(write).collect()
}

fn main() -> Result<()> {
    let total = BLOCKS * SLICES * SLICE_BYTES;
    let directory = std::env::temp_dir();
    let store = Store::open(StoreOptions::new(BUDGET_BYTES, vec![directory]))?;

    let start = Instant::now();
    let blocks = write_blocks(&store)?;
    drop(store.reserve(BUDGET_BYTES)?);
    report("write and spill all", total, start);

    let start = Instant::now();
    for slice in 0..SLICES {
        let wanted: Vec<_> = blocks.iter().map(|&block| (block, Some(slice))).collect();
        let slices = store.fetch(&wanted)?;
        assert!(slices
            .iter()
            .enumerate()
            .all(|(block, slice)| slice.as_slice()[0] == block as u8));
    }
    report("restore slice by slice", total, start);

    let start = Instant::now();
    for &block in &blocks {
        store.fetch(&[(block, None)])?;
    }
    report("restore whole blocks", total, start);
    println!("{:?}", store.stats());
    Ok(())
}
