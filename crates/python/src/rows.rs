//! Rows on their way out: sorted ones or those of a split as they come, to files or to an Arrow stream.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeBinaryArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use exoshuffle_io::{open_split, PartFile, PartWriter, Split, WriteOptions};
use exoshuffle_kernels::records::{RecordShape, SortedRecords};
use exoshuffle_kernels::{RowLayout, SortedRows};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;

use crate::buffers::{ByteView, ByteViewMut};
use crate::errors::{io_error, kernel_error, options_error, record_error};
use crate::source::{parse_split, ReadConfig};

/// Bytes of rows that are gathered at a time: with the columns made of them, half a second-level cache.
const BATCH_BYTES: usize = 1 << 19;
const MAX_BATCH_ROWS: usize = 8 * 1024;

/// Serialises a schema.
pub fn schema_to_ipc(schema: &Schema) -> PyResult<Vec<u8>> {
    let mut writer = StreamWriter::try_new(Vec::new(), schema).map_err(arrow_error)?;
    writer.finish().map_err(arrow_error)?;
    writer.into_inner().map_err(arrow_error)
}

/// Reads what `schema_to_ipc` wrote.
pub fn schema_from_ipc(bytes: &[u8]) -> PyResult<SchemaRef> {
    let reader = arrow_ipc::reader::StreamReader::try_new(bytes, None).map_err(arrow_error)?;
    Ok(reader.schema())
}

fn arrow_error(error: ArrowError) -> PyErr {
    options_error(format!("Arrow cannot express this: {error}"))
}

enum Rows {
    Table {
        rows: SortedRows,
        schema: SchemaRef,
        step: usize,
    },
    Records {
        shape: RecordShape,
        schema: SchemaRef,
        slices: Vec<ByteView>,
    },
}

/// A sorted partition.
#[pyclass(frozen)]
pub struct Sorted(Rows);

impl Sorted {
    /// Sorts table rows.
    pub fn table(layout: &RowLayout, slices: Vec<Buffer>) -> PyResult<Self> {
        let num_bytes: usize = slices.iter().map(Buffer::len).sum();
        let rows = SortedRows::try_new(layout, slices).map_err(kernel_error)?;
        let mean = (num_bytes / rows.num_rows().max(1)).max(1);
        let step = (BATCH_BYTES / mean).clamp(1, MAX_BATCH_ROWS);
        Ok(Self(Rows::Table {
            rows,
            schema: Arc::clone(layout.schema()),
            step,
        }))
    }

    /// Records are sorted when they are written, since the order refers to the slices.
    pub fn records(shape: RecordShape, schema: SchemaRef, slices: Vec<ByteView>) -> Self {
        Self(Rows::Records {
            shape,
            schema,
            slices,
        })
    }

    /// Calls `sink` with the batches in order; `user_types` asks for the declared types instead of views.
    fn for_each(
        &self,
        user_types: bool,
        mut sink: impl FnMut(RecordBatch) -> PyResult<()>,
    ) -> PyResult<()> {
        match &self.0 {
            Rows::Table { rows, step, .. } => {
                for start in (0..rows.num_rows()).step_by(*step) {
                    let count = (*step).min(rows.num_rows() - start);
                    let mut batch = rows.batch(start, count).map_err(kernel_error)?;
                    if user_types {
                        batch = rows.cast_to_user_schema(&batch).map_err(kernel_error)?;
                    }
                    sink(batch)?;
                }
                Ok(())
            }
            Rows::Records {
                shape,
                schema,
                slices,
            } => {
                let slices: Vec<&[u8]> = slices.iter().map(AsRef::as_ref).collect();
                let sorted = SortedRecords::try_new(*shape, &slices).map_err(record_error)?;
                let width = shape.record_bytes();
                let step = (BATCH_BYTES / width).max(1);
                for start in (0..sorted.len()).step_by(step) {
                    let mut records = vec![0; step.min(sorted.len() - start) * width];
                    sorted.gather(start, &mut records).map_err(record_error)?;
                    sink(record_batch(schema, width, records)?)?;
                }
                Ok(())
            }
        }
    }

    fn user_schema(&self) -> SchemaRef {
        match &self.0 {
            Rows::Table { schema, .. } | Rows::Records { schema, .. } => Arc::clone(schema),
        }
    }
}

fn record_batch(schema: &SchemaRef, width: usize, records: Vec<u8>) -> PyResult<RecordBatch> {
    let width = i32::try_from(width)
        .map_err(|_| options_error(format!("records of {width} bytes are too long")))?;
    let column: ArrayRef =
        Arc::new(FixedSizeBinaryArray::try_new(width, records.into(), None).map_err(arrow_error)?);
    RecordBatch::try_new(Arc::clone(schema), vec![column]).map_err(arrow_error)
}

#[pymethods]
impl Sorted {
    /// Writes part files into `directory`; returns their name, rows, bytes and crc32.
    fn write_files<'py>(
        &self,
        py: Python<'py>,
        directory: PathBuf,
        partition: usize,
        options: &str,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let files = py.detach(|| {
            write_parts(
                &directory,
                partition,
                &self.user_schema(),
                options,
                |sink| self.for_each(false, sink),
            )
        })?;
        files.iter().map(|file| file_to_dict(py, file)).collect()
    }

    /// An Arrow IPC stream of all rows, in memory.
    fn to_ipc_stream(&self, py: Python<'_>) -> PyResult<IpcStream> {
        py.detach(|| collect_stream(&self.user_schema(), |sink| self.for_each(true, sink)))
    }
}

/// The rows of a split, as they come.
#[pyclass(frozen)]
pub struct Scan {
    split: Split,
    schema: SchemaRef,
    config: ReadConfig,
}

impl Scan {
    fn for_each(&self, mut sink: impl FnMut(RecordBatch) -> PyResult<()>) -> PyResult<()> {
        for batch in open_split(
            &self.split,
            &self.schema,
            &self.config.options,
            None,
            MAX_BATCH_ROWS,
        )
        .map_err(io_error)?
        {
            sink(batch.map_err(io_error)?)?;
        }
        Ok(())
    }
}

#[pymethods]
impl Scan {
    #[new]
    fn new(read_options: &str, schema: &[u8], split: &str) -> PyResult<Self> {
        let config = ReadConfig::parse(read_options)?;
        Ok(Self {
            split: parse_split(split)?,
            schema: schema_from_ipc(schema)?,
            config,
        })
    }

    /// See `Sorted.write_files`.
    fn write_files<'py>(
        &self,
        py: Python<'py>,
        directory: PathBuf,
        partition: usize,
        options: &str,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let files = py.detach(|| {
            write_parts(&directory, partition, &self.schema, options, |sink| {
                self.for_each(sink)
            })
        })?;
        files.iter().map(|file| file_to_dict(py, file)).collect()
    }

    /// See `Sorted.to_ipc_stream`.
    fn to_ipc_stream(&self, py: Python<'_>) -> PyResult<IpcStream> {
        py.detach(|| {
            collect_stream(&self.schema, |sink| {
                self.for_each(|batch| sink(cast_batch(&batch, &self.schema)?))
            })
        })
    }
}

/// Options of the writer as they travel between processes: JSON.
fn write_options(text: &str) -> PyResult<WriteOptions> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| options_error(format!("write options are no JSON: {error}")))?;
    let word = |name: &str| {
        value
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let number = |name: &str| value.get(name).and_then(Value::as_u64);
    let mut options = WriteOptions::new(word("format").parse().map_err(io_error)?);
    options.compression = word("compression").parse().map_err(io_error)?;
    options.target_file_bytes = number("target_file_bytes");
    if let Some(bytes) = number("row_group_bytes") {
        options.row_group_bytes = bytes as usize;
    }
    let columns = value.get("dictionary_columns").and_then(Value::as_array);
    options.dictionary_columns = columns.map(|columns| {
        columns
            .iter()
            .map(|column| column.as_bool().unwrap_or_default())
            .collect()
    });
    Ok(options)
}

/// The batch with the types of the schema: readers and kernels hand out strings as views.
fn cast_batch(batch: &RecordBatch, schema: &SchemaRef) -> PyResult<RecordBatch> {
    let pairs = batch.columns().iter().zip(schema.fields());
    let columns = pairs.map(|(column, field)| arrow_cast::cast(column, field.data_type()));
    let columns = columns
        .collect::<Result<Vec<_>, _>>()
        .map_err(arrow_error)?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(arrow_error)
}

type Sink<'a> = dyn FnMut(RecordBatch) -> PyResult<()> + 'a;

fn write_parts(
    directory: &Path,
    partition: usize,
    schema: &SchemaRef,
    options: &str,
    produce: impl FnOnce(&mut Sink<'_>) -> PyResult<()>,
) -> PyResult<Vec<PartFile>> {
    let options = write_options(options)?;
    let mut writer =
        PartWriter::new(directory, partition, Arc::clone(schema), options).map_err(io_error)?;
    produce(&mut |batch| writer.write(&batch).map_err(io_error))?;
    writer.finish().map_err(io_error)
}

fn file_to_dict<'py>(py: Python<'py>, file: &PartFile) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", &file.name)?;
    dict.set_item("rows", file.rows)?;
    dict.set_item("bytes", file.bytes)?;
    dict.set_item("crc32", file.crc32)?;
    Ok(dict)
}

fn collect_stream(
    schema: &SchemaRef,
    produce: impl FnOnce(&mut Sink<'_>) -> PyResult<()>,
) -> PyResult<IpcStream> {
    let mut writer = StreamWriter::try_new(Vec::new(), schema).map_err(arrow_error)?;
    produce(&mut |batch| writer.write(&batch).map_err(arrow_error))?;
    writer.finish().map_err(arrow_error)?;
    Ok(IpcStream(writer.into_inner().map_err(arrow_error)?))
}

/// An Arrow IPC stream, waiting for the block it goes to.
#[pyclass(frozen)]
pub struct IpcStream(Vec<u8>);

#[pymethods]
impl IpcStream {
    #[getter]
    fn num_bytes(&self) -> usize {
        self.0.len()
    }

    /// Fills the block.
    fn write_into(&self, py: Python<'_>, block: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut out = ByteViewMut::new(block)?;
        py.detach(|| {
            let out = out.as_mut();
            if out.len() != self.0.len() {
                return Err(options_error(format!(
                    "the block has {} bytes; {} are needed",
                    out.len(),
                    self.0.len()
                )));
            }
            out.copy_from_slice(&self.0);
            Ok(())
        })
    }
}
