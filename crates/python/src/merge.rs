//! Merging blocks, and ranks of sorted rows. Slice r of a merged block is the slices r of the inputs, not decoded.

use arrow_schema::ArrowError;
use exoshuffle_kernels as kernels;
use exoshuffle_kernels::{KernelError, Ties};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow_stream::{import, stream_error};
use crate::buffers::{ByteView, ByteViewMut};
use crate::errors::kernel_error;

type Blocks<'py> = Vec<Vec<Bound<'py, PyAny>>>;

/// Returns the slice offsets of the merge of `blocks`, each a list of as many slices.
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

/// Fills `out` with the rank of each row of `left` among those of `right`: eight bytes each.
#[pyfunction]
pub fn merge_ranks(
    py: Python<'_>,
    left: &Bound<'_, PyAny>,
    right: &Bound<'_, PyAny>,
    counts_ties: bool,
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let sides = [import(left)?, import(right)?];
    let mut out = ByteViewMut::new(out)?;
    let ties = if counts_ties {
        Ties::Counted
    } else {
        Ties::Apart
    };
    py.detach(|| {
        let [left, right] = sides.map(|batches| batches.collect::<Result<Vec<_>, _>>());
        let (left, right) = (left.map_err(unread)?, right.map_err(unread)?);
        kernels::merge_ranks(&left, &right, ties, out.as_mut()).map_err(kernel_error)
    })
}

fn unread(error: ArrowError) -> PyErr {
    stream_error(&error).into()
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
