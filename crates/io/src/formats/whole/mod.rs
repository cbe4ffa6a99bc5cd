//! Whole files: each file is a row, with its path and its bytes.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::direct::{known, DirectWriter, RangeReader};
use crate::error::{IoError, Result};
use crate::format::{Encoder, FileFormat, Format, Indivisible, Inspect, Names};
use crate::source::{
    BatchStream, FileInfo, Pick, ReadOptions, Request, Sample, SourceFile, Span, Working,
};
use crate::write::WriteOptions;

/// Whole files, whatever is in them.
pub(crate) const FORMAT: Format = Format::of(&Whole);

const PATH: &str = "path";
const BYTES: &str = "bytes";
/// The memory that a task has for its buffers holds a file of this size, too.
const SMALL_BYTES: u64 = 4 << 20;

struct Whole;

impl FileFormat for Whole {
    fn names(&self) -> &'static Names {
        &Names {
            name: "binary",
            aliases: &[],
            endings: &[],
            title: "whole files",
        }
    }

    fn holds_tables(&self) -> bool {
        false
    }

    fn indivisible(&self) -> Option<&'static Indivisible> {
        Some(&Indivisible {
            reading: "reading the whole file",
            remedy: "leave it out, or select other columns than its bytes",
            copies: 1,
        })
    }

    fn inspect<'a>(&self, _: &'a [PathBuf], _: &'a ReadOptions) -> Result<Inspect<'a>> {
        Ok(Box::new(|_, file| {
            let bytes = file.len();
            // Offsets of binary values have 31 bits.
            if i32::try_from(bytes).is_err() {
                return Err(IoError::LargeFile {
                    path: file.path().to_path_buf(),
                    bytes,
                });
            }
            // The bytes that were read, and the row that is made of them: within 562 MB, a file of 304 MB took 581.
            let working = Working {
                column: Some(BYTES.to_owned()),
                bytes: 2 * bytes,
                row_bytes: bytes,
            };
            Ok(FileInfo {
                rows: Some(1),
                memory_bytes: bytes + file.path().as_os_str().len() as u64,
                working: (bytes > SMALL_BYTES)
                    .then_some(working)
                    .into_iter()
                    .collect(),
                ..FileInfo::of_schema(schema())
            })
        }))
    }

    fn cut(&self, file: &SourceFile, _: &ReadOptions, _: u64) -> Result<Vec<Span>> {
        Ok(vec![Span::of_rows(1, file.memory_bytes)])
    }

    fn open(&self, request: &Request<'_>, _: usize) -> Result<BatchStream> {
        Ok(Box::new(std::iter::once(row(request))))
    }

    fn sample(&self, request: &Request<'_>, pick: Pick) -> Result<Sample> {
        if pick.num_rows == 0 {
            return Ok((RecordBatch::new_empty(request.wanted.clone()), Vec::new()));
        }
        Ok((row(request)?, vec![0]))
    }

    fn check(&self, _: &Schema) -> Result<()> {
        Err(IoError::ReadOnly { format: FORMAT })
    }

    fn create(
        &self,
        _: DirectWriter,
        _: &SchemaRef,
        _: &RecordBatch,
        _: &WriteOptions,
    ) -> Result<Box<dyn Encoder>> {
        Err(IoError::ReadOnly { format: FORMAT })
    }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new(PATH, DataType::Utf8, false),
        Field::new(BYTES, DataType::Binary, false),
    ]))
}

/// Returns the row of a file, with the columns that are asked for. Its bytes are read only where somebody wants them.
fn row(request: &Request<'_>) -> Result<RecordBatch> {
    let all: Vec<usize> = (0..schema().fields().len()).collect();
    let columns = request.projection.unwrap_or(&all);
    let column = |&number: &usize| match number {
        0 => Ok(path(&request.file)),
        _ => bytes(&request.file),
    };
    let arrays = columns.iter().map(column).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    RecordBatch::try_new_with_options(request.wanted.clone(), arrays, &options)
        .map_err(|e| request.corrupt(e))
}

fn path(file: &RangeReader) -> ArrayRef {
    let path = known(file.path()).to_string_lossy();
    Arc::new(StringArray::from_iter_values([path]))
}

fn bytes(file: &RangeReader) -> Result<ArrayRef> {
    let bytes = file.read(0, file.len() as usize)?;
    // The length fits: it was checked when the file was listed, and the file is the same.
    let offsets = OffsetBuffer::new(ScalarBuffer::from(vec![0, bytes.len() as i32]));
    let values = Buffer::from(bytes);
    Ok(Arc::new(BinaryArray::new(offsets, values, None)))
}
