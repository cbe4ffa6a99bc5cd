//! Reads the batches of a split; arrays of uncompressed batches are slices of the buffer that was read.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_buffer::Buffer;
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::{Block, MetadataVersion};
use arrow_schema::SchemaRef;

use super::dictionaries;
use super::index::{self, corrupt, Index};
use crate::direct::{RangeReader, ReadAhead};
use crate::error::Result;
use crate::long_rows::LongRows;
use crate::source::{conform, pick_rows, BatchStream, Pick, Rebatch, Request};
use crate::turns::Turn;
use crate::views::compacted;

/// A batch is read whole, so samples look at few.
const SAMPLE_REGIONS: u64 = 4;

pub(super) fn open(request: &Request<'_>, batch_rows: usize) -> Result<BatchStream> {
    let mut batches = Batches::new(request)?;
    batches.read_ahead()?;
    let rows = request.split.start..request.split.end;
    let batches = std::iter::from_fn(move || batches.next_within(&rows).transpose());
    Ok(Box::new(Rebatch::new(batches, batch_rows)))
}

pub(super) fn sample(request: &Request<'_>, pick: Pick) -> Result<(RecordBatch, Vec<u64>)> {
    let split = request.split;
    let picked = pick_rows(split.end - split.start, pick, SAMPLE_REGIONS, 1);
    let mut batches = Batches::new(request)?;
    let (mut pieces, mut taken) = (Vec::new(), 0);
    while let Some(&next) = picked.get(taken) {
        let first = batches.next_row;
        let rows = batches.rows_of_next()?;
        if split.start + next >= first + rows {
            batches.skip(rows);
            continue;
        }
        let batch = batches.read_next()?;
        let within = picked[taken..]
            .iter()
            .take_while(|&&row| split.start + row < first + rows);
        let indices: Vec<u32> = within
            .map(|row| (split.start + row - first) as u32)
            .collect();
        taken += indices.len();
        let piece = arrow_select::take::take_record_batch(&batch, &UInt32Array::from(indices));
        pieces.push(piece.map_err(|e| request.corrupt(e))?);
    }
    let Some(first) = pieces.first() else {
        return Ok((RecordBatch::new_empty(request.wanted.clone()), picked));
    };
    let sample = arrow_select::concat::concat_batches(&first.schema(), &pieces);
    Ok((sample.map_err(|e| request.corrupt(e))?, picked))
}

/// The batches of a file from a given batch on.
struct Batches {
    file: Arc<RangeReader>,
    decoder: FileDecoder,
    wanted: SchemaRef,
    dictionaries: std::iter::Peekable<std::vec::IntoIter<Block>>,
    blocks: std::vec::IntoIter<Block>,
    /// The content of the blocks, where all of them will be read.
    contents: Option<ReadAhead>,
    /// Row number of the next batch.
    next_row: u64,
    long_rows: LongRows,
    /// Of who has handed out a row that there is memory for once only.
    turn: Option<Turn>,
}

impl Batches {
    fn new(request: &Request<'_>) -> Result<Self> {
        let file = request.file.clone();
        let Index {
            schema,
            dictionaries,
            batches,
        } = index::load(&file)?;
        let places = request.places_in(&schema)?;
        let dictionaries = dictionaries::needed(&file, &schema, dictionaries, places.as_deref())?;
        // With V1 the decoder compares no versions: messages tell theirs, and footers of pyarrow tell V5 of messages of V4.
        let mut decoder = FileDecoder::new(schema, MetadataVersion::V1);
        if let Some(columns) = places {
            decoder = decoder.with_projection(columns);
        }
        let (skipped, touched) = (request.split.group as usize, request.split.groups as usize);
        let blocks: Vec<Block> = batches.into_iter().skip(skipped).take(touched).collect();
        Ok(Self {
            file,
            decoder,
            wanted: request.wanted.clone(),
            dictionaries: dictionaries.into_iter().peekable(),
            blocks: blocks.into_iter(),
            contents: None,
            next_row: request.split.group_start,
            long_rows: LongRows::of(request.options),
            turn: None,
        })
    }

    /// Reads the blocks in the background from now on; then none may be skipped.
    fn read_ahead(&mut self) -> Result<()> {
        let extent = |block: &Block| Ok(block.offset() as u64..index::extent(&self.file, block)?);
        let extents = self
            .blocks
            .as_slice()
            .iter()
            .map(extent)
            .collect::<Result<_>>()?;
        self.contents = Some(ReadAhead::over(self.file.clone(), extents)?);
        Ok(())
    }

    /// Returns the part of the next batches that lies in `rows`, or `None` behind them.
    fn next_within(&mut self, rows: &Range<u64>) -> Result<Option<RecordBatch>> {
        self.turn = None;
        while self.next_row < rows.end {
            let first = self.next_row;
            let batch = self.read_next()?;
            self.take_turn(first, &batch)?;
            let start = rows
                .start
                .saturating_sub(first)
                .min(batch.num_rows() as u64);
            let end = (rows.end - first).min(batch.num_rows() as u64);
            if start < end {
                let part = batch.slice(start as usize, (end - start) as usize);
                return Ok(Some(compacted(part)));
            }
        }
        Ok(None)
    }

    /// Waits for the turn if a batch has a row that there is memory for once only.
    fn take_turn(&mut self, first: u64, batch: &RecordBatch) -> Result<()> {
        let place = |row: usize| format!("row {}", first + row as u64);
        let bytes = batch.get_array_memory_size() as u64;
        if { self.long_rows }.found(batch, bytes, self.file.path(), place)? {
            self.turn = Some(self.turn.take().unwrap_or_else(Turn::take));
        }
        Ok(())
    }

    fn rows_of_next(&self) -> Result<u64> {
        let block = self
            .blocks
            .as_slice()
            .first()
            .ok_or_else(|| corrupt(&self.file, "rows are missing"))?;
        Ok(index::group(&self.file, block)?.rows)
    }

    fn skip(&mut self, rows: u64) {
        self.blocks.next();
        self.next_row += rows;
    }

    fn read_next(&mut self) -> Result<RecordBatch> {
        let block = self
            .blocks
            .next()
            .ok_or_else(|| corrupt(&self.file, "rows are missing"))?;
        // In a stream a dictionary may change between batches; the last one before the batch in the file counts.
        while let Some(dictionary) = self.dictionaries.next_if(|d| d.offset() < block.offset()) {
            self.read_dictionary(&dictionary)?;
        }
        let content = match self.contents.as_mut().and_then(Iterator::next) {
            Some(content) => Buffer::from(content?),
            None => self.content(&block)?,
        };
        // Files may place dictionaries anywhere, as long as none is replaced.
        let batch = match self.decode(&block, &content) {
            Err(_) if self.dictionaries.peek().is_some() => {
                while let Some(dictionary) = self.dictionaries.next() {
                    self.read_dictionary(&dictionary)?;
                }
                self.decode(&block, &content)?
            }
            batch => batch?,
        };
        self.next_row += batch.num_rows() as u64;
        Ok(batch)
    }

    fn decode(&self, block: &Block, content: &Buffer) -> Result<RecordBatch> {
        index::check_buffers(&self.file, block, content)?;
        let batch = self.decoder.read_record_batch(block, content);
        let batch = batch.map_err(|e| corrupt(&self.file, e))?;
        let batch = batch.ok_or_else(|| corrupt(&self.file, "a batch is empty"))?;
        conform(batch, &self.wanted).map_err(|e| corrupt(&self.file, e))
    }

    fn read_dictionary(&mut self, block: &Block) -> Result<()> {
        let content = self.content(block)?;
        index::check_buffers(&self.file, block, &content)?;
        self.decoder
            .read_dictionary(block, &content)
            .map_err(|e| corrupt(&self.file, e))
    }

    fn content(&self, block: &Block) -> Result<Buffer> {
        let end = index::extent(&self.file, block)?;
        let start = block.offset() as u64;
        Ok(Buffer::from(self.file.read(start, (end - start) as usize)?))
    }
}
