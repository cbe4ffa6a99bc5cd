//! The public face of the store.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::acquire::Reservation;
use crate::block::{BlockId, BlockMut, Slice};
use crate::budget::Priority;
use crate::direct_file::DirectIo;
use crate::error::{Result, StoreError};
use crate::options::StoreOptions;
use crate::restore;
use crate::shared::Shared;
use crate::spill_io::SpillIo;
use crate::stats::Stats;

/// Blocks under one byte budget. All methods may be called from any thread; dropping the store closes it.
///
/// A child that the process has forked may drop all handles, and read the slices that it inherits as long as its parent
/// holds them. Every other method fails with [`StoreError::Forked`] there, or does nothing.
pub struct Store {
    shared: Arc<Shared>,
}

impl Store {
    /// Opens a store.
    ///
    /// # Errors
    /// Options that make no sense, a spill directory that takes no files, or no memory for the arena.
    pub fn open(options: StoreOptions) -> Result<Self> {
        Self::open_with(options, Arc::new(DirectIo))
    }

    /// Opens a store whose spill files come from `io`.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_with(options: StoreOptions, io: Arc<dyn SpillIo>) -> Result<Self> {
        options.check()?;
        for path in &options.spill_dirs {
            let found = fs::metadata(path);
            let found = found.map_err(|source| StoreError::SpillDirectoryMissing {
                path: path.clone(),
                source,
            })?;
            if !found.is_dir() {
                return Err(StoreError::SpillDirectoryNotADirectory { path: path.clone() });
            }
            io.create(path)
                .map_err(|source| StoreError::SpillDirectoryNotWritable {
                    path: path.clone(),
                    source,
                })?;
        }
        Ok(Self {
            shared: Arc::new(Shared::new(options, io)?),
        })
    }

    /// Allocates a block of R slices; `offsets` are the R+1 places where they start and the last one ends, from 0.
    /// Waits for room.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] beyond the budget (outputs go to the file system instead), [`StoreError::DiskFull`],
    /// [`StoreError::Interrupted`], [`StoreError::Closed`].
    ///
    /// # Cost
    /// The data plus 16 bytes per slice, rounded up to 64 KiB.
    pub fn allocate(&self, offsets: &[u64], priority: Priority) -> Result<BlockMut> {
        BlockMut::allocate(&self.shared, offsets, priority)
    }

    /// Pins slices (`Some`) or whole blocks (`None`) in memory, in the order asked for; reads and verifies those on
    /// disk. Waits for room.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if a slice is not what was written, [`StoreError::Restore`] if it cannot be read, and as
    /// [`Store::allocate`].
    ///
    /// # Cost
    /// Slices in memory cost nothing. Spilled ones cost a read each, and one more for about 256 neighbouring slices.
    /// They take memory of their own for as long as any slice of this fetch lives.
    pub fn fetch(&self, wanted: &[(BlockId, Option<usize>)]) -> Result<Vec<Slice>> {
        restore::fetch(&self.shared, wanted)
    }

    /// Returns the file that the arena is in, for an [`ArenaView`](crate::ArenaView) in another process. It is
    /// close-on-exec.
    ///
    /// # Errors
    /// The process has too many open files.
    pub fn arena_file(&self) -> io::Result<OwnedFd> {
        self.shared.arena.duplicate()
    }

    /// Reserves working memory. Waits for room.
    ///
    /// # Errors
    /// As [`Store::allocate`].
    pub fn reserve(&self, bytes: u64) -> Result<Reservation> {
        self.shared.reserve(bytes)
    }

    /// Frees a block, in memory and on disk. Memory under slices goes when the last slice does.
    ///
    /// # Errors
    /// [`StoreError::UnknownBlock`] if it was freed before.
    pub fn free(&self, block: BlockId) -> Result<()> {
        self.shared.free(block.0)
    }

    /// Returns the number of slices in a block.
    ///
    /// # Errors
    /// [`StoreError::UnknownBlock`], [`StoreError::Closed`].
    pub fn num_slices(&self, block: BlockId) -> Result<usize> {
        Ok(self
            .shared
            .open_state()?
            .table
            .get(block.0)?
            .layout
            .num_slices)
    }

    /// Returns the bytes of all slices of a block.
    ///
    /// # Errors
    /// [`StoreError::UnknownBlock`], [`StoreError::Closed`].
    pub fn block_bytes(&self, block: BlockId) -> Result<u64> {
        Ok(self
            .shared
            .open_state()?
            .table
            .get(block.0)?
            .layout
            .data_bytes)
    }

    /// Returns the bytes of each slice of a block; reads nothing from disk but the block's index.
    ///
    /// # Errors
    /// [`StoreError::UnknownBlock`], [`StoreError::Closed`], and for a spilled block [`StoreError::Corrupt`] or
    /// [`StoreError::Restore`].
    ///
    /// # Cost
    /// A spilled block: a read of a page for about 256 slices.
    pub fn slice_bytes(&self, block: BlockId) -> Result<Vec<u64>> {
        restore::slice_bytes(&self.shared, block)
    }

    /// Returns what the store holds and has done; only zeros in a forked child.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Lets the resident pages of blocks in files of their own leave the memory, also while these blocks are written
    /// and read. A later access brings them back. The budget does not count them. Does nothing in a forked child.
    pub fn let_files_go(&self) {
        self.shared.mapped_files.let_go();
    }

    /// Closes the store. Everything that waits fails with [`StoreError::Closed`], as does every later call. All memory
    /// and files go, except under slices that are still held.
    pub fn close(&self) {
        self.shared.close();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.shared.is_elsewhere() {
            // The parts of the store belong to threads, too, that this process does not have.
            std::mem::forget(Arc::clone(&self.shared));
        }
        self.close();
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("stats", &self.stats())
            .finish()
    }
}
