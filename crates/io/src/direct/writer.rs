//! Writes one new file past the page cache and checksums it on the way.
//!
//! The caller fills an aligned buffer. Full buffers go to one background thread, which checksums and writes them. At
//! most five buffers are in use: one being filled, three waiting, one being written. There are so many because encoders
//! hand over a row group at once. A file of less than one buffer never starts the thread. A failure of the thread
//! surfaces at the next write, or when the end is waited for.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::thread::JoinHandle;

use super::{BufferPool, PooledBuffer, WINDOW};
use crate::error::{IoError, Result};
use crate::storage::{self, NewFile};

/// Full buffers that wait for the thread.
const MAX_WAITING: usize = 3;

/// The result of a finished file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenFile {
    /// Size of the file.
    pub bytes: u64,
    /// CRC-32 of its content.
    pub crc32: u32,
}

/// A new file, written sequentially. Dropped before its end, it leaves the part that was written so far.
pub struct DirectWriter {
    path: PathBuf,
    buffer: PooledBuffer,
    filled: usize,
    written: u64,
    target: Target,
}

enum Target {
    Here(Box<Sink>),
    Thread(
        SyncSender<(PooledBuffer, usize)>,
        JoinHandle<Result<WrittenFile>>,
    ),
    Failed,
}

impl DirectWriter {
    /// Creates the file, which must not exist.
    pub fn create(path: &Path) -> Result<Self> {
        let file = storage::of(path).create(path);
        Self::to(file.map_err(|e| IoError::write(path, e))?, path)
    }

    /// Writes to a file that is open and need not be able to seek; `name` is for errors.
    pub fn to_open(file: File, name: &Path) -> Result<Self> {
        Self::to(storage::stream_to(file), name)
    }

    fn to(file: Box<dyn NewFile>, path: &Path) -> Result<Self> {
        let sink = Sink {
            path: path.to_path_buf(),
            file,
            bytes: 0,
            crc: crc32fast::Hasher::new(),
        };
        Ok(Self {
            path: path.to_path_buf(),
            buffer: BufferPool::take(WINDOW)?,
            filled: 0,
            written: 0,
            target: Target::Here(Box::new(sink)),
        })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the bytes taken so far.
    pub fn bytes(&self) -> u64 {
        self.written
    }

    /// Appends `data`.
    pub fn append(&mut self, mut data: &[u8]) -> Result<()> {
        self.written += data.len() as u64;
        while !data.is_empty() {
            let n = data.len().min(WINDOW - self.filled);
            self.buffer[self.filled..self.filled + n].copy_from_slice(&data[..n]);
            self.filled += n;
            data = &data[n..];
            if self.filled == WINDOW {
                self.hand_over()?;
            }
        }
        Ok(())
    }

    /// Writes the rest and closes the file.
    pub fn finish(self) -> Result<WrittenFile> {
        self.end()?.wait()
    }

    /// Sends the rest on its way to the file, which is closed when all of it is there.
    pub fn end(mut self) -> Result<PendingFile> {
        match std::mem::replace(&mut self.target, Target::Failed) {
            Target::Here(sink) => {
                let written = sink.write_tail(&mut self.buffer, self.filled);
                written.map(PendingFile::Written)
            }
            Target::Thread(sender, thread) => {
                let rest = (self.buffer, self.filled);
                let (_, thread) = send(&self.path, (sender, thread), rest)?;
                Ok(PendingFile::Thread(self.path, thread))
            }
            Target::Failed => Err(failed_before(&self.path)),
        }
    }

    fn hand_over(&mut self) -> Result<()> {
        let full = std::mem::replace(&mut self.buffer, BufferPool::take(WINDOW)?);
        let filled = std::mem::take(&mut self.filled);
        let running = match std::mem::replace(&mut self.target, Target::Failed) {
            Target::Here(sink) => start(&self.path, *sink)?,
            Target::Thread(sender, thread) => (sender, thread),
            Target::Failed => return Err(failed_before(&self.path)),
        };
        let (sender, thread) = send(&self.path, running, (full, filled))?;
        self.target = Target::Thread(sender, thread);
        Ok(())
    }
}

impl Write for DirectWriter {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        match self.append(data) {
            Ok(()) => Ok(data.len()),
            Err(IoError::Write { source, .. } | IoError::Memory { source, .. }) => Err(source),
            Err(other) => Err(std::io::Error::other(other)),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(()) // nothing is promised before `finish`
    }
}

/// A file whose last bytes may still be on their way.
pub enum PendingFile {
    /// All of it is written.
    Written(WrittenFile),
    /// A thread writes the rest.
    Thread(PathBuf, JoinHandle<Result<WrittenFile>>),
}

impl PendingFile {
    /// Waits until all of it is written.
    pub fn wait(self) -> Result<WrittenFile> {
        match self {
            Self::Written(written) => Ok(written),
            Self::Thread(path, thread) => join(&path, thread),
        }
    }
}

type Running = (
    SyncSender<(PooledBuffer, usize)>,
    JoinHandle<Result<WrittenFile>>,
);

/// Starts the thread. The first buffer that is not full is the last.
fn start(path: &Path, mut sink: Sink) -> Result<Running> {
    let (sender, receiver): (_, Receiver<(PooledBuffer, usize)>) = sync_channel(MAX_WAITING);
    let write = move || {
        for (mut buffer, filled) in receiver {
            if filled < WINDOW {
                return sink.write_tail(&mut buffer, filled);
            }
            sink.write(&buffer[..filled])?;
        }
        // The writer was dropped: nobody waits for this.
        Err(failed_before(&sink.path))
    };
    let thread = std::thread::Builder::new()
        .name("xs-write".into())
        .spawn(write);
    Ok((sender, thread.map_err(|e| IoError::write(path, e))?))
}

/// Sends a buffer to the thread.
fn send(path: &Path, (sender, thread): Running, buffer: (PooledBuffer, usize)) -> Result<Running> {
    if sender.send(buffer).is_ok() {
        return Ok((sender, thread));
    }
    // The thread drops its end only when it failed, so joining yields the cause.
    Err(join(path, thread)
        .err()
        .unwrap_or_else(|| failed_before(path)))
}

fn join(path: &Path, thread: JoinHandle<Result<WrittenFile>>) -> Result<WrittenFile> {
    match thread.join() {
        Ok(result) => result,
        Err(_) => Err(IoError::write(
            path,
            std::io::Error::other("the writing thread panicked"),
        )),
    }
}

fn failed_before(path: &Path) -> IoError {
    IoError::write(
        path,
        std::io::Error::other("an earlier write to the file failed"),
    )
}

/// The file behind the buffers, checksummed.
struct Sink {
    path: PathBuf,
    file: Box<dyn NewFile>,
    bytes: u64,
    crc: crc32fast::Hasher,
}

impl Sink {
    fn write(&mut self, full: &[u8]) -> Result<()> {
        self.crc.update(full);
        let written = self.file.append(full);
        written.map_err(|e| IoError::write(&self.path, e))?;
        self.bytes += full.len() as u64;
        Ok(())
    }

    fn write_tail(mut self, buffer: &mut PooledBuffer, filled: usize) -> Result<WrittenFile> {
        self.crc.update(&buffer[..filled]);
        let written = self.file.finish(buffer, filled);
        written.map_err(|e| IoError::write(&self.path, e))?;
        Ok(WrittenFile {
            bytes: self.bytes + filled as u64,
            crc32: self.crc.finalize(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(dir: &Path, sizes: &[usize]) {
        for (i, &size) in sizes.iter().enumerate() {
            let content: Vec<u8> = (0..size).map(|i| (i * 7 + i / 4096) as u8).collect();
            let path = dir.join(format!("file-{i}"));
            let mut writer = DirectWriter::create(&path).unwrap();
            for piece in content.chunks(333_333) {
                writer.append(piece).unwrap();
            }
            assert_eq!(writer.bytes(), size as u64);
            let written = writer.finish().unwrap();
            assert_eq!(
                written,
                WrittenFile {
                    bytes: size as u64,
                    crc32: crc32fast::hash(&content)
                }
            );
            assert!(
                std::fs::read(&path).unwrap() == content,
                "content of {size} bytes"
            );
            std::fs::remove_file(&path).unwrap();
        }
    }

    const SIZES: [usize; 10] = [
        0,
        1,
        4095,
        4096,
        4097,
        WINDOW - 1,
        WINDOW,
        WINDOW + 1,
        3 * WINDOW,
        5 * WINDOW + 12_345,
    ];

    #[test]
    fn content_and_checksum_survive() {
        round_trip(tempfile::tempdir().unwrap().path(), &SIZES);
    }

    #[test]
    fn file_systems_in_memory_work_too() {
        if let Ok(dir) = tempfile::tempdir_in("/dev/shm") {
            round_trip(dir.path(), &SIZES);
        }
    }

    #[test]
    fn a_full_device_is_an_error_that_names_the_path() {
        let device = File::options().write(true).open("/dev/full").unwrap();
        let mut writer = DirectWriter::to_open(device, Path::new("/dev/full")).unwrap();
        let block = vec![1_u8; WINDOW];
        let error = (0..10)
            .find_map(|_| writer.append(&block).err())
            .expect("the device is full");
        assert!(
            error.to_string().contains("/dev/full")
                && error.to_string().contains("free disk space"),
            "{error}"
        );
        assert!(writer.finish().is_err());
    }

    #[test]
    fn an_existing_file_is_not_overwritten() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = DirectWriter::create(file.path()).err().unwrap();
        assert!(error.to_string().contains("remove the file"), "{error}");
    }
}
