//! The options of reading files.

use std::sync::Arc;

use exoshuffle_io::{BadRows, GivenOptions, Header};
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::errors::io_error;
use crate::ipc::schema_from_ipc;
use crate::pickle::{reduced, Reduced};

/// See `exoshuffle_io::ReadOptions`.
#[pyclass(frozen, eq, hash, from_py_object, module = "exoshuffle._native")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ReadOptions(pub Arc<exoshuffle_io::ReadOptions>);

#[pymethods]
impl ReadOptions {
    #[new]
    #[pyo3(signature = (
        *, format=None, csv_delimiter=None, csv_quote=None, csv_escape=None, csv_comment=None, csv_names=None,
        csv_skip_rows=0, csv_null_values=None, csv_encoding=None, skip_bad_rows=false, hive=true, schema=None,
        record_bytes=None, key_bytes=None
    ))]
    #[expect(
        clippy::too_many_arguments,
        reason = "each is a named option of Python's"
    )]
    fn new(
        format: Option<String>,
        csv_delimiter: Option<String>,
        csv_quote: Option<String>,
        csv_escape: Option<String>,
        csv_comment: Option<String>,
        csv_names: Option<Vec<String>>,
        csv_skip_rows: u64,
        csv_null_values: Option<Vec<String>>,
        csv_encoding: Option<String>,
        skip_bad_rows: bool,
        hive: bool,
        schema: Option<&[u8]>,
        record_bytes: Option<i128>,
        key_bytes: Option<i128>,
    ) -> PyResult<Self> {
        let given = GivenOptions {
            format,
            csv_delimiter,
            csv_quote,
            csv_escape,
            csv_comment,
            csv_header: csv_names.map_or(Header::Line, Header::Missing),
            csv_skip_rows,
            csv_null_values: csv_null_values.unwrap_or_default(),
            csv_encoding,
            bad_rows: if skip_bad_rows {
                BadRows::Skip
            } else {
                BadRows::Raise
            },
            hive,
            schema: schema.map(schema_from_ipc).transpose()?,
            record_bytes,
            key_bytes,
        };
        Ok(Self(Arc::new(given.checked().map_err(io_error)?)))
    }

    #[classmethod]
    fn from_bytes(_: &Bound<'_, PyType>, state: &[u8]) -> PyResult<Self> {
        let options = exoshuffle_io::ReadOptions::from_bytes(state).map_err(io_error)?;
        Ok(Self(Arc::new(options)))
    }

    fn enough_bytes(&self, row_bytes: u64) -> Option<u64> {
        self.0.max_row.map(|row| row.enough_bytes(row_bytes))
    }

    #[getter]
    fn max_row_bytes(&self) -> Option<u64> {
        self.0.max_row.map(|row| row.row_bytes)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduced::<Self>(py, self.0.to_bytes())
    }

    fn __repr__(&self) -> String {
        format!("<{:?}>", self.0)
    }
}
