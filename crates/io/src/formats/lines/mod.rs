//! Plain text: each line is a row, in one column.
//!
//! LF or CRLF ends a line. Every line is a row, even an empty one. Text is UTF-8, with or without a byte order mark at
//! its start.

mod read;
mod write;

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::text;
use crate::direct::{DirectWriter, RangeReader};
use crate::error::Result;
use crate::format::{Encoder, FileFormat, Format, Inspect, Names};
use crate::source::{
    BatchStream, FileInfo, Limits, Pick, ReadMemory, ReadOptions, Request, Sample, SourceFile,
    Span, TextRow,
};
use crate::write::WriteOptions;

/// Plain text, line by line.
pub(crate) const FORMAT: Format = Format::of(&Lines);

/// The one column.
const COLUMN: &str = "text";
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A long line has the buffer that it grows in, and the one before. A line of 100 MB took 2.0 sizes.
const ROW: TextRow = TextRow {
    read_copies: 2,
    kept_copies: 0,
};
/// A line of 100 MB took 3.1 sizes while it was read and written.
const WRITTEN_COPIES: u64 = 3;

struct Lines;

impl FileFormat for Lines {
    fn names(&self) -> &'static Names {
        &Names {
            name: "text",
            aliases: &["txt", "lines"],
            endings: &["txt", "text"],
            title: "plain text",
        }
    }

    fn holds_tables(&self) -> bool {
        false
    }

    fn is_text(&self) -> bool {
        true
    }

    fn limits(&self, memory: ReadMemory, _: u64) -> Limits {
        Limits::of_text(memory, ROW)
    }

    fn written_copies(&self) -> u64 {
        WRITTEN_COPIES
    }

    fn inspect<'a>(&self, _: &'a [PathBuf], _: &'a ReadOptions) -> Result<Inspect<'a>> {
        Ok(Box::new(|_, file| {
            let bytes = file.len() - start(file)?;
            Ok(FileInfo {
                rows: (bytes == 0).then_some(0),
                memory_bytes: bytes,
                ..FileInfo::of_schema(schema())
            })
        }))
    }

    fn cut(&self, file: &SourceFile, _: &ReadOptions, target: u64) -> Result<Vec<Span>> {
        let reader = RangeReader::open_unchanged(&file.path, file.stamp)?;
        let ends = |cut| text::line_after(&reader, cut);
        let ranges = text::even_ranges(start(&reader)?..reader.len(), target, ends)?;
        Ok(ranges.into_iter().map(Span::of_bytes).collect())
    }

    fn open(&self, request: &Request<'_>, batch_rows: usize) -> Result<BatchStream> {
        let range = request.split.start..request.split.end;
        read::lines(request, range, batch_rows)
    }

    fn sample(&self, request: &Request<'_>, pick: Pick) -> Result<Sample> {
        text::sample_stretches(request, pick, &|range| {
            read::lines(request, range, read::SAMPLED_ROWS)
        })
    }

    fn check(&self, schema: &Schema) -> Result<()> {
        write::check(schema)
    }

    fn create(
        &self,
        sink: DirectWriter,
        schema: &SchemaRef,
        _: &RecordBatch,
        _: &WriteOptions,
    ) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(write::LineFile::create(sink, schema)?))
    }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(COLUMN, DataType::Utf8, true)]))
}

/// Returns where the first line begins.
fn start(file: &RangeReader) -> Result<u64> {
    let mark = BYTE_ORDER_MARK.len() as u64;
    let is_marked = file.len() >= mark && file.read(0, mark as usize)? == BYTE_ORDER_MARK;
    Ok(if is_marked { mark } else { 0 })
}
