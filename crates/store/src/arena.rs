//! The memory behind all blocks: one memfd, mapped once as a whole.
//!
//! A block in one range of the arena is a view into that one mapping and costs no system call. A block scattered over
//! several ranges is mapped once more, contiguously; its pages are dropped from the whole mapping's page tables, so that
//! they count once in the resident memory of the process.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::mapping::{Access, Mapping};
use crate::ranges::{units_in, Range};

/// The granularity of the arena.
pub const UNIT_BYTES: u64 = 64 << 10;

/// Ranges from here on get their pages in one call: for fresh memory that takes 0.6 of the time of a fault per page
/// (2.1-2.4 GB/s for 1.0-1.8), and nothing that fills a block is interrupted any more.
const POPULATE_BYTES: u64 = 1 << 20;

/// Where a range lies in the file: offset and length.
fn bytes_of(range: Range) -> (u64, u64) {
    (range.start * UNIT_BYTES, range.len * UNIT_BYTES)
}

/// The memfd and the mapping of all of it.
#[derive(Debug)]
pub(crate) struct Arena {
    file: File,
    whole: Mapping,
}

impl Arena {
    /// Sets up a sparse arena of `units`.
    pub(crate) fn create(units: u64) -> io::Result<Self> {
        // SAFETY: the name is a constant C string.
        let fd = unsafe { libc::memfd_create(c"exoshuffle".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and has no other owner.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(units * UNIT_BYTES)?;
        let whole = Mapping::of_file(&file, (units * UNIT_BYTES) as usize)?;
        let arena = Self { file, whole };
        // Fails here rather than later where the system cannot give memory back.
        arena.punch(Range {
            start: 0,
            len: units,
        })?;
        Ok(arena)
    }

    /// The bytes of `ranges` as one contiguous span.
    pub(crate) fn map(&self, ranges: &[Range]) -> io::Result<Mapping> {
        if let &[range] = ranges {
            let (offset, len) = bytes_of(range);
            let part = self.whole.part(offset as usize, len as usize);
            if len >= POPULATE_BYTES {
                populate(&part, len as usize);
            }
            return Ok(part);
        }
        let pieces: Vec<_> = ranges.iter().copied().map(bytes_of).collect();
        let mapping = Mapping::of_pieces(&self.file, &pieces, Access::Write)?;
        for (offset, len) in pieces {
            let old = self.whole.at(offset as usize, len as usize);
            // SAFETY: for a shared file mapping this drops page table entries only; the contents stay in the file.
            unsafe { libc::madvise(old.as_ptr().cast(), len as usize, libc::MADV_DONTNEED) };
        }
        Ok(mapping)
    }

    /// The memfd once more, for another process to map.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        Ok(self.file.try_clone()?.into())
    }

    /// Gives the memory of `range` back to the system; it reads as zeros afterwards.
    pub(crate) fn punch(&self, range: Range) -> io::Result<()> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (offset, len) = bytes_of(range);
        loop {
            // SAFETY: fallocate takes no pointers; the range is free, so nobody reads what it discards.
            if unsafe { libc::fallocate(self.file.as_raw_fd(), mode, offset as i64, len as i64) }
                == 0
            {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

/// Fills the page tables of the first `len` bytes, as the first access would page by page.
fn populate(mapping: &Mapping, len: usize) {
    let start = mapping.at(0, len);
    // SAFETY: for a mapping of a file this changes page tables only, never contents. A refusal (kernels before 5.14 do not
    // know the advice) leaves it to the first access.
    unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_POPULATE_WRITE) };
}

/// The memory of one block: ranges of the arena, or a file of its own when there are none.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) mapping: Mapping,
    pub(crate) ranges: Vec<Range>,
}

impl Memory {
    /// Bytes of the budget that it takes.
    pub(crate) fn budget_bytes(&self) -> u64 {
        units_in(&self.ranges) * UNIT_BYTES
    }

    /// Where `len` bytes from `start` on lie in the arena: offsets and lengths, in order. `None` if they are in a file
    /// of their own.
    pub(crate) fn pieces(&self, start: u64, len: u64) -> Option<Vec<(u64, u64)>> {
        if len == 0 {
            return Some(Vec::new());
        }
        if self.ranges.is_empty() {
            return None;
        }
        let mut passed = 0;
        let piece = |&range: &Range| {
            let (offset, bytes) = bytes_of(range);
            let first = start.max(passed) - passed;
            let end = (start + len).min(passed + bytes).saturating_sub(passed);
            passed += bytes;
            (first < end).then(|| (offset + first, end - first))
        };
        Some(self.ranges.iter().filter_map(piece).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocated_bytes(arena: &Arena) -> u64 {
        use std::os::unix::fs::MetadataExt;
        arena.file.metadata().unwrap().blocks() * 512
    }

    fn bytes(mapping: &mut Mapping, units: u64) -> &mut [u8] {
        let len = (units * UNIT_BYTES) as usize;
        // SAFETY: the tests hold one mapping of a range at a time and no other reference to its bytes.
        unsafe { std::slice::from_raw_parts_mut(mapping.at(0, len).as_ptr(), len) }
    }

    #[test]
    fn a_scattered_mapping_shows_the_ranges_in_order() {
        let arena = Arena::create(8).unwrap();
        let (a, b) = (Range { start: 5, len: 2 }, Range { start: 1, len: 1 });
        let unit = UNIT_BYTES as usize;
        bytes(&mut arena.map(&[a]).unwrap(), 2).fill(1);
        bytes(&mut arena.map(&[b]).unwrap(), 1).fill(2);
        let mut both = arena.map(&[a, b]).unwrap();
        let seen = bytes(&mut both, 3);
        assert!(
            seen[..2 * unit].iter().all(|&byte| byte == 1)
                && seen[2 * unit..].iter().all(|&byte| byte == 2)
        );
        seen.fill(3);
        drop(both);
        assert!(bytes(&mut arena.map(&[b]).unwrap(), 1)
            .iter()
            .all(|&byte| byte == 3));
    }

    #[test]
    fn the_arena_is_sparse_and_punching_returns_memory() {
        let arena = Arena::create(8).unwrap();
        assert_eq!(allocated_bytes(&arena), 0);
        let range = Range { start: 2, len: 3 };
        bytes(&mut arena.map(&[range]).unwrap(), 3).fill(7);
        assert_eq!(allocated_bytes(&arena), 3 * UNIT_BYTES);
        arena.punch(Range { start: 2, len: 2 }).unwrap();
        assert_eq!(allocated_bytes(&arena), UNIT_BYTES);
    }

    #[test]
    fn pieces_are_cut_where_ranges_end() {
        let arena = Arena::create(8).unwrap();
        let ranges = vec![
            Range { start: 5, len: 2 },
            Range { start: 1, len: 1 },
            Range { start: 3, len: 1 },
        ];
        let mapping = arena.map(&ranges).unwrap();
        let memory = Memory { mapping, ranges };
        let unit = UNIT_BYTES;
        let within = memory.pieces(2 * unit - 5, 5).unwrap();
        assert_eq!(within, [(7 * unit - 5, 5)]);
        let across = memory.pieces(unit + 7, 2 * unit).unwrap();
        assert_eq!(
            across,
            [(6 * unit + 7, unit - 7), (unit, unit), (3 * unit, 7)]
        );
        assert_eq!(memory.pieces(4 * unit, 0).unwrap(), []);
    }
}
