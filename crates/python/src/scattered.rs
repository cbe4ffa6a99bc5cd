//! The shim of `Planned` and `Direct`: the rows of a map, and the layout of the block that they go to.

use std::sync::{Mutex, PoisonError};

use exoshuffle_kernels::rows::{Direct, Placed, Planned};
use pyo3::prelude::*;

use crate::buffers::ByteViewMut;
use crate::errors::{kernel_error, RowError};
use crate::reading::Reading;
use crate::row_source::taken;

/// Rows per batch that are read straight into a block: their columns stay in the second-level cache.
pub const DIRECT_ROWS: usize = 8 * 1024;

/// Splits that wait for their block.
#[pyclass(frozen)]
pub struct Scattered(pub Content);

/// The rows of a map.
pub enum Content {
    /// They were read, and told the layout.
    Read(Planned),
    /// They are read when the block is there.
    Unread(Direct, Reading),
    /// They come as batches when the block is there, until these are taken.
    Coming(Direct, Mutex<Option<PlacedBatches>>),
}

/// Batches with the place of their rows.
pub type PlacedBatches = Box<dyn Iterator<Item = Result<Placed, RowError>> + Send>;

#[pymethods]
impl Scattered {
    /// Returns the slice offsets of the block.
    #[getter]
    fn offsets(&self) -> Vec<u64> {
        let offsets = match &self.0 {
            Content::Read(planned) => planned.slice_offsets(),
            Content::Unread(direct, _) | Content::Coming(direct, _) => direct.slice_offsets(),
        };
        offsets.to_vec()
    }

    /// Returns the bytes of the rows: those of the block without the headers of slices.
    #[getter]
    fn row_bytes(&self) -> u64 {
        match &self.0 {
            Content::Read(planned) => planned.row_bytes(),
            Content::Unread(direct, _) | Content::Coming(direct, _) => direct.row_bytes(),
        }
    }

    /// Returns the bytes of the longest row; `None` if columns lie beside rows.
    fn longest_row(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        match &self.0 {
            Content::Read(planned) => py.detach(|| planned.longest_row()).map_err(kernel_error),
            Content::Unread(direct, _) | Content::Coming(direct, _) => {
                Ok(Some(direct.longest_row()))
            }
        }
    }

    /// Fills the block.
    fn write_into(&self, py: Python<'_>, block: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut out = ByteViewMut::new(block)?;
        let written: Result<(), RowError> = py.detach(|| match &self.0 {
            Content::Read(planned) => Ok(planned.write(out.as_mut())?),
            Content::Unread(direct, reading) => {
                direct.write(reading.batches(DIRECT_ROWS), out.as_mut())
            }
            Content::Coming(direct, batches) => {
                let batches = batches
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take();
                direct.write(batches.ok_or_else(taken)?, out.as_mut())
            }
        });
        Ok(written?)
    }
}
