//! Fixed-length records as a table of one fixed-size binary column; the arrays are the file's buffers themselves.

mod write;

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{FixedSizeBinaryArray, RecordBatch};
use arrow_buffer::Buffer;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use bytes::Bytes;

use crate::direct::{DirectWriter, RangeReader, ReadAhead};
use crate::error::{IoError, Result};
use crate::format::{fixed_bits, Encoder, FileFormat, Format, Inspect, Names};
use crate::source::{
    even_pieces, pick_rows, BatchStream, FileInfo, Pick, ReadOptions, Rebatch, Request, Sample,
    SourceFile, Span, Split,
};
use crate::write::WriteOptions;

/// Fixed-length records back to back.
pub(crate) const FORMAT: Format = Format::of(&Records);

struct Records;

impl FileFormat for Records {
    fn names(&self) -> &'static Names {
        &Names {
            name: "records",
            aliases: &[],
            endings: &["records", "dat", "bin"],
            title: "fixed-length records",
        }
    }

    fn holds_tables(&self) -> bool {
        false
    }

    fn holds_records(&self) -> bool {
        true
    }

    /// Refuses folders as columns: a file is its rows, byte by byte, and nothing else.
    fn takes_partitions(&self) -> bool {
        false
    }

    fn inspect<'a>(&self, _: &'a [PathBuf], options: &'a ReadOptions) -> Result<Inspect<'a>> {
        Ok(Box::new(|_, file| inspect(file, options)))
    }

    fn cut(&self, file: &SourceFile, _: &ReadOptions, target: u64) -> Result<Vec<Span>> {
        let rows = file.rows.unwrap_or(0);
        let record_bytes = file.stamp.bytes.checked_div(rows).unwrap_or(1);
        let pieces = even_pieces(rows, file.stamp.bytes, target);
        Ok(pieces
            .map(|(start, end)| Span::of_records(start, end, record_bytes))
            .collect())
    }

    fn first_row(&self, split: &Split) -> u64 {
        match split.rows {
            Some(rows) if rows > 0 => split.start / ((split.end - split.start) / rows),
            _ => split.start,
        }
    }

    fn open(&self, request: &Request<'_>, batch_rows: usize) -> Result<BatchStream> {
        open(request, batch_rows)
    }

    fn sample(&self, request: &Request<'_>, pick: Pick) -> Result<Sample> {
        sample(request, pick)
    }

    fn check(&self, schema: &Schema) -> Result<()> {
        write::check(schema)
    }

    fn least_bits(&self, field: &Field, _: bool) -> u64 {
        fixed_bits(field.data_type())
    }

    fn create(
        &self,
        sink: DirectWriter,
        schema: &SchemaRef,
        _: &RecordBatch,
        _: &WriteOptions,
    ) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(write::RecordFile::create(sink, schema)?))
    }
}

const REGIONS: u64 = 16;
/// Sampled records lie together in so many bytes. Single records of a file that is not in the page cache cost a read
/// each. That was 2 of the 15 seconds that sorting 4 GB took.
const PAGE_BYTES: usize = 4096;

/// The one column of a record table.
const COLUMN: &str = "record";

fn inspect(file: &RangeReader, options: &ReadOptions) -> Result<FileInfo> {
    let record_bytes = record_bytes(options)?;
    let bytes = file.len();
    if !bytes.is_multiple_of(record_bytes as u64) {
        return Err(IoError::PartialRecord {
            path: file.path().to_path_buf(),
            bytes,
            record_bytes,
        });
    }
    Ok(FileInfo {
        rows: Some(bytes / record_bytes as u64),
        memory_bytes: bytes,
        ..FileInfo::of_schema(schema(record_bytes))
    })
}

fn open(request: &Request<'_>, batch_rows: usize) -> Result<BatchStream> {
    let record_bytes = record_bytes(request.options)?;
    let path = request.split.path.clone();
    let projection = request.projection.map(<[usize]>::to_vec);
    let windows = ReadAhead::new(
        request.file.clone(),
        request.split.start..request.split.end,
        record_bytes,
    )?;
    let batches = windows.map(move |window| {
        let table = table(window?, record_bytes, projection.as_deref());
        table.map_err(|e| IoError::corrupt(&path, FORMAT, e))
    });
    Ok(Box::new(Rebatch::new(batches, batch_rows)))
}

fn sample(request: &Request<'_>, pick: Pick) -> Result<(RecordBatch, Vec<u64>)> {
    let record_bytes = record_bytes(request.options)?;
    let (start, end) = (request.split.start, request.split.end);
    let together = (PAGE_BYTES / record_bytes).max(1) as u64;
    let picked = pick_rows((end - start) / record_bytes as u64, pick, REGIONS, together);
    let mut content = Vec::with_capacity(picked.len() * record_bytes);
    for run in picked.chunk_by(|before, row| before + 1 == *row) {
        let offset = start + run[0] * record_bytes as u64;
        let bytes = request.file.read(offset, run.len() * record_bytes)?;
        content.extend_from_slice(&bytes);
    }
    let table = table(content.into(), record_bytes, request.projection);
    Ok((table.map_err(|e| request.corrupt(e))?, picked))
}

fn record_bytes(options: &ReadOptions) -> Result<usize> {
    // The width of a fixed-size binary array is an i32.
    options
        .record_bytes
        .filter(|&n| n > 0 && i32::try_from(n).is_ok())
        .ok_or(IoError::RecordBytesMissing)
}

/// Returns the schema of a table of fixed-length records: one column `record`.
pub fn schema(record_bytes: usize) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(
        COLUMN,
        DataType::FixedSizeBinary(record_bytes as i32),
        false,
    )]))
}

fn table(
    content: Bytes,
    record_bytes: usize,
    projection: Option<&[usize]>,
) -> std::result::Result<RecordBatch, ArrowError> {
    let records = FixedSizeBinaryArray::try_new(record_bytes as i32, Buffer::from(content), None)?;
    let table = RecordBatch::try_new(schema(record_bytes), vec![Arc::new(records)])?;
    projection.map_or_else(|| Ok(table.clone()), |columns| table.project(columns))
}
