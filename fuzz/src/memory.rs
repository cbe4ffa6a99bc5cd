//! Counts the memory that Rust code holds, and ends the process where it is more than allowed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counted;

#[global_allocator]
static COUNTED: Counted = Counted;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// From now on, no more than `bytes` beside what is held now.
pub(crate) fn allow(bytes: usize) {
    let held = HELD.load(Ordering::Relaxed);
    MOST.store(held.saturating_add(bytes), Ordering::Relaxed);
}

fn take(bytes: usize) {
    let held = HELD.fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes);
    if held > MOST.load(Ordering::Relaxed) {
        // Saying so takes memory, too.
        let most = MOST.swap(usize::MAX, Ordering::Relaxed);
        if most != usize::MAX {
            let trace = std::backtrace::Backtrace::force_capture();
            eprintln!("{bytes} bytes more make {held}, and {most} are allowed\n{trace}");
            std::process::abort();
        }
    }
}

// SAFETY: the system's allocator does the work; numbers beside it change nothing about memory.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: as promised to us.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: as promised to us.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as promised to us.
        unsafe { System.dealloc(start, layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        take(bytes);
        // SAFETY: as promised to us.
        unsafe { System.realloc(start, layout, bytes) }
    }
}
