//! Streams the records of a byte range through a decoder.
//!
//! CSV is scanned before it is decoded, since its parser accepts any text. The parser of JSON lines overlooks some
//! faults, which are looked for in the text that it took. It also takes several lines for a row, and one line for
//! several, so rows are compared with lines.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use bytes::{Buf, Bytes};
use regex::Regex;

use super::careful::Careful;
use super::csv::NO_QUOTE;
use super::encoding::Encoding;
use super::json_scan::JsonScan;
use super::scan::Scan;
use super::Notation;
use super::{diagnose, Decode, Dialect, Nulls, VALUE_BYTES};
use crate::direct::{RangeReader, ReadAhead};
use crate::error::{IoError, Result};
use crate::source::{BatchStream, ReadOptions, Request};
use crate::turns::Turn;

impl Dialect {
    pub(super) fn of(notation: Notation, request: &Request<'_>) -> Result<Self> {
        let options = request.options;
        let given = options.schema.as_ref();
        let is_inferred =
            |name: &str| given.is_none_or(|given| given.field_with_name(name).is_err());
        let fields = request.schema.fields().iter();
        Ok(Self {
            inferred: fields.map(|field| is_inferred(field.name())).collect(),
            notation,
            syntax: options.csv.syntax_of(request.file.path()),
            encoding: match notation {
                Notation::Csv => options.csv.encoding,
                _ => Encoding::Utf8,
            },
            nulls: nulls(options).map_err(|e| request.corrupt(e))?,
            bad_rows: options.bad_rows,
            max_row: options.max_row,
            shared_bytes: options.shared_limit(),
            header: options.csv.header.clone(),
            schema: request.schema.clone(),
            projection: request.projection.map(<[usize]>::to_vec),
        })
    }
}

/// Returns a pattern for nulls, if texts were given that stand for null.
fn nulls(options: &ReadOptions) -> std::result::Result<Option<Nulls>, regex::Error> {
    let values = &options.csv.null_values;
    if values.is_empty() {
        return Ok(None);
    }
    let escaped: Vec<_> = values.iter().map(|value| regex::escape(value)).collect();
    Ok(Some(Nulls {
        texts: Regex::new(&format!(r"\A(?:{})?\z", escaped.join("|")))?,
        quoted_empty: values.iter().any(String::is_empty),
    }))
}

pub(super) fn open(
    notation: Notation,
    request: &Request<'_>,
    batch_rows: usize,
) -> Result<BatchStream> {
    let range = request.split.start..request.split.end;
    batches(
        request.file.clone(),
        range,
        Dialect::of(notation, request)?,
        batch_rows,
    )
}

/// Returns the batches of a range, which begins at a record.
pub(super) fn batches(
    file: Arc<RangeReader>,
    range: Range<u64>,
    dialect: Dialect,
    batch_rows: usize,
) -> Result<BatchStream> {
    if dialect.needs_care() {
        let mut records = Careful::new(file, range, dialect, batch_rows)?;
        let next = move || records.next_batch().transpose();
        return Ok(Box::new(std::iter::from_fn(next)));
    }
    let mut records = Records::new(file, range, dialect, batch_rows)?;
    let next = move || records.next_batch().transpose();
    Ok(Box::new(std::iter::from_fn(next)))
}

/// The records of a byte range, all of which have to be right.
struct Records {
    file: Arc<RangeReader>,
    dialect: Dialect,
    decoder: Box<dyn Decode>,
    check: Check,
    windows: ReadAhead,
    /// The text that the decoder did not take yet, as UTF-8.
    window: Bytes,
    /// Position in the file of the next byte for the decoder.
    position: u64,
    /// Position of the batch being decoded.
    batch_start: u64,
    /// Where the row being decoded began, or a position before it; or in the text that was decoded with its beginning.
    row_start: u64,
    /// The values of JSON up to there.
    values_before: u64,
    end: u64,
    batch_rows: usize,
    /// Of who has a row in hand that there is memory for once only.
    turn: Option<Turn>,
}

/// Takes the place of a decoder that is not needed any more.
struct Nothing;

impl Decode for Nothing {
    fn decode(&mut self, bytes: &[u8]) -> std::result::Result<usize, ArrowError> {
        Ok(bytes.len())
    }

    fn num_rows(&self) -> usize {
        0
    }

    fn flush(&mut self) -> std::result::Result<Option<RecordBatch>, ArrowError> {
        Ok(None)
    }
}

/// Finds text that decoders take for something else.
enum Check {
    Csv(Scan),
    Json { scan: JsonScan, rows: u64 },
}

impl Records {
    fn new(
        file: Arc<RangeReader>,
        range: Range<u64>,
        dialect: Dialect,
        batch_rows: usize,
    ) -> Result<Self> {
        let decoder = dialect
            .decoder(batch_rows)
            .map_err(|e| unreadable(&file, dialect.notation, &e))?;
        let windows = ReadAhead::new(file.clone(), range.clone(), 1)?;
        let check = match dialect.notation {
            Notation::Csv => Check::Csv(Scan::new(dialect.syntax, range.start)),
            _ => Check::Json {
                scan: JsonScan::new(),
                rows: 0,
            },
        };
        Ok(Self {
            file,
            dialect,
            decoder,
            check,
            windows,
            window: Bytes::new(),
            position: range.start,
            batch_start: range.start,
            row_start: range.start,
            values_before: 0,
            end: range.end,
            batch_rows,
            turn: None,
        })
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        self.batch_start = self.position;
        self.turn = None;
        loop {
            let at_end = self.window.is_empty() && !self.refill()?;
            let before = self.decoder.num_rows();
            let taken = self
                .decoder
                .decode(&self.window[..self.num_given()])
                .map_err(|e| self.explain(&e))?;
            let taken = self.window.split_to(taken);
            self.position += self.dialect.encoding.encoded_len(&taken) as u64;
            if let Check::Json { scan, .. } = &mut self.check {
                scan.add(&taken);
            }
            let is_whole = self.decoder.num_rows() > before;
            if is_whole {
                (self.row_start, self.values_before) = (self.position, self.num_values());
            } else if self.row_bytes() > self.dialect.max_row_bytes() as u64 {
                return Err(self.too_long());
            } else if self.row_bytes() > self.dialect.shared_bytes {
                self.turn = Some(self.turn.take().unwrap_or_else(Turn::take));
            }
            // A batch that has a large row is handed on at once. The range may end behind the row.
            if (is_whole || at_end) && self.turn.is_some() {
                let batch = self.flush()?;
                return self.replace_decoder().map(|()| batch);
            }
            // While no row is large, a decoder leaves bytes only when the batch is full.
            if at_end || self.turn.is_none() && !self.window.is_empty() {
                return self.flush();
            }
        }
    }

    /// The size of the row being decoded, for which the memory of its values counts as text.
    fn row_bytes(&self) -> u64 {
        let values = self.num_values() - self.values_before;
        self.position - self.row_start + VALUE_BYTES * values
    }

    fn num_values(&self) -> u64 {
        match &self.check {
            Check::Csv(_) => 0,
            Check::Json { scan, .. } => scan.num_values(),
        }
    }

    /// Returns how many bytes of the window go to the decoder. While it has a large row, that is up to the end of a line.
    /// Why: a decoder gives no rows while it has a part of another.
    fn num_given(&self) -> usize {
        let end_of_line = || memchr::memchr2(b'\n', b'\r', &self.window).map(|at| at + 1);
        let wanted = self.turn.as_ref().and_then(|_| end_of_line());
        wanted.unwrap_or(self.window.len())
    }

    /// A decoder keeps the memory of its largest row.
    fn replace_decoder(&mut self) -> Result<()> {
        self.decoder = self
            .dialect
            .decoder(self.batch_rows)
            .map_err(|e| unreadable(&self.file, self.dialect.notation, &e))?;
        Ok(())
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>> {
        let batch = self.decoder.flush().map_err(|e| self.explain(&e))?;
        if let Check::Json { scan, rows } = &mut self.check {
            *rows += batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
            if scan.is_bad() || *rows != scan.filled_lines() {
                return Err(self.explain(&self.dialect.notation.other_rows()));
            }
        }
        Ok(batch)
    }

    /// Reads the next window, and returns false at the end of the range.
    fn refill(&mut self) -> Result<bool> {
        let window = self.windows.next().transpose()?;
        let window = window.unwrap_or_default();
        if let Check::Csv(scan) = &mut self.check {
            let scanned = match window.is_empty() {
                true => scan.finish(),
                false => scan.skip(&window),
            };
            if let Err(fault) = scanned {
                return Err(diagnose::fault_error(&self.file, fault)?);
            }
            self.decoder.expect_empty(scan.take_empty());
            self.refuse_no_quote(&window)?;
        }
        self.window = match self.dialect.encoding.decode(&window) {
            std::borrow::Cow::Owned(decoded) => decoded.into(),
            std::borrow::Cow::Borrowed(_) => window,
        };
        Ok(self.window.has_remaining())
    }

    /// Refuses the byte that the parser has in place of a quote where nothing is one; no valid text has it.
    fn refuse_no_quote(&self, window: &[u8]) -> Result<()> {
        if self.dialect.syntax.quote.is_some() || self.dialect.encoding != Encoding::Utf8 {
            return Ok(());
        }
        match memchr::memchr(NO_QUOTE, window) {
            Some(at) => Err(diagnose::not_utf8(
                &self.file,
                self.position + at as u64,
                self.dialect.notation.line_end(),
            )?),
            None => Ok(()),
        }
    }

    /// Returns the error of a row that has not ended when it should have.
    fn too_long(&mut self) -> IoError {
        // The decoder holds most of the row.
        self.decoder = Box::new(Nothing);
        if self.position - self.row_start <= self.dialect.max_row_bytes() as u64 {
            // Looking for another fault would decode it once more.
            let start = diagnose::start_of_line(&self.file, self.batch_start, self.row_start);
            return start.map_or_else(|e| e, |start| self.dialect.long_row(&self.file, start));
        }
        match diagnose::find(&self.file, self.batch_start..self.end, &self.dialect) {
            Ok(Some(found)) => found,
            Ok(None) => self.dialect.long_row(&self.file, self.row_start),
            Err(error) => error,
        }
    }

    /// Looks for the record and the column at fault, which decoders do not name in terms of the file.
    fn explain(&self, error: &ArrowError) -> IoError {
        match diagnose::find(&self.file, self.batch_start..self.end, &self.dialect) {
            Ok(Some(found)) => found,
            Ok(None) => unreadable(&self.file, self.dialect.notation, error),
            Err(e) => e,
        }
    }
}

pub(super) fn unreadable(file: &RangeReader, notation: Notation, error: &ArrowError) -> IoError {
    let path: PathBuf = file.path().to_path_buf();
    IoError::corrupt(&path, notation.format(), error)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::io::Write as _;

    use arrow_schema::{DataType, Field, Schema};

    use super::super::Notation;
    use super::*;
    use crate::source::{BadRows, Header, Syntax};

    /// More rows than a window of the file has.
    const BATCH_ROWS: usize = 1 << 20;

    fn rows_of(notation: Notation, text: &str) -> Vec<usize> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let read = Arc::new(RangeReader::open(file.path()).unwrap());
        let field = |name: &str| Field::new(name, DataType::Utf8, true);
        let dialect = Dialect {
            notation,
            syntax: Syntax::default(),
            encoding: Encoding::Utf8,
            nulls: None,
            bad_rows: BadRows::Raise,
            max_row: None,
            shared_bytes: 1 << 20,
            header: Header::Line,
            schema: Arc::new(Schema::new(vec![field("a"), field("b")])),
            inferred: vec![false; 2],
            projection: None,
        };
        let batches = batches(read, 0..text.len() as u64, dialect, BATCH_ROWS).unwrap();
        batches.map(|batch| batch.unwrap().num_rows()).collect()
    }

    #[test]
    fn a_batch_ends_with_a_large_row() {
        let large = "y".repeat(9 << 20);
        for end in ["\n", "\r\n", "\r"] {
            let (mut csv, mut json) = (String::new(), String::new());
            for row in 0..400_000 {
                let (text, end) = match row {
                    // A quoted text has line ends, too.
                    1_000 | 200_000 => (format!("{large}\n{row}"), end),
                    _ => (format!("text {row}"), end),
                };
                write!(csv, "{row},\"{text}\"{end}").unwrap();
                let text = text.replace('\n', "");
                writeln!(json, "{{\"a\": \"{row}\", \"b\": \"{text}\"}}").unwrap();
            }
            assert_eq!(rows_of(Notation::Csv, &csv), [1_001, 199_000, 199_999]);
            // This decoder counts a row when the row begins.
            assert_eq!(
                rows_of(Notation::JsonLines, &json),
                [1_002, 199_000, 199_998]
            );
        }
    }
}
