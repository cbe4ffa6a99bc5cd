//! File reads and writes that leave the page cache alone and reuse their memory.
//!
//! Fresh memory costs a page fault per 4 KiB, whether it is a buffer of ours or a page of the kernel's cache. Memory
//! that was touched before runs an order of magnitude faster. So buffers are recycled ([`BufferPool`]), files are
//! written with `O_DIRECT` ([`DirectWriter`]), and bytes that are not yet in the page cache are read with `O_DIRECT`
//! ([`RangeReader`], [`ReadAhead`]).

mod chunks;
mod located;
mod pool;
mod range;
mod read_ahead;
mod writer;

pub use chunks::ChunkWriter;
pub use located::{known, located, place, shown};
pub use pool::{BufferPool, PooledBuffer};
pub use range::RangeReader;
pub use read_ahead::ReadAhead;
pub use writer::{DirectWriter, PendingFile, WrittenFile};

/// Offsets, lengths and addresses of direct I/O are multiples of this.
pub(crate) const PAGE: usize = 4096;

/// The unit of sequential I/O: large enough to amortise a request, small enough that a few fit into the L3 cache.
pub(crate) const WINDOW: usize = 4 << 20;

pub(crate) const fn page_floor(offset: u64) -> u64 {
    offset & !(PAGE as u64 - 1)
}

pub(crate) const fn page_ceil(offset: u64) -> u64 {
    (offset + PAGE as u64 - 1) & !(PAGE as u64 - 1)
}
