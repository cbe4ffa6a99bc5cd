//! Sequential windows of a file, read by a background thread while the caller works on the previous one.
//!
//! At most two windows exist beyond the caller's: one waits in the channel, one is being read.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::mpsc::{sync_channel, Receiver};
use std::sync::Arc;

use bytes::Bytes;

use super::{RangeReader, WINDOW};
use crate::error::{IoError, Result};
use crate::storage::{page_floor, PAGE};

/// Windows larger than this are read when they are needed.
const LARGEST_AHEAD: u64 = 4 * WINDOW as u64;

/// Iterator over consecutive windows of a byte range.
pub struct ReadAhead {
    source: Windows,
}

enum Windows {
    /// The range is too small to be worth a thread, or its windows are too large to have several in memory.
    Inline(Arc<RangeReader>, VecDeque<Range<u64>>),
    Thread(Receiver<Result<Bytes>>),
}

impl ReadAhead {
    /// Starts to read `range` of the file. All windows but the last are multiples of `unit` bytes.
    pub fn new(file: Arc<RangeReader>, range: Range<u64>, unit: usize) -> Result<Self> {
        Self::over(file, windows(range, unit as u64))
    }

    /// Starts to read the given windows, one after the other.
    pub(crate) fn over(file: Arc<RangeReader>, windows: VecDeque<Range<u64>>) -> Result<Self> {
        let large = |window: &Range<u64>| window.end - window.start > LARGEST_AHEAD;
        if windows.len() <= 1 || file.is_small() || windows.iter().any(large) {
            return Ok(Self {
                source: Windows::Inline(file, windows),
            });
        }
        let (sender, receiver) = sync_channel(1);
        let path = file.path().to_path_buf();
        let read = move || {
            for window in windows {
                let bytes = file.read(window.start, (window.end - window.start) as usize);
                let failed = bytes.is_err();
                // The caller may have dropped the iterator: then there is nothing left to do.
                if sender.send(bytes).is_err() || failed {
                    return;
                }
            }
        };
        let spawned = std::thread::Builder::new()
            .name("xs-read".into())
            .spawn(read);
        spawned.map_err(|e| IoError::read(&path, e))?;
        Ok(Self {
            source: Windows::Thread(receiver),
        })
    }
}

impl Iterator for ReadAhead {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.source {
            Windows::Inline(file, windows) => {
                let window = windows.pop_front()?;
                Some(file.read(window.start, (window.end - window.start) as usize))
            }
            Windows::Thread(receiver) => receiver.recv().ok(),
        }
    }
}

/// Cuts a range into windows that fit into one pooled buffer, with the pages they share with their neighbours. Ranges
/// of single bytes are cut at page borders, so that no page is read twice.
fn windows(range: Range<u64>, unit: u64) -> VecDeque<Range<u64>> {
    let whole_units = ((WINDOW - 2 * PAGE) as u64 / unit.max(1)).max(1) * unit;
    let mut windows = VecDeque::new();
    let mut start = range.start;
    while start < range.end {
        let end = if unit <= 1 {
            page_floor(start) + WINDOW as u64
        } else {
            start + whole_units
        };
        let end = end.min(range.end);
        windows.push_back(start..end);
        start = end;
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_concatenate_to_the_range() {
        let content: Vec<u8> = (0..3 * WINDOW + 777).map(|i| (i / 3) as u8).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &content).unwrap();
        let reader = Arc::new(RangeReader::open(file.path()).unwrap());
        for range in [
            0..content.len(),
            5..content.len() - 5,
            100..101,
            7..7,
            WINDOW - 1..2 * WINDOW + 1,
        ] {
            for unit in [1, 7, 100, 3_000_000, 5_000_000] {
                let ahead =
                    ReadAhead::new(reader.clone(), range.start as u64..range.end as u64, unit)
                        .unwrap();
                let windows: Vec<Bytes> = ahead.map(Result::unwrap).collect();
                assert!(windows
                    .iter()
                    .rev()
                    .skip(1)
                    .all(|window| window.len().is_multiple_of(unit)));
                assert!(windows.concat() == content[range.clone()]);
            }
        }
    }

    #[test]
    fn an_error_ends_the_stream() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4 * WINDOW as u64).unwrap();
        let reader = Arc::new(RangeReader::open(file.path()).unwrap());
        file.as_file().set_len(WINDOW as u64).unwrap();
        let ahead = ReadAhead::new(reader, 0..4 * WINDOW as u64, 1).unwrap();
        let results: Vec<_> = ahead.map(|window| window.is_ok()).collect();
        assert_eq!(results, [true, false]);
    }
}
