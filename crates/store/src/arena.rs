//! The memory behind all blocks: one memfd, mapped once as a whole.
//!
//! A block in one range of the arena is a view into that one mapping and costs no system call. A block scattered over
//! several ranges is mapped once more, contiguously. Before that, its pages are dropped from the whole mapping's page
//! tables, so that they count once in the resident memory of the process.
//!
//! Fresh memory comes in huge pages where the system makes them. In pages of 4 KiB it costs 0.6 s/GB to get and 0.25
//! s/GB to give back; in huge pages 0.08 and 0.004. Measured on Linux 6.18 in a virtual machine whose host has the
//! memory.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::mapped_files::MappedFile;
use crate::mapping::{Access, Mapping, HUGE_BYTES};
use crate::memory_file;
use crate::ranges::{units_in, Range};
use crate::system;

/// The granularity of the arena.
pub const UNIT_BYTES: u64 = 64 << 10;

/// Ranges from this size on get their pages in one call. For fresh memory that takes 0.6 of the time of a fault per page
/// (2.1-2.4 GB/s for 1.0-1.8). Nothing interrupts the filling of a block any more.
const POPULATE_BYTES: u64 = 1 << 20;

/// Returns where a range lies in the file: offset and length.
fn bytes_of(range: Range) -> (u64, u64) {
    (range.start * UNIT_BYTES, range.len * UNIT_BYTES)
}

/// The memfd and the mapping of all of it.
#[derive(Debug)]
pub(crate) struct Arena {
    file: File,
    whole: Mapping,
    /// Whether to ask for huge pages. False once the system has refused one: to ask again may be slow and would be
    /// vain.
    huge: AtomicBool,
}

impl Arena {
    /// Creates a sparse arena of `units`.
    pub(crate) fn create(units: u64) -> io::Result<Self> {
        let file = memory_file::open()?;
        file.set_len(units * UNIT_BYTES)?;
        let len = (units * UNIT_BYTES) as usize;
        let whole = Mapping::of_file_aligned(&file, len, HUGE_BYTES as usize)?;
        let arena = Self {
            file,
            whole,
            huge: AtomicBool::new(huge_pages_are_wanted()),
        };
        // A system that cannot take memory back fails here rather than later.
        arena.punch(Range {
            start: 0,
            len: units,
        })?;
        Ok(arena)
    }

    /// Maps the bytes of `ranges` as one contiguous span. `fresh` are those of them that hold no memory yet.
    pub(crate) fn map(&self, ranges: &[Range], fresh: &[Range]) -> io::Result<Mapping> {
        for &range in fresh {
            self.make_huge(range);
        }
        if let &[range] = ranges {
            let (offset, len) = bytes_of(range);
            if len >= POPULATE_BYTES {
                self.advise(offset, len, system::ADVICE_POPULATE);
            }
            return Ok(self.whole.part(offset as usize, len as usize));
        }
        let pieces: Vec<_> = ranges.iter().copied().map(bytes_of).collect();
        for &(offset, len) in &pieces {
            self.advise(offset, len, libc::MADV_DONTNEED);
        }
        Mapping::of_pieces(&self.file, &pieces, Access::Write)
    }

    /// Gets huge pages for the part of a fresh range that whole ones cover.
    fn make_huge(&self, range: Range) {
        let (offset, len) = bytes_of(range);
        let start = offset.next_multiple_of(HUGE_BYTES);
        let end = (offset + len) / HUGE_BYTES * HUGE_BYTES;
        if start >= end || !self.huge.load(Ordering::Relaxed) {
            return;
        }
        // A huge page of a memfd is made of small ones, and one of these has to be there.
        for page in (start..end).step_by(HUGE_BYTES as usize) {
            self.advise(page, UNIT_BYTES, system::ADVICE_POPULATE);
        }
        let made = self.advise(start, end - start, system::ADVICE_COLLAPSE);
        self.huge.fetch_and(made, Ordering::Relaxed);
    }

    /// Tells the system what to do with the pages of a span, and returns whether it agreed. A refusal does no harm: the
    /// first access to each page works without.
    fn advise(&self, offset: u64, len: u64, advice: i32) -> bool {
        let start = self.whole.at(offset as usize, len as usize);
        // SAFETY: on a shared mapping of a file, every advice passed here changes page tables and where contents lie,
        // never contents.
        unsafe { libc::madvise(start.as_ptr().cast(), len as usize, advice) == 0 }
    }

    /// Duplicates the memfd, for another process to map.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        Ok(self.file.try_clone()?.into())
    }

    /// Gives the memory of `range` back to the system; it reads as zeros afterwards.
    pub(crate) fn punch(&self, range: Range) -> io::Result<()> {
        let (offset, len) = bytes_of(range);
        system::punch(&self.file, offset, len)
    }
}

/// Returns whether huge pages have the size that the arena is made for, and nobody has switched them off. Collapsing
/// pages works even when they are off, but the administrator who switched them off had reasons.
fn huge_pages_are_wanted() -> bool {
    let setting = |name| {
        fs::read_to_string(format!("/sys/kernel/mm/transparent_hugepage/{name}"))
            .unwrap_or_default()
    };
    setting("hpage_pmd_size").trim() == HUGE_BYTES.to_string()
        && !setting("enabled").contains("[never]")
        && !setting("shmem_enabled").contains("[deny]")
}

/// The memory of one block.
#[derive(Debug)]
pub(crate) enum Memory {
    /// Ranges of the arena, mapped in their order.
    Ranges {
        mapping: Mapping,
        ranges: Vec<Range>,
    },
    /// A file of its own, which the budget does not count.
    File(MappedFile),
}

impl Memory {
    pub(crate) fn mapping(&self) -> &Mapping {
        match self {
            Self::Ranges { mapping, .. } => mapping,
            Self::File(file) => file.mapping(),
        }
    }

    /// Returns the ranges of the arena that the memory takes.
    pub(crate) fn ranges(&self) -> &[Range] {
        match self {
            Self::Ranges { ranges, .. } => ranges,
            Self::File(_) => &[],
        }
    }

    /// Lets the pages of a file leave the resident memory; for when nobody looks at the block for now. Groups of few
    /// keys that left 40 such blocks within 300 MB peaked at 565 MB without.
    pub(crate) fn rest(&self) {
        if let Self::File(file) = self {
            file.mapping().let_go();
        }
    }

    /// Returns the bytes of the budget that the memory takes.
    pub(crate) fn budget_bytes(&self) -> u64 {
        units_in(self.ranges()) * UNIT_BYTES
    }

    /// Returns where `len` bytes from `start` on lie in the arena: offsets and lengths, in order. `None` if they are in
    /// a file of their own.
    pub(crate) fn pieces(&self, start: u64, len: u64) -> Option<Vec<(u64, u64)>> {
        if len == 0 {
            return Some(Vec::new());
        }
        let Self::Ranges { ranges, .. } = self else {
            return None;
        };
        let mut passed = 0;
        let piece = |&range: &Range| {
            let (offset, bytes) = bytes_of(range);
            let first = start.max(passed) - passed;
            let end = (start + len).min(passed + bytes).saturating_sub(passed);
            passed += bytes;
            (first < end).then(|| (offset + first, end - first))
        };
        Some(ranges.iter().filter_map(piece).collect())
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
        bytes(&mut arena.map(&[a], &[a]).unwrap(), 2).fill(1);
        bytes(&mut arena.map(&[b], &[b]).unwrap(), 1).fill(2);
        let mut both = arena.map(&[a, b], &[]).unwrap();
        let seen = bytes(&mut both, 3);
        assert!(
            seen[..2 * unit].iter().all(|&byte| byte == 1)
                && seen[2 * unit..].iter().all(|&byte| byte == 2)
        );
        seen.fill(3);
        drop(both);
        assert!(bytes(&mut arena.map(&[b], &[]).unwrap(), 1)
            .iter()
            .all(|&byte| byte == 3));
    }

    #[test]
    fn the_arena_is_sparse_and_punching_returns_memory() {
        let arena = Arena::create(8).unwrap();
        assert_eq!(allocated_bytes(&arena), 0);
        let range = Range { start: 2, len: 3 };
        bytes(&mut arena.map(&[range], &[range]).unwrap(), 3).fill(7);
        assert_eq!(allocated_bytes(&arena), 3 * UNIT_BYTES);
        arena.punch(Range { start: 2, len: 2 }).unwrap();
        assert_eq!(allocated_bytes(&arena), UNIT_BYTES);
    }

    /// Returns the bytes of the arena that are mapped as huge pages.
    fn huge_bytes(arena: &Arena) -> u64 {
        told_bytes(arena, "ShmemPmdMapped:")
    }

    /// Returns a figure of the system about the mapping of the whole arena.
    fn told_bytes(arena: &Arena, name: &str) -> u64 {
        told_bytes_at(&arena.whole, name)
    }

    /// Returns a figure of the system about the memory that a mapping begins with.
    fn told_bytes_at(mapping: &Mapping, name: &str) -> u64 {
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let start = format!("{:x}-", mapping.at(0, 1).addr());
        let ours = maps.lines().skip_while(|line| !line.starts_with(&start));
        let mapped = ours
            .filter_map(|line| line.strip_prefix(name))
            .next()
            .unwrap();
        mapped
            .trim()
            .trim_end_matches(" kB")
            .parse::<u64>()
            .unwrap()
            << 10
    }

    /// Asks the system itself, since the arena may be wrong about it.
    fn system_makes_huge_pages() -> bool {
        let enabled = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
        let arena = Arena::create(2 * UNITS_PER_HUGE).unwrap();
        enabled.is_ok_and(|enabled| !enabled.contains("[never]"))
            && arena.advise(0, UNIT_BYTES, system::ADVICE_POPULATE)
            && arena.advise(0, HUGE_BYTES, system::ADVICE_COLLAPSE)
    }

    const UNITS_PER_HUGE: u64 = HUGE_BYTES / UNIT_BYTES;

    #[test]
    fn fresh_memory_comes_in_huge_pages_as_far_as_it_takes_whole_ones() {
        let arena = Arena::create(8 * UNITS_PER_HUGE).unwrap();
        let range = Range {
            start: 5,
            len: 4 * UNITS_PER_HUGE,
        };
        let mut mapping = arena.map(&[range], &[range]).unwrap();
        if !system_makes_huge_pages() {
            return;
        }
        assert_eq!(huge_bytes(&arena), 3 * HUGE_BYTES);
        assert_eq!(allocated_bytes(&arena), range.len * UNIT_BYTES);
        assert!(bytes(&mut mapping, range.len).iter().all(|&byte| byte == 0));
    }

    #[test]
    fn other_mappings_of_huge_pages_have_them_too() {
        let arena = Arena::create(8 * UNITS_PER_HUGE).unwrap();
        let range = Range {
            start: 5,
            len: 4 * UNITS_PER_HUGE,
        };
        drop(arena.map(&[range], &[range]).unwrap());
        if !system_makes_huge_pages() {
            return;
        }
        for pieces in [&[(5, 120)][..], &[(30, 70)], &[(6, 1), (6, 119)]] {
            let pieces = pieces.iter().map(|&(start, len)| Range { start, len });
            let pieces: Vec<_> = pieces.map(bytes_of).collect();
            let mapping = Mapping::of_pieces(&arena.file, &pieces, Access::Read).unwrap();
            let before: u64 = pieces.iter().rev().skip(1).map(|(_, len)| len).sum();
            let largest = mapping.part(before as usize, pieces.last().unwrap().1 as usize);
            let huge = told_bytes_at(&largest, "ShmemPmdMapped:");
            assert!(huge >= 2 * HUGE_BYTES, "{huge} bytes of {pieces:?}");
        }
    }

    #[test]
    fn part_of_a_huge_page_goes_back_and_the_rest_stays() {
        let arena = Arena::create(2 * UNITS_PER_HUGE).unwrap();
        let range = Range {
            start: 0,
            len: 2 * UNITS_PER_HUGE,
        };
        bytes(&mut arena.map(&[range], &[range]).unwrap(), range.len).fill(7);
        let gone = Range { start: 3, len: 9 };
        arena.punch(gone).unwrap();
        assert_eq!(allocated_bytes(&arena), (range.len - gone.len) * UNIT_BYTES);
        let unit = UNIT_BYTES as usize;
        let mut mapping = arena.map(&[range], &[]).unwrap();
        let (kept, zeros) = (7, 0);
        for (number, unit) in bytes(&mut mapping, range.len).chunks(unit).enumerate() {
            let was_punched = (gone.start..gone.start + gone.len).contains(&(number as u64));
            let expected = if was_punched { zeros } else { kept };
            assert!(unit.iter().all(|&byte| byte == expected), "unit {number}");
        }
    }

    #[test]
    fn pages_of_a_scattered_mapping_count_once() {
        let arena = Arena::create(8).unwrap();
        let (a, b) = (Range { start: 5, len: 2 }, Range { start: 1, len: 1 });
        for (range, units) in [(a, 2), (b, 1)] {
            bytes(&mut arena.map(&[range], &[range]).unwrap(), units).fill(1);
        }
        assert_eq!(told_bytes(&arena, "Rss:"), 3 * UNIT_BYTES);
        let mut both = arena.map(&[a, b], &[]).unwrap();
        assert_eq!(told_bytes(&arena, "Rss:"), 0);
        assert!(bytes(&mut both, 3).iter().all(|&byte| byte == 1));
        assert_eq!(told_bytes(&arena, "Rss:"), 0);
    }

    #[test]
    fn after_a_refusal_nobody_asks_again() {
        let arena = Arena::create(2 * UNITS_PER_HUGE).unwrap();
        arena.huge.store(true, Ordering::Relaxed);
        // The file is empty now, so the system has nothing to make a huge page of.
        arena.file.set_len(0).unwrap();
        arena.make_huge(Range {
            start: 0,
            len: 2 * UNITS_PER_HUGE,
        });
        assert!(!arena.huge.load(Ordering::Relaxed));
    }

    #[test]
    fn who_does_not_get_huge_pages_gets_memory() {
        let arena = Arena::create(4 * UNITS_PER_HUGE).unwrap();
        arena.huge.store(false, Ordering::Relaxed);
        let range = Range {
            start: 0,
            len: 4 * UNITS_PER_HUGE,
        };
        bytes(&mut arena.map(&[range], &[range]).unwrap(), range.len).fill(7);
        assert_eq!(huge_bytes(&arena), 0);
        assert_eq!(allocated_bytes(&arena), range.len * UNIT_BYTES);
    }

    #[test]
    fn pieces_are_cut_where_ranges_end() {
        let arena = Arena::create(8).unwrap();
        let ranges = vec![
            Range { start: 5, len: 2 },
            Range { start: 1, len: 1 },
            Range { start: 3, len: 1 },
        ];
        let mapping = arena.map(&ranges, &[]).unwrap();
        let memory = Memory::Ranges { mapping, ranges };
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
