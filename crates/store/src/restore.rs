//! Fetches slices: pins those in memory, reads the others from disk and checks them.
//!
//! Guarantee: a fetch holds nothing while it waits for memory. All slices to be read get one allocation, made at once;
//! only then are the resident blocks pinned. If one of these was spilled in the meantime, the allocation is dropped and
//! made anew, larger. A spilled block never becomes resident again, so this ends.
//!
//! A pinned block cannot be spilled. In the reduces of a shuffle, each task has a slice of every block. So blocks were
//! never free to be spilled, and outputs found no room: a sort of 1 GB within 0.4 GB took 15 s instead of 3 now and
//! then. So small parts of blocks are copied, from the moment an output finds nothing to spill until memory is no
//! longer short. They are not copied whenever memory is short. Where no output is made, pins keep blocks from being
//! spilled for memory that tasks reserve ahead of their turn. Without these pins, grouping 40 million rows took a tenth
//! longer.

use std::collections::HashMap;
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

/// The request of a fetch: a slice of a block, or all of the block.
pub(crate) type Wanted = (BlockId, Option<usize>);

/// Reads that one fetch has under way at once.
const READERS: usize = 4;
/// Bytes per read.
const PIECE_BYTES: usize = 8 << 20;
/// A copy starts as far from a multiple of this as its original, so that its contents keep their alignment.
const COPY_ALIGNMENT: usize = 64;

/// Where a slice, or a whole block, comes from.
enum Source {
    /// In memory, where it stays.
    Pinned,
    /// In memory, copied.
    Copied { lead: usize, len: usize },
    /// On disk.
    Read(Part),
}

impl Source {
    /// Returns the bytes that it takes of the fetch's own memory.
    fn bytes(&self) -> u64 {
        match self {
            Source::Pinned => 0,
            Source::Copied { lead, len } => (lead + len).next_multiple_of(COPY_ALIGNMENT) as u64,
            Source::Read(part) => part.own.end - part.own.start,
        }
    }

    fn part(&self) -> Option<&Part> {
        match self {
            Source::Read(part) => Some(part),
            _ => None,
        }
    }
}

/// One slice, or one whole block, to be read from disk.
struct Part {
    block: u64,
    slice: Option<usize>,
    layout: Layout,
    disk: DiskBlock,
    /// The data, in bytes of the image.
    extent: Extent,
    /// The pages that are read for this part, without those that it shares with the slices before it (`share_pages`).
    own: Range<u64>,
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
            own: 0..0,
        }
    }

    /// Returns the pages of the image that must be read.
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

    /// Returns where in the span the data starts.
    fn lead(&self) -> usize {
        match self.span_bytes() {
            0 => 0,
            _ => (self.extent.start - self.span().start) as usize,
        }
    }

    /// Returns whether some of the part's pages are read for slices before it.
    fn shares(&self) -> bool {
        self.own != self.span()
    }

    /// Returns where the data starts, counted from the part's own pages; negative if it starts in shared pages.
    fn offset(&self) -> isize {
        match self.extent.len() {
            0 => 0,
            _ => self.extent.start as isize - self.own.start as isize,
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

    /// Checks the checksums of the bytes that were read into `span`.
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
    let mut sources: Vec<Source> = wanted.iter().map(|_| Source::Pinned).collect();
    loop {
        find_spilled(shared, wanted, &mut sources)?;
        copy_if_short(shared, wanted, &mut sources)?;
        share_pages(&mut sources);
        let own = match sources.iter().map(Source::bytes).sum() {
            0 => None,
            bytes => Some(shared.memory(bytes, Priority::Argument)?),
        };
        if let Some(resident) = pin_resident(shared, wanted, &sources)? {
            return fill(shared, own, &sources, resident);
        }
    }
}

/// Lets slices that lie side by side in a block share pages, so that each page is read once and takes memory once.
///
/// A merge wants all slices of its blocks. With a page for each, 3,700 slices of some bytes took 15 MB per block. For
/// 13 blocks that was more than there was, and the merge waited for ever.
fn share_pages(sources: &mut [Source]) {
    let mut before: Option<(u64, Range<u64>)> = None;
    for source in sources {
        let Source::Read(part) = source else {
            before = None;
            continue;
        };
        let span = part.span();
        part.own = span.clone();
        if span.is_empty() {
            continue;
        }
        let together = before.take().filter(|(block, pages)| {
            *block == part.block && pages.start <= span.start && span.start <= pages.end
        });
        let pages = match together {
            Some((_, pages)) => {
                let end = pages.end.max(span.end);
                part.own = pages.end..end;
                pages.start..end
            }
            None => span,
        };
        before = part.slice.map(|_| (part.block, pages));
    }
}

/// Returns the size of each slice of a block from its index, the only part that is read of a block on disk.
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
            let bounds = slices.map(|slice| layout.bounds(memory.mapping(), slice));
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

/// Notes which slices are on disk by now, and finds out where in the file they are.
fn find_spilled(shared: &Arc<Shared>, wanted: &[Wanted], sources: &mut [Source]) -> Result<()> {
    let mut fresh = Vec::new();
    {
        let state = shared.open_state()?;
        for (&wanted, source) in wanted.iter().zip(sources.iter_mut()) {
            if source.part().is_some() {
                continue;
            }
            let entry = state.table.get(wanted.0 .0)?;
            check_slice(wanted, entry)?;
            if let (None, Some(disk)) = (&entry.memory, &entry.disk) {
                *source = Source::Read(Part::new(wanted, entry, disk));
                // A whole block needs no look into its index.
                if wanted.1.is_some() {
                    fresh.push(source);
                }
            }
        }
    }
    parallel::for_each(READERS, fresh, |source| match source {
        Source::Read(part) => part.locate(),
        _ => Ok(()),
    })
}

/// Has slices in memory copied if outputs find no room and less than half of their block is wanted.
fn copy_if_short(shared: &Shared, wanted: &[Wanted], sources: &mut [Source]) -> Result<()> {
    let mut state = shared.open_state()?;
    let read: u64 = sources.iter().map(Source::bytes).sum();
    state.outputs_starve &= state.pressure(&shared.options).is_short(read);
    if !state.outputs_starve || state.directories.first_usable().is_none() {
        return Ok(());
    }
    let mut lengths = HashMap::new();
    let resident = |(_, source): &(&Wanted, &mut Source)| source.part().is_none();
    for (&(BlockId(block), slice), source) in wanted.iter().zip(sources.iter_mut()).filter(resident)
    {
        // Otherwise the block was spilled since; the fetch finds that out when it pins the others.
        if let Some((_, start, len)) = in_memory(state.table.get(block)?, slice) {
            let lead = start.addr().get() % COPY_ALIGNMENT;
            *source = Source::Copied { lead, len };
            *lengths.entry(block).or_insert(0) += len as u64;
        }
    }
    for (&(BlockId(block), _), source) in wanted.iter().zip(sources.iter_mut()).filter(resident) {
        let of_block = lengths.get(&block).copied().unwrap_or(0);
        if 2 * of_block >= state.table.get(block)?.layout.data_bytes {
            *source = Source::Pinned;
        }
    }
    Ok(())
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

/// Returns the memory of a block and the wanted bytes in it, or `None` if the block is on disk.
fn in_memory(entry: &Entry, slice: Option<usize>) -> Option<(Arc<Memory>, NonNull<u8>, usize)> {
    let memory = entry.memory.as_ref()?;
    let (start, end) = match slice {
        None => (0, entry.layout.data_bytes),
        Some(slice) => entry.layout.bounds(memory.mapping(), slice),
    };
    let len = (end - start) as usize;
    Some((
        Arc::clone(memory),
        memory.mapping().at(start as usize, len),
        len,
    ))
}

/// Pins every source that is not read, with `None` in place of those that are. Pins nothing if some block was spilled.
fn pin_resident(
    shared: &Arc<Shared>,
    wanted: &[Wanted],
    sources: &[Source],
) -> Result<Option<Vec<Option<Slice>>>> {
    let mut state = shared.open_state()?;
    let mut found = Vec::with_capacity(wanted.len());
    for (&(BlockId(block), slice), source) in wanted.iter().zip(sources) {
        match source {
            Source::Read(_) => found.push(None),
            _ => match in_memory(state.table.get(block)?, slice) {
                Some((memory, start, len)) => found.push(Some((block, memory, start, len))),
                None => return Ok(None),
            },
        }
    }
    for (block, ..) in found.iter().flatten() {
        state.table.pin(*block);
    }
    // Fewer blocks can be spilled now; this may start the patience of a request.
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

/// Where the bytes of a range of the fetch's own memory come from.
#[derive(Clone, Copy)]
enum Filling<'a> {
    Part(&'a Part),
    Copy(&'a Slice),
}

/// Fills `own` with the bytes to read and copy, one behind the other, and returns the slices in order.
fn fill(
    shared: &Shared,
    own: Option<Owned>,
    sources: &[Source],
    mut resident: Vec<Option<Slice>>,
) -> Result<Vec<Slice>> {
    let total: u64 = sources.iter().map(Source::bytes).sum();
    let base = own.as_ref().map_or(NonNull::dangling(), |own| {
        own.mapping().at(0, total as usize)
    });
    // SAFETY: the memory is this fetch's own until slices of it are handed out below; without any, no bytes are written.
    let mut rest = unsafe { std::slice::from_raw_parts_mut(base.as_ptr(), total as usize) };
    let mut spans = Vec::with_capacity(sources.len());
    for (source, resident) in sources.iter().zip(&resident) {
        let (span, later) = rest.split_at_mut(source.bytes() as usize);
        rest = later;
        match (source, resident) {
            (Source::Read(part), _) => spans.push((Filling::Part(part), span)),
            (Source::Copied { lead, .. }, Some(slice)) => {
                spans.push((Filling::Copy(slice), &mut span[*lead..]));
            }
            _ => (),
        }
    }
    fill_pieces(shared, &mut spans)?;
    let read = sources.iter().filter_map(Source::part);
    shared.lock().restored_bytes += read.map(|part| part.own.end - part.own.start).sum::<u64>();
    verify_shared(sources, base)?;
    let pin = Arc::new(own.map_or(Pin::Nothing, |owned| Pin::Restored { owned }));
    let mut at = 0;
    let mut slices = Vec::with_capacity(sources.len());
    for (source, resident) in sources.iter().zip(&mut resident) {
        let (lead, len) = match (source, resident.take()) {
            (Source::Pinned, Some(slice)) => {
                slices.push(slice);
                continue;
            }
            (Source::Read(part), _) => (part.offset(), part.extent.len() as usize),
            (&Source::Copied { lead, len }, _) => (lead as isize, len),
            (Source::Pinned, None) => unreachable!("what is not read was pinned"),
        };
        // SAFETY: the data is inside the span of this source; pages that it shares lie before its own, and all are
        // inside the memory. Without any data, nothing is added.
        let start = unsafe { base.offset(at as isize + lead) };
        at += source.bytes() as usize;
        // SAFETY: the pin owns the memory, and nothing writes to it from here on; an empty slice reads nothing.
        slices.push(unsafe { Slice::new(Arc::clone(&pin), start, len) });
    }
    Ok(slices)
}

/// Fills every span, in pieces that several threads share out, and checks the checksums of the bytes read.
///
/// The thread that read all of a span checks it at once while others read, so that the disk does not wait for
/// checksums. A random shuffle of 4 GB within 2 GB took 0.98 of the time (eight pairs). Spans of several pieces are
/// checked when all are read.
fn fill_pieces(shared: &Shared, spans: &mut [(Filling<'_>, &mut [u8])]) -> Result<()> {
    let mut pieces = Vec::new();
    for (filling, span) in &mut *spans {
        let shares = matches!(filling, Filling::Part(part) if part.shares());
        // An empty span has a checksum, too.
        if span.len() <= PIECE_BYTES {
            if !(shares && span.is_empty()) {
                pieces.push((*filling, &mut **span, 0, !shares));
            }
            continue;
        }
        for (number, piece) in span.chunks_mut(PIECE_BYTES).enumerate() {
            pieces.push((*filling, piece, number * PIECE_BYTES, false));
        }
    }
    parallel::for_each(READERS, pieces, |(filling, piece, start, is_whole)| {
        if shared.is_closed() {
            return Err(StoreError::Closed);
        }
        match filling {
            Filling::Part(part) => {
                part.read(piece, part.own.start + start as u64)?;
                if is_whole {
                    part.verify(piece)?;
                }
            }
            Filling::Copy(slice) => {
                let bytes = &slice.as_slice()[start..];
                let len = bytes.len().min(piece.len());
                piece[..len].copy_from_slice(&bytes[..len]);
            }
        }
        Ok(())
    })?;
    verify_large(spans)
}

/// Checks the checksums of spans that were read in several pieces.
fn verify_large(spans: &[(Filling<'_>, &mut [u8])]) -> Result<()> {
    let read = spans.iter().filter_map(|(filling, span)| match filling {
        Filling::Part(part) if span.len() > PIECE_BYTES && !part.shares() => Some((*part, &**span)),
        _ => None,
    });
    parallel::for_each(READERS, read.collect(), |(part, span)| part.verify(span))
}

/// Checks the checksums of bytes in pages that were read for several slices; all of them have been filled.
fn verify_shared(sources: &[Source], base: NonNull<u8>) -> Result<()> {
    let mut at = 0;
    let mut parts = Vec::new();
    for source in sources {
        match source {
            Source::Read(part) if part.shares() => {
                let lead = at - (part.own.start - part.span().start);
                // SAFETY: the pages before this part's own were read for the slices before it, which lie before it in
                // memory. Nobody writes to any of them from here on.
                let span = unsafe {
                    let start = base.add(lead as usize);
                    std::slice::from_raw_parts(start.as_ptr(), part.span_bytes() as usize)
                };
                parts.push((part, span));
            }
            _ => (),
        }
        at += source.bytes();
    }
    parallel::for_each(READERS, parts, |(part, span)| part.verify(span))
}
