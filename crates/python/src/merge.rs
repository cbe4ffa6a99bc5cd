//! Merging blocks: slice r of the result is the slices r of the inputs, one after the other, not decoded.

use exoshuffle_kernels as kernels;
use exoshuffle_kernels::KernelError;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::buffers::{ByteView, ByteViewMut};

type Blocks<'py> = Vec<Vec<Bound<'py, PyAny>>>;

/// Slice offsets of the merge of `blocks`, each a list of as many slices.
#[pyfunction]
pub fn merged_offsets(blocks: Blocks<'_>) -> PyResult<Vec<u64>> {
    let sizes = each(&blocks, |slice| Ok(slice.len()? as u64))?;
    kernels::merged_offsets(&sizes).map_err(refused)
}

/// Fills `out` with the merge of `blocks`.
#[pyfunction]
pub fn merge_into(py: Python<'_>, blocks: Blocks<'_>, out: &Bound<'_, PyAny>) -> PyResult<()> {
    let views = each(&blocks, ByteView::new)?;
    let mut out = ByteViewMut::new(out)?;
    py.detach(|| kernels::merge_into(&views, out.as_mut()))
        .map_err(refused)
}

fn each<T>(
    blocks: &Blocks<'_>,
    look: impl Fn(&Bound<'_, PyAny>) -> PyResult<T>,
) -> PyResult<Vec<Vec<T>>> {
    let of_block = |block: &Vec<_>| block.iter().map(&look).collect();
    blocks.iter().map(of_block).collect()
}

fn refused(error: KernelError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
