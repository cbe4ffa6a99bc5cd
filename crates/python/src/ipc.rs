//! Schemas and tables as Arrow IPC streams: the form in which they cross to Python and between processes.

use std::io::{Cursor, Write};
use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_ipc::MetadataVersion;
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use exoshuffle_io::{compacted, ChunkWriter};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow_stream::Batches;
use crate::buffers::ByteViewMut;
use crate::errors::{arrow_error, options_error};

/// Buffers of a stream start at multiples of so many bytes: a cache line, as the format recommends.
const ALIGNMENT: usize = 64;
/// How much longer the description of a batch may be than that of a batch without rows, whose zeros are left out.
const LEFT_OUT_BYTES: usize = 256;
/// The place of a buffer in the description of a batch. Views have a buffer more in batches with rows.
const BUFFER_PLACE_BYTES: usize = 16;

/// Serialises a schema.
pub fn schema_to_ipc(schema: &Schema) -> PyResult<Vec<u8>> {
    let writer = StreamWriter::try_new(Vec::new(), schema).map_err(arrow_error)?;
    writer.into_inner().map_err(arrow_error)
}

/// Serialises a batch.
pub fn batch_to_ipc(batch: &RecordBatch) -> PyResult<Vec<u8>> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).map_err(arrow_error)?;
    writer.write(batch).map_err(arrow_error)?;
    writer.into_inner().map_err(arrow_error)
}

/// Reads the first batch of a stream.
pub fn batch_from_ipc(bytes: &[u8]) -> PyResult<RecordBatch> {
    let mut reader = StreamReader::try_new(bytes, None).map_err(arrow_error)?;
    let schema = reader.schema();
    let first = reader.next().transpose().map_err(arrow_error)?;
    Ok(first.unwrap_or_else(|| RecordBatch::new_empty(schema)))
}

/// Reads the bytes that `schema_to_ipc` wrote.
pub fn schema_from_ipc(bytes: &[u8]) -> PyResult<SchemaRef> {
    let reader = StreamReader::try_new(bytes, None).map_err(arrow_error)?;
    Ok(reader.schema())
}

/// An Arrow IPC stream, waiting for the block it goes to.
#[pyclass(frozen)]
pub struct IpcStream {
    num_bytes: usize,
    content: Mutex<Option<Content>>,
}

enum Content {
    /// Made when the block is there. `num_bytes` is the most that the stream takes; zeros follow its end.
    Planned(SchemaRef, Batches),
    /// Made before, since only that tells its size.
    Made(ChunkWriter),
}

impl IpcStream {
    /// Returns the stream of these batches. `most` returns the number of batches, and the most bytes of their buffers
    /// if these are padded to multiples of its argument.
    pub fn of(
        schema: &SchemaRef,
        batches: Batches,
        most: impl FnOnce(usize) -> Option<(usize, usize)>,
    ) -> PyResult<Self> {
        let Some((num_batches, bytes)) = most(ALIGNMENT) else {
            return write(ChunkWriter::default(), schema, batches).map(Self::made);
        };
        let content = Content::Planned(SchemaRef::clone(schema), batches);
        Ok(Self {
            num_bytes: around(schema, num_batches).map_err(arrow_error)? + bytes,
            content: Mutex::new(Some(content)),
        })
    }

    fn made(stream: ChunkWriter) -> Self {
        Self {
            num_bytes: stream.len(),
            content: Mutex::new(Some(Content::Made(stream))),
        }
    }
}

/// Rows as Arrow IPC streams, each of which ends once it has so many bytes; at least one stream.
#[pyclass(frozen)]
pub struct IpcStreams {
    schema: SchemaRef,
    piece_bytes: usize,
    state: Mutex<Pieces>,
}

struct Pieces {
    batches: Batches,
    has_begun: bool,
}

impl IpcStreams {
    /// Returns the streams of these batches.
    pub fn of(schema: &SchemaRef, batches: Batches, piece_bytes: usize) -> Self {
        Self {
            schema: SchemaRef::clone(schema),
            piece_bytes,
            state: Mutex::new(Pieces {
                batches,
                has_begun: false,
            }),
        }
    }

    fn next(&self) -> PyResult<Option<IpcStream>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut batch = state.batches.next().transpose()?;
        if batch.is_none() && state.has_begun {
            return Ok(None);
        }
        state.has_begun = true;
        let mut stream = writer(ChunkWriter::default(), &self.schema)?;
        while let Some(rows) = batch {
            stream.write(&compacted(rows)).map_err(arrow_error)?;
            if stream.get_ref().len() >= self.piece_bytes {
                break;
            }
            batch = state.batches.next().transpose()?;
        }
        Ok(Some(IpcStream::made(
            stream.into_inner().map_err(arrow_error)?,
        )))
    }
}

#[pymethods]
impl IpcStreams {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<IpcStream>> {
        py.detach(|| self.next())
    }
}

#[pymethods]
impl IpcStream {
    #[getter]
    fn num_bytes(&self) -> usize {
        self.num_bytes
    }

    /// Fills the block. Works once.
    fn write_into(&self, py: Python<'_>, block: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut out = ByteViewMut::new(block)?;
        py.detach(|| {
            let out = out.as_mut();
            if out.len() != self.num_bytes {
                return Err(options_error(format!(
                    "the block has {} bytes; {} are needed",
                    out.len(),
                    self.num_bytes
                )));
            }
            let content = self
                .content
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            match content.ok_or_else(|| PyValueError::new_err("the stream was written"))? {
                Content::Planned(schema, batches) => {
                    let written = write(Cursor::new(&mut *out), &schema, batches)?;
                    let end = written.position() as usize;
                    out[end..].fill(0);
                }
                Content::Made(made) => copy(&made, out),
            }
            Ok(())
        })
    }
}

/// Returns the bytes that a stream takes beside the buffers of its batches.
fn around(schema: &Schema, num_batches: usize) -> Result<usize, ArrowError> {
    let batch = RecordBatch::new_empty(SchemaRef::new(schema.clone()));
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), schema, options()?)?;
    let before = writer.get_ref().len();
    writer.write(&batch)?;
    let empty = writer.get_ref().len() - before;
    let fields = schema.fields().iter();
    let views = fields
        .filter(|field| matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView));
    let left_out = LEFT_OUT_BYTES + views.count() * BUFFER_PLACE_BYTES;
    Ok(writer.into_inner()?.len() - empty + num_batches * (empty + left_out))
}

fn write<W: Write>(out: W, schema: &Schema, batches: Batches) -> PyResult<W> {
    let mut stream = writer(out, schema)?;
    for batch in batches {
        stream.write(&compacted(batch?)).map_err(arrow_error)?;
    }
    stream.into_inner().map_err(arrow_error)
}

fn writer<W: Write>(out: W, schema: &Schema) -> PyResult<StreamWriter<W>> {
    let options = options().map_err(arrow_error)?;
    StreamWriter::try_new_with_options(out, schema, options).map_err(arrow_error)
}

fn options() -> Result<IpcWriteOptions, ArrowError> {
    IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)
}

fn copy(made: &ChunkWriter, mut out: &mut [u8]) {
    for chunk in made.chunks() {
        let (place, rest) = out.split_at_mut(chunk.len());
        place.copy_from_slice(chunk);
        out = rest;
    }
}
