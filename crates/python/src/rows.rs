//! Rows on their way out, from slices, files or streams: to files, to an Arrow IPC stream, or to another library.

use std::os::fd::{BorrowedFd, RawFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatchReader;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamReader;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use exoshuffle_io::{PartFile, PartWriter, PartitionedWriter, PendingParts};
use exoshuffle_kernels::cast_to_user_schema;
use exoshuffle_kernels::rows::BATCH_BYTES;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::arrow_stream::{export, import, stream_error, Batches, Failure};
use crate::buffers::ByteView;
use crate::columns::column_index;
use crate::errors::{arrow_error, io_error, RowError};
use crate::ipc::{schema_from_ipc, IpcStream, IpcStreams};
use crate::read_options::ReadOptions;
use crate::row_source::RowSource;
use crate::split::Split;
use crate::write_options::WriteOptions;

/// Bytes of rows in each batch of a stream.
const STREAM_BYTES: usize = 4 * BATCH_BYTES;

/// Rows that wait for their destination.
#[pyclass(frozen)]
pub struct Rows {
    source: RowSource,
    /// Their schema, with types as declared.
    schema: SchemaRef,
    failure: Failure,
}

impl Rows {
    /// Makes rows of this schema.
    pub fn new(source: RowSource, schema: SchemaRef) -> Self {
        let failure = Failure::default();
        Self {
            source,
            schema,
            failure,
        }
    }

    /// Returns the batches with the declared types instead of views and plain values; see `RowSource::plain_batches`.
    fn declared(&self, bytes: usize) -> Result<Batches, RowError> {
        let schema = Arc::clone(&self.schema);
        let batches = self.source.plain_batches(bytes)?;
        Ok(Box::new(batches.map(move |batch| {
            cast_to_user_schema(&schema, &batch?).map_err(RowError::Kernel)
        })))
    }
}

impl Rows {
    fn write_all(&self, mut writer: PartWriter) -> PyResult<PendingParts> {
        for batch in self.source.batches()? {
            writer.write(batch?).map_err(io_error)?;
        }
        writer.end().map_err(io_error)
    }
}

#[pymethods]
impl Rows {
    /// Returns the rows of splits, in their order: all columns, or only these in this order.
    #[staticmethod]
    #[pyo3(signature = (read_options, schema, splits, columns=None))]
    fn scan(
        read_options: ReadOptions,
        schema: &[u8],
        splits: Vec<Split>,
        columns: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let schema = schema_from_ipc(schema)?;
        let index = |name: &String| column_index(&schema, name);
        let columns: Option<Vec<usize>> = columns
            .map(|names| names.iter().map(index).collect())
            .transpose()?;
        let wanted = match &columns {
            Some(columns) => Arc::new(schema.project(columns).map_err(arrow_error)?),
            None => Arc::clone(&schema),
        };
        let source = RowSource::Splits {
            options: read_options,
            splits,
            schema,
            columns,
        };
        Ok(Self::new(source, wanted))
    }

    /// Returns the rows of anything with `__arrow_c_stream__`; they can be taken out once.
    #[staticmethod]
    fn from_batches(batches: &Bound<'_, PyAny>) -> PyResult<Self> {
        let reader = import(batches)?;
        let schema = reader.schema();
        Ok(Self::new(
            RowSource::Stream(Mutex::new(Some(reader))),
            schema,
        ))
    }

    /// Returns the rows of an Arrow IPC stream in a buffer, which is kept, not copied.
    #[staticmethod]
    fn from_ipc(buffer: &Bound<'_, PyAny>) -> PyResult<Self> {
        let stream = Buffer::from(Bytes::from_owner(ByteView::new(buffer)?));
        let reader = StreamReader::try_new(stream.as_slice(), None);
        let schema = reader.map_err(|error| stream_error(&error))?.schema();
        Ok(Self::new(RowSource::Ipc(stream), schema))
    }

    /// Implements Arrow's protocol: a stream of all rows with the declared types, made batch after batch as they are
    /// asked for.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // Producers are free not to grant this wish.
        let _ = requested_schema;
        let batches = py.detach(|| self.declared(BATCH_BYTES))?;
        export(py, Arc::clone(&self.schema), batches, self.failure.clone())
    }

    /// Raises the error that has ended a stream of the rows, if there is one, once.
    fn raise_failure(&self) -> PyResult<()> {
        self.failure
            .take()
            .map_or(Ok(()), |error| Err(error.into()))
    }

    /// Writes part files into `directory`; the last one may not be on disk yet.
    fn write_files(
        &self,
        py: Python<'_>,
        directory: PathBuf,
        partition: usize,
        options: WriteOptions,
    ) -> PyResult<PendingFiles> {
        let files = py.detach(|| {
            let written = exoshuffle_io::WriteOptions::clone(&options.0);
            if let Some(by) = written.partition_by.clone() {
                let made = PartitionedWriter::new(&directory, partition, &self.schema, written, by);
                let mut writer = made.map_err(io_error)?;
                for batch in self.source.batches()? {
                    writer.write(&batch?).map_err(io_error)?;
                }
                return writer.end().map_err(io_error);
            }
            let schema = Arc::clone(&self.schema);
            let writer = PartWriter::new(&directory, partition, schema, written);
            self.write_all(writer.map_err(io_error)?)
        })?;
        Ok(PendingFiles(Mutex::new(Some(files))))
    }

    /// Writes to an open file, which is not closed, as the only file.
    fn write_stream(
        &self,
        py: Python<'_>,
        descriptor: RawFd,
        options: WriteOptions,
    ) -> PyResult<PendingFiles> {
        let files = py.detach(|| {
            // SAFETY: the caller keeps the descriptor open; it is borrowed only to be duplicated.
            let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
            let file = borrowed.try_clone_to_owned()?;
            let schema = Arc::clone(&self.schema);
            let writer = PartWriter::to_open(
                file.into(),
                schema,
                exoshuffle_io::WriteOptions::clone(&options.0),
            );
            self.write_all(writer.map_err(io_error)?)
        })?;
        Ok(PendingFiles(Mutex::new(Some(files))))
    }

    /// Returns Arrow IPC streams, each of which ends once it has so many bytes; at least one.
    fn to_ipc_streams(&self, py: Python<'_>, piece_bytes: usize) -> PyResult<IpcStreams> {
        let batches = py.detach(|| self.declared(STREAM_BYTES))?;
        Ok(IpcStreams::of(&self.schema, batches, piece_bytes))
    }

    /// Returns whether rows are read as they are asked for, so that only their end tells how many there are.
    #[getter]
    fn is_stream(&self) -> bool {
        matches!(self.source, RowSource::Stream(_) | RowSource::Splits { .. })
    }

    /// Returns an Arrow IPC stream of all rows. It is made in its block where its size is known before.
    fn to_ipc_stream(&self, py: Python<'_>) -> PyResult<IpcStream> {
        py.detach(|| {
            let most = |alignment| {
                let declared = &self.schema;
                self.source
                    .declared_bytes(declared, STREAM_BYTES, alignment)
            };
            IpcStream::of(&self.schema, self.declared(STREAM_BYTES)?, most)
        })
    }
}

/// The part files of a partition.
#[pyclass(frozen)]
pub struct PendingFiles(Mutex<Option<PendingParts>>);

#[pymethods]
impl PendingFiles {
    /// Waits until all are on disk, and returns their name, rows, bytes and crc32. Works once.
    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let files = files.ok_or_else(|| PyValueError::new_err("the files were waited for"))?;
        let files = py.detach(|| files.wait()).map_err(io_error)?;
        files.iter().map(|file| file_to_dict(py, file)).collect()
    }
}

fn file_to_dict<'py>(py: Python<'py>, file: &PartFile) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", &file.name)?;
    dict.set_item("rows", file.rows)?;
    dict.set_item("bytes", file.bytes)?;
    dict.set_item("crc32", file.crc32)?;
    Ok(dict)
}
