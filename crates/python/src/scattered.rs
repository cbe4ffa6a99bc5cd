//! The rows of a map between planning and writing: the block is allocated in between.

use std::sync::Arc;

use arrow_array::{Array, FixedSizeBinaryArray, RecordBatch};
use arrow_buffer::Buffer;
use exoshuffle_kernels::records::{self, RecordShape};
use exoshuffle_kernels::Scatter;
use pyo3::prelude::*;

use crate::buffers::ByteViewMut;
use crate::errors::{arrow_error, kernel_error, record_error, schema_error};

/// Where each row goes.
pub enum Planned {
    /// Rows of a table.
    Table(Scatter),
    /// The records themselves are still in the buffers they were read into.
    Records(RecordShape, records::Scatter, Vec<RecordBatch>),
}

impl Planned {
    /// Marks the slices as coming from the input with this tag.
    pub fn tagged(self, tag: u8) -> Self {
        match self {
            Self::Table(scatter) => Self::Table(scatter.tagged(tag)),
            Self::Records(shape, scatter, batches) => {
                Self::Records(shape, scatter.tagged(tag), batches)
            }
        }
    }
}

/// A split that has been read and planned, waiting for the block it goes to.
#[pyclass(frozen)]
pub struct Scattered(pub Planned);

#[pymethods]
impl Scattered {
    /// Returns the slice offsets of the block.
    #[getter]
    fn offsets(&self) -> Vec<u64> {
        match &self.0 {
            Planned::Table(scatter) => scatter.slice_offsets().to_vec(),
            Planned::Records(_, scatter, _) => scatter.slice_offsets().to_vec(),
        }
    }

    /// Returns the bytes of the rows: those of the block without the headers of slices.
    #[getter]
    fn row_bytes(&self) -> u64 {
        match &self.0 {
            Planned::Table(scatter) => scatter.row_bytes(),
            Planned::Records(shape, scatter, _) => {
                (shape.record_bytes() * scatter.records()) as u64
            }
        }
    }

    /// Returns the bytes of the longest of these rows; `None` if columns lie beside rows.
    fn longest_of(&self, rows: Vec<usize>) -> PyResult<Option<u64>> {
        match &self.0 {
            Planned::Table(scatter) => scatter.longest_of(&rows).map_err(kernel_error),
            Planned::Records(shape, ..) => Ok(Some(shape.record_bytes() as u64)),
        }
    }

    /// Fills the block.
    fn write_into(&self, py: Python<'_>, block: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut out = ByteViewMut::new(block)?;
        py.detach(|| match &self.0 {
            Planned::Table(scatter) => scatter.write(out.as_mut()).map_err(kernel_error),
            Planned::Records(shape, scatter, batches) => {
                let chunks = record_chunks(*shape, batches)?;
                scatter.write(&chunks, out.as_mut()).map_err(record_error)
            }
        })
    }
}

/// Returns the bytes of batches of records.
pub fn record_chunks(shape: RecordShape, batches: &[RecordBatch]) -> PyResult<Vec<&[u8]>> {
    let chunks = batches.iter().map(|batch| record_bytes(shape, batch));
    chunks.collect()
}

/// Makes a batch of the records in a buffer.
pub fn record_batch(shape: RecordShape, records: Buffer) -> PyResult<RecordBatch> {
    shape.count(&records).map_err(record_error)?;
    let width = i32::try_from(shape.record_bytes()).unwrap_or(i32::MAX);
    let column = FixedSizeBinaryArray::try_new(width, records, None).map_err(arrow_error)?;
    let schema = exoshuffle_io::record_schema(shape.record_bytes());
    RecordBatch::try_new(schema, vec![Arc::new(column)]).map_err(arrow_error)
}

/// Returns the bytes of a batch of records.
pub fn record_bytes(shape: RecordShape, batch: &RecordBatch) -> PyResult<&[u8]> {
    let column = batch
        .columns()
        .first()
        .and_then(|column| column.as_any().downcast_ref::<FixedSizeBinaryArray>())
        .filter(|column| usize::try_from(column.value_length()) == Ok(shape.record_bytes()))
        .filter(|column| column.null_count() == 0);
    column.map(FixedSizeBinaryArray::value_data).ok_or_else(|| {
        schema_error(format!(
            "a batch holds no records of {} bytes; pass one fixed-size binary column of that width without nulls",
            shape.record_bytes()
        ))
    })
}
