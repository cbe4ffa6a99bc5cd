//! The chunks of a file, which are read front to back, with one window of each in memory.

use bytes::Bytes;

/// Bytes of all windows of one reader, with those being prefetched.
pub(super) const TOTAL_BYTES: usize = 16 << 20;
pub(super) const MIN_WINDOW: usize = 64 << 10;

/// A range of the file that is read front to back. The chunks of a lane are read one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) lane: usize,
}

/// Bytes of the file from a page border on.
#[derive(Default)]
pub(super) struct Window {
    pub(super) start: u64,
    pub(super) bytes: Bytes,
}

impl Window {
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    pub(super) fn holds(&self, start: u64, end: u64) -> bool {
        self.start <= start && end <= self.end()
    }

    pub(super) fn slice(&self, start: u64, end: u64) -> Bytes {
        self.bytes
            .slice((start - self.start) as usize..(end - self.start) as usize)
    }
}
