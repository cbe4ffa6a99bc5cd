//! The allocator of the native module: jemalloc. It keeps memory that it is about to use again, and gives idle memory
//! back when memory is short.
//!
//! Freed memory is kept and reused: on virtual machines fresh pages cost more to touch than to fill (0.3-2 GB/s). Kept
//! memory must go back when the limit is near, whichever thread freed it: jemalloc does that. Version 3 of mimalloc does
//! not. Now and then a sort of 1.2 GB under 200 MB held 120 MB, of which 2 were in use. It peaked at 224-283 MB. Sorting
//! 4 GB took 12.6-14.6 s of user time, with mimalloc 2 14.7-16.1 s (three runs each, one build after the other).
//!
//! Zeros are written. jemalloc would give kept memory back to the system and take fresh memory instead. Sorting 4 GB of
//! records then touched 4.4 GB of fresh memory, and took 3.9 s of system time instead of 1.6 s. jemalloc's own remedy,
//! huge pages for the heap (`thp:always`), makes 20-30 MB more resident. That is more than the slack of small limits.

#[cfg(target_os = "linux")]
mod duckdb;
pub mod libraries;

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::CStr;
use std::ptr;

use tikv_jemallocator::Jemalloc;

/// The command of jemalloc that returns free memory in all arenas to the system, whichever threads use them.
const PURGE: &CStr = c"arena.4096.purge";

/// jemalloc that zeroes by writing; for the `global_allocator`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recycling;

impl Recycling {
    /// Gives all memory that is kept for reuse back to the system, and has DuckDB do so, too.
    pub fn release_idle() {
        #[cfg(target_os = "linux")]
        duckdb::release_idle();
        // SAFETY: the name ends in zero, and the command takes and gives nothing.
        unsafe {
            tikv_jemalloc_sys::mallctl(
                PURGE.as_ptr(),
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
                0,
            )
        };
    }
}

// SAFETY: all memory comes from and goes to jemalloc, with the layouts that the caller promises. Zeros are written into
// memory that was just allocated with that size.
unsafe impl GlobalAlloc for Recycling {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller promises it.
        unsafe { Jemalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller promises it.
        let memory = unsafe { Jemalloc.alloc(layout) };
        if !memory.is_null() {
            // SAFETY: the memory has that size and belongs to nobody else yet.
            unsafe { memory.write_bytes(0, layout.size()) };
        }
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller promises it.
        unsafe { Jemalloc.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises it.
        unsafe { Jemalloc.realloc(memory, layout, new_size) }
    }
}
