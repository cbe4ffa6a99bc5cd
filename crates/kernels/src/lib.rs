//! Pure functions on Arrow data and fixed-length records: no files, no threads, no clock, no Python.
//!
//! Table rows on the map side: `RowLayout` says how rows look, `sample` and `choose_boundaries` split the key space,
//! `Scatter` writes the rows of each partition to a slice. On the reduce side `SortedRows` sorts the rows of slices and
//! hands them out as batches. `order` sorts (prefix, location) entries for any kind of row.

#[cfg(target_endian = "big")]
compile_error!(
    "rows hold numbers as Arrow does on little-endian machines; big-endian ones are not supported"
);

pub mod boundaries;
mod decode;
mod encode;
mod error;
mod frames;
mod gather;
pub mod gensort;
mod key;
mod key_rows;
mod layout;
pub mod order;
mod output;
mod prefetch;
mod prefix;
pub mod records;
mod scatter;
mod segment;
mod slot;
mod source;
mod ties;
pub mod valsort;
mod walk;

pub use boundaries::{choose_boundaries, sample, Boundaries, Position, MAX_PARTITIONS};
pub use error::{KernelError, Result};
pub use gather::SortedRows;
pub use layout::{RowLayout, SortKey};
pub use scatter::Scatter;
