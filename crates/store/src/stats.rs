//! The holdings and the counters of a store, at one moment.

/// Counts of a [`Store`](crate::Store). Bytes of blocks include their rounding to whole units of the arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The whole budget.
    pub budget_bytes: u64,
    /// Bytes of the budget that blocks, unsealed blocks and restored slices take now.
    pub used_blocks_bytes: u64,
    /// Bytes reserved now.
    pub reserved_bytes: u64,
    /// Upper bound of the system memory that the arena holds now: blocks plus free memory kept for reuse.
    pub resident_arena_bytes: u64,
    /// The most that blocks and reservations ever took together.
    pub peak_bytes: u64,
    /// Bytes of blocks that were spilled so far.
    pub spilled_bytes: u64,
    /// Bytes written to spill files for them: less where they are compressed.
    pub written_bytes: u64,
    /// Spill files that exist now.
    pub spill_files: u64,
    /// Bytes of slices that came back from spill files so far.
    pub restored_bytes: u64,
    /// Bytes of blocks that went to the file system for want of memory so far.
    pub fallback_bytes: u64,
    /// Blocks that can be fetched now.
    pub num_blocks: u64,
    /// Spill directories that take no more files now.
    pub failed_spill_dirs: u64,
}
