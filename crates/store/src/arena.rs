//! The memory behind all blocks: one memfd, mapped once as a whole.
//!
//! A block in one range of the arena is a view into that one mapping and costs no system call. A block scattered over
//! several ranges is mapped once more, contiguously; its pages are dropped from the whole mapping's page tables, so that
//! they count once in the resident memory of the process.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::{self, NonNull};

use crate::ranges::{units_in, Range};

/// The granularity of the arena.
pub(crate) const UNIT_BYTES: u64 = 64 << 10;

/// A span of mapped memory; unmapped on drop where it has a mapping of its own.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
    owned: bool,
}

// SAFETY: a mapping is an address range, valid in every thread; what may be read or written when is up to its owners.
unsafe impl Send for Mapping {}
// SAFETY: as above; `Mapping` itself hands out pointers only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `file`, shared with it.
    pub(crate) fn of_file(file: &File, len: usize) -> io::Result<Self> {
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let start = unsafe { mmap(ptr::null_mut(), len, flags, Some((file, 0))) }?;
        Ok(Self {
            start,
            len,
            owned: true,
        })
    }

    /// Address space without memory, to be filled by `place`.
    fn reserve(len: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: as in `of_file`.
        let start = unsafe { mmap(ptr::null_mut(), len, flags, None) }?;
        Ok(Self {
            start,
            len,
            owned: true,
        })
    }

    /// The address of `len` bytes at `offset`. Panics outside the mapping.
    pub(crate) fn at(&self, offset: usize, len: usize) -> NonNull<u8> {
        assert!(
            offset <= self.len && len <= self.len - offset,
            "access outside a mapping"
        );
        // SAFETY: the offset is inside the mapping, as just checked.
        unsafe { self.start.add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: the span was mapped by this value, and whoever holds a pointer into it keeps this value alive.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
        }
    }
}

/// Calls mmap for reading and writing, of `file` from an offset or anonymously without access.
///
/// # Safety
/// With `MAP_FIXED`, the span at `address` must belong to the caller.
unsafe fn mmap(
    address: *mut u8,
    len: usize,
    flags: i32,
    file: Option<(&File, i64)>,
) -> io::Result<NonNull<u8>> {
    let (fd, offset) = file.map_or((-1, 0), |(file, offset)| (file.as_raw_fd(), offset));
    let access = if file.is_some() {
        libc::PROT_READ | libc::PROT_WRITE
    } else {
        libc::PROT_NONE
    };
    // SAFETY: passed on to the caller.
    let start = unsafe { libc::mmap(address.cast(), len, access, flags, fd, offset) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast())
        .ok_or_else(|| io::Error::other("a mapping was placed at address zero"))
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
        if let [range] = ranges {
            let len = (range.len * UNIT_BYTES) as usize;
            let start = self.whole.at((range.start * UNIT_BYTES) as usize, len);
            return Ok(Mapping {
                start,
                len,
                owned: false,
            });
        }
        let mapping = Mapping::reserve((units_in(ranges) * UNIT_BYTES) as usize)?;
        let mut filled = 0;
        for range in ranges {
            let len = (range.len * UNIT_BYTES) as usize;
            self.place(*range, mapping.at(filled, len))?;
            filled += len;
        }
        Ok(mapping)
    }

    /// Maps `range` over reserved address space at `address`, and out of the whole mapping's page tables.
    fn place(&self, range: Range, address: NonNull<u8>) -> io::Result<()> {
        let (offset, len) = (range.start * UNIT_BYTES, (range.len * UNIT_BYTES) as usize);
        // A scattered block is made of used memory as far as there is any: fill the page tables in one go.
        let flags = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_POPULATE;
        // SAFETY: the address span lies inside a reservation that `map` owns and has given to nobody yet.
        unsafe {
            mmap(
                address.as_ptr(),
                len,
                flags,
                Some((&self.file, offset as i64)),
            )
        }?;
        let old = self.whole.at(offset as usize, len);
        // SAFETY: for a shared file mapping this drops page table entries only; the contents stay in the file.
        unsafe { libc::madvise(old.as_ptr().cast(), len, libc::MADV_DONTNEED) };
        Ok(())
    }

    /// Gives the memory of `range` back to the system; it reads as zeros afterwards.
    pub(crate) fn punch(&self, range: Range) -> io::Result<()> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (offset, len) = (
            (range.start * UNIT_BYTES) as i64,
            (range.len * UNIT_BYTES) as i64,
        );
        loop {
            // SAFETY: fallocate takes no pointers; the range is free, so nobody reads what it discards.
            if unsafe { libc::fallocate(self.file.as_raw_fd(), mode, offset, len) } == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocated_bytes(arena: &Arena) -> u64 {
        use std::os::unix::fs::MetadataExt;
        arena.file.metadata().unwrap().blocks() * 512
    }

    fn bytes(mapping: &mut Mapping) -> &mut [u8] {
        // SAFETY: the tests hold one mapping of a range at a time and no other reference to its bytes.
        unsafe { std::slice::from_raw_parts_mut(mapping.at(0, mapping.len).as_ptr(), mapping.len) }
    }

    #[test]
    fn a_scattered_mapping_shows_the_ranges_in_order() {
        let arena = Arena::create(8).unwrap();
        let (a, b) = (Range { start: 5, len: 2 }, Range { start: 1, len: 1 });
        let unit = UNIT_BYTES as usize;
        bytes(&mut arena.map(&[a]).unwrap()).fill(1);
        bytes(&mut arena.map(&[b]).unwrap()).fill(2);
        let mut both = arena.map(&[a, b]).unwrap();
        let seen = bytes(&mut both);
        assert!(
            seen[..2 * unit].iter().all(|&byte| byte == 1)
                && seen[2 * unit..].iter().all(|&byte| byte == 2)
        );
        seen.fill(3);
        drop(both);
        assert!(bytes(&mut arena.map(&[b]).unwrap())
            .iter()
            .all(|&byte| byte == 3));
    }

    #[test]
    fn the_arena_is_sparse_and_punching_returns_memory() {
        let arena = Arena::create(8).unwrap();
        assert_eq!(allocated_bytes(&arena), 0);
        let range = Range { start: 2, len: 3 };
        bytes(&mut arena.map(&[range]).unwrap()).fill(7);
        assert_eq!(allocated_bytes(&arena), 3 * UNIT_BYTES);
        arena.punch(Range { start: 2, len: 2 }).unwrap();
        assert_eq!(allocated_bytes(&arena), UNIT_BYTES);
    }
}
