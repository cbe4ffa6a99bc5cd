//! Streams the lines of a byte range. Strings are views of the bytes that were read; only lines that go on in the next
//! window are copied.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use memchr::memchr;

use super::COLUMN;
use crate::direct::{RangeReader, ReadAhead};
use crate::error::{IoError, Result};
use crate::formats::text::{self, LineEnd, Rule};
use crate::source::{BatchStream, Request, RowLimit};
use crate::turns::Turn;

/// Rows of a batch of a sample.
pub(super) const SAMPLED_ROWS: usize = 8192;

/// Returns the lines of a range, which begins at a line.
pub(super) fn lines(
    request: &Request<'_>,
    range: Range<u64>,
    batch_rows: usize,
) -> Result<BatchStream> {
    let mut lines = Lines {
        path: request.split.path.clone(),
        windows: ReadAhead::new(request.file.clone(), range.clone(), 1)?,
        file: request.file.clone(),
        window: Bytes::new(),
        begun: Vec::new(),
        position: range.start,
        max_row: request.options.max_row,
        shared_bytes: request.options.shared_limit(),
        turn: None,
        batch_rows,
    };
    let projection = request.projection.map(<[usize]>::to_vec);
    let path = request.split.path.clone();
    Ok(Box::new(std::iter::from_fn(move || {
        let batch = lines.next_batch().transpose()?;
        Some(batch.and_then(|batch| {
            match &projection {
                None => Ok(batch),
                Some(columns) => batch
                    .project(columns)
                    .map_err(|e| IoError::corrupt(&path, super::FORMAT, e)),
            }
        }))
    })))
}

struct Lines {
    path: PathBuf,
    file: Arc<RangeReader>,
    windows: ReadAhead,
    /// The bytes that were read, from the next line on.
    window: Bytes,
    /// The beginning of a line from windows before.
    begun: Vec<u8>,
    /// Where the window begins in the file.
    position: u64,
    max_row: Option<RowLimit>,
    /// Lines that have more are read by one task at a time.
    shared_bytes: u64,
    batch_rows: usize,
    /// Of who has a line in hand that there is memory for once only.
    turn: Option<Turn>,
}

impl Lines {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let mut texts = StringViewBuilder::new();
        let mut rows = 0;
        self.turn = None;
        while rows < self.batch_rows {
            if self.window.is_empty() {
                // The views of a batch point into one window, so that the batch keeps no other windows.
                if rows > 0 {
                    break;
                }
                if !self.refill(&mut texts, &mut rows)? {
                    break;
                }
                continue;
            }
            rows += self.take(&mut texts, self.batch_rows - rows)?;
        }
        if rows == 0 {
            return Ok(None);
        }
        let schema = Schema::new(vec![Field::new(COLUMN, DataType::Utf8View, true)]);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let columns = vec![Arc::new(texts.finish()) as _];
        RecordBatch::try_new_with_options(Arc::new(schema), columns, &options)
            .map(Some)
            .map_err(|e| IoError::corrupt(&self.path, super::FORMAT, e))
    }

    /// Reads the next window, and makes a row of the line that began before it and ends in it. Returns false at the
    /// end.
    fn refill(&mut self, texts: &mut StringViewBuilder, rows: &mut usize) -> Result<bool> {
        let Some(window) = self.windows.next().transpose()? else {
            if self.begun.is_empty() {
                return Ok(false);
            }
            // The last line may lack a line end.
            self.end_begun(texts)?;
            *rows += 1;
            return Ok(true);
        };
        self.window = window;
        if self.begun.is_empty() {
            return Ok(true);
        }
        let end = memchr(b'\n', &self.window);
        let head = self.window.split_to(end.unwrap_or(self.window.len()));
        let start = self.position - self.begun.len() as u64;
        self.check_length(self.begun.len() + head.len(), start)?;
        self.begin(&head);
        self.position += head.len() as u64;
        if end.is_some() {
            self.window = self.window.slice(1..);
            self.position += 1;
            self.end_begun(texts)?;
            *rows += 1;
        }
        Ok(true)
    }

    /// Keeps a part of a line that goes on in the next window.
    fn begin(&mut self, part: &[u8]) {
        if (self.begun.len() + part.len()) as u64 > self.shared_bytes {
            self.turn = Some(self.turn.take().unwrap_or_else(Turn::take));
        }
        self.begun.extend_from_slice(part);
    }

    fn end_begun(&mut self, texts: &mut StringViewBuilder) -> Result<()> {
        let line = std::mem::take(&mut self.begun);
        let start = self.position - line.len() as u64;
        let bytes = self.text(without_cr(&line), start)?.len() as u32;
        let block = texts.append_block(Buffer::from(line));
        self.append_view(texts, block, 0..bytes)
    }

    fn append_view(
        &self,
        texts: &mut StringViewBuilder,
        block: u32,
        bytes: Range<u32>,
    ) -> Result<()> {
        texts
            .try_append_view(block, bytes.start, bytes.end - bytes.start)
            .map_err(|e| IoError::corrupt(&self.path, super::FORMAT, e))
    }

    /// Takes up to so many whole lines of the window. Keeps the beginning of a line that does not end in it.
    fn take(&mut self, texts: &mut StringViewBuilder, most: usize) -> Result<usize> {
        let mut ends = Vec::new();
        let mut end = 0;
        for at in memchr::memchr_iter(b'\n', &self.window).take(most) {
            ends.push(at);
            end = at + 1;
        }
        let whole = self.window.split_to(end);
        self.text(&whole, self.position)?;
        let block = texts.append_block(Buffer::from(whole.clone()));
        let mut start = 0;
        for &end in &ends {
            let line = without_cr(&whole[start..end]);
            self.check_length(line.len(), self.position + start as u64)?;
            let start_in_block = start as u32;
            self.append_view(
                texts,
                block,
                start_in_block..start_in_block + line.len() as u32,
            )?;
            start = end + 1;
        }
        self.position += whole.len() as u64;
        if ends.len() < most {
            self.check_length(self.window.len(), self.position)?;
            let window = std::mem::take(&mut self.window);
            self.begin(&window);
            self.position += window.len() as u64;
        }
        Ok(ends.len())
    }

    fn text<'a>(&self, bytes: &'a [u8], start: u64) -> Result<&'a str> {
        std::str::from_utf8(bytes).map_err(|error| {
            let at = start + error.valid_up_to() as u64;
            text::not_utf8(&self.file, at, LineEnd::Newline).unwrap_or_else(|e| e)
        })
    }

    /// Refuses a line that begins at a position, if it is too long.
    fn check_length(&self, bytes: usize, start: u64) -> Result<()> {
        if bytes <= RowLimit::most_bytes(self.max_row) {
            return Ok(());
        }
        Err(text::long_row(&self.file, start, Rule::Lines, self.max_row))
    }
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}
