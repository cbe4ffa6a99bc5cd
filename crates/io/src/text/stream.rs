//! Streams the records of a byte range through a decoder.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use bytes::{Buf, Bytes};

use super::{diagnose, Decode, Dialect};
use crate::direct::{RangeReader, ReadAhead};
use crate::error::{IoError, Result};
use crate::source::{BatchStream, Request};
use crate::Format;

impl Dialect {
    pub(super) fn of(request: &Request<'_>) -> Self {
        let given = request.options.schema.as_ref();
        let is_inferred =
            |name: &str| given.is_none_or(|given| given.field_with_name(name).is_err());
        let fields = request.schema.fields().iter();
        Self {
            inferred: fields.map(|field| is_inferred(field.name())).collect(),
            format: request.split.format,
            delimiter: request.options.csv_delimiter,
            header: request.options.csv_header.clone(),
            schema: request.schema.clone(),
            projection: request.projection.map(<[usize]>::to_vec),
        }
    }
}

pub(crate) fn open(request: &Request<'_>, batch_rows: usize) -> Result<BatchStream> {
    let range = request.split.start..request.split.end;
    let mut records = Records::new(
        request.file.clone(),
        range,
        Dialect::of(request),
        batch_rows,
    )?;
    Ok(Box::new(std::iter::from_fn(move || {
        records.next_batch().transpose()
    })))
}

/// The records of a byte range, which begins at a record.
pub(super) struct Records {
    file: Arc<RangeReader>,
    dialect: Dialect,
    decoder: Box<dyn Decode>,
    windows: ReadAhead,
    window: Bytes,
    /// Position in the file of the next byte for the decoder.
    position: u64,
    /// Position of the batch being decoded.
    batch_start: u64,
    end: u64,
}

impl Records {
    pub(super) fn new(
        file: Arc<RangeReader>,
        range: std::ops::Range<u64>,
        dialect: Dialect,
        batch_rows: usize,
    ) -> Result<Self> {
        let decoder = dialect
            .decoder(batch_rows)
            .map_err(|e| unreadable(&file, dialect.format, &e))?;
        let windows = ReadAhead::new(file.clone(), range.clone(), 1)?;
        let (window, position, batch_start) = (Bytes::new(), range.start, range.start);
        Ok(Self {
            file,
            dialect,
            decoder,
            windows,
            window,
            position,
            batch_start,
            end: range.end,
        })
    }

    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        self.batch_start = self.position;
        loop {
            let at_end = self.window.is_empty() && !self.refill()?;
            let taken = self
                .decoder
                .decode(&self.window)
                .map_err(|e| self.explain(&e))?;
            self.window.advance(taken);
            self.position += taken as u64;
            // A decoder leaves bytes only when the batch is full.
            if at_end || !self.window.is_empty() {
                return self.decoder.flush().map_err(|e| self.explain(&e));
            }
        }
    }

    /// The next window; false at the end of the range.
    fn refill(&mut self) -> Result<bool> {
        match self.windows.next().transpose()? {
            Some(window) => self.window = window,
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Looks for the record and the column at fault, which decoders do not tell in terms of the file.
    fn explain(&self, error: &ArrowError) -> IoError {
        match diagnose::find(&self.file, self.batch_start..self.end, &self.dialect) {
            Ok(Some(found)) => found,
            Ok(None) => unreadable(&self.file, self.dialect.format, error),
            Err(e) => e,
        }
    }
}

fn unreadable(file: &RangeReader, format: Format, error: &ArrowError) -> IoError {
    let path: PathBuf = file.path().to_path_buf();
    IoError::corrupt(&path, format, error)
}
