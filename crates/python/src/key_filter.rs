//! The shims of filters of keys.

use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_buffer::BooleanBufferBuilder;
use exoshuffle_kernels::{self as kernels, RowLayout, SortKey};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow_stream::{import, stream_error};
use crate::columns::unsortable;
use crate::errors::kernel_error;

/// See `exoshuffle_kernels::key_filter`.
#[pyfunction]
pub fn key_filter<'py>(
    py: Python<'py>,
    keys: &Bound<'py, PyAny>,
    num_bytes: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let keys = import(keys)?;
    let filter = py.detach(|| {
        let (layout, batches) = read(keys)?;
        kernels::key_filter(&layout, &batches, num_bytes).map_err(kernel_error)
    })?;
    Ok(PyBytes::new(py, &filter))
}

/// See `exoshuffle_kernels::key_marks`.
#[pyfunction]
pub fn key_marks<'py>(
    py: Python<'py>,
    keys: &Bound<'py, PyAny>,
    filter: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let keys = import(keys)?;
    let marks = py.detach(|| {
        let (layout, batches) = read(keys)?;
        let mut marks = BooleanBufferBuilder::new(0);
        for batch in &batches {
            let of_batch = kernels::key_marks(&layout, batch, filter).map_err(kernel_error)?;
            marks.append_buffer(&of_batch);
        }
        PyResult::Ok(marks.finish())
    })?;
    Ok(PyBytes::new(py, marks.inner()))
}

/// The batches of a stream, and the layout in which all of their columns are keys.
fn read(keys: RecordBatchStreamReader) -> PyResult<(RowLayout, Vec<RecordBatch>)> {
    let schema = keys.schema();
    let all: Vec<SortKey> = (0..schema.fields().len())
        .map(|column| SortKey {
            column,
            descending: false,
            nulls_first: false,
        })
        .collect();
    let layout = RowLayout::try_new(&schema, &all).map_err(|error| unsortable(&schema, error))?;
    let batches: Result<Vec<_>, _> = keys.collect();
    Ok((layout, batches.map_err(|error| stream_error(&error))?))
}
