//! Gather: a reducer's slices become sorted batches.
//!
//! Rows stay where they are. One pass walks them (checking every length) and makes an entry of each, the entries are
//! sorted, and `batch` collects the fields of a range of rows in order; strings are only pointed at.

use std::sync::Arc;

use arrow_array::{new_empty_array, Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::interleave::interleave;

use crate::decode::{Chunk, Decoder, ViewBuffers};
use crate::error::{KernelError, Result};
use crate::frames::{parse, Frame};
use crate::layout::{RowLayout, CHUNK_ROWS};
use crate::order::{location, slice_and_offset, sort_entries, Entry, Prefix, Wide};
use crate::output::{cast_to_user_schema, output_schema, undo_wire};
use crate::prefetch::{prefetch_line, LINE_BYTES};
use crate::slot::Slot;
use crate::ties::TieBreaker;
use crate::walk::RowWalker;

/// The most slices of one reducer: a location has 16 bits for the slice.
const MAX_SLICES: usize = 1 << 16;
/// Longer rows are not fetched ahead as a whole: nobody may read the middle of a string soon.
const MAX_PREFETCH_BYTES: usize = 512;

/// The rows of one output partition in sorted order.
#[derive(Debug)]
pub struct SortedRows {
    layout: RowLayout,
    slices: Vec<Buffer>,
    /// Location of every row, in sorted order.
    locs: Vec<u64>,
    views: ViewBuffers,
    framed: Option<FramedRows>,
    schema: SchemaRef,
    prefetch_bytes: usize,
}

/// The columns beside the rows, and how to find a row in them.
#[derive(Debug)]
struct FramedRows {
    /// For each column its array in every frame.
    columns: Vec<Vec<ArrayRef>>,
    /// Location of every row in input order, that is ascending.
    locs: Vec<u64>,
    /// Number of rows before each frame, and of all.
    starts: Vec<usize>,
}

impl SortedRows {
    /// Finds and sorts the rows of `slices`; equal keys stay in the order of the slices, and of rows within a slice.
    ///
    /// # Errors
    /// A slice that does not hold whole rows of this layout, too many slices.
    ///
    /// # Cost
    /// `RowLayout::sort_bytes_per_row` for each row, beside the slices.
    pub fn try_new(layout: &RowLayout, slices: Vec<Buffer>) -> Result<Self> {
        if slices.len() > MAX_SLICES {
            return Err(KernelError::TooManySlices {
                count: slices.len(),
                limit: MAX_SLICES,
            });
        }
        let bytes: Vec<&[u8]> = slices.iter().map(Buffer::as_slice).collect();
        let mut frames = Vec::new();
        if layout.num_framed() > 0 {
            frames = slices
                .iter()
                .map(|slice| parse(layout, slice))
                .collect::<Result<_>>()?;
        }
        let (locs, framed) = if layout.prefix().is_narrow() {
            sort::<u64>(layout, &bytes, frames)?
        } else {
            sort::<Wide>(layout, &bytes, frames)?
        };
        let row_bytes = bytes.iter().map(|b| b.len()).sum::<usize>() / locs.len().max(1);
        Ok(Self {
            layout: layout.clone(),
            views: ViewBuffers::new(&slices),
            slices,
            locs,
            framed,
            schema: output_schema(layout),
            prefetch_bytes: row_bytes.min(MAX_PREFETCH_BYTES),
        })
    }

    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.locs.len()
    }

    /// The schema of `batch`: strings and binary as views, dictionaries as plain values, all else as declared.
    pub fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Rows `start..start + len` in sorted order, or as many as there are. Views point into the slices.
    ///
    /// # Errors
    /// Nested columns that Arrow cannot put together again.
    ///
    /// # Cost
    /// Rows are fetched from memory once, together; what reads the strings of a batch of up to about 8192 rows next
    /// finds them in the cache.
    pub fn batch(&self, start: usize, len: usize) -> Result<RecordBatch> {
        let start = start.min(self.locs.len());
        let locs = &self.locs[start..start.saturating_add(len).min(self.locs.len())];
        let columns = self.layout.columns();
        let mut decoders: Vec<Decoder<'_>> = columns
            .iter()
            .map(|c| Decoder::new(c, locs.len()))
            .collect();
        let mut rows = Vec::with_capacity(CHUNK_ROWS.min(locs.len()));
        let mut tails = Vec::with_capacity(rows.capacity());
        for locs in locs.chunks(CHUNK_ROWS) {
            rows.clear();
            rows.extend(locs.iter().map(|&loc| self.fetch(loc)));
            tails.clear();
            tails.resize(rows.len(), self.layout.fixed_bytes());
            let chunk = Chunk {
                rows: &rows,
                locs,
                views: &self.views,
            };
            for decoder in &mut decoders {
                decoder.append(&self.layout, &chunk, &mut tails);
            }
        }
        let places = self.framed.as_ref().map(|framed| framed.places(locs));
        let mut arrays = Vec::with_capacity(columns.len());
        for (decoder, column) in decoders.into_iter().zip(columns) {
            arrays.push(match (column.slot, &self.framed, &places) {
                (Slot::Framed { index }, Some(framed), Some(places)) => {
                    let array = framed.take(index, places);
                    array
                        .and_then(|a| undo_wire(&a, self.schema.field(arrays.len()).data_type()))
                        .map_err(|e| {
                            KernelError::arrow(format!("decoding column '{}'", column.name), e)
                        })?
                }
                // Without any frame there are no rows.
                (Slot::Framed { .. }, ..) => {
                    new_empty_array(self.schema.field(arrays.len()).data_type())
                }
                _ => decoder.finish(&self.views)?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(locs.len()));
        RecordBatch::try_new_with_options(self.output_schema(), arrays, &options)
            .map_err(|e| KernelError::arrow("putting an output batch together", e))
    }

    /// A batch of `batch` with the types that the user declared.
    ///
    /// # Errors
    /// A dictionary whose key type cannot number the distinct values of the batch.
    pub fn cast_to_user_schema(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        cast_to_user_schema(self.layout.schema(), batch)
    }

    /// A row, on its way from memory: asking for whole rows early, many at once, hides most of their latency.
    #[inline]
    fn fetch(&self, loc: u64) -> &[u8] {
        let (slice, offset) = slice_and_offset(loc);
        let row = &self.slices[slice][offset..];
        for line in (0..=self.prefetch_bytes).step_by(LINE_BYTES) {
            prefetch_line(row.as_ptr().wrapping_add(line));
        }
        row
    }
}

/// Locations in sorted order, and the framed columns if there are any. `frames` is empty or has an entry per slice.
fn sort<P: Prefix>(
    layout: &RowLayout,
    slices: &[&[u8]],
    frames: Vec<Vec<Frame>>,
) -> Result<(Vec<u64>, Option<FramedRows>)> {
    let mut entries: Vec<Entry<P>> = Vec::new();
    for (index, slice) in slices.iter().enumerate() {
        match frames.get(index) {
            None => add_entries(layout, index, slice, 0, &mut entries)?,
            Some(frames) => {
                for frame in frames {
                    let before = entries.len();
                    add_entries(
                        layout,
                        index,
                        &slice[frame.rows.clone()],
                        frame.rows.start,
                        &mut entries,
                    )?;
                    if entries.len() - before != frame.columns.num_rows() {
                        let offset = frame.rows.start as u64;
                        return Err(KernelError::CorruptSlice {
                            offset,
                            reason: "a frame lacks rows",
                        });
                    }
                }
            }
        }
    }
    let framed = frames
        .iter()
        .any(|frames| !frames.is_empty())
        .then(|| FramedRows::new(frames, entries.iter().map(|e| e.loc).collect()));
    let ties = TieBreaker::new(layout, slices);
    sort_entries(&mut entries, |run| ties.resolve(run));
    // Collected into the memory of the entries.
    Ok((entries.into_iter().map(|e| e.loc).collect(), framed))
}

/// Walks `rows`, which start at `base` in their slice, and appends an entry for each.
fn add_entries<P: Prefix>(
    layout: &RowLayout,
    slice: usize,
    rows: &[u8],
    base: usize,
    entries: &mut Vec<Entry<P>>,
) -> Result<()> {
    let mut walker = RowWalker::new(layout, rows, base);
    let mut starts = Vec::with_capacity(CHUNK_ROWS);
    let mut prefixes = [P::default(); CHUNK_ROWS];
    loop {
        walker.next_chunk(&mut starts)?;
        let Some(last) = starts.last() else {
            return Ok(());
        };
        if entries.len() + starts.len() > entries.capacity() {
            // Rows behind are about as long as rows so far.
            let expected = starts.len() * (rows.len() - starts[0]) / (last + 1 - starts[0]);
            entries.reserve(expected + expected / 16 + CHUNK_ROWS);
        }
        let prefixes = &mut prefixes[..starts.len()];
        layout.prefix().fill(|i| &rows[starts[i]..], prefixes);
        entries.extend(prefixes.iter().zip(&starts).map(|(&prefix, start)| Entry {
            prefix,
            loc: location(slice, base + start),
        }));
    }
}

impl FramedRows {
    fn new(frames: Vec<Vec<Frame>>, locs: Vec<u64>) -> Self {
        let batches: Vec<RecordBatch> = frames
            .into_iter()
            .flatten()
            .map(|frame| frame.columns)
            .collect();
        let mut starts = vec![0];
        starts.extend(batches.iter().scan(0, |end, batch| {
            *end += batch.num_rows();
            Some(*end)
        }));
        let num_columns = batches.first().map_or(0, RecordBatch::num_columns);
        let columns = (0..num_columns)
            .map(|c| batches.iter().map(|b| Arc::clone(b.column(c))).collect())
            .collect();
        Self {
            columns,
            locs,
            starts,
        }
    }

    /// Frame and row within the frame for each location.
    fn places(&self, locs: &[u64]) -> Vec<(usize, usize)> {
        let place = |loc| {
            let row = self.locs.partition_point(|&l| l < loc);
            let frame = self.starts.partition_point(|&start| start <= row) - 1;
            (frame, row - self.starts[frame])
        };
        locs.iter().map(|&loc| place(loc)).collect()
    }

    fn take(
        &self,
        column: usize,
        places: &[(usize, usize)],
    ) -> std::result::Result<ArrayRef, ArrowError> {
        let arrays: Vec<&dyn Array> = self.columns[column].iter().map(AsRef::as_ref).collect();
        interleave(&arrays, places)
    }
}
