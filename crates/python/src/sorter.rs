//! Sorting tables and records: sample, choose boundaries, scatter (map), sort (reduce). One call per step.

use std::sync::Arc;

use arrow_array::{FixedSizeBinaryArray, RecordBatch};
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use exoshuffle_io::{open_split, sample_split, Split};
use exoshuffle_kernels::records::{self, RecordShape};
use exoshuffle_kernels::{
    choose_boundaries, sample, Boundaries, KernelError, Position, RowLayout, Scatter, SortKey,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffers::{ByteView, ByteViewMut};
use crate::errors::{io_error, kernel_error, record_error, schema_error};
use crate::ipc::schema_from_ipc;
use crate::rows::Rows;
use crate::source::{parse_split, ReadConfig};

/// Rows per batch while reading: the columns of a batch of 100-byte rows then fit into a second-level cache.
const BATCH_ROWS: usize = 16 * 1024;

enum What {
    Table(RowLayout),
    Records(RecordShape),
}

/// How to read a source and compare its rows.
#[pyclass(frozen)]
pub struct Sorter {
    what: What,
    schema: SchemaRef,
    config: ReadConfig,
}

#[pymethods]
impl Sorter {
    /// For a table; keys are (column, descending, nulls first).
    #[staticmethod]
    fn table(read_options: &str, schema: &[u8], keys: Vec<(String, bool, bool)>) -> PyResult<Self> {
        let schema = schema_from_ipc(schema)?;
        let keys: Vec<SortKey> = keys
            .iter()
            .map(|key| sort_key(&schema, key))
            .collect::<PyResult<_>>()?;
        let layout =
            RowLayout::try_new(&schema, &keys).map_err(|error| unsortable(&schema, error))?;
        Ok(Self {
            what: What::Table(layout),
            schema,
            config: ReadConfig::parse(read_options)?,
        })
    }

    /// For fixed-length records.
    #[staticmethod]
    fn records(read_options: &str, record_bytes: usize, key_bytes: usize) -> PyResult<Self> {
        let shape = RecordShape::try_new(record_bytes, key_bytes).map_err(record_error)?;
        let schema = exoshuffle_io::record_schema(record_bytes);
        Ok(Self {
            what: What::Records(shape),
            schema,
            config: ReadConfig::parse(read_options)?,
        })
    }

    /// Looks at about `num_rows` rows of each split: (rows seen, their bytes in blocks, the largest).
    fn measure(
        &self,
        py: Python<'_>,
        splits: Vec<String>,
        num_rows: usize,
        seed: u64,
    ) -> PyResult<(u64, u64, u64)> {
        let splits: Vec<Split> = splits
            .iter()
            .map(|split| parse_split(split))
            .collect::<PyResult<_>>()?;
        py.detach(|| {
            let (mut rows, mut bytes, mut largest) = (0, 0, 0);
            for split in &splits {
                let (batch, _) = sample_split(
                    split,
                    &self.schema,
                    &self.config.options,
                    None,
                    num_rows,
                    seed,
                )
                .map_err(io_error)?;
                for row in 0..batch.num_rows() {
                    let row_bytes = self.row_bytes(&batch.slice(row, 1))?;
                    bytes += row_bytes;
                    largest = largest.max(row_bytes);
                }
                rows += batch.num_rows() as u64;
            }
            Ok((rows, bytes, largest))
        })
    }

    /// Key tuples of about `num_rows` rows of split number `index`.
    fn sample<'py>(
        &self,
        py: Python<'py>,
        split: &str,
        index: u32,
        num_rows: usize,
        seed: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let split = parse_split(split)?;
        let sample = py.detach(|| self.sample_keys(&split, index, num_rows, seed))?;
        Ok(PyBytes::new(py, &sample))
    }

    /// R-1 boundaries from samples, serialised.
    fn choose_boundaries<'py>(
        &self,
        py: Python<'py>,
        samples: Vec<Vec<u8>>,
        num_partitions: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let samples: Vec<&[u8]> = samples.iter().map(Vec::as_slice).collect();
        let bytes = match &self.what {
            What::Table(layout) => {
                choose_boundaries(&layout.key_layout(), &samples, num_partitions)
                    .map_err(kernel_error)?
                    .to_bytes()
            }
            What::Records(shape) => records::choose_boundaries(*shape, &samples, num_partitions)
                .map_err(record_error)?
                .to_bytes(),
        };
        Ok(PyBytes::new(py, &bytes))
    }

    /// Reads split number `index` and finds where each row goes.
    fn scatter(
        &self,
        py: Python<'_>,
        split: &str,
        index: u32,
        boundaries: &[u8],
    ) -> PyResult<Scattered> {
        let split = parse_split(split)?;
        let boundaries = boundaries.to_vec();
        py.detach(|| {
            self.plan_scatter(
                &split,
                Position {
                    split: index,
                    row: 0,
                },
                &boundaries,
            )
        })
    }

    /// Sorts the slices of a partition, in order; the slices are kept alive by the result.
    fn sort(&self, py: Python<'_>, slices: Vec<Bound<'_, PyAny>>) -> PyResult<Rows> {
        let views: Vec<ByteView> = slices.iter().map(ByteView::new).collect::<PyResult<_>>()?;
        py.detach(|| match &self.what {
            What::Table(layout) => {
                let buffers = views
                    .into_iter()
                    .map(|view| Buffer::from(Bytes::from_owner(view)))
                    .collect();
                Rows::sorted_table(layout, buffers)
            }
            What::Records(shape) => Ok(Rows::sorted_records(
                *shape,
                Arc::clone(&self.schema),
                views,
            )),
        })
    }
}

impl Sorter {
    /// Bytes that a batch takes in a block.
    fn row_bytes(&self, batch: &RecordBatch) -> PyResult<u64> {
        match &self.what {
            What::Records(shape) => Ok((batch.num_rows() * shape.record_bytes()) as u64),
            What::Table(layout) => {
                let all = choose_boundaries(&layout.key_layout(), &[], 1).map_err(kernel_error)?;
                let batches = std::slice::from_ref(batch);
                let scatter = Scatter::plan(layout, batches, &all, Position { split: 0, row: 0 })
                    .map_err(kernel_error)?;
                Ok(scatter.slice_offsets()[1])
            }
        }
    }

    fn sample_keys(
        &self,
        split: &Split,
        index: u32,
        num_rows: usize,
        seed: u64,
    ) -> PyResult<Vec<u8>> {
        let projection = match &self.what {
            What::Table(layout) => Some(layout.key_columns()),
            What::Records(_) => None,
        };
        let seed = seed.wrapping_add(u64::from(index));
        let (batch, rows) = sample_split(
            split,
            &self.schema,
            &self.config.options,
            projection,
            num_rows,
            seed,
        )
        .map_err(io_error)?;
        match &self.what {
            What::Table(layout) => {
                let positions: Vec<Position> = rows
                    .iter()
                    .map(|&row| Position { split: index, row })
                    .collect();
                sample(&layout.key_layout(), &batch, &positions).map_err(kernel_error)
            }
            What::Records(shape) => {
                let mut blob = Vec::new();
                for (record, &row) in record_bytes(&batch)?
                    .chunks_exact(shape.record_bytes())
                    .zip(&rows)
                {
                    blob.extend(records::sample(
                        *shape,
                        record,
                        Position { split: index, row },
                        &[0],
                    ));
                }
                Ok(blob)
            }
        }
    }

    fn plan_scatter(
        &self,
        split: &Split,
        first: Position,
        boundaries: &[u8],
    ) -> PyResult<Scattered> {
        let stream = open_split(split, &self.schema, &self.config.options, None, BATCH_ROWS)
            .map_err(io_error)?;
        let batches = stream
            .collect::<Result<Vec<RecordBatch>, _>>()
            .map_err(io_error)?;
        match &self.what {
            What::Table(layout) => {
                let boundaries = Boundaries::from_bytes(&layout.key_layout(), boundaries)
                    .map_err(kernel_error)?;
                let scatter =
                    Scatter::plan(layout, &batches, &boundaries, first).map_err(kernel_error)?;
                Ok(Scattered(Planned::Table(scatter)))
            }
            What::Records(shape) => {
                let boundaries =
                    records::Boundaries::from_bytes(*shape, boundaries).map_err(record_error)?;
                let chunks: Vec<&[u8]> =
                    batches.iter().map(record_bytes).collect::<PyResult<_>>()?;
                let scatter =
                    records::Scatter::plan(&chunks, &boundaries, first).map_err(record_error)?;
                Ok(Scattered(Planned::Records(scatter, batches)))
            }
        }
    }
}

enum Planned {
    Table(Scatter),
    /// The records themselves are still in the buffers they were read into.
    Records(records::Scatter, Vec<RecordBatch>),
}

/// A split that has been read and planned, waiting for the block it goes to.
#[pyclass(frozen)]
pub struct Scattered(Planned);

#[pymethods]
impl Scattered {
    /// Slice offsets of the block.
    #[getter]
    fn offsets(&self) -> Vec<u64> {
        match &self.0 {
            Planned::Table(scatter) => scatter.slice_offsets().to_vec(),
            Planned::Records(scatter, _) => scatter.slice_offsets().to_vec(),
        }
    }

    /// Fills the block.
    fn write_into(&self, py: Python<'_>, block: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut out = ByteViewMut::new(block)?;
        py.detach(|| match &self.0 {
            Planned::Table(scatter) => scatter.write(out.as_mut()).map_err(kernel_error),
            Planned::Records(scatter, batches) => {
                let chunks: Vec<&[u8]> =
                    batches.iter().map(record_bytes).collect::<PyResult<_>>()?;
                scatter.write(&chunks, out.as_mut()).map_err(record_error)
            }
        })
    }
}

/// The bytes of a batch of records.
fn record_bytes(batch: &RecordBatch) -> PyResult<&[u8]> {
    let column = batch
        .column(0)
        .as_any()
        .downcast_ref::<FixedSizeBinaryArray>();
    column
        .map(FixedSizeBinaryArray::value_data)
        .ok_or_else(|| schema_error("a batch holds no records".to_owned()))
}

/// The error, with the columns that could be sorted by if the one that was asked for cannot.
fn unsortable(schema: &SchemaRef, error: KernelError) -> PyErr {
    if !matches!(error, KernelError::UnsortableKey { .. }) {
        return kernel_error(error);
    }
    let sortable = |column: &usize| {
        let key = SortKey {
            column: *column,
            descending: false,
            nulls_first: false,
        };
        RowLayout::try_new(schema, &[key]).is_ok()
    };
    let columns = (0..schema.fields().len()).filter(sortable);
    let names: Vec<&str> = columns
        .map(|column| schema.field(column).name().as_str())
        .collect();
    let candidates = if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    };
    schema_error(format!("{error} (sortable here: {candidates})"))
}

fn sort_key(
    schema: &SchemaRef,
    (name, descending, nulls_first): &(String, bool, bool),
) -> PyResult<SortKey> {
    let column = schema.index_of(name).map_err(|_| {
        let names: Vec<&str> = schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        schema_error(format!(
            "there is no column {name:?}; the columns are {}",
            names.join(", ")
        ))
    })?;
    Ok(SortKey {
        column,
        descending: *descending,
        nulls_first: *nulls_first,
    })
}
