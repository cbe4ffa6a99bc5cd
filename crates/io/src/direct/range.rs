//! Positional reads of one regular file.
//!
//! Bytes in the page cache are copied from there. Other bytes are read with `O_DIRECT`, so that a scan of cold data
//! neither displaces the cache nor pays for fresh cache pages. (`RWF_NOWAIT` would tell the two apart with one call,
//! but it starts the kernel's read-ahead and so fills the cache after all; `mincore` only looks.)
//!
//! A small file is read once, whole, and kept: each file of an input of thousands is asked for a dozen ranges.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use bytes::Bytes;

use super::{page_ceil, page_floor, place, BufferPool, PAGE};
use crate::error::{IoError, Result};
use crate::source::FileStamp;

/// The part of a range that is looked at to tell whether it is cached. Looking at all of it took a fifth of the time of
/// reading it from the cache.
const LOOKED_AT_BYTES: usize = 256 << 10;

/// A range that is a smaller part of its buffer is copied out of it. Without this, each of 5,000 batches of one row of
/// 200 bytes kept a buffer of 64 KiB. A filter, which holds many of them, took 235 MB within 200.
const MOST_WASTED: usize = 4;
/// Files up to this size are read whole: twice the tail that is read of a Parquet file in any case.
pub(crate) const SMALL_FILE_BYTES: u64 = 128 << 10;

/// A file opened for reads at any position, from several threads.
pub struct RangeReader {
    path: PathBuf,
    file: File,
    direct: OnceLock<Option<File>>,
    /// The content of the file, if it is small and was read.
    whole: OnceLock<Bytes>,
    /// Set when a direct read was refused although the open was not.
    refused: AtomicBool,
    stamp: FileStamp,
}

impl RangeReader {
    /// Opens a regular file.
    pub fn open(path: &Path) -> Result<Self> {
        // Opening a pipe waits for its writer. So do not wait, and refuse it below.
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        let file = options
            .open(place(path))
            .map_err(|e| IoError::read(path, e))?;
        let metadata = file.metadata().map_err(|e| IoError::read(path, e))?;
        if !metadata.is_file() {
            return Err(IoError::NotRegular {
                path: path.to_path_buf(),
            });
        }
        let stamp = FileStamp::of(&metadata);
        let (direct, refused) = (OnceLock::new(), AtomicBool::new(false));
        Ok(Self {
            path: path.to_path_buf(),
            file,
            direct,
            whole: OnceLock::new(),
            refused,
            stamp,
        })
    }

    /// Opens a file that must still be the one that was listed with `stamp`.
    pub fn open_unchanged(path: &Path, stamp: FileStamp) -> Result<Self> {
        let reader = Self::open(path)?;
        if reader.stamp.bytes != stamp.bytes {
            let what = format!(
                "it had {} bytes and has {}",
                stamp.bytes, reader.stamp.bytes
            );
            return Err(IoError::changed(path, what));
        }
        if reader.stamp != stamp {
            return Err(IoError::changed(path, "it was modified"));
        }
        Ok(reader)
    }

    /// Returns the size of the file when it was opened.
    pub fn len(&self) -> u64 {
        self.stamp.bytes
    }

    /// Returns whether the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.stamp.bytes == 0
    }

    /// Returns the path that the file was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns size and modification time when the file was opened.
    pub fn stamp(&self) -> FileStamp {
        self.stamp
    }

    /// Returns the bytes `start .. start + len`, in a recycled buffer.
    pub fn read(&self, start: u64, len: usize) -> Result<Bytes> {
        if len == 0 {
            return Ok(Bytes::new());
        }
        let end = start
            .checked_add(len as u64)
            .filter(|&end| end <= self.len());
        let end = end.ok_or_else(|| self.truncated(start))?;
        if self.is_small() {
            return Ok(self.whole()?.slice(start as usize..end as usize));
        }
        let first = page_floor(start);
        let skip = (start - first) as usize;
        let mut buffer = BufferPool::take((page_ceil(end) - first) as usize)?;
        self.read_pages(first, skip + len, &mut buffer)?;
        if len <= buffer.len() / MOST_WASTED {
            return Ok(Bytes::copy_from_slice(&buffer[skip..skip + len]));
        }
        Ok(buffer.freeze(skip..skip + len))
    }

    /// Returns whether ranges of the file are parts of one read.
    pub(crate) fn is_small(&self) -> bool {
        self.len() <= SMALL_FILE_BYTES
    }

    fn whole(&self) -> Result<&Bytes> {
        if let Some(whole) = self.whole.get() {
            return Ok(whole);
        }
        let mut content = vec![0; self.len() as usize];
        self.fill(&self.file, 0, self.len() as usize, &mut content)?;
        Ok(self.whole.get_or_init(|| Bytes::from(content)))
    }

    /// Fills `out[..wanted]` from `offset`. `offset`, the address of `out` and its length are multiples of a page.
    pub(crate) fn read_pages(&self, offset: u64, wanted: usize, out: &mut [u8]) -> Result<()> {
        debug_assert!(
            offset.is_multiple_of(PAGE as u64) && out.as_ptr().addr().is_multiple_of(PAGE)
        );
        if let Some(direct) = self.direct().filter(|_| !self.is_cached(offset, wanted)) {
            let span = page_ceil(wanted as u64) as usize;
            match self.fill(direct, offset, wanted, &mut out[..span]) {
                Err(IoError::Read { source, .. })
                    if source.raw_os_error() == Some(libc::EINVAL) =>
                {
                    self.refused.store(true, Ordering::Relaxed);
                }
                result => return result,
            }
        }
        self.fill(&self.file, offset, wanted, &mut out[..wanted])
    }

    fn fill(&self, file: &File, offset: u64, wanted: usize, out: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < wanted {
            // A direct read must continue at a page border; a short one ends elsewhere only at the end of the file.
            match file.read_at(&mut out[done..], offset + done as u64) {
                Ok(0) => return Err(self.truncated(offset + done as u64)),
                Ok(n) => done += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(IoError::read(&self.path, e)),
            }
        }
        Ok(())
    }

    fn direct(&self) -> Option<&File> {
        if self.refused.load(Ordering::Relaxed) {
            return None;
        }
        let open = || {
            let file = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_DIRECT)
                .open(place(&self.path))
                .ok()?;
            // The path may name another file by now; then the file already open is the one to read.
            let (ours, theirs) = (self.file.metadata().ok()?, file.metadata().ok()?);
            ((ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino())).then_some(file)
        };
        self.direct.get_or_init(open).as_ref()
    }

    /// Returns whether most of the range, judged by its middle, is in the page cache. A range of which nothing is known
    /// counts as cached, since a plain read is right then.
    fn is_cached(&self, offset: u64, len: usize) -> bool {
        let looked_at = len.min(LOOKED_AT_BYTES);
        let middle = page_floor(offset + ((len - looked_at) / 2) as u64);
        let len = looked_at;
        let Ok(position) = libc::off_t::try_from(middle) else {
            return true;
        };
        let (fd, flags) = (self.file.as_raw_fd(), libc::MAP_SHARED);
        // SAFETY: a new read-only mapping at an address of the kernel's choice; it is never dereferenced.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ,
                flags,
                fd,
                position,
            )
        };
        if address == libc::MAP_FAILED {
            return true;
        }
        let mut pages = vec![0_u8; len.div_ceil(PAGE)];
        // SAFETY: `pages` has one byte for each page of the mapping, which is removed right after.
        let status = unsafe {
            let status = libc::mincore(address, len, pages.as_mut_ptr());
            libc::munmap(address, len);
            status
        };
        status != 0 || pages.iter().filter(|&&page| page & 1 == 1).count() * 2 > pages.len()
    }

    fn truncated(&self, at: u64) -> IoError {
        IoError::changed(
            &self.path,
            format!("it had {} bytes and byte {at} cannot be read", self.len()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_file(bytes: usize) -> (tempfile::NamedTempFile, Vec<u8>) {
        let content: Vec<u8> = (0..bytes).map(|i| (i * 31 + i / 251) as u8).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &content).unwrap();
        (file, content)
    }

    fn drop_cache(file: &File) {
        file.sync_all().unwrap();
        let fd = file.as_raw_fd();
        // SAFETY: advice about a descriptor that is open for the whole call.
        let status = unsafe { libc::posix_fadvise(fd, 0, 0, libc::POSIX_FADV_DONTNEED) };
        assert_eq!(status, 0);
    }

    #[test]
    fn cold_and_cached_reads_agree() {
        let (file, content) = sample_file(300_001);
        let ranges = [
            (0, 1),
            (1, 4096),
            (4095, 2),
            (299_000, 1001),
            (0, 300_001),
            (8192, 8192),
            (300_001, 0),
        ];
        for cold in [false, true] {
            for (start, len) in ranges {
                if cold {
                    drop_cache(file.as_file());
                }
                let reader = RangeReader::open(file.path()).unwrap();
                assert_eq!(
                    reader.read(start as u64, len).unwrap(),
                    content[start..start + len]
                );
            }
        }
    }

    #[test]
    fn cold_reads_leave_the_cache_alone() {
        let (file, content) = sample_file(1 << 20);
        drop_cache(file.as_file());
        let reader = RangeReader::open(file.path()).unwrap();
        if reader.is_cached(0, 1 << 20) || reader.direct().is_none() {
            return; // this file system keeps everything in memory
        }
        assert_eq!(reader.read(0, 1 << 20).unwrap(), content);
        if !reader.refused.load(Ordering::Relaxed) {
            assert!(!reader.is_cached(0, 1 << 20));
        }
    }

    #[test]
    fn truncation_is_noticed() {
        let (file, _) = sample_file(100_000);
        let reader = RangeReader::open(file.path()).unwrap();
        let stamp = reader.stamp();
        file.as_file().set_len(50_000).unwrap();
        assert!(matches!(
            reader.read(40_000, 20_000),
            Err(IoError::FileChanged { .. })
        ));
        assert!(matches!(
            RangeReader::open_unchanged(file.path(), stamp),
            Err(IoError::FileChanged { .. })
        ));
        assert!(matches!(
            reader.read(99_999, 2),
            Err(IoError::FileChanged { .. })
        ));
    }

    #[test]
    fn a_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(
            RangeReader::open(dir.path()),
            Err(IoError::NotRegular { .. })
        ));
    }
}
