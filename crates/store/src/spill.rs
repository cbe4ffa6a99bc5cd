//! Writes blocks to disk in the background: one thread per directory, all drawing from the same queue of victims.
//!
//! Blocks are appended to the thread's open file until it is large enough, then a new one is begun. The lock is held to
//! choose victims and to record where they went, never while checksumming or writing. A directory that fails is left
//! alone, and its victims go back to the queue for the other threads. Where the options name a codec, blocks are compressed
//! on the way (`packed`).

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::thread;

use crate::directories::LiveFile;
use crate::packed::PackedWriter;
use crate::policy::choose_victims;
use crate::shared::{Shared, State};
use crate::table::{DiskBlock, Victim};

/// Blocks that are smaller than this are written several at a time.
const BATCH_BYTES: u64 = 16 << 20;
/// Bytes per write: large enough for the disk, small enough to stop soon when the store closes.
const PIECE_BYTES: usize = 4 << 20;
/// Blocks per write; the system takes at most 1024.
const PIECE_BUFFERS: usize = 512;

/// Starts the threads, once.
pub(crate) fn start(shared: &Arc<Shared>, state: &mut State) {
    if !state.spillers.is_empty() {
        return;
    }
    for directory in 0..shared.options.spill_dirs.len() {
        let theirs = Arc::clone(shared);
        let name = format!("exoshuffle-spill-{directory}");
        match thread::Builder::new()
            .name(name)
            .spawn(move || run(&theirs, directory))
        {
            Ok(thread) => state.spillers.push(thread),
            Err(error) => state.directories.fail(directory, &error),
        }
    }
}

/// The file that a thread appends to.
struct OpenFile {
    file: Arc<LiveFile>,
    end: u64,
}

/// A batch that was written: where its blocks are, and the bytes that they took.
struct Written {
    places: Vec<DiskBlock>,
    bytes: u64,
}

/// Why a batch was not written.
enum Stopped {
    Closed,
    Failed(io::Error),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Stopped::Failed(error)
    }
}

fn run(shared: &Arc<Shared>, directory: usize) {
    let mut open = None;
    let mut packer = None;
    while let Some(victims) = next_victims(shared, directory) {
        let written = write(shared, directory, &mut open, &mut packer, &victims);
        if written.is_err() {
            // Dropped before the failure is recorded, so that the file's end does not count as room made since.
            open = None;
        }
        finish(shared, directory, victims, written);
    }
}

/// Waits for blocks to spill. Returns `None` when the store closes.
fn next_victims(shared: &Shared, directory: usize) -> Option<Vec<Victim>> {
    let mut state = shared.lock();
    loop {
        if state.closed {
            return None;
        }
        if state.directories.takes_files(directory) {
            let pressure = state.pressure(&shared.options);
            let chosen = choose_victims(
                (pressure.excess_bytes(), pressure.spared_bytes()),
                BATCH_BYTES.min(shared.options.fuse_bytes),
                state.table.spillable(),
            );
            if !chosen.is_empty() {
                return Some(
                    chosen
                        .into_iter()
                        .filter_map(|block| state.table.begin_spill(block))
                        .collect(),
                );
            }
        }
        state = shared.wait_for_work(state);
    }
}

/// Appends the victims to the open file, and returns where they are.
fn write(
    shared: &Shared,
    directory: usize,
    open: &mut Option<OpenFile>,
    packer: &mut Option<PackedWriter>,
    victims: &[Victim],
) -> Result<Written, Stopped> {
    let mut target = match open.take() {
        // No block in the file is alive any more: write over it.
        Some(OpenFile { file, .. }) if Arc::strong_count(&file) == 1 => OpenFile { file, end: 0 },
        Some(open) => open,
        None => create(shared, directory)?,
    };
    let start = target.end;
    let places = match shared.options.spill_codec {
        None => write_plain(shared, &mut target, victims)?,
        Some(codec) => {
            let packer = match packer {
                Some(packer) => packer,
                None => packer.insert(PackedWriter::new(codec)?),
            };
            write_packed(shared, &mut target, packer, victims)?
        }
    };
    let bytes = target.end - start;
    if target.end < shared.options.fuse_bytes {
        *open = Some(target);
    }
    Ok(Written { places, bytes })
}

/// Appends the images of the victims as they are in memory.
fn write_plain(
    shared: &Shared,
    target: &mut OpenFile,
    victims: &[Victim],
) -> Result<Vec<DiskBlock>, Stopped> {
    let mut places = Vec::with_capacity(victims.len());
    let mut buffers = Vec::new();
    let mut place = target.end;
    for victim in victims {
        // SAFETY: a victim is sealed, mapped while the victim is held, and being spilled by one thread only.
        unsafe { victim.layout.write_checksums(victim.memory.mapping()) };
        let len = victim.layout.image_bytes() as usize;
        let start = victim.memory.mapping().at(0, len);
        // SAFETY: the image is inside the mapping, and nobody writes to a sealed block. Its checksums are written
        // above by this thread, which is the only one to spill it.
        let image = unsafe { std::slice::from_raw_parts(start.as_ptr(), len) };
        buffers.extend(image.chunks(PIECE_BYTES));
        places.push(DiskBlock {
            file: Arc::clone(&target.file),
            offset: place,
            index: Arc::default(),
            packed: None,
        });
        place += len as u64;
    }
    target.end = append(shared, target, &buffers)?;
    Ok(places)
}

/// Appends the victims compressed.
fn write_packed(
    shared: &Shared,
    target: &mut OpenFile,
    packer: &mut PackedWriter,
    victims: &[Victim],
) -> Result<Vec<DiskBlock>, Stopped> {
    let start = target.end;
    let mut places = Vec::with_capacity(victims.len());
    packer.restart();
    let mut write = |pages: &[u8]| -> Result<(), Stopped> {
        target.end = append(shared, target, &[pages])?;
        Ok(())
    };
    for victim in victims {
        let offset = start + packer.bytes();
        // SAFETY: a victim is sealed, mapped while the victim is held, and being spilled by one thread only.
        let packed = unsafe { packer.append(&victim.layout, victim.memory.mapping(), &mut write) }?;
        places.push((offset, packed));
    }
    packer.finish(&mut write)?;
    let block = |(offset, packed)| DiskBlock {
        file: Arc::clone(&target.file),
        offset,
        index: Arc::default(),
        packed: Some(packed),
    };
    Ok(places.into_iter().map(block).collect())
}

/// Creates the next file of a directory.
fn create(shared: &Shared, directory: usize) -> io::Result<OpenFile> {
    let file = shared.io.create(&shared.options.spill_dirs[directory])?;
    let file = shared.lock().directories.adopt(directory, file);
    Ok(OpenFile { file, end: 0 })
}

/// Writes `buffers` behind one another in pieces, and returns the new end of the file.
fn append(shared: &Shared, target: &OpenFile, buffers: &[&[u8]]) -> Result<u64, Stopped> {
    let mut end = target.end;
    let mut rest = buffers;
    while !rest.is_empty() {
        if shared.is_closed() {
            return Err(Stopped::Closed);
        }
        let mut bytes = 0;
        let fits = |buffer: &&&[u8]| {
            bytes += buffer.len();
            bytes <= PIECE_BYTES
        };
        let count = rest.iter().take(PIECE_BUFFERS).take_while(fits).count();
        let (piece, later) = rest.split_at(count);
        let mut piece: Vec<_> = piece.iter().map(|buffer| IoSlice::new(buffer)).collect();
        let written: u64 = piece.iter().map(|buffer| buffer.len() as u64).sum();
        target.file.file.write_at(&mut piece, end)?;
        end += written;
        rest = later;
    }
    Ok(end)
}

/// Records where the victims are now, or that they are still in memory.
fn finish(
    shared: &Arc<Shared>,
    directory: usize,
    victims: Vec<Victim>,
    written: Result<Written, Stopped>,
) {
    let mut state = shared.lock();
    let places = match written {
        Ok(Written { places, bytes }) => {
            state.written_bytes += bytes;
            places.into_iter().map(Some).collect()
        }
        Err(stopped) => {
            if let Stopped::Failed(error) = stopped {
                state.directories.fail(directory, &error);
            }
            vec![None; victims.len()]
        }
    };
    let mut released = Vec::with_capacity(victims.len());
    for (victim, place) in victims.iter().zip(places) {
        if place.is_some() {
            state.spilled_bytes += victim.layout.image_bytes();
        }
        let freed = state.table.end_spill(victim, place);
        shared.book(&mut state, &freed);
        released.push(freed);
    }
    shared.wake(&mut state);
    drop(state);
    // Mappings and files close outside the lock.
    drop((victims, released));
}
