//! Batches of a byte range of text whose rows need a look one by one. Some lines may be left out: comments, and rows
//! that cannot be read. In CSV of one column, an empty line is a row, which the decoder skips.
//!
//! Whether a row can be read depends on all its values, not only on those that are asked for. So the same rows are left
//! out whatever columns a program needs, by every task and every attempt.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{StringBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::ArrowError;
use arrow_select::concat::concat_batches;

use super::diagnose::{describe, fault_error, fault_reason, not_utf8};
use super::encoding::Encoding;
use super::json_scan::JsonScan;
use super::line_starts::behind_line_end;
use super::lines::{LineEnd, Lines};
use super::records::{Piece, RecordReader};
use super::run::{Divided, Run};
use super::scan::{ends_line, Fault};
use super::stream::unreadable;
use super::Notation;
use super::{csv, lines, Decode, Dialect, VALUE_BYTES};
use crate::direct::{RangeReader, ReadAhead};
use crate::error::{IoError, Result};
use crate::source::{BadRows, Request};
use crate::turns::Turn;

/// Rows that are decoded together where bad ones are looked for.
const SEARCHED_ROWS: usize = 1024;
/// The most bytes of records that are decoded together; a longer record is decoded alone.
const RUN_BYTES: usize = 4 << 20;
/// Copies of a large row beside those of a plain reader: the run. The reader of records lets go of it before it is decoded.
const MORE_COPIES: u64 = 1;

pub(super) struct Careful {
    file: Arc<RangeReader>,
    reader: RecordReader,
    /// The dialect of all columns, where rows may be left out.
    dialect: Dialect,
    projection: Option<Vec<usize>>,
    batch_rows: usize,
    decoder: Box<dyn Decode>,
    run: Run,
    left_out: LeftOut,
    /// Of who has a row in hand that there is memory for once only.
    turn: Option<Turn>,
}

/// The rows that were left out.
#[derive(Default)]
struct LeftOut {
    /// Whether anybody wants to know them; otherwise nothing is kept.
    wanted: bool,
    /// Line, reason and text of each row.
    line: UInt64Builder,
    reason: StringBuilder,
    text: StringBuilder,
    lines: Lines,
}

/// Returns the rows of a split that are left out as `line`, `reason` and `text`. Also returns how many lines there are
/// from `from` to the split's end. `line` is counted from `from` on and from 0.
pub(super) fn bad_rows(
    notation: Notation,
    request: &Request<'_>,
    from: u64,
) -> Result<(RecordBatch, u64)> {
    let range = request.split.start..request.split.end;
    let dialect = Dialect::of(notation, request)?;
    let mut records = Careful::new(request.file.clone(), range.clone(), dialect, SEARCHED_ROWS)?;
    records.left_out.wanted = true;
    records.left_out.lines = Lines::ended_by(notation.line_end());
    for window in ReadAhead::new(request.file.clone(), from..range.start, 1)? {
        records.left_out.lines.add(&window?);
    }
    while records.next_batch()?.is_some() {}
    let lines = records.left_out.lines.count();
    let batch = records.left_out.finish();
    Ok((batch.map_err(|e| request.corrupt(e))?, lines))
}

impl Careful {
    pub(super) fn new(
        file: Arc<RangeReader>,
        range: Range<u64>,
        mut dialect: Dialect,
        batch_rows: usize,
    ) -> Result<Self> {
        dialect.max_row = dialect.max_row.map(|row| row.beside(MORE_COPIES));
        let projection = match dialect.bad_rows {
            BadRows::Raise => None,
            BadRows::Skip => dialect.projection.take(),
        };
        let decoder = dialect
            .decoder(batch_rows)
            .map_err(|e| unreadable(&file, dialect.notation, &e))?;
        let range = match dialect.has_one_column() {
            true => behind_line_end(&file, range.start)?.min(range.end)..range.end,
            false => range,
        };
        Ok(Self {
            reader: RecordReader::new(file.clone(), range, dialect.rule(), dialect.max_row_bytes()),
            file,
            batch_rows: dialect.batch_rows(batch_rows),
            dialect,
            projection,
            decoder,
            run: Run::default(),
            left_out: LeftOut::default(),
            turn: None,
        })
    }

    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            self.gather()?;
            if self.run.is_empty() {
                return Ok(None);
            }
            if self.has_large_run() {
                self.reader.shrink();
            }
            let batch = match self.decode_run() {
                Ok(batch) => batch,
                Err(error) if self.dialect.bad_rows == BadRows::Raise => {
                    return Err(self.explain(&error));
                }
                Err(_) => match self.without_bad()? {
                    Some(batch) => batch,
                    None => continue,
                },
            };
            self.let_go_of_large_run();
            return match &self.projection {
                Some(columns) => batch.project(columns).map(Some),
                None => Ok(Some(batch)),
            }
            .map_err(|e| unreadable(&self.file, self.dialect.notation, &e));
        }
    }

    fn has_large_run(&self) -> bool {
        self.run.num_bytes() > 2 * RUN_BYTES
    }

    /// Gives the memory of a large record back: a run keeps that of its largest.
    fn let_go_of_large_run(&mut self) {
        if self.has_large_run() {
            self.run = Run::default();
        }
    }

    /// Reads records up to a batch of them.
    fn gather(&mut self) -> Result<()> {
        self.let_go_of_large_run();
        self.run.clear();
        self.turn = None;
        while self.run.len() < self.batch_rows && self.run.num_bytes() < RUN_BYTES {
            let position = self.reader.position();
            let Some(piece) = self.reader.next()? else {
                return Ok(());
            };
            let counted_bytes = self.dialect.counted_bytes(piece.text());
            if counted_bytes > self.dialect.max_row_bytes() as u64 {
                return Err(self.dialect.long_row(&self.file, position));
            }
            if counted_bytes > self.dialect.shared_bytes {
                self.turn = Some(self.turn.take().unwrap_or_else(Turn::take));
            }
            let line = self.left_out.lines.ended();
            if self.left_out.wanted {
                self.left_out.lines.add(piece.text());
            }
            match piece {
                Piece::Nothing(text) if self.dialect.is_null_row(text) => {
                    let quote = self.dialect.syntax.quote.unwrap_or(csv::NO_QUOTE);
                    self.run.add(&[quote, quote, b'\n'], position, line);
                }
                Piece::Nothing(_) => {}
                Piece::Long => {
                    return Err(self.dialect.long_row(&self.file, position));
                }
                Piece::Record(text) if self.dialect.has_no_quote_byte(text) => {
                    self.run
                        .add(&self.dialect.encoding.decode(text), position, line);
                }
                _ if self.dialect.bad_rows == BadRows::Skip && !self.left_out.wanted => {}
                _ => {
                    let text = piece.text();
                    let fault = piece.fault();
                    if self.dialect.bad_rows == BadRows::Raise {
                        return Err(match fault {
                            Some(fault) => fault_error(&self.file, fault)?,
                            None => {
                                not_utf8(&self.file, position, self.dialect.notation.line_end())?
                            }
                        });
                    }
                    let error = fault_in_line(&self.file, position, fault)?;
                    self.left_out.add(&self.dialect, line, &error, text);
                }
            }
        }
        Ok(())
    }

    /// Decodes the run. After an error the decoder is replaced by a new one. A large record too is a reason: a decoder
    /// keeps the memory of its largest.
    fn decode_run(&mut self) -> std::result::Result<RecordBatch, ArrowError> {
        let decoded = self.run.decode(&self.dialect, self.decoder.as_mut());
        if decoded.is_err() || self.has_large_run() {
            self.decoder = self.dialect.decoder(self.batch_rows)?;
        }
        decoded
    }

    /// Returns the rows of a run that decode, after it failed to decode as a whole; `None` if no row does.
    fn without_bad(&mut self) -> Result<Option<RecordBatch>> {
        let unreadable = |e: ArrowError| unreadable(&self.file, self.dialect.notation, &e);
        let Divided { good, bad } = self.run.divide(&self.dialect).map_err(unreadable)?;
        if self.left_out.wanted {
            let as_read = self.as_read();
            for (number, error) in bad {
                let (record, text) = self.run.record(number);
                let error = describe(&self.file, &as_read, text, 0, &error);
                self.left_out.add(&as_read, record.line, &error, text);
            }
        }
        let Some(first) = good.first() else {
            return Ok(None);
        };
        let all = concat_batches(&first.schema(), &good).map_err(unreadable)?;
        Ok(Some(all))
    }

    /// Returns the dialect of the text in the run.
    fn as_read(&self) -> Dialect {
        Dialect {
            encoding: Encoding::Utf8,
            ..self.dialect.clone()
        }
    }

    /// Returns the error of the first record of the run that does not decode.
    fn explain(&self, error: &ArrowError) -> IoError {
        let as_read = self.as_read();
        for (record, text) in self.run.records() {
            if let Err(error) = as_read.decode(text) {
                let end = self.dialect.notation.line_end();
                return match lines::at(&self.file, record.position, end) {
                    Ok(place) => describe(&self.file, &as_read, text, place.line, &error),
                    Err(error) => error,
                };
            }
        }
        unreadable(&self.file, self.dialect.notation, error)
    }
}

/// Returns the error of a line at a position that is no record. It says where in the line, but not the number of the
/// line. Counting the lines before took 3.5 s for 1,000 such lines in 24 MB.
fn fault_in_line(file: &Arc<RangeReader>, position: u64, fault: Option<Fault>) -> Result<IoError> {
    let (path, line) = (file.path().to_path_buf(), 0);
    let Some(fault) = fault else {
        return Ok(IoError::NotUtf8 { path, line });
    };
    let opened = lines::between(file, position, fault.opened(), LineEnd::Any)?;
    let reason = fault_reason(file, fault, opened, 1)?;
    Ok(IoError::BadRecord { path, line, reason })
}

impl Dialect {
    /// Returns whether rows have to be read one by one.
    pub(super) fn needs_care(&self) -> bool {
        self.bad_rows == BadRows::Skip || self.syntax.comment.is_some() || self.has_one_column()
    }

    fn has_one_column(&self) -> bool {
        self.notation == Notation::Csv && self.schema.fields().len() == 1
    }

    /// Returns whether a line that is no record is a null. Readers of CSV take it so where there is one column.
    fn is_null_row(&self, text: &[u8]) -> bool {
        self.has_one_column() && text.first().is_some_and(|&first| ends_line(first))
    }

    /// Returns the size of a record, for which the memory of its values counts as text. Only records that may be large are
    /// looked at.
    fn counted_bytes(&self, text: &[u8]) -> u64 {
        let bytes = text.len() as u64;
        if self.notation == Notation::Csv || bytes * (1 + VALUE_BYTES) <= self.shared_bytes {
            return bytes;
        }
        let mut scan = JsonScan::new();
        scan.add(text);
        bytes + VALUE_BYTES * scan.num_values()
    }

    /// Returns whether the parser will find no quote where nothing is one.
    fn has_no_quote_byte(&self, text: &[u8]) -> bool {
        self.syntax.quote.is_some()
            || self.encoding != Encoding::Utf8
            || memchr::memchr(csv::NO_QUOTE, text).is_none()
    }
}

impl LeftOut {
    fn add(&mut self, dialect: &Dialect, line: u64, error: &IoError, text: &[u8]) {
        let text = dialect.encoding.decode(text);
        let text = String::from_utf8_lossy(&text);
        self.line.append_value(line);
        self.reason.append_value(error.reason());
        self.text.append_value(text.trim_end_matches(['\r', '\n']));
    }

    fn finish(mut self) -> std::result::Result<RecordBatch, ArrowError> {
        let columns: [(&str, ArrayRef); 3] = [
            ("line", Arc::new(self.line.finish())),
            ("reason", Arc::new(self.reason.finish())),
            ("text", Arc::new(self.text.finish())),
        ];
        RecordBatch::try_from_iter(columns)
    }
}
