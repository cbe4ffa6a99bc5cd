//! The PyO3 module `exoshuffle._native`: shims only.
//!
//! A shim takes owned, typed arguments, releases the GIL, makes one call into the other crates and wraps the result. Bytes
//! cross in both directions by Python's buffer protocol, so kernels do not know which engine owns them.

mod arrow_stream;
mod buffers;
mod columns;
mod errors;
mod ipc;
mod memory;
mod merge;
mod records;
mod row_kind;
mod row_source;
mod rows;
mod scattered;
mod sections;
mod sorter;
mod source;
mod store;
mod view;
mod write_options;

use pyo3::prelude::*;

// Freed memory is kept and reused: on virtual machines fresh pages cost more to touch than to fill (0.3-2 GB/s). What is
// kept must go back when the limit is near, whichever thread freed it: jemalloc does that. mimalloc does not: with its
// version 3, now and then a sort of 1.2 GB under 200 MB held 120 MB of which 2 were in use, and peaked at 224-283 MB.
// Sorting 4 GB took 12.6-14.6 s of user time, with mimalloc 2 14.7-16.1 s (three runs each, one build after the other).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<store::Store>()?;
    module.add_class::<store::Block>()?;
    module.add_class::<store::Slice>()?;
    module.add_class::<store::Reservation>()?;
    module.add_class::<view::ArenaView>()?;
    module.add_class::<view::MappedSlice>()?;
    module.add_class::<view::MappedBlock>()?;
    module.add_class::<memory::MemoryGuard>()?;
    module.add_class::<source::Source>()?;
    module.add_class::<sorter::Sorter>()?;
    module.add_class::<scattered::Scattered>()?;
    module.add_class::<rows::Rows>()?;
    module.add_class::<rows::PendingFiles>()?;
    module.add_class::<sections::Sections>()?;
    module.add_class::<ipc::IpcStream>()?;
    module.add_class::<records::ValsortSummary>()?;
    module.add_function(wrap_pyfunction!(merge::merged_offsets, module)?)?;
    module.add_function(wrap_pyfunction!(merge::merge_into, module)?)?;
    module.add_function(wrap_pyfunction!(records::gensort_file, module)?)?;
    module.add_function(wrap_pyfunction!(records::valsort_file, module)?)?;
    module.add_function(wrap_pyfunction!(records::combine_summaries, module)?)?;
    Ok(())
}
