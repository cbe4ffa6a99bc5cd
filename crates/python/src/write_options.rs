//! The options of writing files.

use std::sync::Arc;

use exoshuffle_io::{Format, IpcLayout, PartitionBy};
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::errors::io_error;
use crate::ipc::schema_from_ipc;
use crate::pickle::{reduced, Reduced};

/// See `exoshuffle_io::WriteOptions`.
#[pyclass(frozen, eq, hash, from_py_object, module = "exoshuffle._native")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct WriteOptions(pub Arc<exoshuffle_io::WriteOptions>);

#[pymethods]
impl WriteOptions {
    #[new]
    #[pyo3(signature = (
        format, *, compression="none", target_file_bytes=None, row_group_bytes=None, dictionary_columns=None,
        ipc_stream=false, csv_tabs=false, partition_by=None, max_folders=usize::MAX
    ))]
    #[expect(
        clippy::too_many_arguments,
        reason = "each is a named option of Python's"
    )]
    fn new(
        format: &str,
        compression: &str,
        target_file_bytes: Option<u64>,
        row_group_bytes: Option<usize>,
        dictionary_columns: Option<Vec<bool>>,
        ipc_stream: bool,
        csv_tabs: bool,
        partition_by: Option<Vec<String>>,
        max_folders: usize,
    ) -> PyResult<Self> {
        let usual = exoshuffle_io::WriteOptions::new(format.parse().map_err(io_error)?);
        let folders = |columns| PartitionBy {
            columns,
            max_folders,
        };
        Ok(Self(Arc::new(exoshuffle_io::WriteOptions {
            compression: compression.parse().map_err(io_error)?,
            target_file_bytes,
            row_group_bytes: row_group_bytes.unwrap_or(usual.row_group_bytes),
            dictionary_columns,
            ipc_layout: if ipc_stream {
                IpcLayout::Stream
            } else {
                usual.ipc_layout
            },
            csv_delimiter: if csv_tabs { b'\t' } else { usual.csv_delimiter },
            partition_by: partition_by.map(folders),
            ..usual
        })))
    }

    #[classmethod]
    fn from_bytes(_: &Bound<'_, PyType>, state: &[u8]) -> PyResult<Self> {
        let options = exoshuffle_io::WriteOptions::from_bytes(state).map_err(io_error)?;
        Ok(Self(Arc::new(options)))
    }

    #[getter]
    fn row_copies(&self) -> u64 {
        self.0.format.written_copies()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduced::<Self>(py, self.0.to_bytes())
    }

    fn __repr__(&self) -> String {
        format!("<{:?}>", self.0)
    }
}

/// Raises, before any work is done, if no table with this schema can be written in the format.
#[pyfunction]
pub fn check_writable(schema: &[u8], format: &str) -> PyResult<()> {
    let format: Format = format.parse().map_err(io_error)?;
    exoshuffle_io::check_writable(&*schema_from_ipc(schema)?, format).map_err(io_error)
}
