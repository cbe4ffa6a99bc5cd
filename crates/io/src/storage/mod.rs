//! Storage: where files are. This file has the trait that each kind of storage implements in a file of its own, and the
//! registry.
//!
//! The rest of the crate knows paths and no storage: the beginning of a path tells which one is asked. Every process thus
//! finds the storage of a split by itself. Calls here are per file or per range of megabytes, never per row.
//!
//! An output is made in a hidden directory and appears by one rename or exchange. So whatever writes and commits needs no
//! more of a storage than this trait; [`StoredPath`] has it for callers outside of this crate.

mod cached;
mod local;
#[cfg(any(test, debug_assertions))]
mod memory;
mod names;
mod path;

use std::ffi::OsString;
use std::io::{Read, Result};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub(crate) use local::stream_to;
pub use path::StoredPath;

/// All kinds of storage. The local one is last, because it has every path that no other has.
const ALL: &[&dyn Storage] = &[
    #[cfg(any(test, debug_assertions))]
    &memory::Memory,
    &local::Local,
];

/// Returns the storage that has a path.
pub(crate) fn of(path: &Path) -> &'static dyn Storage {
    let has = |storage: &&&dyn Storage| storage.root_bytes(path).is_some();
    ALL.iter()
        .find(has)
        .map_or(&local::Local, |storage| *storage)
}

/// Size and modification time of a file, to tell whether it is still the one that was listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    /// Size in bytes.
    pub bytes: u64,
    /// Modification time in nanoseconds since the epoch.
    pub mtime_ns: i64,
}

/// The facts about a path.
pub(crate) struct Metadata {
    pub(crate) kind: Kind,
    pub(crate) stamp: FileStamp,
    /// Tells a directory from all others where links may lead back to one.
    pub(crate) identity: Option<(u64, u64)>,
}

/// The thing that a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file that can be read at any position.
    File,
    /// A directory.
    Directory,
    /// A pipe or a device.
    Other,
}

/// An entry of a directory.
pub(crate) struct Listed {
    pub(crate) name: OsString,
    /// Whether it is a directory, or a link to one.
    pub(crate) is_directory: bool,
    pub(crate) is_link: bool,
}

/// Something below a directory.
pub struct Below {
    /// Its path within the directory.
    pub name: PathBuf,
    /// Its own kind: a link is [`Kind::Other`].
    pub kind: Kind,
    /// Size of a file; 0 of anything else.
    pub bytes: u64,
}

/// A disk, or something like it: files on one disk share its room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    /// Tells it from other disks of the machine.
    pub identity: u64,
    /// The bytes that new files may take.
    pub free_bytes: u64,
}

/// A lock of a directory, which stays with the directory when it is renamed. It ends when this is dropped, or with the
/// process.
pub trait Lock: Send + Sync {}

/// A kind of storage. Errors are those of the operating system, or of the same kinds; callers add the path.
pub(crate) trait Storage: Sync {
    /// Returns the length of the beginning of a path that names the storage, which no pattern covers. Returns `None` for
    /// a path of another storage.
    fn root_bytes(&self, path: &Path) -> Option<usize>;

    /// Tells what a path leads to, behind links.
    fn metadata(&self, path: &Path) -> Result<Metadata>;

    /// Lists a directory, in any order.
    fn list(&self, directory: &Path) -> Result<Vec<Listed>>;

    /// Returns the path, absolute and without links.
    fn real_path(&self, path: &Path) -> Result<PathBuf>;

    /// Opens a file for reads at any position. Returns `None` for anything else; a pipe is not waited for.
    fn open(&self, path: &Path) -> Result<Option<Box<dyn StoredFile>>>;

    /// Opens a file, or a pipe, to be read once from its start to its end.
    fn stream(&self, path: &Path) -> Result<Box<dyn Read>>;

    /// Creates a file, which must not exist.
    fn create(&self, path: &Path) -> Result<Box<dyn NewFile>>;

    /// Creates a directory, and those above it, where they do not exist.
    fn create_directories(&self, path: &Path) -> Result<()>;

    /// Returns where a path leads, which need not exist: absolute and without links.
    fn resolved(&self, path: &Path) -> Result<PathBuf>;

    /// Lists everything below a directory, without following links, in any order.
    fn below(&self, directory: &Path) -> Result<Vec<Below>>;

    /// Creates a directory, which must not exist, in one that does.
    fn create_directory(&self, path: &Path) -> Result<()>;

    /// Gives a file or directory another name in one step. It replaces a file by a file, and an empty directory by a
    /// directory; the error is `DirectoryNotEmpty` if the directory there has anything.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Exchanges two directories in one step, so that neither name is ever missing. Returns false, and has changed
    /// nothing, if the storage cannot.
    fn exchange(&self, one: &Path, other: &Path) -> Result<bool>;

    /// Gives a file a second name, which must be new, without a copy; the file goes with its last name.
    fn link(&self, file: &Path, place: &Path) -> Result<()>;

    /// Removes a file.
    fn remove_file(&self, path: &Path) -> Result<()>;

    /// Removes a directory, which must be empty.
    fn remove_directory(&self, path: &Path) -> Result<()>;

    /// Removes a directory and everything below it.
    fn remove_all(&self, path: &Path) -> Result<()>;

    /// Waits until a file's bytes, or a directory's names, would survive a loss of power.
    fn sync(&self, path: &Path) -> Result<()>;

    /// Locks a directory; the error is `WouldBlock` if another process has the lock.
    fn lock(&self, directory: &Path) -> Result<Box<dyn Lock>>;

    /// Keeps a mark of up to 256 bytes with a file.
    fn set_mark(&self, path: &Path, mark: &[u8]) -> Result<()>;

    /// Returns the mark of a file.
    fn mark(&self, path: &Path) -> Result<Vec<u8>>;

    /// Returns the disk that new files of a directory are on. Returns `None` if it has no bounds, or they are not known.
    fn disk(&self, _directory: &Path) -> Option<Disk> {
        None
    }

    /// Whether the path leads to anything.
    fn exists(&self, path: &Path) -> bool {
        self.metadata(path).is_ok()
    }

    /// Whether the path leads to something of this kind.
    fn is(&self, kind: Kind, path: &Path) -> bool {
        self.metadata(path).is_ok_and(|found| found.kind == kind)
    }
}

/// An open file, read from several threads.
pub(crate) trait StoredFile: Send + Sync {
    /// Returns size and modification time when the file was opened.
    fn stamp(&self) -> FileStamp;

    /// Fills `out` from `offset`, and returns the number of bytes read: fewer only where the file ends.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize>;

    /// Fills `out[..wanted]` from `offset`, and returns the number of bytes read: fewer only where the file ends. The
    /// offset, the address of `out` and its length are multiples of [`PAGE`], so that no cache is needed on the way.
    fn read_pages(&self, offset: u64, wanted: usize, out: &mut [u8]) -> Result<usize> {
        self.read_at(offset, &mut out[..wanted])
    }
}

/// A new file, written from its start to its end. Dropped before its end, it may leave the part that was written so far.
pub(crate) trait NewFile: Send {
    /// Appends a number of whole pages, which begin at a multiple of [`PAGE`] in memory.
    fn append(&mut self, pages: &[u8]) -> Result<()>;

    /// Appends the first `filled` bytes of a buffer as the last of the file. Overwrites the rest of their last page in the
    /// buffer where that helps.
    fn finish(self: Box<Self>, buffer: &mut [u8], filled: usize) -> Result<()>;
}

/// Offsets, lengths and addresses of direct I/O are multiples of this.
pub(crate) const PAGE: usize = 4096;

pub(crate) const fn page_floor(offset: u64) -> u64 {
    offset & !(PAGE as u64 - 1)
}

pub(crate) const fn page_ceil(offset: u64) -> u64 {
    (offset + PAGE as u64 - 1) & !(PAGE as u64 - 1)
}
