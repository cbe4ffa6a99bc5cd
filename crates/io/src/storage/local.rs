//! Files of the machine, past its page cache where that is faster.
//!
//! Bytes in the page cache are copied from there. Other bytes are read with `O_DIRECT`, so that a scan of cold data
//! neither displaces the cache nor pays for fresh cache pages. (`RWF_NOWAIT` would tell the two apart with one call,
//! but it starts the kernel's read-ahead and so fills the cache after all; `cached.rs` only looks.)

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use super::cached::is_cached;
use super::{
    names, page_ceil, Below, Disk, FileStamp, Kind, Listed, Lock, Metadata, NewFile, Storage,
    StoredFile,
};

/// Makes a file pass the page cache by; 0 on systems that have no such flag, where all bytes go through it.
#[cfg(target_os = "linux")]
const OPEN_DIRECT: i32 = libc::O_DIRECT;
#[cfg(not(target_os = "linux"))]
const OPEN_DIRECT: i32 = 0;

/// The file systems of the machine.
pub(super) struct Local;

impl Storage for Local {
    fn root_bytes(&self, path: &Path) -> Option<usize> {
        Some(usize::from(path.has_root()))
    }

    fn metadata(&self, path: &Path) -> Result<Metadata> {
        let found = fs::metadata(path)?;
        Ok(Metadata {
            kind: kind_of(&found),
            stamp: stamp_of(&found),
            identity: Some((found.dev(), found.ino())),
        })
    }

    fn list(&self, directory: &Path) -> Result<Vec<Listed>> {
        let listed = fs::read_dir(directory)?.map(|entry| {
            let entry = entry?;
            let own = entry.file_type()?;
            let is_link = own.is_symlink();
            Ok(Listed {
                name: entry.file_name(),
                is_directory: own.is_dir() || (is_link && entry.path().is_dir()),
                is_link,
            })
        });
        listed.collect()
    }

    fn real_path(&self, path: &Path) -> Result<PathBuf> {
        path.canonicalize()
    }

    fn open(&self, path: &Path) -> Result<Option<Box<dyn StoredFile>>> {
        // Opening a pipe waits for its writer. So do not wait, and refuse it below.
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        let file = options.open(path)?;
        let metadata = file.metadata()?;
        if kind_of(&metadata) != Kind::File {
            return Ok(None);
        }
        Ok(Some(Box::new(LocalFile {
            path: path.to_path_buf(),
            stamp: stamp_of(&metadata),
            file,
            direct: OnceLock::new(),
            refused: AtomicBool::new(false),
        })))
    }

    fn stream(&self, path: &Path) -> Result<Box<dyn Read>> {
        Ok(Box::new(File::open(path)?))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn NewFile>> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o666);
        let file = options.open(path)?;
        // Set after the open: an open that refuses O_DIRECT would leave an empty file behind.
        let direct = set_direct(&file, true);
        Ok(Box::new(NewLocalFile {
            file,
            direct,
            offset: 0,
        }))
    }

    fn create_directories(&self, path: &Path) -> Result<()> {
        fs::create_dir_all(path)
    }

    fn resolved(&self, path: &Path) -> Result<PathBuf> {
        names::resolved(path)
    }

    fn below(&self, directory: &Path) -> Result<Vec<Below>> {
        let mut found = Vec::new();
        names::add_below(directory, Path::new(""), &mut found)?;
        Ok(found)
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        fs::create_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to)
    }

    fn exchange(&self, one: &Path, other: &Path) -> Result<bool> {
        names::exchange(one, other)
    }

    fn link(&self, file: &Path, place: &Path) -> Result<()> {
        fs::hard_link(file, place)
    }

    fn disk(&self, directory: &Path) -> Option<Disk> {
        disk_of(directory).ok()
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        fs::remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> Result<()> {
        fs::remove_dir(path)
    }

    fn remove_all(&self, path: &Path) -> Result<()> {
        fs::remove_dir_all(path)
    }

    fn sync(&self, path: &Path) -> Result<()> {
        names::sync(path)
    }

    fn lock(&self, directory: &Path) -> Result<Box<dyn Lock>> {
        names::lock(directory)
    }

    fn set_mark(&self, path: &Path, mark: &[u8]) -> Result<()> {
        names::set_mark(path, mark)
    }

    fn mark(&self, path: &Path) -> Result<Vec<u8>> {
        names::mark(path)
    }
}

fn disk_of(directory: &Path) -> Result<Disk> {
    let name = CString::new(directory.as_os_str().as_bytes())?;
    let mut found = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the name ends in zero, and the call writes no more than the struct.
    if unsafe { libc::statvfs(name.as_ptr(), found.as_mut_ptr()) } != 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the call has succeeded, so it has filled the struct.
    let found = unsafe { found.assume_init() };
    Ok(Disk {
        identity: fs::metadata(directory)?.dev(),
        free_bytes: wide(found.f_bavail).saturating_mul(wide(found.f_frsize)),
    })
}

/// Systems count blocks and bytes with different widths.
fn wide(number: impl Into<u64>) -> u64 {
    number.into()
}

fn kind_of(metadata: &fs::Metadata) -> Kind {
    if metadata.is_dir() {
        Kind::Directory
    } else if metadata.is_file() {
        Kind::File
    } else {
        Kind::Other
    }
}

fn stamp_of(metadata: &fs::Metadata) -> FileStamp {
    let seconds = metadata.mtime().wrapping_mul(1_000_000_000);
    FileStamp {
        bytes: metadata.len(),
        mtime_ns: seconds.wrapping_add(metadata.mtime_nsec()),
    }
}

/// A regular file.
struct LocalFile {
    path: PathBuf,
    stamp: FileStamp,
    file: File,
    direct: OnceLock<Option<File>>,
    /// Set when a direct read was refused although the open was not.
    refused: AtomicBool,
}

impl StoredFile for LocalFile {
    fn stamp(&self) -> FileStamp {
        self.stamp
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        fill(&self.file, offset, out.len(), out)
    }

    fn read_pages(&self, offset: u64, wanted: usize, out: &mut [u8]) -> Result<usize> {
        if let Some(direct) = self
            .direct()
            .filter(|_| !is_cached(&self.file, offset, wanted))
        {
            let span = page_ceil(wanted as u64) as usize;
            match fill(direct, offset, wanted, &mut out[..span]) {
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                    self.refused.store(true, Ordering::Relaxed);
                }
                result => return result,
            }
        }
        self.read_at(offset, &mut out[..wanted])
    }
}

impl LocalFile {
    fn direct(&self) -> Option<&File> {
        if OPEN_DIRECT == 0 || self.refused.load(Ordering::Relaxed) {
            return None;
        }
        let open = || {
            let file = OpenOptions::new()
                .read(true)
                .custom_flags(OPEN_DIRECT)
                .open(&self.path)
                .ok()?;
            // The path may name another file by now; then the file already open is the one to read.
            let (ours, theirs) = (self.file.metadata().ok()?, file.metadata().ok()?);
            ((ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino())).then_some(file)
        };
        self.direct.get_or_init(open).as_ref()
    }
}

/// Reads at least `wanted` bytes into `out`, or up to the end of the file; returns how many of the wanted ones.
fn fill(file: &File, offset: u64, wanted: usize, out: &mut [u8]) -> Result<usize> {
    let mut done = 0;
    while done < wanted {
        // A direct read must continue at a page border; a short one ends elsewhere only at the end of the file.
        match file.read_at(&mut out[done..], offset + done as u64) {
            Ok(0) => return Ok(done),
            Ok(n) => done += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(wanted)
}

/// A new file of whole pages until its tail.
struct NewLocalFile {
    file: File,
    direct: bool,
    offset: u64,
}

impl NewFile for NewLocalFile {
    fn append(&mut self, pages: &[u8]) -> Result<()> {
        self.write_at(pages)?;
        self.offset += pages.len() as u64;
        Ok(())
    }

    fn finish(mut self: Box<Self>, buffer: &mut [u8], filled: usize) -> Result<()> {
        let padded = if self.direct {
            page_ceil(filled as u64) as usize
        } else {
            filled
        };
        buffer[filled..padded].fill(0);
        self.write_at(&buffer[..padded])?;
        if padded != filled {
            self.file.set_len(self.offset + filled as u64)?;
        }
        Ok(())
    }
}

impl NewLocalFile {
    fn write_at(&mut self, data: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < data.len() {
            match self.file.write_at(&data[done..], self.offset + done as u64) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => done += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // Some file systems accept the flag and refuse the write; also after a short, unaligned write.
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) && self.direct => {
                    set_direct(&self.file, false);
                    self.direct = false;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// Sets or clears `O_DIRECT`, and returns whether the flag is set afterwards.
fn set_direct(file: &File, on: bool) -> bool {
    let fd = file.as_raw_fd();
    // SAFETY: fcntl with integer arguments on a descriptor that is open for the whole call.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        let wanted = if on {
            flags | OPEN_DIRECT
        } else {
            flags & !OPEN_DIRECT
        };
        OPEN_DIRECT != 0 && flags >= 0 && libc::fcntl(fd, libc::F_SETFL, wanted) == 0 && on
    }
}

/// Takes a file that is open and need not be able to seek as a new one.
pub(crate) fn stream_to(file: File) -> Box<dyn NewFile> {
    Box::new(OpenFile(file))
}

struct OpenFile(File);

impl NewFile for OpenFile {
    fn append(&mut self, pages: &[u8]) -> Result<()> {
        self.0.write_all(pages)
    }

    fn finish(mut self: Box<Self>, buffer: &mut [u8], filled: usize) -> Result<()> {
        self.append(&buffer[..filled])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direct::BufferPool;

    #[test]
    fn cold_reads_leave_the_cache_alone() {
        let content: Vec<u8> = (0..1_usize << 20)
            .map(|i| (i * 31 + i / 251) as u8)
            .collect();
        let written = tempfile::NamedTempFile::new().unwrap();
        fs::write(written.path(), &content).unwrap();
        written.as_file().sync_all().unwrap();
        let fd = written.as_file().as_raw_fd();
        // SAFETY: advice about a descriptor that is open for the whole call.
        let status = unsafe { libc::posix_fadvise(fd, 0, 0, libc::POSIX_FADV_DONTNEED) };
        assert_eq!(status, 0);
        let file = LocalFile {
            path: written.path().to_path_buf(),
            stamp: stamp_of(&written.as_file().metadata().unwrap()),
            file: File::open(written.path()).unwrap(),
            direct: OnceLock::new(),
            refused: AtomicBool::new(false),
        };
        if is_cached(&file.file, 0, 1 << 20) || file.direct().is_none() {
            return; // this file system keeps everything in memory
        }
        let mut buffer = BufferPool::take(1 << 20).unwrap();
        assert_eq!(file.read_pages(0, 1 << 20, &mut buffer).unwrap(), 1 << 20);
        assert!(buffer[..] == content);
        if !file.refused.load(Ordering::Relaxed) {
            assert!(!is_cached(&file.file, 0, 1 << 20));
        }
    }
}
