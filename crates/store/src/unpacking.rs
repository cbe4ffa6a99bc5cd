//! Reads slices of packed blocks back (`packed`), with a fixed number of buffers for the whole store.

use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::codec::{Codec, Decoder};
use crate::error::Result;
use crate::layout::PAGE_BYTES;
use crate::packed::{parse_head, FRAME_BYTES, HEAD_BYTES};
use crate::pages::Pages;
use crate::parallel::READERS;

/// Room before the bytes that are read, for the start of a frame whose end comes with the next read.
const KEPT_BYTES: usize = FRAME_BYTES + PAGE_BYTES as usize;
/// Bytes per read.
const READ_BYTES: usize = 1 << 20;

/// Returns the memory of all buffers.
pub(crate) fn readers_bytes(codec: Codec) -> u64 {
    READERS as u64 * ((KEPT_BYTES + READ_BYTES) as u64 + codec.decoder_bytes())
}

/// The buffers. A thread that has one waits for the disk only, so that a wait for one ends.
pub(crate) struct Unpackers {
    free: Mutex<Vec<Unpacker>>,
    returned: Condvar,
}

impl Unpackers {
    pub(crate) fn new(codec: Codec) -> io::Result<Self> {
        let all: io::Result<Vec<_>> = (0..READERS).map(|_| Unpacker::new(codec)).collect();
        Ok(Self {
            free: Mutex::new(all?),
            returned: Condvar::new(),
        })
    }

    /// Returns a buffer that nobody else has meanwhile; waits until one is free.
    pub(crate) fn lend(&self) -> Lent<'_> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(unpacker) = free.pop() {
                return Lent {
                    owner: self,
                    unpacker: Some(unpacker),
                };
            }
            let waited = self.returned.wait(free);
            free = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A buffer that is lent; it goes back on drop, after a panic, too.
pub(crate) struct Lent<'a> {
    owner: &'a Unpackers,
    unpacker: Option<Unpacker>,
}

impl Deref for Lent<'_> {
    type Target = Unpacker;

    fn deref(&self) -> &Unpacker {
        self.unpacker.as_ref().expect("it is taken on drop only")
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut Unpacker {
        self.unpacker.as_mut().expect("it is taken on drop only")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut free = self
            .owner
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        free.extend(self.unpacker.take());
        drop(free);
        self.owner.returned.notify_one();
    }
}

/// A buffer, and the state of the codec.
pub(crate) struct Unpacker {
    decoder: Decoder,
    pages: Option<Pages>,
}

impl Unpacker {
    fn new(codec: Codec) -> io::Result<Self> {
        Ok(Self {
            decoder: Decoder::new(codec)?,
            pages: None,
        })
    }

    /// Fills `out` from the frames at `places` of an image. `read` fills whole pages from a place in the image. Returns
    /// whether the frames are sound and have as many bytes.
    pub(crate) fn unpack(
        &mut self,
        places: Range<u64>,
        out: &mut [u8],
        mut read: impl FnMut(&mut [u8], u64) -> Result<()>,
    ) -> Result<bool> {
        let Self { decoder, pages } = self;
        let pages = pages
            .get_or_insert_with(|| Pages::new(KEPT_BYTES + READ_BYTES))
            .bytes();
        let end = places.end.next_multiple_of(PAGE_BYTES);
        let mut next = places.start - places.start % PAGE_BYTES;
        let mut lead = (places.start - next) as usize;
        let mut kept = KEPT_BYTES..KEPT_BYTES;
        for bytes in out.chunks_mut(FRAME_BYTES) {
            loop {
                match frame(&pages[kept.clone()]) {
                    Frame::Whole(len, is_packed) => {
                        let start = kept.start + HEAD_BYTES;
                        kept.start = start + len;
                        if !fill(decoder, &pages[start..start + len], is_packed, bytes) {
                            return Ok(false);
                        }
                        break;
                    }
                    Frame::Unknown => return Ok(false),
                    Frame::Cut if next >= end => return Ok(false),
                    Frame::Cut => {
                        let start = KEPT_BYTES - kept.len();
                        pages.copy_within(kept, start);
                        let len = (end - next).min(READ_BYTES as u64) as usize;
                        read(&mut pages[KEPT_BYTES..KEPT_BYTES + len], next)?;
                        let sound = (places.end - next).min(len as u64) as usize;
                        kept = start + lead..KEPT_BYTES + sound;
                        lead = 0;
                        next += len as u64;
                    }
                }
            }
        }
        Ok(true)
    }
}

/// Fills all of `out` from the bytes of a frame; returns whether they have as many.
fn fill(decoder: &mut Decoder, frame: &[u8], is_packed: bool, out: &mut [u8]) -> bool {
    if is_packed {
        return decoder.decode(frame, out);
    }
    let fits = frame.len() == out.len();
    if fits {
        out.copy_from_slice(frame);
    }
    fits
}

/// The beginning of some bytes.
enum Frame {
    /// A frame of so many bytes behind its head, and whether they are compressed.
    Whole(usize, bool),
    /// A part of one.
    Cut,
    /// No frame.
    Unknown,
}

fn frame(bytes: &[u8]) -> Frame {
    let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else {
        return Frame::Cut;
    };
    match parse_head(*head) {
        None => Frame::Unknown,
        Some((len, _)) if bytes.len() < HEAD_BYTES + len => Frame::Cut,
        Some((len, is_packed)) => Frame::Whole(len, is_packed),
    }
}
