//! Sections of slices as buffers of their own, so that they can be sorted or gathered like slices.

use std::ffi::c_int;

use bytes::Bytes;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::buffers::{fill_view, ByteView};
use crate::errors::kernel_error;

/// A part of a slice, read-only; keeps the slice alive.
#[pyclass(frozen, weakref)]
pub struct Section(Bytes);

#[pymethods]
impl Section {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = &slf.get().0;
        let (pointer, length) = (bytes.as_ptr().cast_mut(), bytes.len());
        // SAFETY: `view` comes from the interpreter and holds a reference to this object, which holds the slice.
        unsafe { fill_view(view, slf.as_any(), pointer, length, true, flags) }
    }
}

/// The sections with this tag, slice by slice, in order.
#[pyfunction]
pub fn sections(slices: Vec<Bound<'_, PyAny>>, tag: u8) -> PyResult<Vec<Section>> {
    let mut found = Vec::new();
    for slice in &slices {
        let slice = Bytes::from_owner(ByteView::new(slice)?);
        let ranges = exoshuffle_kernels::sections(&slice, tag).map_err(kernel_error)?;
        found.extend(ranges.into_iter().map(|range| Section(slice.slice(range))));
    }
    Ok(found)
}
