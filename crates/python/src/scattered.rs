//! The shim of `Planned`: the rows of a map between planning and writing.

use exoshuffle_kernels::rows::Planned;
use pyo3::prelude::*;

use crate::buffers::ByteViewMut;
use crate::errors::kernel_error;

/// A split that has been read and planned, waiting for the block it goes to.
#[pyclass(frozen)]
pub struct Scattered(pub Planned);

#[pymethods]
impl Scattered {
    /// Returns the slice offsets of the block.
    #[getter]
    fn offsets(&self) -> Vec<u64> {
        self.0.slice_offsets().to_vec()
    }

    /// Returns the bytes of the rows: those of the block without the headers of slices.
    #[getter]
    fn row_bytes(&self) -> u64 {
        self.0.row_bytes()
    }

    /// Returns the bytes of the longest row; `None` if columns lie beside rows.
    fn longest_row(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        py.detach(|| self.0.longest_row()).map_err(kernel_error)
    }

    /// Fills the block.
    fn write_into(&self, py: Python<'_>, block: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut out = ByteViewMut::new(block)?;
        py.detach(|| self.0.write(out.as_mut()))
            .map_err(kernel_error)
    }
}
