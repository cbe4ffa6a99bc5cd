//! Pure functions on Arrow data and fixed-length records: no files, no threads, no clock, no Python.
//!
//! Table rows on the map side (`map`): `RowLayout` says how rows look, and an `Assignment` which partition each belongs
//! to. `sample` and `choose_boundaries` split the key space. `Scatter` writes the rows of each partition to a slice. On
//! the reduce side (`reduce`), `Sections` takes slices apart, and `GatheredRows` finds their rows, sorts them and hands
//! them out as batches. Both check that nothing was lost (`checks`). `order` sorts (prefix, location) entries for any
//! kind of row. `rows` does all this for each kind: rows of tables, records, and rows in random order.
//!
//! Rooms use each other one way: rows, then records, map and reduce, then slices, columns, keys and checks.

#[cfg(target_endian = "big")]
compile_error!(
    "rows hold numbers as Arrow does on little-endian machines; big-endian ones are not supported"
);

mod checks;
mod columns;
mod error;
mod keys;
mod layout;
mod map;
mod merge;
mod mix;
pub mod order;
mod permutation;
mod prefetch;
mod ranks;
pub mod records;
mod reduce;
pub mod rows;
mod slices;
mod slot;

pub use checks::check::CheckError;
pub use checks::tally::Tally;
pub use columns::output::cast_to_user_schema;
pub use error::{KernelError, Result};
pub use keys::key::SortKey;
pub use layout::RowLayout;
pub use map::assignment::{Assignment, PartitionCount, MAX_PARTITIONS};
pub use map::boundaries::{choose_boundaries, Boundaries};
pub use map::key_filter::{key_filter, key_marks};
pub use map::key_rows::Position;
pub use map::sample::{joined_samples, sample, sample_rows};
pub use map::scatter::{Planner, Scatter};
pub use merge::{merge_into, merged_offsets};
pub use permutation::Permutation;
pub use ranks::{merge_ranks, Ties};
pub use records::{gensort, valsort};
pub use reduce::batches::Batches;
pub use reduce::gather::{has_declared_bytes, GatheredRows};
pub use slices::sections::{Section, Sections};
