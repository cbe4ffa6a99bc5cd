//! A span of mapped memory: a file, or pieces of one side by side in the address space.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

use crate::system;

/// A huge page: as much as one entry of a page directory maps where pages have 4 KiB.
pub(crate) const HUGE_BYTES: u64 = 2 << 20;

/// The access that a mapping gives its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// A write ends the process.
    Read,
    /// Reads and writes are fine.
    Write,
}

impl Access {
    fn protection(self) -> i32 {
        match self {
            Access::Read => libc::PROT_READ,
            Access::Write => libc::PROT_READ | libc::PROT_WRITE,
        }
    }
}

/// A span of mapped memory. Drop unmaps the address space that it owns: the span itself and the room around it.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
    owned: Option<(NonNull<u8>, usize)>,
}

// SAFETY: a mapping is an address range, valid in every thread; its owners decide what may be read or written when.
unsafe impl Send for Mapping {}
// SAFETY: as above; `Mapping` itself hands out pointers only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of `file` for writing, shared with the file.
    pub(crate) fn of_file(file: &File, len: usize) -> io::Result<Self> {
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        let source = Some((file, 0, Access::Write));
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let start = unsafe { mmap(ptr::null_mut(), len, flags, source) }?;
        Ok(Self::owning(start, len))
    }

    /// Maps like `of_file`, at a multiple of `alignment`, a power of two.
    pub(crate) fn of_file_aligned(file: &File, len: usize, alignment: usize) -> io::Result<Self> {
        let mut mapping = Self::reserve(len + alignment)?;
        let before = mapping.start.addr().get().wrapping_neg() % alignment;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let source = Some((file, 0, Access::Write));
        let address = mapping.at(before, len).as_ptr();
        // SAFETY: the span at the address lies inside the reservation (`at` checks), which was given to nobody yet.
        mapping.start = unsafe { mmap(address, len, flags, source) }?;
        mapping.len = len;
        Ok(mapping)
    }

    /// Maps pieces of `file`, (offset, length) in whole pages, one behind the other and shared with the file.
    pub(crate) fn of_pieces(
        file: &File,
        pieces: &[(u64, u64)],
        access: Access,
    ) -> io::Result<Self> {
        let len: u64 = pieces.iter().map(|(_, len)| len).sum();
        let mapping = Self::reserve_for(pieces, len as usize)?;
        // Pieces that are mapped are in memory as far as there is any: fill the page tables in one go.
        let flags = libc::MAP_SHARED | libc::MAP_FIXED | system::MAP_POPULATE;
        let mut filled = 0;
        for &(offset, len) in pieces {
            let address = mapping.at(filled, len as usize).as_ptr();
            let source = Some((file, offset, access));
            // SAFETY: the span at the address lies inside the reservation (`at` checks), which was given to nobody yet.
            unsafe { mmap(address, len as usize, flags, source) }?;
            filled += len as usize;
        }
        Ok(mapping)
    }

    /// Reserves address space for pieces, `len` bytes together. The largest lies in it as it lies in the file, by huge
    /// pages. Only so can one entry of a page table map each of these.
    fn reserve_for(pieces: &[(u64, u64)], len: usize) -> io::Result<Self> {
        let mut before = 0;
        let mut largest = (0, 0, 0);
        for &(offset, len) in pieces {
            largest = largest.max((len, offset, before));
            before += len;
        }
        let (largest_len, offset, before) = largest;
        if largest_len < HUGE_BYTES {
            return Self::reserve(len);
        }
        let mut mapping = Self::reserve(len + HUGE_BYTES as usize)?;
        let at = mapping.start.addr().get() as u64 + before;
        let lead = offset.wrapping_sub(at) % HUGE_BYTES;
        mapping.start = mapping.at(lead as usize, len);
        mapping.len = len;
        Ok(mapping)
    }

    /// Reserves address space without memory.
    fn reserve(len: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: as in `of_file`.
        let start = unsafe { mmap(ptr::null_mut(), len, flags, None) }?;
        Ok(Self::owning(start, len))
    }

    fn owning(start: NonNull<u8>, len: usize) -> Self {
        Self {
            start,
            len,
            owned: Some((start, len)),
        }
    }

    /// Returns `len` bytes at `offset` of this mapping, which must outlive them. Panics outside the mapping.
    pub(crate) fn part(&self, offset: usize, len: usize) -> Self {
        Self {
            start: self.at(offset, len),
            len,
            owned: None,
        }
    }

    /// Returns the address of `len` bytes at `offset`. Panics outside the mapping.
    pub(crate) fn at(&self, offset: usize, len: usize) -> NonNull<u8> {
        assert!(
            offset <= self.len && len <= self.len - offset,
            "access outside a mapping"
        );
        // SAFETY: the offset is inside the mapping, as just checked.
        unsafe { self.start.add(offset) }
    }

    /// Lets the pages of a shared mapping leave the resident memory. A later access brings them back from the file.
    pub(crate) fn let_go(&self) {
        // SAFETY: the span is mapped; a shared mapping of a file loses nothing, even if others read it meanwhile. Where
        // the system declines, pages only stay.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.len, libc::MADV_DONTNEED) };
    }

    /// Returns how far `address`, which `at` has returned, is from the start.
    pub(crate) fn offset_of(&self, address: NonNull<u8>) -> u64 {
        (address.addr().get() - self.start.addr().get()) as u64
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Some((start, len)) = self.owned {
            // SAFETY: this value mapped the span, and every holder of a pointer into it keeps this value alive.
            unsafe { libc::munmap(start.as_ptr().cast(), len) };
        }
    }
}

/// Calls mmap: for `source`, a file from an offset, or anonymously and without access.
///
/// # Safety
/// With `MAP_FIXED`, the span at `address` must belong to the caller.
unsafe fn mmap(
    address: *mut u8,
    len: usize,
    flags: i32,
    source: Option<(&File, u64, Access)>,
) -> io::Result<NonNull<u8>> {
    let (fd, offset, protection) = source
        .map_or((-1, 0, libc::PROT_NONE), |(file, offset, access)| {
            (file.as_raw_fd(), offset as i64, access.protection())
        });
    // SAFETY: the caller promises it.
    let start = unsafe { libc::mmap(address.cast(), len, protection, flags, fd, offset) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast())
        .ok_or_else(|| io::Error::other("a mapping was placed at address zero"))
}
