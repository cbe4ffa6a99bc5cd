//! The PyO3 module `exoshuffle._native`: shims only.
//!
//! The stub `python/exoshuffle/_native.pyi` describes the boundary: what each call does is said there, once. A shim names
//! the type or function that it wraps.
//!
//! A shim takes owned, typed arguments, releases the GIL, makes one call into the other crates and wraps the result. Bytes
//! cross in both directions by Python's buffer protocol, so kernels do not know which engine owns them.

mod arrow_stream;
mod buffers;
mod columns;
mod compressed;
mod errors;
mod family;
mod format;
mod idle;
mod ipc;
mod key_filter;
mod memory;
mod merge;
mod own_memory;
mod pickle;
mod read_options;
mod reading;
mod records;
mod releaser;
mod row_source;
mod rows;
mod scattered;
mod sections;
mod shared_memory;
mod sorter;
mod source;
mod split;
mod store;
mod stored_path;
mod view;
mod workers;
mod write_options;

use exoshuffle_allocator::Recycling;
use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: Recycling = Recycling;

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
    module.add_class::<split::Split>()?;
    module.add_class::<stored_path::StoredPath>()?;
    module.add_class::<stored_path::StoredLock>()?;
    module.add_class::<stored_path::NewFile>()?;
    module.add_class::<read_options::ReadOptions>()?;
    module.add_class::<write_options::WriteOptions>()?;
    module.add("ROLL_ROWS", exoshuffle_io::ROLL_ROWS)?;
    module.add_class::<sorter::Sorter>()?;
    module.add_class::<scattered::Scattered>()?;
    module.add_class::<rows::Rows>()?;
    module.add_class::<rows::PendingFiles>()?;
    module.add_class::<sections::Sections>()?;
    module.add_class::<format::Format>()?;
    module.add_class::<ipc::IpcStream>()?;
    module.add_class::<ipc::IpcStreams>()?;
    module.add_class::<records::Stop>()?;
    module.add_class::<records::ValsortSummary>()?;
    module.add_function(wrap_pyfunction!(memory::release_idle_memory, module)?)?;
    module.add_function(wrap_pyfunction!(idle::release_idle_above, module)?)?;
    module.add_function(wrap_pyfunction!(memory::release_libraries, module)?)?;
    module.add_function(wrap_pyfunction!(source::bad_rows, module)?)?;
    module.add_function(wrap_pyfunction!(source::pattern_finds, module)?)?;
    module.add_function(wrap_pyfunction!(source::union_schema, module)?)?;
    module.add_function(wrap_pyfunction!(merge::merged_offsets, module)?)?;
    module.add_function(wrap_pyfunction!(merge::merge_into, module)?)?;
    module.add_function(wrap_pyfunction!(merge::merge_ranks, module)?)?;
    module.add_function(wrap_pyfunction!(key_filter::key_filter, module)?)?;
    module.add_function(wrap_pyfunction!(key_filter::key_marks, module)?)?;
    module.add_function(wrap_pyfunction!(write_options::check_writable, module)?)?;
    module.add_function(wrap_pyfunction!(format::format_of_name, module)?)?;
    module.add_function(wrap_pyfunction!(format::format_of_start, module)?)?;
    module.add_function(wrap_pyfunction!(format::formats, module)?)?;
    module.add_function(wrap_pyfunction!(compressed::list_compressed, module)?)?;
    module.add_function(wrap_pyfunction!(compressed::codec_of, module)?)?;
    module.add_function(wrap_pyfunction!(compressed::located, module)?)?;
    module.add_function(wrap_pyfunction!(compressed::shown_path, module)?)?;
    module.add_function(wrap_pyfunction!(compressed::decompress, module)?)?;
    module.add_function(wrap_pyfunction!(records::gensort_file, module)?)?;
    module.add_function(wrap_pyfunction!(records::valsort_file, module)?)?;
    module.add_function(wrap_pyfunction!(records::combine_summaries, module)?)?;
    Ok(())
}
