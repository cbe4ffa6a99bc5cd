//! The image of a block on disk where spilled bytes are compressed:
//!
//! ```text
//! [frames of slice 0][frames of slice 1] … pad to 8 [index: R+1 entries of offset u64, crc u32, 0 u32, place u64] pad to 4096
//! ```
//!
//! A frame is a length (u32) and as many bytes. They are compressed, unless the highest bit of the length is set. Every
//! frame of a slice holds 256 KiB of it, the last one the rest; so a slice is read alone, and in pieces. An entry is that
//! of the block in memory, and the place where the frames of its slice start. So the checksum is that of the bytes
//! before they are compressed, and also covers what the codec does.

use std::io;

use crate::codec::{most_bytes, Codec, Encoder};
use crate::index::Index;
use crate::layout::{self, Extent, Layout, PAGE_BYTES};
use crate::mapping::Mapping;
use crate::pages::Pages;

/// Bytes of a slice in a frame. LZ4 looks back 64 KiB at most.
pub(crate) const FRAME_BYTES: usize = 256 << 10;
/// Bytes before those of a frame.
pub(crate) const HEAD_BYTES: usize = 4;
/// Set in the length of a frame whose bytes are not compressed.
const PLAIN: u32 = 1 << 31;
/// Bytes of a place.
const PLACE_BYTES: u64 = 8;
/// Bytes of one entry of the index.
const ENTRY_BYTES: u64 = layout::ENTRY_BYTES + PLACE_BYTES;
/// Bytes per write.
const STAGED_BYTES: usize = 2 << 20;

/// Returns the index of a packed block.
pub(crate) fn index(start: u64, layout: &Layout) -> Index {
    Index {
        start,
        entry_bytes: ENTRY_BYTES,
        num_entries: layout.num_slices as u64 + 1,
    }
}

/// Reads where a slice is from its entry and the next one: in the block, and in the image. Returns `None` when they
/// cannot be the entries of a slice.
pub(crate) fn parse(
    entries: &[u8],
    layout: &Layout,
    index_start: u64,
) -> Option<(Extent, std::ops::Range<u64>)> {
    let word = |at: usize| {
        Some(u64::from_ne_bytes(
            entries.get(at..at + 8)?.try_into().ok()?,
        ))
    };
    let next = ENTRY_BYTES as usize;
    let extent = Extent {
        start: word(0)?,
        end: word(next)?,
        crc: u32::from_ne_bytes(entries.get(8..12)?.try_into().ok()?),
    };
    let places = word(16)?..word(next + 16)?;
    let is_sound = extent.start <= extent.end
        && extent.end <= layout.data_bytes
        && places.start <= places.end
        && places.end <= index_start;
    is_sound.then_some((extent, places))
}

/// Returns the length of a frame, and whether it is compressed; `None` if no frame is so long.
pub(crate) fn parse_head(head: [u8; HEAD_BYTES]) -> Option<(usize, bool)> {
    let head = u32::from_ne_bytes(head);
    let len = (head & !PLAIN) as usize;
    (len <= FRAME_BYTES).then_some((len, head & PLAIN == 0))
}

/// Returns the memory of a writer.
pub(crate) fn writer_bytes(codec: Codec) -> u64 {
    (STAGED_BYTES + room()) as u64 + codec.encoder_bytes()
}

/// The bytes that one more frame may take.
fn room() -> usize {
    HEAD_BYTES + most_bytes(FRAME_BYTES)
}

/// Compresses blocks and hands them on in whole pages. It keeps 8 bytes a slice while it has a block.
pub(crate) struct PackedWriter {
    encoder: Encoder,
    pages: Pages,
    /// Bytes of `pages` that are not handed on yet.
    filled: usize,
    /// Bytes that were handed on.
    written: u64,
    /// Where the frames of each slice of the block start, and where those of the last end.
    places: Vec<u64>,
}

impl PackedWriter {
    pub(crate) fn new(codec: Codec) -> io::Result<Self> {
        Ok(Self {
            encoder: Encoder::new(codec)?,
            pages: Pages::new(STAGED_BYTES + room()),
            filled: 0,
            written: 0,
            places: Vec::new(),
        })
    }

    /// Begins anew, whatever became of the blocks before.
    pub(crate) fn restart(&mut self) {
        (self.filled, self.written) = (0, 0);
    }

    /// Returns how many bytes the blocks take since `restart`.
    pub(crate) fn bytes(&self) -> u64 {
        self.written + self.filled as u64
    }

    /// Appends a block, and returns where its index starts, from its own start. `write` takes pages.
    ///
    /// # Safety
    /// The block is sealed and stays mapped, and only this thread writes its checksums.
    pub(crate) unsafe fn append<E>(
        &mut self,
        layout: &Layout,
        memory: &Mapping,
        write: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<u64, E> {
        // SAFETY: as the caller promises.
        unsafe { layout.write_checksums(memory) };
        let start = self.bytes();
        self.places.clear();
        for slice in 0..layout.num_slices {
            self.places.push(self.bytes() - start);
            let (from, to) = layout.bounds(memory, slice);
            // SAFETY: as the caller promises.
            let bytes = unsafe { layout.sealed(memory, from, to) };
            for frame in bytes.chunks(FRAME_BYTES) {
                self.frame(frame);
                self.hand_on(STAGED_BYTES, write)?;
            }
        }
        self.places.push(self.bytes() - start);
        self.pad(8);
        let index_start = self.bytes() - start;
        for slice in 0..=layout.num_slices {
            let entry = layout.entry_start(slice);
            // SAFETY: as the caller promises; the checksums of the block were written above, by this thread.
            let entry = unsafe { layout.sealed(memory, entry, entry + layout::ENTRY_BYTES) };
            self.put(entry);
            self.put(&self.places[slice].to_ne_bytes());
            self.hand_on(STAGED_BYTES, write)?;
        }
        self.pad(PAGE_BYTES as usize);
        Ok(index_start)
    }

    /// Hands on what is left; blocks end with a page.
    pub(crate) fn finish<E>(
        &mut self,
        write: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.hand_on(1, write)
    }

    fn frame(&mut self, bytes: &[u8]) {
        let start = self.filled + HEAD_BYTES;
        let packed = self.encoder.encode(bytes, &mut self.pages.bytes()[start..]);
        let head = match packed {
            Some(len) => len as u32,
            None => bytes.len() as u32 | PLAIN,
        };
        self.put(&head.to_ne_bytes());
        match packed {
            Some(len) => self.filled += len,
            None => self.put(bytes),
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        let end = self.filled + bytes.len();
        self.pages.bytes()[self.filled..end].copy_from_slice(bytes);
        self.filled = end;
    }

    fn pad(&mut self, multiple: usize) {
        let end = self.filled.next_multiple_of(multiple);
        self.pages.bytes()[self.filled..end].fill(0);
        self.filled = end;
    }

    /// Hands on whole pages if there are so many bytes.
    fn hand_on<E>(
        &mut self,
        least: usize,
        write: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let whole = self.filled - self.filled % PAGE_BYTES as usize;
        if self.filled < least || whole == 0 {
            return Ok(());
        }
        let pages = self.pages.bytes();
        write(&pages[..whole])?;
        pages.copy_within(whole..self.filled, 0);
        self.filled -= whole;
        self.written += whole as u64;
        Ok(())
    }
}
