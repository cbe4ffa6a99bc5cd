//! The memory of a store seen from another process: slices to read, blocks to fill.
//!
//! The process that has the store says where slices and blocks lie, and holds them until they are dropped or released
//! here. The engine sees to that.

use std::ffi::c_int;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::buffers::{fill_view, Lent};

/// See `exoshuffle_store::ArenaView`.
#[pyclass(frozen)]
pub struct ArenaView(exoshuffle_store::ArenaView);

#[pymethods]
impl ArenaView {
    /// Takes over a descriptor from `Store.arena_fd`.
    #[new]
    fn new(fd: RawFd) -> PyResult<Self> {
        if fd < 0 {
            return Err(PyValueError::new_err(format!(
                "{fd} is no descriptor; pass what Store.arena_fd returned"
            )));
        }
        // SAFETY: the descriptor is not -1, and is borrowed only to see whether it is open.
        let own = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()?;
        // The duplicate is close-on-exec, which a descriptor handed to a child is not.
        // SAFETY: the descriptor is open, as the duplicate shows, and the caller has given it away.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
        Ok(Self(exoshuffle_store::ArenaView::open(own)?))
    }

    /// Returns the slice with these pieces, read-only.
    fn slice(&self, py: Python<'_>, pieces: Vec<(u64, u64)>) -> PyResult<MappedSlice> {
        // SAFETY: the engine holds the slice in the other process until it is told that this one is gone.
        let slice = py.detach(|| unsafe { self.0.slice(&pieces) })?;
        Ok(MappedSlice(slice))
    }

    /// Returns the block with these pieces, to be filled.
    fn block(&self, py: Python<'_>, pieces: Vec<(u64, u64)>) -> PyResult<MappedBlock> {
        // SAFETY: the engine holds the block in the other process, and leaves it alone, until it is told that this one is
        // released.
        let block = py.detach(|| unsafe { self.0.block(&pieces) })?;
        Ok(MappedBlock(Lent::new(block)))
    }
}

/// A read-only view of a slice of the other process.
#[pyclass(frozen, weakref)]
pub struct MappedSlice(exoshuffle_store::MappedSlice);

#[pymethods]
impl MappedSlice {
    fn __len__(&self) -> usize {
        self.0.as_slice().len()
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = slf.get().0.as_slice();
        let (pointer, length) = (bytes.as_ptr().cast_mut(), bytes.len());
        // SAFETY: `view` comes from the interpreter and holds a reference to this object, which holds the mapping.
        unsafe { fill_view(view, slf.as_any(), pointer, length, true, flags) }
    }
}

/// A block of the other process being filled: a writable buffer until it is released.
#[pyclass(frozen)]
pub struct MappedBlock(Lent<exoshuffle_store::MappedBlock>);

#[pymethods]
impl MappedBlock {
    /// Unmaps the block, so that the other process may seal it; harmless when repeated.
    fn release(&self) -> PyResult<()> {
        self.0.take().map(drop)
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        // SAFETY: `view` comes from the interpreter, and the memory is owned by this object.
        unsafe { slf.get().0.lend(view, slf.as_any(), flags) }
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.0.returned();
    }
}
