//! Python's buffer protocol in both directions: bytes of Python objects as Rust slices, and our memory as buffers.

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;

/// A read-only view of a Python buffer that keeps its owner alive, usable without the GIL.
pub struct ByteView {
    buffer: PyBuffer<u8>,
}

// SAFETY: the buffer is exported for as long as the view lives, so its memory stays where it is. The view hands out
// shared slices only. Engines pass in blocks, which are immutable once a task has returned them.
unsafe impl Sync for ByteView {}

impl ByteView {
    /// Views `object`, which must expose contiguous bytes.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyBuffer::<u8>::get(object)?;
        if !buffer.is_c_contiguous() {
            return Err(PyValueError::new_err(
                "the buffer is not contiguous; pass contiguous bytes",
            ));
        }
        Ok(Self { buffer })
    }
}

impl AsRef<[u8]> for ByteView {
    fn as_ref(&self) -> &[u8] {
        let length = self.buffer.len_bytes();
        if length == 0 {
            return &[];
        }
        // SAFETY: the buffer is contiguous (checked in `new`), `length` bytes long and alive as long as `self`.
        unsafe { std::slice::from_raw_parts(self.buffer.buf_ptr().cast::<u8>(), length) }
    }
}

/// A writable view of a Python buffer, for one call that fills it.
pub struct ByteViewMut {
    buffer: PyBuffer<u8>,
}

// SAFETY: as for `ByteView`. The caller has exclusive access: only the task that allocated a block fills it.
unsafe impl Sync for ByteViewMut {}

impl ByteViewMut {
    /// Views `object`, which must expose contiguous writable bytes.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyBuffer::<u8>::get(object)?;
        if buffer.readonly() || !buffer.is_c_contiguous() {
            return Err(PyValueError::new_err(
                "the buffer is read-only or not contiguous; pass an allocated block",
            ));
        }
        Ok(Self { buffer })
    }

    /// Returns the bytes.
    pub fn as_mut(&mut self) -> &mut [u8] {
        let length = self.buffer.len_bytes();
        if length == 0 {
            return &mut [];
        }
        // SAFETY: contiguous and writable (checked in `new`), alive as long as `self`; see `Sync` above for exclusivity.
        unsafe { std::slice::from_raw_parts_mut(self.buffer.buf_ptr().cast::<u8>(), length) }
    }
}

/// Writable memory that a Python object lends out as buffers. It can be taken back once no buffer is left.
pub struct Lent<T>(Mutex<LentState<T>>);

struct LentState<T> {
    memory: Option<T>,
    num_views: usize,
}

impl<T: AsMut<[u8]>> Lent<T> {
    /// Lends out `memory`.
    pub fn new(memory: T) -> Self {
        Self(Mutex::new(LentState {
            memory: Some(memory),
            num_views: 0,
        }))
    }

    fn state(&self) -> MutexGuard<'_, LentState<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the lending, and returns the memory; `None` if it has ended before.
    pub fn take(&self) -> PyResult<Option<T>> {
        let mut state = self.state();
        if state.num_views > 0 {
            return Err(PyBufferError::new_err(
                "a view of the block is still open; release it before the task returns",
            ));
        }
        Ok(state.memory.take())
    }

    /// Calls `ask` with the memory; returns `None` once it is taken.
    pub fn look<R>(&self, ask: impl FnOnce(&T) -> R) -> Option<R> {
        self.state().memory.as_ref().map(ask)
    }

    /// Returns the number of bytes, 0 once they are taken.
    pub fn len(&self) -> usize {
        let mut state = self.state();
        state
            .memory
            .as_mut()
            .map_or(0, |memory| memory.as_mut().len())
    }

    /// Fills `view` with the memory.
    ///
    /// # Safety
    /// `view` must be valid for writing, and `owner` must be the object that this value lies in.
    pub unsafe fn lend(
        &self,
        view: *mut ffi::Py_buffer,
        owner: &Bound<'_, PyAny>,
        flags: c_int,
    ) -> PyResult<()> {
        let mut state = self.state();
        let bytes = state
            .memory
            .as_mut()
            .ok_or_else(|| {
                PyBufferError::new_err("the block is sealed or released; fetch it to read it")
            })?
            .as_mut();
        let (pointer, length) = (bytes.as_mut_ptr(), bytes.len());
        // SAFETY: `view` is valid, as the caller promises. The memory stays until it is taken or dropped with its
        // owner. Taking is refused while a view is open, and the view holds a reference to the owner.
        unsafe { fill_view(view, owner, pointer, length, false, flags)? };
        state.num_views += 1;
        Ok(())
    }

    /// Notes that one view is gone.
    pub fn returned(&self) {
        self.state().num_views -= 1;
    }
}

/// Fills `view` with contiguous bytes.
///
/// # Safety
/// `view` must be valid for writing; `pointer` must be valid for `length` bytes as long as `owner` lives.
pub unsafe fn fill_view(
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
