//! The arena of a store, seen from another process. This process keeps no books. The process that has the store tells it
//! where a slice or a block lies: [`Slice::pieces`](crate::Slice::pieces),
//! [`BlockMut::pieces`](crate::BlockMut::pieces). That process holds it for as long as it is mapped here.
//!
//! Guarantees: pieces become one contiguous span without a copy; only whole pages of the arena are mapped; slices
//! cannot be written to. A mapped page counts as resident memory of both processes, but exists once.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

use crate::mapping::{Access, Mapping};

/// The arena of a store in another process.
#[derive(Debug)]
pub struct ArenaView {
    file: File,
    len: u64,
    page_bytes: u64,
}

impl ArenaView {
    /// Opens the arena behind a descriptor that came from [`Store::arena_file`](crate::Store::arena_file).
    ///
    /// # Errors
    /// The descriptor cannot be looked at.
    pub fn open(fd: OwnedFd) -> io::Result<Self> {
        let file = File::from(fd);
        let len = file.metadata()?.len();
        // SAFETY: takes no pointers.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
        Ok(Self {
            file,
            len,
            page_bytes,
        })
    }

    /// Maps the pieces of a slice, read-only.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for pieces that are no slice of this arena, and what mmap says.
    ///
    /// # Safety
    /// The other process must hold the `Slice` with these pieces until the mapped one is dropped.
    pub unsafe fn slice(&self, pieces: &[(u64, u64)]) -> io::Result<MappedSlice> {
        self.map(pieces, Access::Read).map(MappedSlice)
    }

    /// Maps the pieces of a block that is to be filled here.
    ///
    /// # Errors
    /// As [`slice`](Self::slice).
    ///
    /// # Safety
    /// The other process must hold the `BlockMut` with these pieces until the mapped one is dropped. Nobody else may
    /// read or write its data until then.
    pub unsafe fn block(&self, pieces: &[(u64, u64)]) -> io::Result<MappedBlock> {
        self.map(pieces, Access::Write).map(MappedBlock)
    }

    /// Maps the pages that contain the pieces.
    fn map(&self, pieces: &[(u64, u64)], access: Access) -> io::Result<Mapped> {
        self.check(pieces)?;
        let &[(first, _), ..] = pieces else {
            return Ok(Mapped::default());
        };
        let whole_pages = |&(offset, len): &(u64, u64)| {
            let start = offset - offset % self.page_bytes;
            (
                start,
                (offset + len).next_multiple_of(self.page_bytes) - start,
            )
        };
        let pages: Vec<_> = pieces.iter().map(whole_pages).collect();
        Ok(Mapped {
            mapping: Some(Mapping::of_pieces(&self.file, &pages, access)?),
            lead: (first % self.page_bytes) as usize,
            len: pieces.iter().map(|&(_, len)| len as usize).sum(),
        })
    }

    /// Checks that only the first piece starts, and only the last ends, within a page: else the bytes would not be
    /// contiguous.
    fn check(&self, pieces: &[(u64, u64)]) -> io::Result<()> {
        for (number, &(offset, len)) in pieces.iter().enumerate() {
            let end = offset.checked_add(len).filter(|&end| end <= self.len);
            let Some(end) = end.filter(|_| len > 0) else {
                return Err(invalid(format!(
                    "a piece of {len} bytes at {offset} is not inside the arena of {} bytes; \
                     take the pieces from the process that has the store",
                    self.len
                )));
            };
            let starts_page = number == 0 || offset % self.page_bytes == 0;
            let ends_page = number + 1 == pieces.len() || end % self.page_bytes == 0;
            if !(starts_page && ends_page) {
                return Err(invalid(format!(
                    "piece {number} of {len} bytes at {offset} does not join its neighbours at pages of {} bytes; \
                     pass the pieces of one slice, all and in order",
                    self.page_bytes
                )));
            }
        }
        Ok(())
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, message)
}

/// Mapped pages, and the range of their bytes that is meant.
#[derive(Debug, Default)]
struct Mapped {
    mapping: Option<Mapping>,
    lead: usize,
    len: usize,
}

impl Mapped {
    /// Returns the address of the first byte, or any address where there are no bytes.
    fn start(&self) -> *mut u8 {
        let mapping = self.mapping.as_ref();
        mapping.map_or(std::ptr::dangling_mut(), |mapping| {
            mapping.at(self.lead, self.len).as_ptr()
        })
    }
}

/// A slice of the other process, mapped for reading.
#[derive(Debug)]
pub struct MappedSlice(Mapped);

impl MappedSlice {
    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the bytes are mapped as long as `self` lives, and unchanged, as promised to `ArenaView::slice`.
        unsafe { std::slice::from_raw_parts(self.0.start(), self.0.len) }
    }
}

/// A block of the other process, mapped for filling.
#[derive(Debug)]
pub struct MappedBlock(Mapped);

impl MappedBlock {
    /// Returns the data, all slices back to back. It holds whatever the memory held before.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the bytes are mapped for writing as long as `self` lives and belong to it alone, as promised to
        // `ArenaView::block`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.0.start(), self.0.len) }
    }
}

impl AsMut<[u8]> for MappedBlock {
    fn as_mut(&mut self) -> &mut [u8] {
        self.as_mut_slice()
    }
}
