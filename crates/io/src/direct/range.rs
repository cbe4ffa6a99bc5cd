//! Positional reads of one regular file.
//!
//! A small file is read once, whole, and kept: each file of an input of thousands is asked for a dozen ranges.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bytes::Bytes;

use super::{place, BufferPool};
use crate::error::{IoError, Result};
use crate::storage::{self, page_ceil, page_floor, FileStamp, StoredFile, PAGE};

/// A range that is a smaller part of its buffer is copied out of it. Without this, each of 5,000 batches of one row of
/// 200 bytes kept a buffer of 64 KiB. A filter, which holds many of them, took 235 MB within 200.
const MOST_WASTED: usize = 4;
/// Files up to this size are read whole: twice the tail that is read of a Parquet file in any case.
pub(crate) const SMALL_FILE_BYTES: u64 = 128 << 10;

/// A file opened for reads at any position, from several threads.
pub struct RangeReader {
    path: PathBuf,
    file: Box<dyn StoredFile>,
    stamp: FileStamp,
    /// The content of the file, if it is small and was read.
    whole: OnceLock<Bytes>,
}

impl RangeReader {
    /// Opens a regular file.
    pub fn open(path: &Path) -> Result<Self> {
        let place = place(path);
        let file = storage::of(place).open(place);
        let file = file.map_err(|e| IoError::read(path, e))?;
        let file = file.ok_or_else(|| IoError::NotRegular {
            path: path.to_path_buf(),
        })?;
        Ok(Self {
            path: path.to_path_buf(),
            stamp: file.stamp(),
            file,
            whole: OnceLock::new(),
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

    /// Returns the bytes `start .. start + len`, which are few, by way of the system's cache of the file.
    ///
    /// Why not [`read`](Self::read): whether bytes are cached takes three calls of the system, and a buffer from the pool has
    /// 64 KiB.
    pub(crate) fn read_few(&self, start: u64, len: usize) -> Result<Bytes> {
        if self.is_small() || start.saturating_add(len as u64) > self.len() {
            return self.read(start, len);
        }
        let mut bytes = vec![0; len];
        let read = self.file.read_at(start, &mut bytes);
        self.complete(start, len, read)?;
        Ok(Bytes::from(bytes))
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
        let read = self.file.read_at(0, &mut content);
        self.complete(0, content.len(), read)?;
        Ok(self.whole.get_or_init(|| Bytes::from(content)))
    }

    /// Fills `out[..wanted]` from `offset`. `offset`, the address of `out` and its length are multiples of a page.
    pub(crate) fn read_pages(&self, offset: u64, wanted: usize, out: &mut [u8]) -> Result<()> {
        debug_assert!(
            offset.is_multiple_of(PAGE as u64) && out.as_ptr().addr().is_multiple_of(PAGE)
        );
        let read = self.file.read_pages(offset, wanted, out);
        self.complete(offset, wanted, read)
    }

    /// Returns an error if fewer bytes than wanted were read from `offset`.
    fn complete(&self, offset: u64, wanted: usize, read: std::io::Result<usize>) -> Result<()> {
        match read.map_err(|e| IoError::read(&self.path, e))? {
            read if read < wanted => Err(self.truncated(offset + read as u64)),
            _ => Ok(()),
        }
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
    use std::fs::File;
    use std::os::fd::AsRawFd;

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
                let wanted = &content[start..start + len];
                assert_eq!(reader.read(start as u64, len).unwrap(), wanted);
                assert_eq!(reader.read_few(start as u64, len).unwrap(), wanted);
            }
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
