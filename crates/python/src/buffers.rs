//! Bytes of Python objects as Rust slices, by the buffer protocol.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A read-only view of a Python buffer that keeps its owner alive, usable without the GIL.
pub struct ByteView {
    buffer: PyBuffer<u8>,
}

// SAFETY: the buffer is exported for as long as the view lives, so its memory stays where it is; the view hands out
// shared slices only. Blocks are immutable once a task has returned them, which is what engines pass in.
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

// SAFETY: as for `ByteView`; exclusive access is the caller's: a block is filled by the one task that allocated it.
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

    /// The bytes.
    pub fn as_mut(&mut self) -> &mut [u8] {
        let length = self.buffer.len_bytes();
        if length == 0 {
            return &mut [];
        }
        // SAFETY: contiguous and writable (checked in `new`), alive as long as `self`; see `Sync` above for exclusivity.
        unsafe { std::slice::from_raw_parts_mut(self.buffer.buf_ptr().cast::<u8>(), length) }
    }
}
