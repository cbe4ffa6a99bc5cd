//! A file system whose failures are scripted, and blocks with known bytes.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, like tests"
)]
#![allow(
    dead_code,
    reason = "every test binary uses another part of this module"
)]

use std::fs::File;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use exoshuffle_store::{
    BlockId, DirectIo, Priority, Result, SpillFile, SpillIo, Store, StoreOptions,
};
use tempfile::TempDir;

/// Units of the arena.
pub const UNIT: u64 = 64 << 10;

/// Called before every write into a directory; may refuse it, or hold it up.
pub type OnWrite = Box<dyn FnMut(&Path) -> io::Result<()> + Send>;

/// The script of failures, and the counts of reads.
pub struct Script {
    on_write: Mutex<OnWrite>,
    /// The byte of every file that is read inverted.
    flipped: Mutex<Option<u64>>,
    num_reads: AtomicUsize,
    largest_read: AtomicUsize,
}

impl Script {
    pub fn new(on_write: impl FnMut(&Path) -> io::Result<()> + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            on_write: Mutex::new(Box::new(on_write)),
            flipped: Mutex::new(None),
            num_reads: AtomicUsize::new(0),
            largest_read: AtomicUsize::new(0),
        })
    }

    pub fn flip(&self, byte: Option<u64>) {
        *self.flipped.lock().unwrap() = byte;
    }

    /// Returns the number of reads so far, of whatever size.
    pub fn num_reads(&self) -> usize {
        self.num_reads.load(Ordering::Relaxed)
    }

    /// Returns the bytes of the largest read so far.
    pub fn largest_read(&self) -> usize {
        self.largest_read.load(Ordering::Relaxed)
    }

    fn ask(&self, directory: &Path) -> io::Result<()> {
        (self.on_write.lock().unwrap())(directory)
    }
}

pub struct ScriptedIo(pub Arc<Script>);

struct ScriptedFile {
    real: Box<dyn SpillFile>,
    directory: PathBuf,
    script: Arc<Script>,
}

impl SpillIo for ScriptedIo {
    fn create(&self, directory: &Path) -> io::Result<Box<dyn SpillFile>> {
        let real = DirectIo.create(directory)?;
        Ok(Box::new(ScriptedFile {
            real,
            directory: directory.to_owned(),
            script: self.0.clone(),
        }))
    }

    fn create_mappable(&self, directory: &Path, bytes: u64) -> io::Result<File> {
        self.0.ask(directory)?;
        DirectIo.create_mappable(directory, bytes)
    }
}

impl SpillFile for ScriptedFile {
    fn write_at(&self, buffers: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.script.ask(&self.directory)?;
        self.real.write_at(buffers, offset)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.script.num_reads.fetch_add(1, Ordering::Relaxed);
        (self.script.largest_read).fetch_max(buffer.len(), Ordering::Relaxed);
        self.real.read_at(buffer, offset)?;
        if let Some(byte) = *self.script.flipped.lock().unwrap() {
            let inside = byte
                .checked_sub(offset)
                .and_then(|at| buffer.get_mut(at as usize));
            inside.into_iter().for_each(|byte| *byte = !*byte);
        }
        Ok(())
    }
}

pub fn no_space() -> io::Error {
    io::Error::from_raw_os_error(28)
}

pub fn broken() -> io::Error {
    io::Error::from_raw_os_error(5)
}

/// The parts of a store of `units` with `directories` temporary spill directories that never gives up waiting.
pub struct Setup {
    pub directories: Vec<TempDir>,
    pub options: StoreOptions,
}

impl Setup {
    pub fn new(units: u64, directories: usize) -> Self {
        let directories: Vec<_> = (0..directories)
            .map(|_| tempfile::tempdir().unwrap())
            .collect();
        let paths = directories
            .iter()
            .map(|dir| dir.path().to_owned())
            .collect();
        let mut options = StoreOptions::new(units * UNIT, paths);
        options.fallback_after = Duration::from_secs(3600);
        options.disk_full_timeout = Duration::from_secs(3600);
        Self {
            directories,
            options,
        }
    }

    pub fn open(&self) -> Store {
        Store::open(self.options.clone()).unwrap()
    }

    pub fn open_scripted(&self, script: &Arc<Script>) -> Store {
        Store::open_with(self.options.clone(), Arc::new(ScriptedIo(script.clone()))).unwrap()
    }
}

/// Returns the bytes that slice `slice` of block number `seed` has.
pub fn content(seed: u64, slice: usize, len: usize) -> Vec<u8> {
    let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (slice as u64 + 1);
    let mut next = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word as u8
    };
    (0..len).map(|_| next()).collect()
}

pub fn offsets(sizes: &[usize]) -> Vec<u64> {
    let mut end = 0;
    let ends = sizes.iter().map(|&size| {
        end += size as u64;
        end
    });
    std::iter::once(0).chain(ends).collect()
}

/// Seals a block of slices with known bytes.
pub fn put(store: &Store, seed: u64, sizes: &[usize]) -> Result<BlockId> {
    let offsets = offsets(sizes);
    let mut block = store.allocate(&offsets, Priority::Output)?;
    for (slice, &size) in sizes.iter().enumerate() {
        let start = offsets[slice] as usize;
        block.as_mut_slice()[start..start + size].copy_from_slice(&content(seed, slice, size));
    }
    Ok(block.seal())
}

/// Fills the budget from `seed` on with blocks of one unit until everything before is on disk.
pub fn push_out(store: &Store, units: u64) -> Vec<BlockId> {
    let size = UNIT as usize - 4096;
    (0..units)
        .map(|seed| put(store, 1 << 32 | seed, &[size]).unwrap())
        .collect()
}
