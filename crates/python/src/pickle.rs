//! Pickling of values that travel as bytes with a version: a classmethod `from_bytes`, and the bytes.

use exoshuffle_io::IoError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::PyTypeInfo;

use crate::errors::io_error;

/// The parts of a pickle: a callable, and the bytes to call it with.
pub type Reduced<'py> = (Bound<'py, PyAny>, (Bound<'py, PyBytes>,));

/// Returns what `__reduce__` of class `T` has to return for a value with these bytes.
pub fn reduced<T: PyTypeInfo>(
    py: Python<'_>,
    state: Result<Vec<u8>, IoError>,
) -> PyResult<Reduced<'_>> {
    let from_bytes = py.get_type::<T>().getattr("from_bytes")?;
    Ok((from_bytes, (PyBytes::new(py, &state.map_err(io_error)?),)))
}
