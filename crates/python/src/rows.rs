//! Rows on their way out, sorted or as a split has them: to files or to an Arrow stream.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, FixedSizeBinaryArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::SchemaRef;
use exoshuffle_io::{open_split, PartFile, PartWriter, PendingParts, Split};
use exoshuffle_kernels::records::{RecordShape, SortedRecords};
use exoshuffle_kernels::{RowLayout, SortedRows};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::buffers::ByteView;
use crate::errors::{arrow_error, io_error, kernel_error, options_error, record_error};
use crate::ipc::{schema_from_ipc, IpcStream};
use crate::source::{parse_split, ReadConfig};
use crate::write_options::write_options;

/// Bytes of rows that are gathered at a time: with the columns made of them, half a second-level cache.
const BATCH_BYTES: usize = 1 << 19;
const MAX_BATCH_ROWS: usize = 8 * 1024;

type Sink<'a> = dyn FnMut(RecordBatch) -> PyResult<()> + 'a;

/// Where rows come from.
enum RowSource {
    /// A sorted partition of a table, gathered `step` rows at a time.
    Table { rows: SortedRows, step: usize },
    /// A partition of records, sorted when it goes out, since the order refers to the slices.
    Records {
        shape: RecordShape,
        slices: Vec<ByteView>,
    },
    /// A split, as it comes.
    Split { split: Split, config: ReadConfig },
}

/// The rows of an output partition, waiting for where they go.
#[pyclass(frozen)]
pub struct Rows {
    source: RowSource,
    schema: SchemaRef,
}

impl Rows {
    /// Sorts table rows.
    pub fn sorted_table(layout: &RowLayout, slices: Vec<Buffer>) -> PyResult<Self> {
        let num_bytes: usize = slices.iter().map(Buffer::len).sum();
        let rows = SortedRows::try_new(layout, slices).map_err(kernel_error)?;
        let mean = (num_bytes / rows.num_rows().max(1)).max(1);
        let step = (BATCH_BYTES / mean).clamp(1, MAX_BATCH_ROWS);
        Ok(Self {
            source: RowSource::Table { rows, step },
            schema: Arc::clone(layout.schema()),
        })
    }

    /// Records, to be sorted.
    pub fn sorted_records(shape: RecordShape, schema: SchemaRef, slices: Vec<ByteView>) -> Self {
        Self {
            source: RowSource::Records { shape, slices },
            schema,
        }
    }

    /// Calls `sink` with the batches in order, their strings as views.
    fn for_each(&self, sink: &mut Sink<'_>) -> PyResult<()> {
        match &self.source {
            RowSource::Table { rows, step } => gather_rows(rows, *step, sink),
            RowSource::Records { shape, slices } => {
                gather_records(*shape, slices, &self.schema, sink)
            }
            RowSource::Split { split, config } => read_rows(split, config, &self.schema, sink),
        }
    }

    /// A batch of `for_each` with the declared types instead of views.
    fn with_declared_types(&self, batch: RecordBatch) -> PyResult<RecordBatch> {
        match &self.source {
            RowSource::Table { rows, .. } => rows.cast_to_user_schema(&batch).map_err(kernel_error),
            RowSource::Records { .. } => Ok(batch),
            RowSource::Split { .. } => cast_batch(&batch, &self.schema),
        }
    }
}

#[pymethods]
impl Rows {
    /// The rows of a split, in their order.
    #[staticmethod]
    fn scan(read_options: &str, schema: &[u8], split: &str) -> PyResult<Self> {
        Ok(Self {
            source: RowSource::Split {
                config: ReadConfig::parse(read_options)?,
                split: parse_split(split)?,
            },
            schema: schema_from_ipc(schema)?,
        })
    }

    /// Writes part files into `directory`, the last of which may not be on disk yet.
    fn write_files(
        &self,
        py: Python<'_>,
        directory: PathBuf,
        partition: usize,
        options: &str,
    ) -> PyResult<PendingFiles> {
        let files = py.detach(|| {
            let schema = Arc::clone(&self.schema);
            let mut writer =
                PartWriter::new(&directory, partition, schema, write_options(options)?)
                    .map_err(io_error)?;
            self.for_each(&mut |batch| writer.write(&batch).map_err(io_error))?;
            writer.end().map_err(io_error)
        })?;
        Ok(PendingFiles(Mutex::new(Some(files))))
    }

    /// An Arrow IPC stream of all rows, in memory.
    fn to_ipc_stream(&self, py: Python<'_>) -> PyResult<IpcStream> {
        py.detach(|| {
            let mut writer =
                StreamWriter::try_new(Vec::new(), &self.schema).map_err(arrow_error)?;
            self.for_each(&mut |batch| {
                let batch = self.with_declared_types(batch)?;
                writer.write(&batch).map_err(arrow_error)
            })?;
            IpcStream::finish(writer)
        })
    }
}

/// The part files of a partition.
#[pyclass(frozen)]
pub struct PendingFiles(Mutex<Option<PendingParts>>);

#[pymethods]
impl PendingFiles {
    /// Waits until all are on disk; returns their name, rows, bytes and crc32. Works once.
    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let files = files.ok_or_else(|| PyValueError::new_err("the files were waited for"))?;
        let files = py.detach(|| files.wait()).map_err(io_error)?;
        files.iter().map(|file| file_to_dict(py, file)).collect()
    }
}

fn gather_rows(rows: &SortedRows, step: usize, sink: &mut Sink<'_>) -> PyResult<()> {
    for start in (0..rows.num_rows()).step_by(step) {
        let count = step.min(rows.num_rows() - start);
        sink(rows.batch(start, count).map_err(kernel_error)?)?;
    }
    Ok(())
}

fn gather_records(
    shape: RecordShape,
    slices: &[ByteView],
    schema: &SchemaRef,
    sink: &mut Sink<'_>,
) -> PyResult<()> {
    let slices: Vec<&[u8]> = slices.iter().map(AsRef::as_ref).collect();
    let sorted = SortedRecords::try_new(shape, &slices).map_err(record_error)?;
    let width = shape.record_bytes();
    let step = (BATCH_BYTES / width).max(1);
    for start in (0..sorted.len()).step_by(step) {
        let mut records = vec![0; step.min(sorted.len() - start) * width];
        sorted.gather(start, &mut records).map_err(record_error)?;
        sink(record_batch(schema, width, records)?)?;
    }
    Ok(())
}

fn read_rows(
    split: &Split,
    config: &ReadConfig,
    schema: &SchemaRef,
    sink: &mut Sink<'_>,
) -> PyResult<()> {
    let batches =
        open_split(split, schema, &config.options, None, MAX_BATCH_ROWS).map_err(io_error)?;
    for batch in batches {
        sink(batch.map_err(io_error)?)?;
    }
    Ok(())
}

fn record_batch(schema: &SchemaRef, width: usize, records: Vec<u8>) -> PyResult<RecordBatch> {
    let width = i32::try_from(width)
        .map_err(|_| options_error(format!("records of {width} bytes are too long")))?;
    let column: ArrayRef =
        Arc::new(FixedSizeBinaryArray::try_new(width, records.into(), None).map_err(arrow_error)?);
    RecordBatch::try_new(Arc::clone(schema), vec![column]).map_err(arrow_error)
}

/// The batch with the types of the schema.
fn cast_batch(batch: &RecordBatch, schema: &SchemaRef) -> PyResult<RecordBatch> {
    let pairs = batch.columns().iter().zip(schema.fields());
    let columns = pairs.map(|(column, field)| arrow_cast::cast(column, field.data_type()));
    let columns = columns
        .collect::<Result<Vec<_>, _>>()
        .map_err(arrow_error)?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(arrow_error)
}

fn file_to_dict<'py>(py: Python<'py>, file: &PartFile) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", &file.name)?;
    dict.set_item("rows", file.rows)?;
    dict.set_item("bytes", file.bytes)?;
    dict.set_item("crc32", file.crc32)?;
    Ok(dict)
}
