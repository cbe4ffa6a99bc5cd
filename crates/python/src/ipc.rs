//! Schemas and tables as Arrow IPC streams: the form in which they cross to Python and between processes.

use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{Schema, SchemaRef};
use exoshuffle_io::ChunkWriter;
use pyo3::prelude::*;

use crate::buffers::ByteViewMut;
use crate::errors::{arrow_error, options_error};
use crate::row_source::Batches;

/// Serialises a schema.
pub fn schema_to_ipc(schema: &Schema) -> PyResult<Vec<u8>> {
    let writer = StreamWriter::try_new(Vec::new(), schema).map_err(arrow_error)?;
    writer.into_inner().map_err(arrow_error)
}

/// Reads what `schema_to_ipc` wrote.
pub fn schema_from_ipc(bytes: &[u8]) -> PyResult<SchemaRef> {
    let reader = StreamReader::try_new(bytes, None).map_err(arrow_error)?;
    Ok(reader.schema())
}

/// An Arrow IPC stream, waiting for the block it goes to.
#[pyclass(frozen)]
pub struct IpcStream(ChunkWriter);

impl IpcStream {
    /// The stream of these batches.
    pub fn of(schema: &Schema, batches: Batches) -> PyResult<Self> {
        let stream = StreamWriter::try_new(ChunkWriter::default(), schema);
        let mut stream = stream.map_err(arrow_error)?;
        for batch in batches {
            stream.write(&batch?).map_err(arrow_error)?;
        }
        stream.into_inner().map(Self).map_err(arrow_error)
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
            let mut out = out.as_mut();
            if out.len() != self.0.len() {
                return Err(options_error(format!(
                    "the block has {} bytes; {} are needed",
                    out.len(),
                    self.0.len()
                )));
            }
            for chunk in self.0.chunks() {
                let (place, rest) = out.split_at_mut(chunk.len());
                place.copy_from_slice(chunk);
                out = rest;
            }
            Ok(())
        })
    }
}
