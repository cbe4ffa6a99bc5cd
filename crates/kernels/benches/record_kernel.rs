//! The record kernel by itself, on one core. Sorts the records of a file as a reduce task does, a buffer at a time, and
//! prints the seconds of every sort. `benchmarks/record_kernel.py` runs it beside `std_sort.cpp`, which takes the same
//! arguments and measures the same way. `records.rs` is the bench for finding out where the time goes.

#![allow(
    clippy::print_stdout,
    reason = "what it measured is what it is run for"
)]

use std::error::Error;
use std::fs;
use std::time::Instant;

use exoshuffle_kernels::gensort::{KEY_BYTES, RECORD_BYTES};
use exoshuffle_kernels::records::{sort_into, RecordError, RecordShape};

/// The bytes that a reduce task writes at once.
const BUFFER_BYTES: usize = 4 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo bench` adds `--bench` to the given arguments.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|one| one != "--bench")
        .collect();
    // Without arguments a plain `cargo bench` runs it, which wants all benches and has no file.
    let [path, sorts] = arguments.as_slice() else {
        println!("usage: record_kernel RECORDS_FILE SORTS");
        return Ok(());
    };
    let input = fs::read(path)?;
    let shape = RecordShape::try_new(RECORD_BYTES, KEY_BYTES)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    for _ in 0..sorts.parse::<u32>()? {
        let start = Instant::now();
        let mut sorted_bytes = 0;
        sort_into(shape, &[&input], &mut buffer, |out| {
            sorted_bytes += out.len();
            Ok::<_, RecordError>(())
        })?;
        println!("{:.6}", start.elapsed().as_secs_f64());
        require_sorted(shape, &input, &mut buffer, sorted_bytes)?;
    }
    Ok(())
}

/// Sorts once more, not timed, and checks the result.
fn require_sorted(
    shape: RecordShape,
    input: &[u8],
    buffer: &mut [u8],
    sorted_bytes: usize,
) -> Result<(), Box<dyn Error>> {
    let mut last = [0; KEY_BYTES];
    let mut in_order = sorted_bytes == input.len();
    sort_into(shape, &[input], buffer, |out| {
        for record in out.as_chunks::<RECORD_BYTES>().0 {
            in_order &= last[..] <= record[..KEY_BYTES];
            last.copy_from_slice(&record[..KEY_BYTES]);
        }
        Ok::<_, RecordError>(())
    })?;
    in_order.then_some(()).ok_or_else(|| "not in order".into())
}
