//! Spill files of the real file system: unlinked, mode 0600, direct I/O where the file system allows it.
//!
//! With `O_TMPFILE`, the file never has a name. File systems without it get create-then-unlink. Those without
//! `O_DIRECT` (some refuse it on opening, some on the first access) get the page cache.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::spill_io::{SpillFile, SpillIo};
use crate::system::{self, OPEN_DIRECT, OPEN_UNNAMED};

/// The file system as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct DirectIo;

impl SpillIo for DirectIo {
    fn create(&self, directory: &Path) -> io::Result<Box<dyn SpillFile>> {
        let file = match create_unlinked(directory, OPEN_DIRECT) {
            Err(error) if refused(&error) => create_unlinked(directory, 0)?,
            opened => opened?,
        };
        Ok(Box::new(DirectFile { file }))
    }

    fn create_mappable(&self, directory: &Path, bytes: u64) -> io::Result<File> {
        let file = create_unlinked(directory, 0)?;
        system::allocate(&file, bytes)?;
        Ok(file)
    }
}

/// Returns whether the file system does not know a flag or an alignment.
fn refused(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}

/// Opens a new file that has no name.
pub(crate) fn create_unlinked(directory: &Path, flags: i32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match options
        .clone()
        .custom_flags(OPEN_UNNAMED | flags)
        .open(directory)
    {
        // Kernels that do not know O_TMPFILE see an attempt to write to a directory.
        Err(error) if refused(&error) || error.raw_os_error() == Some(libc::EISDIR) => {
            create_then_unlink(directory, options.create_new(true).custom_flags(flags))
        }
        opened => opened,
    }
}

fn create_then_unlink(directory: &Path, options: &OpenOptions) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!(".exoshuffle-{}-{number}", process::id()));
        match options.open(&path) {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
            // A killed process that had the same number left it behind.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                // A refused O_DIRECT leaves the file behind on some file systems; there may be nothing to remove.
                let _ = std::fs::remove_file(&path);
                return Err(error);
            }
        }
    }
}

struct DirectFile {
    file: File,
}

impl DirectFile {
    /// Runs `access` again after interruptions, and through the page cache if direct I/O is refused.
    fn persist(&self, mut access: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
        loop {
            match access() {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) && self.stop_direct() => {}
                done => return done,
            }
        }
    }

    /// Turns direct I/O off, and returns whether it was on.
    fn stop_direct(&self) -> bool {
        let fd = self.file.as_raw_fd();
        // SAFETY: reads the flags of an open descriptor.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
        let without = flags & !OPEN_DIRECT;
        // SAFETY: sets flags of an open descriptor.
        flags >= 0 && without != flags && unsafe { libc::fcntl(fd, libc::F_SETFL, without) } == 0
    }
}

impl SpillFile for DirectFile {
    fn write_at(&self, mut buffers: &mut [IoSlice<'_>], mut offset: u64) -> io::Result<()> {
        while !buffers.is_empty() {
            let written = self.persist(|| {
                let (fd, count) = (self.file.as_raw_fd(), buffers.len() as i32);
                // SAFETY: an IoSlice is laid out as an iovec, and the slices outlive the call.
                let written =
                    unsafe { libc::pwritev(fd, buffers.as_ptr().cast(), count, offset as i64) };
                usize::try_from(written).map_err(|_| io::Error::last_os_error())
            })?;
            if written == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
            offset += written as u64;
            IoSlice::advance_slices(&mut buffers, written);
        }
        Ok(())
    }

    fn read_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            let read = self.persist(|| self.file.read_at(buffer, offset))?;
            if read == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            offset += read as u64;
            buffer = &mut buffer[read..];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C, align(4096))]
    struct Pages([u8; 8192]);

    fn round_trip(file: DirectFile) {
        let written = Pages(std::array::from_fn(|i| i as u8));
        let (a, b) = written.0.split_at(4096);
        file.write_at(&mut [IoSlice::new(a), IoSlice::new(b)], 4096)
            .unwrap();
        let mut read = Pages([0; 8192]);
        file.read_at(&mut read.0, 4096).unwrap();
        assert!(read.0 == written.0);
        let beyond = file.read_at(&mut read.0, 8192).unwrap_err();
        assert_eq!(beyond.kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn files_have_no_name_and_round_trip() {
        let directory = tempfile::tempdir().unwrap();
        round_trip(DirectFile {
            file: create_unlinked(directory.path(), 0).unwrap(),
        });
        let mut named = OpenOptions::new();
        named.read(true).write(true).create_new(true);
        round_trip(DirectFile {
            file: create_then_unlink(directory.path(), &named).unwrap(),
        });
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn unaligned_access_falls_back_to_the_page_cache() {
        let directory = tempfile::tempdir().unwrap();
        let Ok(file) = create_unlinked(directory.path(), OPEN_DIRECT) else {
            return;
        };
        let file = DirectFile { file };
        file.write_at(&mut [IoSlice::new(b"odd")], 1).unwrap();
        let mut read = [0; 3];
        file.read_at(&mut read, 1).unwrap();
        assert_eq!(&read, b"odd");
    }
}
