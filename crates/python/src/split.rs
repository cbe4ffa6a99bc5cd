//! The shim of `Split`: a part of a file, which one task reads.

use std::borrow::Borrow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use exoshuffle_io::shown;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::arrow_stream::{import, stream_error};
use crate::errors::io_error;
use crate::pickle::{reduced, Reduced};

/// See `exoshuffle_io::Split`.
#[pyclass(frozen, eq, hash, from_py_object, module = "exoshuffle._native")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Split(Arc<exoshuffle_io::Split>);

impl From<exoshuffle_io::Split> for Split {
    fn from(split: exoshuffle_io::Split) -> Self {
        Self(Arc::new(split))
    }
}

impl Borrow<exoshuffle_io::Split> for Split {
    fn borrow(&self) -> &exoshuffle_io::Split {
        &self.0
    }
}

#[pymethods]
impl Split {
    #[classmethod]
    fn from_bytes(_: &Bound<'_, PyType>, state: &[u8]) -> PyResult<Self> {
        let split = exoshuffle_io::Split::from_bytes(state).map_err(io_error)?;
        Ok(split.into())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduced::<Self>(py, self.0.to_bytes())
    }

    #[getter]
    fn file(&self) -> String {
        shown(&self.0.path.to_string_lossy()).into_owned()
    }

    #[getter]
    fn file_index(&self) -> u64 {
        self.0.file_index
    }

    #[getter]
    fn first_row(&self) -> u64 {
        self.0.first_row()
    }

    #[getter]
    fn end(&self) -> u64 {
        self.0.end
    }

    #[getter]
    fn rows(&self) -> Option<u64> {
        self.0.rows
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.0.bytes
    }

    #[getter]
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn beginning(&self, num_bytes: u64) -> Self {
        self.0.beginning(num_bytes).into()
    }

    fn picked(&self, py: Python<'_>, masks: &Bound<'_, PyAny>) -> PyResult<Self> {
        let batches = import(masks)?;
        py.detach(|| {
            let mut found = Vec::new();
            for batch in batches {
                let batch = batch.map_err(|error| stream_error(&error))?;
                found.extend(batch.column(0).as_boolean_opt().cloned());
            }
            Ok(self.0.picked(&found).into())
        })
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<Split: {}>", self.0)
    }
}
