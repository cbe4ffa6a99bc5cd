//! Goes through the headers of a chunk's pages, and keeps them for whoever reads other rows of the chunk.
//!
//! Each header takes a call of the system. A row group in five parts had its headers read three times, and again in each
//! epoch. One of 11 million rows of 29 columns took 53,000 reads, and takes 11,700 from the second on.
//!
//! Guarantee: headers are kept for a path, size and time of change, as splits know a file. Whoever cannot look at once
//! reads the file: the process may have been forked while another thread looked.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use parquet::file::metadata::ColumnChunkMetaData;

use super::page_header::PageSize;
use super::pages::{pages, Pages};
use crate::direct::RangeReader;
use crate::storage::FileStamp;

/// The most headers that are kept of one chunk, and of all: 56 bytes each.
const MOST_OF_CHUNK: usize = 1 << 12;
const MOST_OF_ALL: usize = 1 << 15;

/// The chunk that headers are of: where it begins, and its file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Chunk {
    start: u64,
    stamp: FileStamp,
    path: PathBuf,
}

/// Headers of chunks from the first page on; those that were added last are at the end.
#[derive(Default)]
struct Kept {
    chunks: VecDeque<(Chunk, Arc<Vec<PageSize>>)>,
    headers: usize,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept {
    chunks: VecDeque::new(),
    headers: 0,
});

impl Kept {
    fn of(&self, chunk: &Chunk) -> Option<Arc<Vec<PageSize>>> {
        let mut newest_first = self.chunks.iter().rev();
        let found = newest_first.find(|(other, _)| other == chunk);
        found.map(|(_, headers)| Arc::clone(headers))
    }

    /// Keeps these headers instead of fewer of the same chunk.
    fn keep(&mut self, chunk: Chunk, headers: Arc<Vec<PageSize>>) {
        if let Some(place) = self.chunks.iter().position(|(other, _)| *other == chunk) {
            if self.chunks[place].1.len() >= headers.len() {
                return;
            }
            self.forget(place);
        }
        self.headers += headers.len();
        self.chunks.push_back((chunk, headers));
        while self.headers > MOST_OF_ALL {
            self.forget(0);
        }
    }

    fn forget(&mut self, place: usize) {
        let gone = self.chunks.remove(place);
        self.headers -= gone.map_or(0, |(_, headers)| headers.len());
    }
}

/// The pages of a chunk that lie one behind the other, each with its place in the file. They end where a gap follows.
pub(super) struct Headers<'a> {
    pages: Pages<'a>,
    chunk: Chunk,
    found: Arc<Vec<PageSize>>,
    num_kept: usize,
    /// Number of the next page, and where it begins.
    next: usize,
    at: u64,
}

impl<'a> Headers<'a> {
    /// Returns the pages of a chunk; `None` if its first page does not lie where the chunk begins.
    pub(super) fn of(file: &'a RangeReader, column: &ColumnChunkMetaData) -> Option<Self> {
        let pages = pages(file, column);
        let chunk = Chunk {
            start: column.byte_range().0,
            stamp: file.stamp(),
            path: file.path().to_path_buf(),
        };
        (pages.position == chunk.start).then_some(())?;
        let kept = KEPT.try_lock().ok().and_then(|kept| kept.of(&chunk));
        let found = kept.unwrap_or_default();
        Some(Self {
            pages,
            num_kept: found.len(),
            found,
            next: 0,
            at: chunk.start,
            chunk,
        })
    }

    /// Reads the header behind those that are known.
    fn read(&mut self) -> Option<PageSize> {
        if let Some(last) = self.found.last().filter(|_| self.next == self.num_kept) {
            self.pages.go_on(self.at, *last);
        }
        let page = self.pages.next()?;
        (self.pages.position == self.at + page.whole_bytes()).then_some(())?;
        Arc::make_mut(&mut self.found).push(page);
        Some(page)
    }

    /// Keeps what was found.
    pub(super) fn keep(self) {
        if (self.num_kept + 1..=MOST_OF_CHUNK).contains(&self.found.len()) {
            if let Ok(mut kept) = KEPT.try_lock() {
                kept.keep(self.chunk, self.found);
            }
        }
    }
}

impl Iterator for Headers<'_> {
    type Item = (Range<u64>, PageSize);

    fn next(&mut self) -> Option<Self::Item> {
        let page = match self.found.get(self.next) {
            Some(page) => *page,
            None => self.read()?,
        };
        let start = self.at;
        self.next += 1;
        self.at += page.whole_bytes();
        Some((start..self.at, page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(start: u64) -> Chunk {
        let (bytes, mtime_ns) = (7, 7);
        Chunk {
            start,
            stamp: FileStamp { bytes, mtime_ns },
            path: PathBuf::from("a"),
        }
    }

    fn headers(count: usize) -> Arc<Vec<PageSize>> {
        let page = PageSize {
            bytes: 1,
            stored_bytes: 1,
            header_bytes: 1,
            values: 1,
            encoding: 0,
            is_dictionary: false,
            checksum: None,
        };
        Arc::new(vec![page; count])
    }

    #[test]
    fn more_headers_take_the_place_of_fewer() {
        let mut kept = Kept::default();
        for (count, expected) in [(3, 3), (5, 5), (4, 5)] {
            kept.keep(chunk(1), headers(count));
            assert_eq!(kept.of(&chunk(1)).unwrap().len(), expected);
            assert_eq!((kept.headers, kept.chunks.len()), (expected, 1));
        }
    }

    #[test]
    fn other_files_and_chunks_have_their_own() {
        let mut kept = Kept::default();
        kept.keep(chunk(1), headers(3));
        let mut changed = chunk(1);
        changed.stamp.mtime_ns += 1;
        let mut elsewhere = chunk(1);
        elsewhere.path = PathBuf::from("b");
        for other in [chunk(2), changed, elsewhere] {
            assert!(kept.of(&other).is_none());
        }
    }

    #[test]
    fn the_oldest_go_where_headers_are_too_many() {
        let mut kept = Kept::default();
        for start in 0..20 {
            kept.keep(chunk(start), headers(MOST_OF_CHUNK));
            assert!(kept.headers <= MOST_OF_ALL);
        }
        assert!(kept.of(&chunk(11)).is_none() && kept.of(&chunk(12)).is_some());
    }
}
