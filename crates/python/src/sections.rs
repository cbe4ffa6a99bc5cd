//! The shim of `CheckedSections`: the opened slices of a partition.

use arrow_buffer::Buffer;
use bytes::Bytes;
use exoshuffle_kernels as kernels;
use exoshuffle_kernels::rows::{CheckedSections, Side};
use pyo3::prelude::*;

use crate::buffers::ByteView;
use crate::errors::check_error;

/// The slices of a partition, which must have a section of every map.
#[pyclass(frozen)]
pub struct Sections(CheckedSections);

#[pymethods]
impl Sections {
    /// Opens the slices of a partition, and keeps them alive. They hold the output of the maps from `first` to before
    /// `end`, or of as many as there are. If `first` is None, they hold that of any maps.
    #[new]
    #[pyo3(signature = (slices, partition=0, first=Some(0), end=None))]
    fn new(
        slices: Vec<Bound<'_, PyAny>>,
        partition: u32,
        first: Option<u32>,
        end: Option<u32>,
    ) -> PyResult<Self> {
        let buffer = |slice| Ok(Buffer::from(Bytes::from_owner(ByteView::new(slice)?)));
        let slices: Vec<Buffer> = slices.iter().map(buffer).collect::<PyResult<_>>()?;
        let sections = kernels::Sections::open(slices, partition, first, end);
        Ok(Self(CheckedSections::new(sections.map_err(check_error)?)))
    }

    /// Returns the number of maps whose output this is.
    fn __len__(&self) -> usize {
        self.0.sections().len()
    }

    /// Returns how many rows the maps counted.
    #[getter]
    fn num_rows(&self) -> u64 {
        self.0.num_rows()
    }

    /// Returns the number of the first map whose output this is; 0 if there is none.
    #[getter]
    fn first_map(&self) -> u32 {
        self.0.sections().first_map().unwrap_or(0)
    }

    /// Returns the fault of the rows that were handed on, or None. For errors on their way through Arrow streams, which
    /// carry text alone.
    #[getter]
    fn failure(&self) -> Option<String> {
        self.0.failure().map(|error| error.to_string())
    }

    /// Raises an error unless all rows, or those of one tag, were handed on and are those that the maps sent.
    #[pyo3(signature = (tag=None))]
    fn check(&self, tag: Option<u8>) -> PyResult<()> {
        self.0.check(tag).map_err(check_error)
    }
}

impl Sections {
    /// Returns the rows of one tag.
    pub fn side(&self, tag: u8) -> Side {
        self.0.side(tag)
    }
}
