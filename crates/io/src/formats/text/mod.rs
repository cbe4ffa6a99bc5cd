//! CSV and JSON lines: text files that are cut at record boundaries and parsed record by record. The two formats share
//! a folder, since they differ only in the decoder and in what ends a record.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod blocks;
mod boundary;
mod careful;
mod compressed;
mod csv;
mod csv_values;
mod diagnose;
mod encoding;
mod exact;
mod fields;
mod given;
mod infer_csv;
mod infer_json;
mod inspect;
mod json_scan;
mod json_syntax;
mod jsonl;
mod line_starts;
mod lines;
mod nearest;
mod number;
mod other_delimiter;
mod positions;
mod quoted_empty;
mod records;
mod run;
mod sample;
mod scan;
mod stream;
mod write;
mod write_csv;

pub(crate) use boundary::even_ranges;
pub(crate) use diagnose::{long_row, not_utf8};
pub use encoding::Encoding;
pub(crate) use lines::LineEnd;
pub(crate) use records::Rule;
pub(crate) use sample::sample_stretches;

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use regex::Regex;

use crate::direct::{DirectWriter, RangeReader};
use crate::error::Result;
use crate::format::{Encoder, FileFormat, Format, Inspect, Names};
use crate::source::{
    other_order, BadRows, BatchStream, Header, Limits, Pick, ReadMemory, ReadOptions, Request,
    RowLimit, Sample, SourceFile, Span, Syntax, TextRow,
};
use crate::write::WriteOptions;

/// Comma-separated values with a header line.
pub(crate) const CSV: Format = Format::of(&Notation::Csv);
/// One JSON object per line.
pub(crate) const JSON_LINES: Format = Format::of(&Notation::JsonLines);

/// How records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notation {
    Csv,
    JsonLines,
}

/// Returns the start of the first line that begins after `position`, where LF ends lines.
pub(crate) fn line_after(file: &RangeReader, position: u64) -> Result<u64> {
    line_starts::line_after(file, position, Notation::JsonLines)
}

impl Notation {
    fn format(self) -> Format {
        match self {
            Self::Csv => CSV,
            Self::JsonLines => JSON_LINES,
        }
    }

    /// Returns what ends a line, for those who count lines.
    fn line_end(self) -> LineEnd {
        match self {
            Self::Csv => LineEnd::Any,
            Self::JsonLines => LineEnd::Newline,
        }
    }

    /// Returns why a text is no record, as far as decoders do not find it.
    fn fault(self, record: &[u8]) -> Option<String> {
        match self {
            Self::Csv => None,
            Self::JsonLines => json_syntax::fault(record),
        }
    }

    /// Returns the error for records of which decoders make another number of rows.
    fn other_rows(self) -> ArrowError {
        match self {
            Self::Csv => ArrowError::CsvError("its parser makes other rows of it".to_owned()),
            Self::JsonLines => ArrowError::JsonError(json_syntax::NOT_ONE_OBJECT.to_owned()),
        }
    }
}

impl Notation {
    /// Memory of a large row: what a decoder has, and the column. While one of 100 MB was read and written as Arrow IPC, it
    /// took 2.2 sizes as CSV, and 2.3 as JSON lines. The decoder is dropped before the row is handed on.
    fn row(self) -> TextRow {
        match self {
            Self::Csv => TextRow {
                read_copies: 3,
                kept_copies: 0,
            },
            Self::JsonLines => TextRow {
                read_copies: 3,
                kept_copies: 0,
            },
        }
    }
}

impl FileFormat for Notation {
    fn names(&self) -> &'static Names {
        match self {
            Self::Csv => &Names {
                name: "csv",
                aliases: &[],
                endings: &["csv", "tsv"],
                title: "CSV",
            },
            Self::JsonLines => &Names {
                name: "jsonl",
                aliases: &["json", "ndjson", "jsonlines"],
                endings: &["jsonl", "ndjson", "json"],
                title: "JSON lines",
            },
        }
    }

    fn is_text(&self) -> bool {
        true
    }

    fn starts(&self, start: &[u8]) -> bool {
        // Behind a mark of UTF-8 and blanks, an object; CSV may start in any way.
        let is_before = |byte: &u8| b"\xef\xbb\xbf \t\r\n".contains(byte);
        let first = start.iter().find(|byte| !is_before(byte));
        matches!(self, Self::JsonLines) && first == Some(&b'{')
    }

    fn tells_types(&self) -> bool {
        false
    }

    fn names_values(&self) -> bool {
        matches!(self, Self::JsonLines)
    }

    fn limits(&self, memory: ReadMemory, _: u64) -> Limits {
        Limits::of_text(memory, self.row())
    }

    fn written_copies(&self) -> u64 {
        match self {
            Self::Csv => CSV_COPIES,
            Self::JsonLines => JSON_COPIES,
        }
    }

    fn inspect<'a>(&self, paths: &'a [PathBuf], options: &'a ReadOptions) -> Result<Inspect<'a>> {
        let notation = *self;
        let schemas = inspect::schemas(paths, notation, options)?;
        Ok(Box::new(move |number, file| {
            inspect::inspect(file, notation, &schemas[number], options)
        }))
    }

    fn column_order(&self, all: &Schema, file: &Schema) -> Vec<usize> {
        match self {
            Self::Csv => other_order(all, file),
            Self::JsonLines => Vec::new(),
        }
    }

    fn cut(&self, file: &SourceFile, options: &ReadOptions, target: u64) -> Result<Vec<Span>> {
        let reader = RangeReader::open_unchanged(&file.path, file.stamp)?;
        let ranges = boundary::ranges(&Arc::new(reader), *self, options, target)?;
        Ok(ranges.into_iter().map(Span::of_bytes).collect())
    }

    fn open(&self, request: &Request<'_>, batch_rows: usize) -> Result<BatchStream> {
        stream::open(*self, request, batch_rows)
    }

    fn sample(&self, request: &Request<'_>, pick: Pick) -> Result<Sample> {
        sample::sample(*self, request, pick)
    }

    fn bad_rows(&self, request: &Request<'_>, from: u64) -> Result<(RecordBatch, u64)> {
        careful::bad_rows(*self, request, from)
    }

    fn check(&self, schema: &Schema) -> Result<()> {
        write::check(schema, *self)
    }

    fn create(
        &self,
        sink: DirectWriter,
        schema: &SchemaRef,
        _: &RecordBatch,
        options: &WriteOptions,
    ) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(write::TextFile::create(
            *self, sink, schema, options,
        )?))
    }
}

/// Memory of a large row while it is written, in its sizes. One of 100 MB that was read from plain text took 3.1 and 4.6.
const CSV_COPIES: u64 = 3;
const JSON_COPIES: u64 = 5;
/// Memory of a value of JSON beside its text, by what a byte of text is counted for. The decoder has a place for each, and
/// so have the column and the encoder of what is read. A row of 30 million numbers in 60 MB took 51 bytes for each number
/// while it was written as Parquet.
const VALUE_BYTES: u64 = 16;
/// Cells of a batch: decoders set memory apart for each, whether or not its value comes. With 3,000 columns and one
/// row, a batch of 8,192 rows took 600 MB.
const BATCH_CELLS: usize = 1 << 19;
/// How many rows types are inferred from.
const INFER_ROWS: usize = 10_000;
/// Longer rows say nothing about types, so that looking at them takes little memory.
const INFER_ROW_BYTES: usize = 4 << 20;

/// A format, with everything that matters for reading records.
#[derive(Debug, Clone)]
struct Dialect {
    notation: Notation,
    syntax: Syntax,
    encoding: Encoding,
    /// Texts that are null, if there are others than the empty one.
    nulls: Option<Nulls>,
    bad_rows: BadRows,
    max_row: Option<RowLimit>,
    /// Rows that have more are decoded by one task at a time.
    shared_bytes: u64,
    header: Header,
    schema: SchemaRef,
    /// Which columns of the schema have a type that nobody gave: their values must be exactly the written ones.
    inferred: Vec<bool>,
    projection: Option<Vec<usize>>,
}

/// Texts that stand for null.
#[derive(Debug, Clone)]
struct Nulls {
    /// Matches them, and the empty text.
    texts: Regex,
    /// Whether the empty text in quotes is one of them.
    quoted_empty: bool,
}

/// Describes a CSV record of another width than the first, which has columns of these names.
fn width_differs<'a>(
    found: usize,
    mut names: impl ExactSizeIterator<Item = &'a str>,
    header: &Header,
) -> String {
    let expected = names.len();
    match header {
        Header::Line => {
            let only = names.next().filter(|_| expected == 1);
            let remedy = only.and_then(other_delimiter::remedy).unwrap_or_default();
            format!("values: {found}, but columns in the header: {expected}{remedy}")
        }
        Header::Missing(_) => format!("values: {found}, but columns in the first line: {expected}"),
    }
}

/// Turns bytes into batches, whatever the format.
trait Decode: Send {
    /// Takes bytes until they end or a batch is full, and returns how many. Empty input means the end.
    fn decode(&mut self, bytes: &[u8]) -> std::result::Result<usize, ArrowError>;
    /// Says whether the next bytes may have values that are empty in quotes. Without a call, they may.
    fn expect_empty(&mut self, _: bool) {}
    /// Returns how many rows were taken that are not flushed.
    fn num_rows(&self) -> usize;
    /// Returns the rows taken so far.
    fn flush(&mut self) -> std::result::Result<Option<RecordBatch>, ArrowError>;
}

impl Dialect {
    /// Returns how many rows a batch has where so many are asked for.
    fn batch_rows(&self, asked: usize) -> usize {
        let columns = self.schema.fields().len();
        asked.min(BATCH_CELLS / columns.max(1)).max(1)
    }

    /// The longest row that is kept.
    fn max_row_bytes(&self) -> usize {
        RowLimit::most_bytes(self.max_row)
    }

    fn decoder(&self, batch_rows: usize) -> std::result::Result<Box<dyn Decode>, ArrowError> {
        let batch_rows = self.batch_rows(batch_rows);
        match self.notation {
            Notation::Csv => Ok(Box::new(csv::decoder(self, batch_rows)?)),
            _ => Ok(Box::new(jsonl::decoder(self, batch_rows)?)),
        }
    }

    /// Returns the rule that ends records.
    fn rule(&self) -> Rule {
        match self.notation {
            Notation::Csv => Rule::Csv(self.syntax),
            _ => Rule::Lines,
        }
    }

    /// Decodes one record.
    fn decode(&self, record: &[u8]) -> std::result::Result<RecordBatch, ArrowError> {
        let mut decoder = self.decoder(1)?;
        decode_one(
            self.notation,
            decoder.as_mut(),
            &self.encoding.decode(record),
        )
    }
}

/// Decodes bytes that must be one record.
fn decode_one(
    notation: Notation,
    decoder: &mut dyn Decode,
    record: &[u8],
) -> std::result::Result<RecordBatch, ArrowError> {
    if let Some(fault) = notation.fault(record) {
        return Err(ArrowError::JsonError(fault));
    }
    let taken = decoder.decode(record)?;
    if !record[taken..].trim_ascii().is_empty() {
        return Err(notation.other_rows());
    }
    decoder.decode(&[])?;
    let batch = decoder.flush()?.filter(|batch| batch.num_rows() == 1);
    batch.ok_or_else(|| notation.other_rows())
}
