//! Fills the memory of a fetch: several threads read parts of files and copy slices, and check what was read.
//!
//! Parts that lie one behind the other in a file are one request. A merge takes all slices of its blocks, or a range of
//! them. With a request for each, a turning disk would be as slow as for the reduces that the merge is to help.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::acquire::Owned;
use crate::block::{Pin, Slice};
use crate::error::{Result, StoreError};
use crate::parallel::{self, READERS};
use crate::shared::Shared;
use crate::sources::{Part, Source};

/// Bytes per read.
const PIECE_BYTES: usize = 8 << 20;

/// Where the bytes of a range of the fetch's own memory come from.
#[derive(Clone, Copy)]
enum Filling<'a> {
    /// Parts in a row, read by one request if they are several.
    Read(&'a [Source]),
    Copy(&'a Slice),
}

/// Fills `own` with the bytes to read and copy, one behind the other, and returns the slices in order.
pub(crate) fn fill(
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
    let mut next = 0;
    while next < sources.len() {
        let run = &sources[next..next + run_length(&sources[next..])];
        let bytes: u64 = run.iter().map(Source::bytes).sum();
        let (span, later) = rest.split_at_mut(bytes as usize);
        rest = later;
        match (&run[0], &resident[next]) {
            (Source::Read(_), _) => spans.push((Filling::Read(run), span)),
            (Source::Copied { lead, .. }, Some(slice)) => {
                spans.push((Filling::Copy(slice), &mut span[*lead..]));
            }
            _ => (),
        }
        next += run.len();
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

/// Returns how many sources from the first on are parts that one request reads; 1 if the first is none.
fn run_length(sources: &[Source]) -> usize {
    let Source::Read(first) = &sources[0] else {
        return 1;
    };
    let (mut last, mut bytes) = (first, sources[0].bytes());
    for (number, source) in sources.iter().enumerate().skip(1) {
        bytes += source.bytes();
        match source {
            Source::Read(part) if bytes <= PIECE_BYTES as u64 && part.follows(last) => {
                if !part.own.is_empty() {
                    last = part;
                }
            }
            _ => return number,
        }
    }
    sources.len()
}

/// Fills every span, in pieces that several threads share out, and checks the checksums of the bytes read.
///
/// The thread that read all of a span checks it at once while others read, so that the disk does not wait for
/// checksums. A random shuffle of 4 GB within 2 GB took 0.98 of the time (eight pairs). Spans of several pieces are
/// checked when all are read.
fn fill_pieces(shared: &Shared, spans: &mut [(Filling<'_>, &mut [u8])]) -> Result<()> {
    let mut pieces = Vec::new();
    for (filling, span) in &mut *spans {
        let is_packed = single(*filling).is_some_and(Part::is_packed);
        // An empty span has a checksum, too. The frames of a packed slice are found one after the other.
        if span.len() <= PIECE_BYTES || is_packed {
            pieces.push((*filling, &mut **span, 0, true));
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
            Filling::Read([Source::Read(part)]) if part.is_packed() => {
                let unpackers = shared.unpackers.as_ref();
                let unpackers =
                    unpackers.expect("a store that packs blocks has buffers to unpack them");
                part.unpack(&mut unpackers.lend(), piece)?;
            }
            Filling::Read(run) if is_whole => read_run(run, piece)?,
            Filling::Read(run) => {
                if let [Source::Read(part)] = run {
                    part.read(piece, part.own.start + start as u64)?;
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

/// Returns the part that a span consists of; none if it is a copy, or several parts.
fn single(filling: Filling<'_>) -> Option<&Part> {
    match filling {
        Filling::Read([source]) => source.part(),
        _ => None,
    }
}

/// Reads parts in a row, and checks those that share no pages with others.
fn read_run(run: &[Source], memory: &mut [u8]) -> Result<()> {
    let parts = || run.iter().filter_map(Source::part);
    if let Some(first) = parts().find(|part| !part.own.is_empty()) {
        first.read(memory, first.own.start)?;
    }
    let mut at = 0;
    for part in parts() {
        let end = at + (part.own.end - part.own.start) as usize;
        if !part.shares() {
            part.verify(&memory[at..end])?;
        }
        at = end;
    }
    Ok(())
}

/// Checks the checksums of spans that were read in several pieces.
fn verify_large(spans: &[(Filling<'_>, &mut [u8])]) -> Result<()> {
    let read = spans.iter().filter_map(|(filling, span)| {
        let part = single(*filling)?;
        let in_pieces = span.len() > PIECE_BYTES && !part.is_packed();
        (in_pieces && !part.shares()).then_some((part, &**span))
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
