//! Fetches slices: pins what is in memory, reads the rest from disk and checks it.
//!
//! Guarantee: a fetch holds nothing while it waits for memory. All slices to be read get one allocation, made at once;
//! only then are the resident blocks pinned. If one of these was spilled in the meantime, the allocation is dropped and
//! made anew, larger. A spilled block never becomes resident again, so this ends.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::acquire::Owned;
use crate::arena::Memory;
use crate::block::{BlockId, Pin, Slice};
use crate::budget::Priority;
use crate::error::{Result, StoreError};
use crate::layout::{Extent, Layout, PAGE_BYTES};
use crate::parallel;
use crate::shared::Shared;
use crate::table::{DiskBlock, Entry};

/// What a fetch asks for: a slice of a block, or all of it.
pub(crate) type Wanted = (BlockId, Option<usize>);

/// Reads under way at once for one fetch.
const READERS: usize = 4;
/// Bytes per read.
const PIECE_BYTES: usize = 8 << 20;
/// Below this, one thread checks all sums.
const CHECK_BYTES: u64 = 4 << 20;

/// One slice, or one whole block, to be read from disk.
struct Part {
    block: u64,
    slice: Option<usize>,
    layout: Layout,
    disk: DiskBlock,
    /// The data, in bytes of the image.
    extent: Extent,
}

impl Part {
    fn new((BlockId(block), slice): Wanted, entry: &Entry, disk: &DiskBlock) -> Self {
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
        }
    }

    /// The pages of the image that must be read.
    fn span(&self) -> Range<u64> {
        match self.slice {
            None => 0..self.layout.image_bytes(),
            Some(_) if self.extent.len() == 0 => 0..0,
            Some(_) => {
                let start = self.extent.start - self.extent.start % PAGE_BYTES;
                start..self.extent.end.next_multiple_of(PAGE_BYTES)
            }
        }
    }

    fn span_bytes(&self) -> u64 {
        self.span().end - self.span().start
    }

    /// Where in the span the data starts.
    fn lead(&self) -> usize {
        match self.span_bytes() {
            0 => 0,
            _ => (self.extent.start - self.span().start) as usize,
        }
    }

    fn read(&self, buffer: &mut [u8], start: u64) -> Result<()> {
        let offset = self.disk.offset + start;
        let read = self.disk.file.file.read_at(buffer, offset);
        read.map_err(|source| StoreError::Restore {
            block: self.block,
            offset,
            source,
        })
    }

    /// The error for a damaged slice. What is kept of the index may be what is damaged.
    fn corrupt(&self, slice: usize, start: u64) -> StoreError {
        self.disk.index.forget();
        StoreError::Corrupt {
            block: self.block,
            slice,
            offset: self.disk.offset + start,
        }
    }

    /// Learns the bounds and the checksum of a single slice from the index on disk.
    fn locate(&mut self) -> Result<()> {
        let Some(slice) = self.slice else {
            return Ok(());
        };
        let read = |pages: &mut [u8], start| self.read(pages, start);
        let bounds = self.disk.index.bounds(&self.layout, slice, read)?;
        let found = self.layout.parse(&bounds);
        self.extent = found.ok_or_else(|| self.corrupt(slice, self.layout.entry_start(slice)))?;
        Ok(())
    }

    /// Checks the sums of what was read into `span`.
    fn verify(&self, span: &[u8]) -> Result<()> {
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

/// Fetches `wanted`, in order.
pub(crate) fn fetch(shared: &Arc<Shared>, wanted: &[Wanted]) -> Result<Vec<Slice>> {
    let mut parts: Vec<Option<Part>> = wanted.iter().map(|_| None).collect();
    loop {
        find_spilled(shared, wanted, &mut parts)?;
        let spilled: u64 = parts.iter().flatten().map(Part::span_bytes).sum();
        let owned = match spilled {
            0 => None,
            bytes => Some(shared.memory(bytes, Priority::Argument)?),
        };
        let Some(resident) = pin_resident(shared, wanted, &parts)? else {
            continue;
        };
        let mut restored = read_all(shared, owned, parts.iter().flatten())?.into_iter();
        let pick = |resident: Option<Slice>| resident.or_else(|| restored.next());
        return Ok(resident.into_iter().filter_map(pick).collect());
    }
}

/// How large each slice of a block is, from its index, which is all that is read of a block on disk.
pub(crate) fn slice_bytes(shared: &Shared, block: BlockId) -> Result<Vec<u64>> {
    let (layout, memory, disk) = {
        let state = shared.open_state()?;
        let entry = state.table.get(block.0)?;
        let part = entry.disk.as_ref().map(|disk| (entry, disk));
        let part = part.map(|(entry, disk)| Part::new((block, Some(0)), entry, disk));
        (entry.layout, entry.memory.clone(), part)
    };
    let slices = 0..layout.num_slices;
    match (memory, disk) {
        (Some(memory), _) => {
            let bounds = slices.map(|slice| layout.bounds(&memory.mapping, slice));
            Ok(bounds.map(|(start, end)| end - start).collect())
        }
        (None, Some(mut part)) => {
            let mut size = |slice| {
                part.slice = Some(slice);
                part.locate().map(|()| part.extent.len())
            };
            slices.map(&mut size).collect()
        }
        (None, None) => Err(StoreError::UnknownBlock { block: block.0 }),
    }
}

/// Adds parts for slices that are on disk by now, and finds out where in the file they are.
fn find_spilled(shared: &Arc<Shared>, wanted: &[Wanted], parts: &mut [Option<Part>]) -> Result<()> {
    let mut fresh = Vec::new();
    {
        let state = shared.open_state()?;
        for (&wanted, part) in wanted
            .iter()
            .zip(parts.iter_mut())
            .filter(|(_, part)| part.is_none())
        {
            let entry = state.table.get(wanted.0 .0)?;
            check_slice(wanted, entry)?;
            if let (None, Some(disk)) = (&entry.memory, &entry.disk) {
                fresh.push(part.insert(Part::new(wanted, entry, disk)));
            }
        }
    }
    fresh.retain(|part| part.slice.is_some());
    parallel::for_each(READERS, fresh, Part::locate)
}

fn check_slice((BlockId(block), slice): Wanted, entry: &Entry) -> Result<()> {
    let num_slices = entry.layout.num_slices;
    match slice {
        Some(slice) if slice >= num_slices => Err(StoreError::NoSuchSlice {
            block,
            slice,
            num_slices,
        }),
        _ => Ok(()),
    }
}

/// The memory of a block, and the bytes wanted in it; `None` if it is on disk.
fn in_memory(entry: &Entry, slice: Option<usize>) -> Option<(Arc<Memory>, NonNull<u8>, usize)> {
    let memory = entry.memory.as_ref()?;
    let (start, end) = match slice {
        None => (0, entry.layout.data_bytes),
        Some(slice) => entry.layout.bounds(&memory.mapping, slice),
    };
    let len = (end - start) as usize;
    Some((
        Arc::clone(memory),
        memory.mapping.at(start as usize, len),
        len,
    ))
}

/// Pins everything that is not among the parts, `None` in place of these; nothing at all if some of it was spilled.
fn pin_resident(
    shared: &Arc<Shared>,
    wanted: &[Wanted],
    parts: &[Option<Part>],
) -> Result<Option<Vec<Option<Slice>>>> {
    let mut state = shared.open_state()?;
    let mut found = Vec::with_capacity(wanted.len());
    for (&(BlockId(block), slice), part) in wanted.iter().zip(parts) {
        match part {
            Some(_) => found.push(None),
            None => match in_memory(state.table.get(block)?, slice) {
                Some((memory, start, len)) => found.push(Some((block, memory, start, len))),
                None => return Ok(None),
            },
        }
    }
    for (block, ..) in found.iter().flatten() {
        state.table.pin(*block);
    }
    // Fewer blocks can be spilled now; a request may have to be patient from here on.
    shared.wake(&mut state);
    drop(state);
    let view = |(block, memory, start, len)| {
        let pin = Arc::new(Pin::Block {
            shared: Arc::clone(shared),
            block,
            memory,
        });
        // SAFETY: the block was pinned above, and a sealed block is never written.
        unsafe { Slice::new(pin, start, len) }
    };
    Ok(Some(
        found.into_iter().map(|found| found.map(view)).collect(),
    ))
}

/// Reads and checks all parts into `owned`, one behind the other.
fn read_all<'a>(
    shared: &Arc<Shared>,
    owned: Option<Owned>,
    parts: impl Iterator<Item = &'a Part>,
) -> Result<Vec<Slice>> {
    let parts: Vec<&Part> = parts.collect();
    let total: u64 = parts.iter().map(|part| part.span_bytes()).sum();
    let base = owned.as_ref().map_or(NonNull::dangling(), |owned| {
        owned.mapping().at(0, total as usize)
    });
    // SAFETY: the memory is this fetch's own until slices of it are handed out below; without any, no bytes are read.
    let buffer = unsafe { std::slice::from_raw_parts_mut(base.as_ptr(), total as usize) };
    let mut spans = Vec::with_capacity(parts.len());
    let mut rest = buffer;
    for part in parts {
        let (span, later) = rest.split_at_mut(part.span_bytes() as usize);
        spans.push((part, span));
        rest = later;
    }
    read_pieces(shared, &mut spans)?;
    let checkers = (total / CHECK_BYTES + 1).min(READERS as u64) as usize;
    parallel::for_each(checkers, spans.iter().collect(), |(part, span)| {
        part.verify(span)
    })?;
    shared.lock().restored_bytes += total;
    let pin = Arc::new(owned.map_or(Pin::Nothing, |owned| Pin::Restored { owned }));
    let mut at = 0;
    let view = |(part, _): (&Part, &mut [u8])| {
        // SAFETY: the data is inside the span of this part, which is inside the buffer; without any bytes, nothing is
        // added.
        let start = unsafe { base.add(at + part.lead()) };
        at += part.span_bytes() as usize;
        // SAFETY: the pin owns the memory, and nothing writes to it from here on; an empty slice reads nothing.
        unsafe { Slice::new(Arc::clone(&pin), start, part.extent.len() as usize) }
    };
    Ok(spans.into_iter().map(view).collect())
}

/// Reads the span of every part, in pieces that several threads share out.
fn read_pieces(shared: &Shared, spans: &mut [(&Part, &mut [u8])]) -> Result<()> {
    let mut pieces = Vec::new();
    for (part, span) in spans {
        let start = part.span().start;
        for (number, piece) in span.chunks_mut(PIECE_BYTES).enumerate() {
            pieces.push((*part, piece, start + (number * PIECE_BYTES) as u64));
        }
    }
    parallel::for_each(READERS, pieces, |(part, piece, start)| {
        if shared.is_closed() {
            return Err(StoreError::Closed);
        }
        part.read(piece, start)
    })
}
