//! Software prefetch: random reads and scattered writes wait for memory unless it is asked for some rows ahead.
//!
//! Measured on 100-byte records: scattering to 640 slices takes 44 ns per record without and 18 ns with it. Placing rows
//! of a table of that size in 132 slices: 32 ns without, 22 with it.

pub(crate) const LINE_BYTES: usize = 64;

/// Asks for the first cache lines of `record`; what a longer record has more of, the hardware fetches in sequence.
#[inline(always)]
pub(crate) fn prefetch(record: &[u8]) {
    let last = record.len() - 1;
    for offset in [0, LINE_BYTES.min(last), (2 * LINE_BYTES).min(last)] {
        prefetch_line(&record[offset]);
    }
}

/// Asks for the cache line at `address`, which may be any address at all.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn prefetch_line(address: *const u8) {
    use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
    // SAFETY: a prefetch of any address neither faults nor changes memory, and SSE is part of x86-64.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

/// Asks for the cache line at `address`: here, the hardware is left alone.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn prefetch_line(_address: *const u8) {}
