//! The seam between the store and the file system, so that tests can script full and broken disks.

use std::fs::File;
use std::io::{self, IoSlice};
use std::path::Path;

/// Creates files in spill directories. The files have no name once created, so nothing can outlive the process.
pub trait SpillIo: Send + Sync {
    /// Creates a file for spilled blocks.
    fn create(&self, directory: &Path) -> io::Result<Box<dyn SpillFile>>;

    /// Creates a file of `bytes` with its disk space allocated, to be mapped as the memory of a block.
    fn create_mappable(&self, directory: &Path, bytes: u64) -> io::Result<File>;
}

/// One open spill file, written and read at page-aligned offsets from page-aligned memory.
pub trait SpillFile: Send + Sync {
    /// Writes all of `buffers`, one behind the other, from `offset`.
    fn write_at(&self, buffers: &mut [IoSlice<'_>], offset: u64) -> io::Result<()>;

    /// Fills `buffer` from `offset`.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}
