//! The index of a spilled block, read from disk by the page.
//!
//! A page holds the bounds of about 256 slices, and a shuffle reads the slices of a block in ascending order. So the
//! part read last is kept, and R slices cost about R / 256 reads of the index instead of R. The kept part takes at most
//! two pages per block, and no more than the index itself; it goes with the block. The checksum of a slice covers its
//! bounds, so the kept entries are checked along with the data.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Result;
use crate::layout::PAGE_BYTES;

/// The most bytes of two neighbouring entries.
const BOUNDS_BYTES: usize = 48;
/// The two neighbouring entries that bound a slice, as they came from disk; zeros behind them if they are shorter.
pub(crate) type Bounds = [u8; BOUNDS_BYTES];

/// Where the index of a block is in its image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Index {
    pub(crate) start: u64,
    pub(crate) entry_bytes: u64,
    pub(crate) num_entries: u64,
}

impl Index {
    /// Returns where the entry of a slice is.
    pub(crate) fn entry_start(&self, slice: usize) -> u64 {
        self.start + slice as u64 * self.entry_bytes
    }

    fn bounds_bytes(&self) -> usize {
        2 * self.entry_bytes as usize
    }
}

/// Memory to read into: entries that start in one page may end in the next.
#[repr(C, align(4096))]
struct TwoPages([u8; 2 * PAGE_BYTES as usize]);

/// The part of a block's index that was read last.
#[derive(Default)]
pub(crate) struct IndexCache(Mutex<Kept>);

/// Bytes of the index, from `start` in the image; none at first.
#[derive(Default)]
struct Kept {
    start: u64,
    bytes: Box<[u8]>,
}

impl Kept {
    /// Returns the entries from `place` in the image on, if both are kept.
    fn find(&self, place: u64, len: usize) -> Option<Bounds> {
        let at = place.checked_sub(self.start)? as usize;
        self.bytes.get(at..at + len).map(bounds_of)
    }
}

impl IndexCache {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the entries of `slice`. Unless they are kept, `read` fills whole pages from a place in the image. Other
    /// readers of the block's slices wait for that, because they most likely want the same page.
    pub(crate) fn bounds(
        &self,
        index: &Index,
        slice: usize,
        read: impl FnOnce(&mut [u8], u64) -> Result<()>,
    ) -> Result<Bounds> {
        let (place, len) = (index.entry_start(slice), index.bounds_bytes());
        let mut kept = self.kept();
        if let Some(found) = kept.find(place, len) {
            return Ok(found);
        }
        let page = place - place % PAGE_BYTES;
        let at = (place - page) as usize;
        let mut pages = TwoPages([0; 2 * PAGE_BYTES as usize]);
        let pages = &mut pages.0[..(at + len).next_multiple_of(PAGE_BYTES as usize)];
        read(pages, page)?;
        // Data may come before the index in its first page, and padding after it in the last.
        let index = index.start..index.entry_start(index.num_entries as usize);
        let start = index.start.max(page);
        let end = index.end.min(page + pages.len() as u64);
        *kept = Kept {
            start,
            bytes: pages[(start - page) as usize..(end - page) as usize].into(),
        };
        Ok(bounds_of(&pages[at..at + len]))
    }

    /// Forgets the kept entries, so that they are read again: they, or the data, were found damaged.
    pub(crate) fn forget(&self) {
        *self.kept() = Kept::default();
    }
}

fn bounds_of(entries: &[u8]) -> Bounds {
    let mut found = [0; BOUNDS_BYTES];
    found[..entries.len()].copy_from_slice(entries);
    found
}
