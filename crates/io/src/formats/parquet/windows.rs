//! Feeds the Parquet decoder from large reads into recycled buffers, without copying pages.
//!
//! The decoder asks for one page at a time. Each column chunk is therefore read in windows of up to 4 MiB. A page in
//! the window is a slice of it, and uncompressed string values point into the window itself. While a window is decoded, a
//! thread reads the next one of the same column ([`Prefetcher`]). The part of a page that lies in the old window is copied
//! to the new one instead of being read again. All windows of one reader together stay below [`TOTAL_BYTES`], beside those
//! that decoded batches still refer to.

use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use super::chunk::{Chunk, Window, MIN_WINDOW, TOTAL_BYTES};
use super::page_header::PageSize;
use super::page_limits::PageLimits;
use super::pages::Declared;
use super::prefetch::{Ahead, Prefetcher};
use super::regions::Regions;
use super::FORMAT;
use crate::direct::{BufferPool, RangeReader, WINDOW};
use crate::error::IoError;
use crate::storage::{page_ceil, page_floor, PAGE};
use crate::turns::Turn;

/// Bytes that are read to find the header of a page: headers have some dozens of bytes unless statistics are long.
const HEADER_BYTES: u64 = 256;

/// The order in which a file is read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Access {
    /// Front to back, so that large windows and reading ahead pay.
    Stream,
    /// At scattered places, in windows of this many bytes.
    Sparse(usize),
}

/// A file, read in one window per lane.
#[derive(Clone)]
pub(super) struct Windows(Arc<Inner>);

struct Inner {
    file: Arc<RangeReader>,
    /// Sorted by start.
    chunks: Vec<Chunk>,
    lanes: Vec<Mutex<Lane>>,
    /// Size of the windows of each lane.
    window_bytes: Vec<u64>,
    prefetcher: Option<Prefetcher>,
    /// Sorted by start.
    declared: Vec<Declared>,
    limits: PageLimits,
    turn: Mutex<Option<(Holder, Turn)>>,
    /// The last failure to read the file.
    failure: Mutex<Option<IoError>>,
}

/// The page or rows that a turn was taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    /// A large page of the chunk that starts there; the turn is held until a page behind it.
    Page(u64),
    /// A large dictionary, or long rows; the turn is held until a batch without such rows.
    Rows,
}

#[derive(Default)]
struct Lane {
    window: Window,
    ahead: Option<Ahead>,
}

impl Windows {
    /// Reads the chunks of `lanes` lanes in windows; the chunks come in the order in which they will be read.
    pub(super) fn new(
        file: Arc<RangeReader>,
        chunks: Vec<Chunk>,
        lanes: usize,
        access: Access,
    ) -> Self {
        let regions = Regions {
            chunks,
            lanes,
            joined: 0,
            declared: Vec::new(),
            limits: PageLimits::at_most(u64::MAX),
        };
        Self::over(file, regions, access)
    }

    /// Reads these ranges.
    pub(super) fn over(file: Arc<RangeReader>, regions: Regions, access: Access) -> Self {
        let Regions {
            chunks,
            lanes,
            joined,
            declared,
            limits,
        } = regions;
        let needed = needed(&chunks, lanes + joined);
        let mut window_bytes = match access {
            Access::Stream => shares(&needed[..lanes]),
            Access::Sparse(bytes) => vec![bytes as u64; lanes],
        };
        window_bytes.extend(&needed[lanes..]);
        let lanes = lanes + joined;
        let prefetcher = match access {
            Access::Stream => Some(Prefetcher::new(file.clone(), &chunks, lanes)),
            Access::Sparse(_) => None,
        };
        let mut chunks = chunks;
        chunks.sort_by_key(|chunk| chunk.start);
        let lanes = (0..lanes).map(|_| Mutex::default()).collect();
        Self(Arc::new(Inner {
            file,
            chunks,
            lanes,
            window_bytes,
            prefetcher,
            declared,
            limits,
            turn: Mutex::default(),
            failure: Mutex::new(None),
        }))
    }

    /// Waits for the turn where a decoded batch has long rows; gives it back if an earlier batch had them, and this one has
    /// none.
    pub(super) fn take_turn_with_rows(&self, are_long: bool) {
        let mut turn = self.0.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if are_long {
            let held = turn.take().map(|(_, held)| held);
            *turn = Some((Holder::Rows, held.unwrap_or_else(Turn::take)));
        } else if matches!(*turn, Some((Holder::Rows, _))) {
            *turn = None;
        }
    }

    /// The failure of the file, if there was one: the decoder keeps only its text.
    pub(super) fn failure(&self) -> Option<IoError> {
        self.0
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

/// The size of each lane's largest chunk, in whole pages.
fn needed(chunks: &[Chunk], lanes: usize) -> Vec<u64> {
    let mut needed = vec![PAGE as u64; lanes];
    for chunk in chunks {
        let pages = page_ceil(chunk.end) - page_floor(chunk.start);
        needed[chunk.lane] = needed[chunk.lane].max(pages);
    }
    needed
}

/// The size of each lane's windows. A small chunk gets a window of its size. Large chunks get equal shares of the rest, up
/// to `WINDOW`. Most bytes are in few columns, and pages (mostly of 1 MiB) that do not fit well into a window are read
/// twice. With equal shares, a table of two numbers and a text took 1.7 reads per byte.
fn shares(needed: &[u64]) -> Vec<u64> {
    let lanes = needed.len();
    let mut smallest_first: Vec<usize> = (0..lanes).collect();
    smallest_first.sort_by_key(|&lane| needed[lane]);
    // Two windows per lane: the one in use and the one being read.
    let mut left = TOTAL_BYTES / 2;
    let mut shares = vec![0; lanes];
    for (done, lane) in smallest_first.into_iter().enumerate() {
        let share = (left / (lanes - done)).clamp(MIN_WINDOW, WINDOW);
        // A power of two fits a pooled buffer.
        shares[lane] = needed[lane].min(1 << share.ilog2());
        left = left.saturating_sub(shares[lane] as usize);
    }
    shares
}

impl Inner {
    fn window_bytes(&self, chunk: Chunk) -> u64 {
        self.window_bytes[chunk.lane]
    }

    /// Keeps the cause of a failure, and returns an error for the decoder to stop at.
    fn failed(&self, cause: IoError) -> std::io::Error {
        let message = cause.to_string();
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(cause);
        std::io::Error::other(message)
    }

    fn chunk_at(&self, position: u64) -> Option<Chunk> {
        let after = self.chunks.partition_point(|chunk| chunk.start <= position);
        self.chunks[..after]
            .last()
            .copied()
            .filter(|chunk| position < chunk.end)
    }

    /// Checks that the page at a position can have the sizes that its header declares, and that memory has room for it.
    fn check_page(&self, position: u64, header: &[u8]) -> std::result::Result<(), IoError> {
        let after = self
            .declared
            .partition_point(|pages| pages.start <= position);
        let within = self.declared[..after].last();
        let Some(pages) = within.filter(|pages| position < pages.end) else {
            return Ok(());
        };
        let more = |bytes: u64| {
            let bytes = bytes.min(pages.end.min(self.file.len()).saturating_sub(position));
            self.file.read(position, bytes as usize)
        };
        let page = pages.checked(header, more)?;
        let page = page.map_err(|reason| IoError::corrupt(self.file.path(), FORMAT, reason))?;
        if page.bytes > self.limits.most_bytes {
            return Err(IoError::LargePage {
                path: self.file.path().to_path_buf(),
                bytes: page.bytes,
                limit_bytes: self.limits.most_bytes,
                enough_bytes: self.limits.enough_bytes(page.bytes),
            });
        }
        self.take_turn(pages.start, page);
        Ok(())
    }

    /// Waits for the turn if a page of a chunk is large; gives the turn back if a later page of that chunk is not. A
    /// dictionary is large as long as its values are referred to.
    fn take_turn(&self, chunk: u64, page: PageSize) {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if page.bytes > self.limits.shared_bytes {
            let (before, held) = turn.take().unzip();
            let is_kept = page.is_dictionary || before == Some(Holder::Rows);
            let holder = if is_kept {
                Holder::Rows
            } else {
                Holder::Page(chunk)
            };
            *turn = Some((holder, held.unwrap_or_else(Turn::take)));
        } else if turn
            .as_ref()
            .is_some_and(|(held, _)| *held == Holder::Page(chunk))
        {
            *turn = None;
        }
    }

    /// Reads `start .. end` of the file; a range larger than a window gets a buffer of its own.
    fn range(&self, start: u64, end: u64) -> std::result::Result<Bytes, IoError> {
        match self.chunk_at(start) {
            Some(chunk)
                if !self.file.is_small()
                    && end <= chunk.end
                    && end <= page_floor(start) + self.window_bytes(chunk) =>
            {
                self.through_window(chunk, start, end, |window| window.slice(start, end))
            }
            _ => self.file.read(start, (end - start) as usize),
        }
    }

    /// Reads at least one byte from `start` on, up to the end of the window.
    fn some_from(&self, start: u64) -> std::result::Result<Bytes, IoError> {
        match self.chunk_at(start).filter(|_| !self.file.is_small()) {
            Some(chunk) => {
                let end = (start + HEADER_BYTES).min(chunk.end);
                let end = end.min(page_floor(start) + self.window_bytes(chunk));
                self.through_window(chunk, start, end, |window| {
                    window.slice(start, window.end())
                })
            }
            None => {
                let bytes = self.file.len().saturating_sub(start).min(MIN_WINDOW as u64);
                self.file.read(start, bytes as usize)
            }
        }
    }

    fn through_window(
        &self,
        chunk: Chunk,
        start: u64,
        end: u64,
        slice: impl Fn(&Window) -> Bytes,
    ) -> std::result::Result<Bytes, IoError> {
        let mut lane = self.lanes[chunk.lane]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !lane.window.holds(start, end) {
            let ahead = lane.ahead.take();
            let ready = ahead
                .and_then(|ahead| ahead.join(&lane.window, start, end))
                .transpose()?;
            lane.window = match ready {
                Some(window) => window,
                None => self.read_window(&lane.window, chunk, page_floor(start))?,
            };
            let prefetch = |prefetcher: &Prefetcher| {
                prefetcher.start(&lane.window, chunk, self.window_bytes(chunk))
            };
            lane.ahead = self.prefetcher.as_ref().and_then(prefetch);
        }
        Ok(slice(&lane.window))
    }

    fn read_window(
        &self,
        old: &Window,
        chunk: Chunk,
        start: u64,
    ) -> std::result::Result<Window, IoError> {
        let end = (start + self.window_bytes(chunk)).min(chunk.end.min(self.file.len()));
        let mut buffer = BufferPool::take((page_ceil(end) - start) as usize)?;
        let border = page_floor(old.end());
        let kept = if old.start <= start && start < border && border < end {
            old.slice(start, border)
        } else {
            Bytes::new()
        };
        buffer[..kept.len()].copy_from_slice(&kept);
        let missing = (end - start) as usize - kept.len();
        self.file.read_pages(
            start + kept.len() as u64,
            missing,
            &mut buffer[kept.len()..],
        )?;
        Ok(Window {
            start,
            bytes: buffer.freeze(0..(end - start) as usize),
        })
    }
}

impl Length for Windows {
    fn len(&self) -> u64 {
        self.0.file.len()
    }
}

impl ChunkReader for Windows {
    type T = Headers;

    fn get_read(&self, start: u64) -> Result<Headers> {
        Ok(Headers {
            windows: self.0.clone(),
            position: start,
            bytes: Bytes::new(),
            at_start: true,
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let end = start
            .checked_add(length as u64)
            .filter(|&end| end <= self.0.file.len());
        let beyond = || ParquetError::EOF(format!("{length} bytes at {start} exceed the file"));
        let end = end.ok_or_else(beyond)?;
        self.0
            .range(start, end)
            .map_err(|e| self.0.failed(e).into())
    }
}

/// Reads page headers from a position on.
pub(super) struct Headers {
    windows: Arc<Inner>,
    position: u64,
    bytes: Bytes,
    /// Whether nothing has been read yet.
    at_start: bool,
}

impl Read for Headers {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.bytes.is_empty() {
            if self.position >= self.windows.file.len() {
                return Ok(0);
            }
            self.bytes = self
                .windows
                .some_from(self.position)
                .map_err(|e| self.windows.failed(e))?;
            if std::mem::take(&mut self.at_start) {
                let checked = self.windows.check_page(self.position, &self.bytes);
                checked.map_err(|e| self.windows.failed(e))?;
            }
        }
        let n = out.len().min(self.bytes.len());
        let taken = self.bytes.split_to(n);
        out[..n].copy_from_slice(&taken);
        self.position += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: usize) -> (tempfile::NamedTempFile, Vec<u8>, Arc<RangeReader>) {
        let content: Vec<u8> = (0..bytes).map(|i| (i * 13 + i / 256) as u8).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &content).unwrap();
        let reader = Arc::new(RangeReader::open(file.path()).unwrap());
        (file, content, reader)
    }

    /// Reads the ranges front to back in pages, as the decoder does.
    fn check_pages(windows: &Windows, content: &[u8], ranges: &[Chunk], page: usize) {
        for range in ranges {
            let (mut at, range_end) = (range.start as usize, range.end as usize);
            while at < range_end {
                let mut header = [0; 16];
                let n = windows
                    .get_read(at as u64)
                    .unwrap()
                    .read(&mut header)
                    .unwrap();
                assert_eq!(header[..n], content[at..at + n]);
                let end = (at + page).min(range_end);
                assert_eq!(
                    windows.get_bytes(at as u64, end - at).unwrap(),
                    content[at..end]
                );
                at = end;
            }
        }
    }

    #[test]
    fn pages_of_any_size_are_the_bytes_of_the_file() {
        const BYTES: usize = 20_000_001;
        let (_file, content, reader) = file(BYTES);
        let chunks = [
            Chunk {
                start: 4,
                end: 400_100,
                lane: 0,
            },
            Chunk {
                start: 400_100,
                end: 9_000_000,
                lane: 1,
            },
            Chunk {
                start: 9_000_000,
                end: 9_000_100,
                lane: 0,
            },
            Chunk {
                start: 9_000_100,
                end: BYTES as u64,
                lane: 1,
            },
        ];
        for access in [Access::Stream, Access::Sparse(64 << 10)] {
            for page in [5_000, 70_000, 1_100_000, 5_000_000] {
                let windows = Windows::new(reader.clone(), chunks.to_vec(), 2, access);
                check_pages(&windows, &content, &chunks, page);
                assert!(windows.get_bytes(BYTES as u64 - 1, 2).is_err());
            }
        }
    }

    #[test]
    fn many_lanes_share_the_memory() {
        let (_file, content, reader) = file(3_000_000);
        let chunk = |i: usize| Chunk {
            start: 10_000 * i as u64,
            end: 10_000 * (i + 1) as u64,
            lane: i,
        };
        let chunks: Vec<Chunk> = (0..300).map(chunk).collect();
        let windows = Windows::new(reader, chunks.clone(), 300, Access::Stream);
        assert!(windows
            .0
            .window_bytes
            .iter()
            .all(|&bytes| bytes <= MIN_WINDOW as u64));
        check_pages(&windows, &content, &chunks, 3_000);
    }

    #[test]
    fn small_lanes_leave_their_share_to_large_ones() {
        let ends = [0, 1_000_000, 2_000_000, 13_000_000];
        let chunk = |lane: usize| Chunk {
            start: ends[lane],
            end: ends[lane + 1],
            lane,
        };
        let chunks: Vec<Chunk> = (0..3).map(chunk).collect();
        let page = PAGE as u64;
        assert_eq!(
            shares(&needed(&chunks, 3)),
            [245 * page, 245 * page, WINDOW as u64]
        );
        assert_eq!(shares(&needed(&chunks[..2], 2)), [245 * page, 245 * page]);
    }

    #[test]
    fn headers_read_across_windows() {
        let (_file, content, reader) = file(200_000);
        let chunks = vec![Chunk {
            start: 10,
            end: 150_000,
            lane: 0,
        }];
        let windows = Windows::new(reader, chunks, 1, Access::Sparse(64 << 10));
        let mut read = Vec::new();
        windows
            .get_read(10)
            .unwrap()
            .read_to_end(&mut read)
            .unwrap();
        assert_eq!(read, content[10..]);
    }
}
