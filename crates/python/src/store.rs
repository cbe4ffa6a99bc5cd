//! The store for the embedded engine: blocks to fill, slices to read, reservations.

use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use exoshuffle_store::{BlockId, BlockMut, Priority, StoreOptions};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::store_error;

/// See `exoshuffle_store::Store`.
#[pyclass(frozen)]
pub struct Store(pub Arc<exoshuffle_store::Store>);

#[pymethods]
impl Store {
    #[new]
    fn new(budget_bytes: u64, spill_dirs: Vec<PathBuf>) -> PyResult<Self> {
        let options = StoreOptions::new(budget_bytes, spill_dirs);
        let store = exoshuffle_store::Store::open(options).map_err(store_error)?;
        Ok(Self(Arc::new(store)))
    }

    /// A writable block with these slice offsets; waits until there is room.
    fn allocate(&self, py: Python<'_>, offsets: Vec<u64>) -> PyResult<Block> {
        let num_slices = offsets.len().saturating_sub(1);
        let block = py
            .detach(|| self.0.allocate(&offsets, Priority::Output))
            .map_err(store_error)?;
        Ok(Block {
            num_slices,
            state: Mutex::new(BlockState {
                block: Some(block),
                num_exports: 0,
            }),
        })
    }

    /// Slices of blocks, restored where they were spilled; waits until there is room.
    fn fetch(&self, py: Python<'_>, wanted: Vec<(u64, usize)>) -> PyResult<Vec<Slice>> {
        let wanted: Vec<_> = wanted
            .into_iter()
            .map(|(id, slice)| (BlockId(id), Some(slice)))
            .collect();
        let slices = py.detach(|| self.0.fetch(&wanted)).map_err(store_error)?;
        Ok(slices.into_iter().map(|slice| Slice { slice }).collect())
    }

    /// Working memory for a task; waits until there is room.
    fn reserve(&self, py: Python<'_>, num_bytes: u64) -> PyResult<Reservation> {
        let reservation = py
            .detach(|| self.0.reserve(num_bytes))
            .map_err(store_error)?;
        Ok(Reservation(Mutex::new(Some(reservation))))
    }

    /// Frees a block; its memory goes with the last slice that views it.
    fn free(&self, py: Python<'_>, block: u64) -> PyResult<()> {
        py.detach(|| self.0.free(BlockId(block)))
            .map_err(store_error)
    }

    /// Counters by name.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.0.stats();
        let dict = PyDict::new(py);
        dict.set_item("budget_bytes", stats.budget_bytes)?;
        dict.set_item("used_blocks_bytes", stats.used_blocks_bytes)?;
        dict.set_item("reserved_bytes", stats.reserved_bytes)?;
        dict.set_item("resident_arena_bytes", stats.resident_arena_bytes)?;
        dict.set_item("peak_bytes", stats.peak_bytes)?;
        dict.set_item("spilled_bytes", stats.spilled_bytes)?;
        dict.set_item("spill_files", stats.spill_files)?;
        dict.set_item("restored_bytes", stats.restored_bytes)?;
        dict.set_item("fallback_bytes", stats.fallback_bytes)?;
        dict.set_item("num_blocks", stats.num_blocks)?;
        dict.set_item("failed_spill_dirs", stats.failed_spill_dirs)?;
        Ok(dict)
    }

    /// Wakes every waiter, ends the threads and frees everything.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }
}

struct BlockState {
    block: Option<BlockMut>,
    num_exports: usize,
}

/// A block being filled: a writable buffer until it is sealed.
#[pyclass(frozen)]
pub struct Block {
    #[pyo3(get)]
    num_slices: usize,
    state: Mutex<BlockState>,
}

impl Block {
    fn state(&self) -> std::sync::MutexGuard<'_, BlockState> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[pymethods]
impl Block {
    /// Makes the block immutable and returns its number.
    fn seal(&self) -> PyResult<u64> {
        let mut state = self.state();
        if state.num_exports > 0 {
            return Err(PyBufferError::new_err(
                "a view of the block is still open; release it before the task returns",
            ));
        }
        let block = state
            .block
            .take()
            .ok_or_else(|| PyValueError::new_err("the block is sealed already"))?;
        Ok(block.seal().0)
    }

    fn __len__(&self) -> usize {
        self.state()
            .block
            .as_mut()
            .map_or(0, |block| block.as_mut_slice().len())
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let mut state = this.state();
        let bytes = state
            .block
            .as_mut()
            .ok_or_else(|| PyBufferError::new_err("the block is sealed; fetch it to read it"))?
            .as_mut_slice();
        let (pointer, length) = (bytes.as_mut_ptr(), bytes.len());
        // SAFETY: `view` comes from the interpreter; the memory stays until the block is sealed or dropped, and sealing is
        // refused while a view is exported; dropping waits for the view, which holds a reference to this object.
        unsafe { fill_view(view, slf.as_any(), pointer, length, false, flags)? };
        state.num_exports += 1;
        Ok(())
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.state().num_exports -= 1;
    }
}

/// A pinned, read-only view of a slice.
#[pyclass(frozen)]
pub struct Slice {
    slice: exoshuffle_store::Slice,
}

#[pymethods]
impl Slice {
    fn __len__(&self) -> usize {
        self.slice.as_slice().len()
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = slf.get().slice.as_slice();
        let (pointer, length) = (bytes.as_ptr().cast_mut(), bytes.len());
        // SAFETY: `view` comes from the interpreter and holds a reference to this object, which pins the memory.
        unsafe { fill_view(view, slf.as_any(), pointer, length, true, flags) }
    }
}

/// Fills `view` with contiguous bytes.
///
/// # Safety
/// `view` must be valid for writing; `pointer` must be valid for `length` bytes as long as `owner` lives.
unsafe fn fill_view(
    view: *mut ffi::Py_buffer,
    owner: &Bound<'_, PyAny>,
    pointer: *mut u8,
    length: usize,
    read_only: bool,
    flags: c_int,
) -> PyResult<()> {
    let length = isize::try_from(length)
        .map_err(|_| PyBufferError::new_err("the block is too large for a buffer"))?;
    // SAFETY: by the contract of this function.
    let code = unsafe {
        ffi::PyBuffer_FillInfo(
            view,
            owner.as_ptr(),
            pointer.cast(),
            length,
            c_int::from(read_only),
            flags,
        )
    };
    if code == 0 {
        Ok(())
    } else {
        Err(PyErr::fetch(owner.py()))
    }
}

/// Working memory of a task.
#[pyclass(frozen)]
pub struct Reservation(Mutex<Option<exoshuffle_store::Reservation>>);

#[pymethods]
impl Reservation {
    /// Gives the memory back; harmless when repeated.
    fn release(&self) {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take();
    }
}
