//! Reads the next window of a column while the current one is decoded.
//!
//! A page that straddles the border of two windows must be contiguous. When the next window is requested, nobody knows how
//! much of the page lies in the old one. So the thread leaves headroom in front of the new window. When the windows are
//! swapped, the rest of the old one is copied there.

use std::sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender};
use std::sync::{Arc, OnceLock};

use super::chunk::{Chunk, Window};
use crate::direct::{BufferPool, PooledBuffer, RangeReader};
use crate::error::{IoError, Result};
use crate::storage::{page_ceil, page_floor};

/// A thread that reads ahead; it starts with the first request.
pub(super) struct Prefetcher {
    file: Arc<RangeReader>,
    /// The chunks of each lane, in the order in which they are read.
    lanes: Vec<Vec<Chunk>>,
    requests: OnceLock<Option<Sender<Request>>>,
}

struct Request {
    start: u64,
    end: u64,
    headroom: usize,
    reply: SyncSender<Result<PooledBuffer>>,
}

/// A window that is being read.
pub(super) struct Ahead {
    start: u64,
    end: u64,
    headroom: usize,
    reply: Receiver<Result<PooledBuffer>>,
}

impl Prefetcher {
    pub(super) fn new(file: Arc<RangeReader>, chunks: &[Chunk], lanes: usize) -> Self {
        let mut by_lane = vec![Vec::new(); lanes];
        for chunk in chunks {
            by_lane[chunk.lane].push(*chunk);
        }
        Self {
            file,
            lanes: by_lane,
            requests: OnceLock::new(),
        }
    }

    /// Starts to read the bytes behind `window` of `chunk`, if there are any, in a window of `bytes` bytes.
    pub(super) fn start(&self, window: &Window, chunk: Chunk, bytes: u64) -> Option<Ahead> {
        let (start, limit, headroom) = if window.end() < chunk.end {
            // Pages are mostly 1 MiB, so the part in the old window fits unless windows are small.
            let headroom = page_floor(bytes / 8 * 3) as usize;
            (page_floor(window.end()), chunk.end, headroom)
        } else {
            let next = self.lanes[chunk.lane]
                .iter()
                .skip_while(|c| c.start != chunk.start)
                .nth(1)?;
            (page_floor(next.start), next.end, 0)
        };
        let end = (start + bytes - headroom as u64)
            .min(limit)
            .min(self.file.len());
        let (reply, receiver) = sync_channel(1);
        let request = Request {
            start,
            end,
            headroom,
            reply,
        };
        let sender = self
            .requests
            .get_or_init(|| spawn(self.file.clone()))
            .as_ref()?;
        sender.send(request).ok()?;
        Some(Ahead {
            start,
            end,
            headroom,
            reply: receiver,
        })
    }
}

/// Reads requests until the prefetcher is dropped. Without a thread every window is read when it is needed.
fn spawn(file: Arc<RangeReader>) -> Option<Sender<Request>> {
    let (sender, receiver) = channel::<Request>();
    let serve = move || {
        for Request {
            start,
            end,
            headroom,
            reply,
        } in receiver
        {
            // A lane that went elsewhere does not wait for the answer.
            let _unwanted = reply.send(read(&file, start, end, headroom));
        }
    };
    std::thread::Builder::new()
        .name("xs-prefetch".into())
        .spawn(serve)
        .ok()?;
    Some(sender)
}

fn read(file: &RangeReader, start: u64, end: u64, headroom: usize) -> Result<PooledBuffer> {
    let mut buffer = BufferPool::take(headroom + (page_ceil(end) - start) as usize)?;
    file.read_pages(start, (end - start) as usize, &mut buffer[headroom..])?;
    Ok(buffer)
}

impl Ahead {
    /// Returns the window that holds `start .. end`, with the rest of the old one; `None` if it has to be read anew.
    pub(super) fn join(
        self,
        old: &Window,
        start: u64,
        end: u64,
    ) -> Option<std::result::Result<Window, IoError>> {
        let first = page_floor(start).min(self.start);
        let overlap = (self.start - first) as usize;
        let contiguous = overlap == 0 || old.holds(first, self.start);
        if !contiguous || overlap > self.headroom || end > self.end {
            return None;
        }
        let mut buffer = match self.reply.recv().ok()? {
            Ok(buffer) => buffer,
            Err(e) => return Some(Err(e)),
        };
        let from = self.headroom - overlap;
        if overlap > 0 {
            buffer[from..self.headroom].copy_from_slice(&old.slice(first, self.start));
        }
        let used = from..self.headroom + (self.end - self.start) as usize;
        Some(Ok(Window {
            start: first,
            bytes: buffer.freeze(used),
        }))
    }
}
