//! The sources of the slices of a fetch: memory, a copy of it, or a part of a file. This is read and checked, and
//! decompressed if the block is packed.

use std::ops::Range;
use std::sync::Arc;

use crate::block::BlockId;
use crate::error::{Result, StoreError};
use crate::layout::{Extent, Layout, PAGE_BYTES};
use crate::packed;
use crate::table::{DiskBlock, Entry};
use crate::unpacking::Unpacker;

/// The request of a fetch: a slice of a block, or all of the block.
pub(crate) type Wanted = (BlockId, Option<usize>);

/// A copy starts as far from a multiple of this as its original, so that its contents keep their alignment.
pub(crate) const COPY_ALIGNMENT: usize = 64;

/// Where a slice, or a whole block, comes from.
pub(crate) enum Source {
    /// In memory, where it stays.
    Pinned,
    /// In memory, copied.
    Copied { lead: usize, len: usize },
    /// On disk.
    Read(Part),
}

impl Source {
    /// Returns the bytes that it takes of the fetch's own memory.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Source::Pinned => 0,
            Source::Copied { lead, len } => (lead + len).next_multiple_of(COPY_ALIGNMENT) as u64,
            Source::Read(part) => part.own.end - part.own.start,
        }
    }

    pub(crate) fn part(&self) -> Option<&Part> {
        match self {
            Source::Read(part) => Some(part),
            _ => None,
        }
    }
}

/// One slice, or one whole block, to be read from disk.
pub(crate) struct Part {
    pub(crate) block: u64,
    pub(crate) slice: Option<usize>,
    layout: Layout,
    disk: DiskBlock,
    /// The data, in bytes of the block.
    pub(crate) extent: Extent,
    /// The frames of the data, in bytes of the image; of a packed block only.
    places: Range<u64>,
    /// The memory for this part: the pages that are read, without those that it shares with the slices before it (`share_pages`).
    pub(crate) own: Range<u64>,
}

impl Part {
    pub(crate) fn new((BlockId(block), slice): Wanted, entry: &Entry, disk: &DiskBlock) -> Self {
        let extent = Extent {
            start: 0,
            end: entry.layout.data_bytes,
            crc: 0,
        };
        Self {
            block,
            slice,
            layout: entry.layout,
            disk: disk.clone(),
            extent,
            places: 0..0,
            own: 0..0,
        }
    }

    /// Returns whether the block is compressed on disk.
    pub(crate) fn is_packed(&self) -> bool {
        self.disk.packed.is_some()
    }

    /// Returns the pages of the image that must be read; for a packed block, its data with the bytes before it that keep
    /// its alignment.
    pub(crate) fn span(&self) -> Range<u64> {
        let unit = match self.disk.packed {
            None => PAGE_BYTES,
            Some(_) => COPY_ALIGNMENT as u64,
        };
        match self.slice {
            None if !self.is_packed() => 0..self.layout.image_bytes(),
            _ if self.extent.len() == 0 => 0..0,
            _ => {
                let start = self.extent.start - self.extent.start % unit;
                start..self.extent.end.next_multiple_of(unit)
            }
        }
    }

    pub(crate) fn span_bytes(&self) -> u64 {
        self.span().end - self.span().start
    }

    /// Returns where in the span the data starts.
    fn lead(&self) -> usize {
        match self.span_bytes() {
            0 => 0,
            _ => (self.extent.start - self.span().start) as usize,
        }
    }

    /// Returns whether some of the part's pages are read for slices before it.
    pub(crate) fn shares(&self) -> bool {
        self.own != self.span()
    }

    /// Returns where the data starts, counted from the part's own pages; negative if it starts in shared pages.
    pub(crate) fn offset(&self) -> isize {
        match self.extent.len() {
            0 => 0,
            _ => self.extent.start as isize - self.own.start as isize,
        }
    }

    /// Returns whether one request can read this part and an earlier one: both are images, and it begins where that ends.
    /// A part without pages follows any.
    pub(crate) fn follows(&self, before: &Part) -> bool {
        let is_next = Arc::ptr_eq(&self.disk.file, &before.disk.file)
            && self.disk.offset + self.own.start == before.disk.offset + before.own.end;
        let are_images = !self.is_packed() && !before.is_packed();
        are_images && (self.own.is_empty() || is_next)
    }

    pub(crate) fn read(&self, buffer: &mut [u8], start: u64) -> Result<()> {
        let offset = self.disk.offset + start;
        let read = self.disk.file.file.read_at(buffer, offset);
        read.map_err(|source| StoreError::Restore {
            block: self.block,
            offset,
            source,
        })
    }

    /// Returns the error for a damaged slice, and forgets the kept index, which may be the damaged part.
    fn corrupt(&self, slice: usize, start: u64) -> StoreError {
        self.disk.index.forget();
        StoreError::Corrupt {
            block: self.block,
            slice,
            offset: self.disk.offset + start,
        }
    }

    /// Reads the bounds and the checksum of a single slice from the index on disk.
    pub(crate) fn locate(&mut self) -> Result<()> {
        if let Some(slice) = self.slice {
            (self.extent, self.places) = self.find(slice)?;
        }
        Ok(())
    }

    /// Returns the bounds and the checksum of a slice, and where its frames are if the block is packed.
    fn find(&self, slice: usize) -> Result<(Extent, Range<u64>)> {
        let index = match self.disk.packed {
            None => self.layout.index(),
            Some(start) => packed::index(start, &self.layout),
        };
        let read = |pages: &mut [u8], start| self.read(pages, start);
        let bounds = self.disk.index.bounds(&index, slice, read)?;
        let found = match self.disk.packed {
            None => self.layout.parse(&bounds).map(|extent| (extent, 0..0)),
            Some(start) => packed::parse(&bounds, &self.layout, start),
        };
        found.ok_or_else(|| self.corrupt(slice, index.entry_start(slice)))
    }

    /// Reads and checks a part of a packed block into `span`.
    pub(crate) fn unpack(&self, unpacker: &mut Unpacker, span: &mut [u8]) -> Result<()> {
        let lead = self.lead();
        if let Some(slice) = self.slice {
            return self.unpack_slice(
                unpacker,
                slice,
                &self.extent,
                &self.places,
                &mut span[lead..],
            );
        }
        for slice in 0..self.layout.num_slices {
            let (extent, places) = self.find(slice)?;
            let data = &mut span[extent.start as usize..];
            self.unpack_slice(unpacker, slice, &extent, &places, data)?;
        }
        Ok(())
    }

    fn unpack_slice(
        &self,
        unpacker: &mut Unpacker,
        slice: usize,
        extent: &Extent,
        places: &Range<u64>,
        out: &mut [u8],
    ) -> Result<()> {
        let data = &mut out[..extent.len() as usize];
        let read = |pages: &mut [u8], start| self.read(pages, start);
        let is_sound = unpacker.unpack(places.clone(), data, read)? && extent.verifies(data);
        is_sound
            .then_some(())
            .ok_or_else(|| self.corrupt(slice, places.start))
    }

    /// Checks the checksums of the bytes that were read into `span`.
    pub(crate) fn verify(&self, span: &[u8]) -> Result<()> {
        if let Some(slice) = self.slice {
            let lead = self.lead();
            let data = &span[lead..lead + self.extent.len() as usize];
            let sound = self.extent.verifies(data);
            return sound
                .then_some(())
                .ok_or_else(|| self.corrupt(slice, self.extent.start));
        }
        for slice in 0..self.layout.num_slices {
            let entry = self.layout.entry_start(slice);
            let extent = self
                .layout
                .parse(&span[entry as usize..])
                .ok_or_else(|| self.corrupt(slice, entry))?;
            if !extent.verifies(&span[extent.start as usize..extent.end as usize]) {
                return Err(self.corrupt(slice, extent.start));
            }
        }
        Ok(())
    }
}
