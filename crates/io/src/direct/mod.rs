//! File reads and writes that leave the page cache alone and reuse their memory.
//!
//! Fresh memory costs a page fault per 4 KiB, whether it is a buffer of ours or a page of the kernel's cache. Memory
//! that was touched before runs an order of magnitude faster. So buffers are recycled ([`BufferPool`]) and hold whole
//! pages, which a storage can write ([`DirectWriter`]) and read ([`RangeReader`], [`ReadAhead`]) past any cache.

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

/// The unit of sequential I/O: large enough to amortise a request, small enough that a few fit into the L3 cache.
pub(crate) const WINDOW: usize = 4 << 20;
