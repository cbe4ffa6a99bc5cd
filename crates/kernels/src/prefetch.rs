//! Software prefetch: random reads and scattered writes wait for memory unless it is asked for some rows ahead.
//!
//! Measured on 100-byte records: scattering to 640 slices takes 44 ns per record without and 18 ns with it. Placing
//! rows of a table of that size in 132 slices takes 32 ns without and 22 with it.

use std::hint::black_box;

const LINE_BYTES: usize = 64;
/// The rest of a longer row is not read ahead: nobody may want the middle of a string soon.
const READ_AHEAD_BYTES: usize = 512;

/// Asks for the first cache lines of `record`; the hardware fetches the rest of a longer record in sequence.
#[inline(always)]
pub(crate) fn prefetch(record: &[u8]) {
    let last = record.len() - 1;
    for offset in [0, LINE_BYTES.min(last), (2 * LINE_BYTES).min(last)] {
        prefetch_line(&record[offset]);
    }
}

/// Reads a byte of every cache line of rows, so that the next step finds them in the cache.
///
/// These are reads, not prefetches. The CPU forgets prefetches that it has no room for, and it has room for a few rows.
/// Reads wait for room. A row of 108 bytes at random in 64 MiB takes 31 ns with reads, 50 with prefetches and 57 without
/// either (AMD Zen 3). Gathering 4 GB in a whole job took 6 % less. For rows that are written next, prefetches did
/// better.
pub(crate) fn read_ahead<'a>(rows: impl Iterator<Item = &'a [u8]>) {
    let mut read = 0;
    for row in rows {
        let row = &row[..row.len().min(READ_AHEAD_BYTES)];
        for line in row.iter().step_by(LINE_BYTES) {
            read ^= line;
        }
        read ^= row.last().copied().unwrap_or_default();
    }
    black_box(read);
}

/// Asks for the cache line at `address`, which may be any address at all.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn prefetch_line(address: *const u8) {
    use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
    // SAFETY: a prefetch of any address neither faults nor changes memory, and SSE is part of x86-64.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

/// Does nothing: on this processor the hardware is left alone.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn prefetch_line(_address: *const u8) {}
