//! Merging blocks: slice r of the result is the slices r of the inputs, one after the other, not decoded.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::buffers::{ByteView, ByteViewMut};

/// Slice offsets of the merge of `blocks`, each a list of as many slices.
#[pyfunction]
pub fn merged_offsets(blocks: Vec<Vec<Bound<'_, PyAny>>>) -> PyResult<Vec<u64>> {
    let num_slices = blocks.first().map_or(0, Vec::len);
    let mut offsets = vec![0u64; num_slices + 1];
    for block in &blocks {
        if block.len() != num_slices {
            let message = format!(
                "blocks of {num_slices} and {} slices cannot be merged",
                block.len()
            );
            return Err(PyValueError::new_err(message));
        }
        for (slice, total) in block.iter().zip(&mut offsets[1..]) {
            *total += slice.len()? as u64;
        }
    }
    for index in 1..offsets.len() {
        offsets[index] += offsets[index - 1];
    }
    Ok(offsets)
}

/// Fills `out` with the merge of `blocks`.
#[pyfunction]
pub fn merge_into(
    py: Python<'_>,
    blocks: Vec<Vec<Bound<'_, PyAny>>>,
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let num_slices = blocks.first().map_or(0, Vec::len);
    let mut views = Vec::with_capacity(num_slices * blocks.len());
    for slice in 0..num_slices {
        for block in &blocks {
            views.push(ByteView::new(&block[slice])?);
        }
    }
    let num_bytes: usize = views.iter().map(|view| view.as_ref().len()).sum();
    let mut out = ByteViewMut::new(out)?;
    py.detach(|| {
        let mut rest = out.as_mut();
        if rest.len() != num_bytes {
            let message = format!(
                "the block has {} bytes; the merge needs {num_bytes}",
                rest.len()
            );
            return Err(PyValueError::new_err(message));
        }
        for view in &views {
            let (target, behind) = rest.split_at_mut(view.as_ref().len());
            target.copy_from_slice(view.as_ref());
            rest = behind;
        }
        Ok(())
    })
}
