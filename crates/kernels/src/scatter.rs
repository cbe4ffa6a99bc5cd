//! Scatter: a map's batches become one block of R slices, rows of partition r in slice r, in input order.
//!
//! Two passes, because a block is allocated before it is written: `plan` finds the partition of every row and the size
//! of every slice, `write` moves each row once, straight to its place.

use arrow_array::RecordBatch;

use crate::assignment::Assignment;
use crate::encode::{pack, row_lengths, write_rows};
use crate::error::{KernelError, Result};
use crate::frames::{encode, HEADER_BYTES};
use crate::key_rows::Position;
use crate::layout::{RowLayout, CHUNK_ROWS};
use crate::prefetch::prefetch;
use crate::sections;
use crate::source::Sources;

/// Planned output of one map.
#[derive(Debug)]
pub struct Scatter {
    layout: RowLayout,
    batches: Vec<Sources>,
    partitions: Vec<u32>,
    offsets: Vec<u64>,
    /// Encoded columns beside the rows, per partition; empty for schemas without any.
    framed: Vec<Vec<u8>>,
    tag: Option<u8>,
}

impl Scatter {
    /// Finds the partition and the length of every row; the first row has position `first`, the others follow it.
    ///
    /// # Errors
    /// Batches that do not match the schema, nulls where none are declared, values that are too long.
    ///
    /// # Cost
    /// 4 bytes per row beside the batches, which are kept; nested columns are encoded here, at their size.
    pub fn plan(
        layout: &RowLayout,
        batches: &[RecordBatch],
        assignment: &Assignment,
        first: Position,
    ) -> Result<Self> {
        let num_rows = batches.iter().map(RecordBatch::num_rows).sum();
        let mut planner = Planner {
            layout,
            key_layout: layout.key_layout(),
            assignment,
            position: first,
            partitions: vec![0; num_rows],
            planned: 0,
            slice_bytes: vec![0; assignment.num_partitions()],
            scratch: Scratch::default(),
        };
        let mut sources = Vec::with_capacity(batches.len());
        for batch in batches {
            let source = Sources::try_new(layout, batch)?;
            planner.add(&source)?;
            sources.push(source);
        }
        let Planner {
            partitions,
            mut slice_bytes,
            ..
        } = planner;

        let mut framed = Vec::new();
        if layout.num_framed() > 0 {
            let columns: Vec<_> = sources
                .iter()
                .map(|s| (s.rows, s.framed.as_slice()))
                .collect();
            framed = encode(layout, &columns, &partitions, slice_bytes.len())?;
            for (bytes, columns) in slice_bytes
                .iter_mut()
                .zip(&framed)
                .filter(|(bytes, _)| **bytes > 0)
            {
                *bytes += (HEADER_BYTES + columns.len()) as u64;
            }
        }
        let mut end = 0;
        let mut offsets = vec![0];
        offsets.extend(slice_bytes.iter().map(|bytes| {
            end += bytes;
            end
        }));
        Ok(Self {
            layout: layout.clone(),
            batches: sources,
            partitions,
            offsets,
            framed,
            tag: None,
        })
    }

    /// The same with every slice that has rows as a section of this tag (`sections.rs`).
    #[must_use]
    pub fn tagged(mut self, tag: u8) -> Self {
        if self.tag.replace(tag).is_some() {
            // The headers are counted already.
            return self;
        }
        let mut headers = 0;
        for slice in 1..self.offsets.len() {
            let is_empty = self.offsets[slice] + headers == self.offsets[slice - 1];
            headers += if is_empty {
                0
            } else {
                sections::HEADER_BYTES as u64
            };
            self.offsets[slice] += headers;
        }
        self
    }

    /// Where each slice starts in the block, and where the block ends: R+1 offsets.
    pub fn slice_offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.partitions.len() as u64
    }

    /// Writes the block.
    ///
    /// # Errors
    /// A buffer that is not exactly as long as the block.
    pub fn write(&self, out: &mut [u8]) -> Result<()> {
        let expected = self.offsets[self.offsets.len() - 1];
        if out.len() as u64 != expected {
            return Err(KernelError::OutputSize {
                expected,
                actual: out.len() as u64,
            });
        }
        let mut next: Vec<usize> = self.offsets.iter().map(|&offset| offset as usize).collect();
        self.write_section_headers(&mut next, out);
        self.write_frames(&mut next, out);
        let (mut lengths, mut starts, mut tails) = (Vec::new(), Vec::new(), Vec::new());
        let mut partitions = self.partitions.as_slice();
        for batch in &self.batches {
            for first in (0..batch.rows).step_by(CHUNK_ROWS) {
                let count = CHUNK_ROWS.min(batch.rows - first);
                let (chunk, rest) = partitions.split_at(count);
                partitions = rest;
                row_lengths(&self.layout, batch, first, count, &mut lengths)?;
                starts.clear();
                starts.extend(chunk.iter().zip(&lengths).map(|(&partition, length)| {
                    let start = next[partition as usize];
                    next[partition as usize] += length;
                    prefetch(&out[start..start + length]);
                    start
                }));
                write_rows(&self.layout, batch, first, &starts, &mut tails, out);
            }
        }
        Ok(())
    }

    /// Writes the headers of sections, and moves `next` behind them.
    fn write_section_headers(&self, next: &mut [usize], out: &mut [u8]) {
        let Some(tag) = self.tag else {
            return;
        };
        for (ends, next) in self.offsets.windows(2).zip(next) {
            let slice = &mut out[ends[0] as usize..ends[1] as usize];
            if !slice.is_empty() {
                sections::write_header(tag, slice.len() - sections::HEADER_BYTES, slice);
                *next += sections::HEADER_BYTES;
            }
        }
    }

    /// Writes everything of the frames but the rows, and moves `next` to where the rows of each partition go.
    fn write_frames(&self, next: &mut [usize], out: &mut [u8]) {
        for ((columns, ends), next) in self.framed.iter().zip(self.offsets.windows(2)).zip(next) {
            let slice = &mut out[*next..ends[1] as usize];
            if slice.is_empty() {
                continue;
            }
            let rows_end = slice.len() - columns.len();
            slice[..8].copy_from_slice(&((rows_end - HEADER_BYTES) as u64).to_le_bytes());
            slice[8..HEADER_BYTES].copy_from_slice(&(columns.len() as u64).to_le_bytes());
            slice[rows_end..].copy_from_slice(columns);
            *next += HEADER_BYTES;
        }
    }
}

/// The state of planning, batch after batch.
struct Planner<'a> {
    layout: &'a RowLayout,
    key_layout: RowLayout,
    assignment: &'a Assignment,
    position: Position,
    partitions: Vec<u32>,
    planned: usize,
    slice_bytes: Vec<u64>,
    scratch: Scratch,
}

/// Vectors of one chunk's length, reused.
#[derive(Default)]
struct Scratch {
    lengths: Vec<usize>,
    starts: Vec<usize>,
    tails: Vec<usize>,
    keys: Vec<u8>,
}

impl Planner<'_> {
    fn add(&mut self, sources: &Sources) -> Result<()> {
        let keys = sources.project(self.layout.key_columns());
        for first in (0..sources.rows).step_by(CHUNK_ROWS) {
            let count = CHUNK_ROWS.min(sources.rows - first);
            let chunk = self.planned..self.planned + count;
            if self.assignment.reads_keys() {
                self.encode_keys(&keys, first, count)?;
            }
            self.assignment.assign(
                &self.key_layout,
                (&self.scratch.keys, &self.scratch.starts),
                self.position,
                &mut self.partitions[chunk.clone()],
            );
            row_lengths(
                self.layout,
                sources,
                first,
                count,
                &mut self.scratch.lengths,
            )?;
            for (&partition, &length) in self.partitions[chunk].iter().zip(&self.scratch.lengths) {
                self.slice_bytes[partition as usize] += length as u64;
            }
            self.planned += count;
            self.position.row += count as u64;
        }
        Ok(())
    }

    /// Encodes the keys of a chunk. Keys are compared and hashed only in encoded form, so map and reduce cannot
    /// disagree about them.
    fn encode_keys(&mut self, keys: &Sources, first: usize, count: usize) -> Result<()> {
        let Scratch {
            lengths,
            starts,
            tails,
            keys: rows,
        } = &mut self.scratch;
        row_lengths(&self.key_layout, keys, first, count, lengths)?;
        let end = pack(lengths, starts);
        if rows.len() < end {
            rows.resize(end, 0);
        }
        write_rows(&self.key_layout, keys, first, starts, tails, rows);
        Ok(())
    }
}
