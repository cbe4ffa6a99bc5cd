//! A block that is being filled: each row goes to its slice, and is hashed there while it is in the cache.
//!
//! Every slice is a section (`sections.rs`) that says how many rows it has and the sum of their hashes.

use crate::checks::check::CheckError;
use crate::checks::row_hash::hash_rows;
use crate::checks::tally::Tally;
use crate::error::{KernelError, Result};
use crate::layout::{RowLayout, CHUNK_ROWS};
use crate::map::encode::{row_lengths, write_rows};
use crate::map::source::Sources;
use crate::prefetch::prefetch;
use crate::slices::frames;
use crate::slices::sections::{self, write_header, Origin};

/// A block whose slices are open.
pub(crate) struct Filling<'a> {
    layout: &'a RowLayout,
    offsets: &'a [u64],
    out: &'a mut [u8],
    slices: Vec<Open>,
    lengths: Vec<usize>,
    starts: Vec<usize>,
    tails: Vec<usize>,
}

/// A slice that is being filled.
struct Open {
    /// Where its next row goes.
    next: usize,
    /// Where its last row has to end.
    end: usize,
    tally: Tally,
}

impl<'a> Filling<'a> {
    /// Opens the slices between these offsets, for rows not yet in frames.
    ///
    /// # Errors
    /// A buffer that is not exactly as long as the block.
    pub(crate) fn new(
        layout: &'a RowLayout,
        offsets: &'a [u64],
        out: &'a mut [u8],
    ) -> Result<Self> {
        let expected = offsets[offsets.len() - 1];
        if out.len() as u64 != expected {
            return Err(KernelError::OutputSize {
                expected,
                actual: out.len() as u64,
            });
        }
        let slices = { offsets.windows(2) }
            .map(|ends| Open {
                next: ends[0] as usize + sections::HEADER_BYTES,
                end: ends[1] as usize,
                tally: Tally::default(),
            })
            .collect();
        Ok(Self {
            layout,
            offsets,
            out,
            slices,
            lengths: Vec::new(),
            starts: Vec::new(),
            tails: Vec::new(),
        })
    }

    /// Writes everything of the frames but the rows, and moves slices to where their rows go. `framed` has the encoded
    /// columns beside the rows of each slice, or is empty.
    pub(crate) fn write_frames(&mut self, framed: &[Vec<u8>]) {
        let framed = self.slices.iter_mut().zip(framed);
        for (slice, columns) in framed.filter(|(_, columns)| !columns.is_empty()) {
            let frame = &mut self.out[slice.next..slice.end];
            let rows_end = frame.len() - columns.len();
            let rows_bytes = (rows_end - frames::HEADER_BYTES) as u64;
            frame[..8].copy_from_slice(&rows_bytes.to_le_bytes());
            frame[8..frames::HEADER_BYTES].copy_from_slice(&(columns.len() as u64).to_le_bytes());
            frame[rows_end..].copy_from_slice(columns);
            slice.tally.add_beside(columns);
            slice.next += frames::HEADER_BYTES;
            slice.end -= columns.len();
        }
    }

    /// Writes rows to the slices of these partitions, in their order.
    ///
    /// # Errors
    /// Values that are too long; more rows than a slice has room for.
    pub(crate) fn add(&mut self, rows: &Sources, partitions: &[u32]) -> Result<()> {
        let firsts = (0..rows.rows).step_by(CHUNK_ROWS);
        for (first, chunk) in firsts.zip(partitions.chunks(CHUNK_ROWS)) {
            row_lengths(self.layout, rows, first, chunk.len(), &mut self.lengths)?;
            self.starts.clear();
            for (&partition, length) in chunk.iter().zip(&self.lengths) {
                let slice = &mut self.slices[partition as usize];
                let start = slice.next;
                slice.next += length;
                if slice.next > slice.end {
                    return Err(unfilled(partition as usize));
                }
                prefetch(&self.out[start..slice.next]);
                self.starts.push(start);
            }
            write_rows(
                self.layout,
                rows,
                first,
                &self.starts,
                &mut self.tails,
                self.out,
            );
            // The rows are in the cache now.
            let rows = self.starts.iter().zip(&self.lengths);
            let rows = rows.map(|(&start, length)| &self.out[start..start + length]);
            let slices = &mut self.slices;
            hash_rows(chunk.iter().zip(rows), |&partition, hash| {
                slices[partition as usize].tally.add_hash(hash);
            });
        }
        Ok(())
    }

    /// Writes the headers of the slices, which are those of map number `map` of the input with this tag.
    ///
    /// # Errors
    /// A slice that is not full.
    pub(crate) fn close(self, tag: u8, map: u32) -> Result<()> {
        if let Some(partition) = self.slices.iter().position(|slice| slice.next != slice.end) {
            return Err(unfilled(partition));
        }
        let slices = self.slices.iter().zip(self.offsets.windows(2));
        for (partition, (slice, ends)) in (0..).zip(slices) {
            let origin = Origin {
                tag,
                map,
                partition,
            };
            let bytes = &mut self.out[ends[0] as usize..ends[1] as usize];
            write_header(origin, slice.tally, bytes);
        }
        Ok(())
    }
}

fn unfilled(partition: usize) -> KernelError {
    CheckError::Scattered { partition }.into()
}
