//! Recycled, page-aligned buffers for file I/O.
//!
//! A buffer comes from the pool of its size class and goes back when its last user drops it. `freeze` turns it into
//! [`Bytes`] that do the same. [`IDLE_LIMIT`] bounds the idle memory; buffers beyond it are unmapped. A buffer that
//! nobody wanted for [`IDLE_FOR`] goes too. A reduce needs a tenth of the buffers of a map, and the buffers that maps
//! leave idle would count against the memory limit.
//!
//! A process may fork at any time. Its child has the pool as it was between two uses. It never has the pool in the
//! middle of a use by a thread that the child lacks.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::error::{IoError, Result};
use crate::storage::PAGE;

/// Sizes that are recycled; a larger buffer gets its own mapping, which goes when it is dropped.
const CLASSES: [usize; 4] = [64 << 10, 1 << 20, 4 << 20, 16 << 20];
const IDLE_LIMIT: usize = 512 << 20;
/// A map of 64 MB takes 0.1 to 0.3 s, so buffers that the next map will want stay.
const IDLE_FOR: Duration = Duration::from_millis(500);

/// The process-wide pool of I/O buffers.
pub struct BufferPool;

struct State {
    /// Per class, with the time of return, oldest first. Buffers are taken from the back.
    idle: [VecDeque<(NonNull<u8>, Instant)>; CLASSES.len()],
    idle_bytes: usize,
}

// SAFETY: the pointers are exclusively owned anonymous mappings that no thread uses while they are idle.
unsafe impl Send for State {}

impl State {
    /// Takes out at most one buffer of each class that has been idle for too long. Each return pays for a few, so that
    /// no return pays for all.
    fn pop_unwanted(&mut self, now: Instant) -> [Option<(NonNull<u8>, usize)>; CLASSES.len()] {
        let mut unwanted = [None; CLASSES.len()];
        for (class, idle) in self.idle.iter_mut().enumerate() {
            if idle
                .front()
                .is_some_and(|(_, since)| now.duration_since(*since) > IDLE_FOR)
            {
                let Some((pointer, _)) = idle.pop_front() else {
                    continue;
                };
                self.idle_bytes -= CLASSES[class];
                unwanted[class] = Some((pointer, CLASSES[class]));
            }
        }
        unwanted
    }
}

static STATE: Mutex<State> = Mutex::new(State {
    idle: [const { VecDeque::new() }; CLASSES.len()],
    idle_bytes: 0,
});

static GUARDED: Once = Once::new();

thread_local! {
    /// The lock, held by a thread that is about to fork.
    static HELD: Cell<Option<MutexGuard<'static, State>>> = const { Cell::new(None) };
}

unsafe extern "C" fn hold() {
    HELD.set(Some(lock()));
}

unsafe extern "C" fn let_go() {
    drop(HELD.take());
}

fn state() -> MutexGuard<'static, State> {
    // Where the system has no memory to note the handlers, a child may wait for a thread that it does not have.
    // SAFETY: the handlers take and release a lock, which nobody holds for longer than a few instructions. They stay
    // loaded, since modules of Python are never unloaded.
    GUARDED.call_once(|| unsafe {
        libc::pthread_atfork(Some(hold), Some(let_go), Some(let_go));
    });
    lock()
}

fn lock() -> MutexGuard<'static, State> {
    // The state is consistent after every statement, so a panic elsewhere does not spoil it.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BufferPool {
    /// Returns a buffer of at least `bytes` bytes with arbitrary (but initialised) content.
    pub fn take(bytes: usize) -> Result<PooledBuffer> {
        let class = CLASSES.iter().position(|&size| size >= bytes);
        let capacity = class.map_or_else(|| bytes.next_multiple_of(PAGE), |class| CLASSES[class]);
        let idle = class.and_then(|class| {
            let mut state = state();
            let (pointer, _) = state.idle[class].pop_back()?;
            state.idle_bytes -= capacity;
            Some(pointer)
        });
        let pointer = match idle {
            Some(pointer) => pointer,
            None => map(capacity).map_err(|source| IoError::Memory {
                bytes: capacity,
                source,
            })?,
        };
        Ok(PooledBuffer { pointer, capacity })
    }

    /// Returns the bytes that lie idle in the pool.
    pub fn idle_bytes() -> usize {
        state().idle_bytes
    }

    /// Returns all idle memory to the operating system.
    pub fn trim() {
        let idle = {
            let mut state = state();
            state.idle_bytes = 0;
            std::mem::take(&mut state.idle)
        };
        for (class, pointers) in idle.into_iter().enumerate() {
            for (pointer, _) in pointers {
                unmap(pointer, CLASSES[class]);
            }
        }
    }
}

/// A page-aligned buffer that returns to the pool when dropped.
pub struct PooledBuffer {
    pointer: NonNull<u8>,
    capacity: usize,
}

// SAFETY: this value alone owns the mapping; references to it follow Rust's borrow rules through Deref.
unsafe impl Send for PooledBuffer {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for PooledBuffer {}

impl PooledBuffer {
    /// Returns immutable bytes over `range` of the buffer. The buffer returns to the pool when the last clone is
    /// dropped.
    pub fn freeze(self, range: Range<usize>) -> Bytes {
        Bytes::from_owner(self).slice(range)
    }
}

impl Deref for PooledBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has `capacity` bytes, zeroed by the kernel or written since, and lives as long as self.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.capacity) }
    }
}

impl DerefMut for PooledBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in deref, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.capacity) }
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        if let Some(class) = CLASSES.iter().position(|&size| size == self.capacity) {
            let mut state = state();
            if state.idle_bytes + self.capacity <= IDLE_LIMIT {
                let now = Instant::now();
                state.idle[class].push_back((self.pointer, now));
                state.idle_bytes += self.capacity;
                let unwanted = state.pop_unwanted(now);
                drop(state);
                for (pointer, bytes) in unwanted.into_iter().flatten() {
                    unmap(pointer, bytes);
                }
                return;
            }
        }
        unmap(self.pointer, self.capacity);
    }
}

fn map(bytes: usize) -> std::io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing memory.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes.max(PAGE),
            protection,
            flags,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    // No huge pages: a virtual machine that gives free memory back to its host does so in these. A first touch of 200
    // MB took 0.6-1.6 s in them. In small pages, most of which were in use a moment ago, it took 0.17 s.
    NonNull::new(address.cast()).ok_or_else(|| std::io::Error::other("mapped at address zero"))
}

fn unmap(pointer: NonNull<u8>, bytes: usize) {
    // SAFETY: pointer and length are those of a mapping made by `map`, and its only owner gives it up here.
    unsafe { libc::munmap(pointer.as_ptr().cast(), bytes.max(PAGE)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_large_enough() {
        for bytes in [
            0,
            1,
            4096,
            65_536,
            65_537,
            1 << 20,
            4 << 20,
            (4 << 20) + 1,
            20 << 20,
        ] {
            let mut buffer = BufferPool::take(bytes).unwrap();
            assert!(buffer.len() >= bytes);
            assert_eq!(buffer.as_ptr() as usize % PAGE, 0);
            buffer.fill(7);
        }
    }

    #[test]
    fn frozen_bytes_keep_their_content_and_range() {
        let mut buffer = BufferPool::take(4096).unwrap();
        buffer[10..14].copy_from_slice(b"abcd");
        let bytes = buffer.freeze(10..14);
        let clone = bytes.clone();
        drop(bytes);
        assert_eq!(&clone[..], b"abcd");
    }

    #[test]
    fn a_child_forked_while_others_use_the_pool_can_use_it() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    BufferPool::take(4096).unwrap();
                }
            });
            for _ in 0..100 {
                // SAFETY: the pool is the only thing that the child shares with other threads, and the child ends
                // without coming back.
                let status = unsafe {
                    let child = libc::fork();
                    if child == 0 {
                        libc::alarm(10);
                        libc::_exit(i32::from(BufferPool::take(4096).is_err()));
                    }
                    let mut status = -1;
                    libc::waitpid(child, &raw mut status, 0);
                    status
                };
                assert_eq!(status, 0);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
