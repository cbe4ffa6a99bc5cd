//! Everything that can go wrong in the store, each with the value, the limit and the remedy.

use std::error::Error;
use std::io;
use std::path::PathBuf;

/// The result of a store operation.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Why a thread should stop waiting, in the words of its interrupter.
pub type Interruption = Box<dyn Error + Send + Sync>;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The budget cannot hold even the smallest block.
    #[error("a budget of {budget_bytes} bytes is below the minimum of {minimum_bytes}; give the store more memory")]
    BudgetTooSmall {
        /// The budget asked for.
        budget_bytes: u64,
        /// The smallest budget that works.
        minimum_bytes: u64,
    },
    /// The spill threshold is not a share of the budget.
    #[error("spill_threshold={threshold} is outside 0..=1; give the share of the budget above which blocks are spilled")]
    InvalidThreshold {
        /// The threshold asked for.
        threshold: f64,
    },
    /// A spill directory does not exist or cannot be looked at.
    #[error("spill directory {} cannot be opened ({source}); create it or name another one in spill_dirs=", path.display())]
    SpillDirectoryMissing {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A spill directory is not a directory.
    #[error("spill directory {} is not a directory; name a directory in spill_dirs=", path.display())]
    SpillDirectoryNotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// No file can be created in a spill directory.
    #[error("spill directory {} takes no files ({source}); make it writable or name another one in spill_dirs=", path.display())]
    SpillDirectoryNotWritable {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The operating system gave no arena.
    #[error("no memory arena of {bytes} bytes could be set up ({source}); lower the memory limit or raise the process limits")]
    Arena {
        /// Bytes asked for.
        bytes: u64,
        /// Why.
        source: io::Error,
    },
    /// The operating system refused to map a block.
    #[error("a block of {bytes} bytes in {ranges} ranges could not be mapped ({source}); raise vm.max_map_count or use larger blocks")]
    Map {
        /// Bytes of the block.
        bytes: u64,
        /// Separate memory ranges that make it up.
        ranges: usize,
        /// Why.
        source: io::Error,
    },
    /// A request that no amount of waiting can satisfy.
    #[error("{requested_bytes} bytes were requested from a budget of {budget_bytes}; raise the memory limit or use more, smaller partitions")]
    TooLarge {
        /// Bytes asked for.
        requested_bytes: u64,
        /// The whole budget.
        budget_bytes: u64,
    },
    /// The slice offsets of a new block make no sense.
    #[error("slice offset {value} at position {position} is invalid; offsets start at 0 and never decrease")]
    InvalidOffsets {
        /// Where in the offsets.
        position: usize,
        /// The offset found there.
        value: u64,
    },
    /// The block was never sealed, or has been freed.
    #[error(
        "block {block} does not exist (any more); fetch it before its last reference is freed"
    )]
    UnknownBlock {
        /// The block.
        block: u64,
    },
    /// The block has fewer slices.
    #[error(
        "block {block} has no slice {slice}, only {num_slices}; ask for a slice below that number"
    )]
    NoSuchSlice {
        /// The block.
        block: u64,
        /// The slice asked for.
        slice: usize,
        /// Slices in the block.
        num_slices: usize,
    },
    /// Bytes read back from disk are not those that were written.
    #[error("slice {slice} of block {block} at byte {offset} of its spill file fails its checksum; recompute it, and check the disk")]
    Corrupt {
        /// The block.
        block: u64,
        /// The slice.
        slice: usize,
        /// Where the slice starts in the spill file.
        offset: u64,
    },
    /// Reading a spilled block failed.
    #[error("block {block} could not be read at byte {offset} of its spill file ({source}); recompute it, and check the disk")]
    Restore {
        /// The block.
        block: u64,
        /// Where the read started in the spill file.
        offset: u64,
        /// Why.
        source: io::Error,
    },
    /// Memory is short and no spill directory takes more.
    #[error("{needed_bytes} bytes are needed, but memory is full and nothing can be spilled ({directories}); free disk space or name more directories in spill_dirs=")]
    DiskFull {
        /// Bytes of the request.
        needed_bytes: u64,
        /// Every directory with the reason it takes no more.
        directories: String,
    },
    /// A waiting thread was interrupted.
    #[error("waiting for memory was interrupted: {0}")]
    Interrupted(Interruption),
    /// This process was forked from the one that has the store.
    #[error("the store is that of the process which this one was forked from; open one here")]
    Forked,
    /// The store has been closed.
    #[error("the store is closed; open a new one")]
    Closed,
}
