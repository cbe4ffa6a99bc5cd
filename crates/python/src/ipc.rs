//! Schemas and tables as Arrow IPC streams: the form in which they cross to Python and between processes.

use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{Schema, SchemaRef};
use pyo3::prelude::*;

use crate::buffers::ByteViewMut;
use crate::errors::{arrow_error, options_error};

/// Serialises a schema.
pub fn schema_to_ipc(schema: &Schema) -> PyResult<Vec<u8>> {
    finish(StreamWriter::try_new(Vec::new(), schema).map_err(arrow_error)?)
}

/// Reads what `schema_to_ipc` wrote.
pub fn schema_from_ipc(bytes: &[u8]) -> PyResult<SchemaRef> {
    let reader = StreamReader::try_new(bytes, None).map_err(arrow_error)?;
    Ok(reader.schema())
}

fn finish(mut writer: StreamWriter<Vec<u8>>) -> PyResult<Vec<u8>> {
    writer.finish().map_err(arrow_error)?;
    writer.into_inner().map_err(arrow_error)
}

/// An Arrow IPC stream, waiting for the block it goes to.
#[pyclass(frozen)]
pub struct IpcStream(Vec<u8>);

impl IpcStream {
    /// The stream that was written.
    pub fn finish(writer: StreamWriter<Vec<u8>>) -> PyResult<Self> {
        finish(writer).map(Self)
    }
}

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
