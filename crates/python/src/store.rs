//! The store for the embedded engine: blocks to fill, slices to read, reservations.

use std::ffi::c_int;
use std::os::fd::{IntoRawFd, RawFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use exoshuffle_store::{BlockId, BlockMut, Codec, Helpless, Interruption, Priority, StoreOptions};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::buffers::{fill_view, Lent};
use crate::errors::{options_error, store_error};

/// See `exoshuffle_store::Store`.
#[pyclass(frozen)]
pub struct Store(pub Arc<exoshuffle_store::Store>);

#[pymethods]
impl Store {
    /// A slice is read in whole pages.
    #[classattr]
    const PAGE_BYTES: u64 = exoshuffle_store::PAGE_BYTES;
    /// Memory comes in whole units.
    #[classattr]
    const UNIT_BYTES: u64 = exoshuffle_store::UNIT_BYTES;
    /// A block ends with an entry for the start of each slice, and one for the end of the last.
    #[classattr]
    const ENTRY_BYTES: u64 = exoshuffle_store::ENTRY_BYTES;

    #[new]
    #[pyo3(signature = (budget_bytes, spill_dirs, disk_full_seconds = 10.0, helpless = None, codec = None))]
    fn new(
        budget_bytes: u64,
        spill_dirs: Vec<PathBuf>,
        disk_full_seconds: f64,
        helpless: Option<Py<PyAny>>,
        codec: Option<&str>,
    ) -> PyResult<Self> {
        let mut options = StoreOptions::new(budget_bytes, spill_dirs);
        options.spill_codec = codec.map(codec_named).transpose()?;
        options.disk_full_timeout =
            Duration::try_from_secs_f64(disk_full_seconds).map_err(|error| {
                options_error(format!(
                    "disk_full_seconds={disk_full_seconds} is no duration ({error}); give seconds from 0"
                ))
            })?;
        options.check_interrupted = check_signals;
        if let Some(asked) = helpless {
            options.helpless = Helpless(Arc::new(move |bytes, quiet| {
                Python::attach(|py| asked.call1(py, (bytes, quiet.as_secs_f64())))?;
                Ok(())
            }));
        }
        let store = exoshuffle_store::Store::open(options).map_err(store_error)?;
        Ok(Self(Arc::new(store)))
    }

    /// Returns the memory that compression of spilled bytes takes beside the budget.
    #[staticmethod]
    fn packing_bytes(codec: Option<&str>, num_dirs: usize) -> PyResult<u64> {
        let mut options = StoreOptions::new(0, vec![PathBuf::new(); num_dirs]);
        options.spill_codec = codec.map(codec_named).transpose()?;
        Ok(options.packing_bytes())
    }

    /// Returns a writable block with these slice offsets; waits until there is room.
    fn allocate(&self, py: Python<'_>, offsets: Vec<u64>) -> PyResult<Block> {
        let num_slices = offsets.len().saturating_sub(1);
        let block = py
            .detach(|| self.0.allocate(&offsets, Priority::Output))
            .map_err(store_error)?;
        Ok(Block {
            num_slices,
            block: Lent::new(block),
        })
    }

    /// Returns slices of blocks, restored where they were spilled; waits until there is room.
    fn fetch(&self, py: Python<'_>, wanted: Vec<(u64, usize)>) -> PyResult<Vec<Slice>> {
        let wanted: Vec<_> = wanted
            .into_iter()
            .map(|(id, slice)| (BlockId(id), Some(slice)))
            .collect();
        let slices = py.detach(|| self.0.fetch(&wanted)).map_err(store_error)?;
        Ok(slices.into_iter().map(|slice| Slice { slice }).collect())
    }

    /// Returns the bytes of each slice of a block, wherever it is.
    fn slice_bytes(&self, py: Python<'_>, block: u64) -> PyResult<Vec<u64>> {
        py.detach(|| self.0.slice_bytes(BlockId(block)))
            .map_err(store_error)
    }

    /// Returns a descriptor of the file that blocks are in, for an `ArenaView` in another process; the caller closes
    /// it.
    fn arena_fd(&self) -> PyResult<RawFd> {
        Ok(self.0.arena_file()?.into_raw_fd())
    }

    /// Reserves working memory for a task; waits until there is room.
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

    /// Returns counters by name.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.0.stats();
        let dict = PyDict::new(py);
        dict.set_item("budget_bytes", stats.budget_bytes)?;
        dict.set_item("used_blocks_bytes", stats.used_blocks_bytes)?;
        dict.set_item("reserved_bytes", stats.reserved_bytes)?;
        dict.set_item("resident_arena_bytes", stats.resident_arena_bytes)?;
        dict.set_item("peak_bytes", stats.peak_bytes)?;
        dict.set_item("spilled_bytes", stats.spilled_bytes)?;
        dict.set_item("written_bytes", stats.written_bytes)?;
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

fn codec_named(name: &str) -> PyResult<Codec> {
    match name {
        "lz4" => Ok(Codec::Lz4),
        "zstd" => Ok(Codec::Zstd),
        _ => Err(options_error(format!(
            "codec is {name:?}; give lz4 or zstd"
        ))),
    }
}

/// Raises the exception of a signal's handler, such as `KeyboardInterrupt`. Signals are handled in the main thread;
/// other threads are spared the wait for the GIL.
fn check_signals() -> Result<(), Interruption> {
    if is_main_thread() {
        Python::attach(|py| py.check_signals())?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn is_main_thread() -> bool {
    // SAFETY: both calls only return a number.
    unsafe { libc::gettid() == libc::getpid() }
}

#[cfg(target_vendor = "apple")]
fn is_main_thread() -> bool {
    // SAFETY: the call only returns a number.
    unsafe { libc::pthread_main_np() == 1 }
}

/// A block being filled: a writable buffer until it is sealed.
#[pyclass(frozen)]
pub struct Block {
    #[pyo3(get)]
    num_slices: usize,
    block: Lent<BlockMut>,
}

fn sealed() -> PyErr {
    PyValueError::new_err("the block is sealed already")
}

#[pymethods]
impl Block {
    /// Makes the block immutable and returns its number.
    fn seal(&self) -> PyResult<u64> {
        let block = self.block.take()?.ok_or_else(sealed)?;
        Ok(block.seal().0)
    }

    /// Returns where the data lies in the arena, for `ArenaView.block`; `None` if it is in a file instead.
    fn pieces(&self) -> PyResult<Option<Vec<(u64, u64)>>> {
        let pieces = self.block.look(BlockMut::pieces);
        pieces.ok_or_else(sealed)
    }

    fn __len__(&self) -> usize {
        self.block.len()
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        // SAFETY: `view` comes from the interpreter, and the memory is owned by this object.
        unsafe { slf.get().block.lend(view, slf.as_any(), flags) }
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.block.returned();
    }
}

/// A pinned, read-only view of a slice.
#[pyclass(frozen, weakref)]
pub struct Slice {
    slice: exoshuffle_store::Slice,
}

#[pymethods]
impl Slice {
    fn __len__(&self) -> usize {
        self.slice.len()
    }

    /// Returns where the bytes lie in the arena, for `ArenaView.slice`; `None` if they are in a file instead.
    fn pieces(&self) -> Option<Vec<(u64, u64)>> {
        self.slice.pieces()
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
