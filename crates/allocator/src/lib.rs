//! The allocator of the native module: jemalloc, kept from giving back what it is about to use, and told to give back
//! what lies idle when memory is short.
//!
//! Freed memory is kept and reused: on virtual machines fresh pages cost more to touch than to fill (0.3-2 GB/s). What is
//! kept must go back when the limit is near, whichever thread freed it: jemalloc does that. mimalloc does not: with its
//! version 3, now and then a sort of 1.2 GB under 200 MB held 120 MB of which 2 were in use, and peaked at 224-283 MB.
//! Sorting 4 GB took 12.6-14.6 s of user time, with mimalloc 2 14.7-16.1 s (three runs each, one build after the other).
//!
//! Zeros are written. jemalloc would give memory that it has kept back to the system and take it fresh instead: sorting
//! 4 GB of records touched 4.4 GB of fresh memory so, and took 3.9 s of system time instead of 1.6 s. Its own remedy, huge
//! pages for the heap (`thp:always`), makes 20-30 MB more resident, which is more than the slack of small limits.

pub mod libraries;

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::CStr;
use std::ptr;

use tikv_jemallocator::Jemalloc;

/// Of jemalloc: returns what is free in all arenas to the system, whichever threads use them.
const PURGE: &CStr = c"arena.4096.purge";

/// jemalloc that zeroes by writing; to be the `global_allocator`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recycling;

impl Recycling {
    /// Gives all memory that is kept for reuse back to the system.
    pub fn release_idle() {
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

// SAFETY: all memory comes from and goes to jemalloc, with the layouts that the caller promises; zeros are written into
// what was just allocated with that size.
unsafe impl GlobalAlloc for Recycling {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on to the caller.
        unsafe { Jemalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on to the caller.
        let memory = unsafe { Jemalloc.alloc(layout) };
        if !memory.is_null() {
            // SAFETY: the memory has that size and belongs to nobody else yet.
            unsafe { memory.write_bytes(0, layout.size()) };
        }
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: passed on to the caller.
        unsafe { Jemalloc.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: passed on to the caller.
        unsafe { Jemalloc.realloc(memory, layout, new_size) }
    }
}
