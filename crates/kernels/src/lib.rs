//! Pure functions on Arrow data and fixed-length records: no files, no threads, no clock, no Python.
//!
//! Table rows on the map side: `RowLayout` says how rows look, an `Assignment` which partition each belongs to
//! (`sample` and `choose_boundaries` split the key space). `Scatter` writes the rows of each partition to a slice. On
//! the reduce side, `Sections` takes slices apart, and `GatheredRows` finds their rows, sorts them and hands them out
//! as batches. Both check that nothing was lost. `order` sorts (prefix, location) entries for any kind of row.
//! `rows` does all this for each kind: rows of tables, records, and rows in random order.

#[cfg(target_endian = "big")]
compile_error!(
    "rows hold numbers as Arrow does on little-endian machines; big-endian ones are not supported"
);

mod assignment;
mod batches;
mod boundaries;
mod cells;
mod check;
mod decode;
mod encode;
mod error;
mod framed_rows;
mod frames;
mod gather;
pub mod gensort;
mod hash;
mod key;
mod key_rows;
mod layout;
mod merge;
mod mix;
pub mod order;
mod output;
mod own_views;
mod permutation;
mod pieces;
mod plain;
mod prefetch;
mod prefix;
mod ranks;
pub mod records;
mod row_hash;
pub mod rows;
mod sample;
mod scatter;
mod sections;
mod segment;
mod slot;
mod source;
mod tally;
mod ties;
pub mod valsort;
mod walk;
mod window;

pub use assignment::{Assignment, PartitionCount, MAX_PARTITIONS};
pub use batches::Batches;
pub use boundaries::{choose_boundaries, Boundaries};
pub use check::CheckError;
pub use error::{KernelError, Result};
pub use gather::{has_declared_bytes, GatheredRows};
pub use key::SortKey;
pub use key_rows::Position;
pub use layout::RowLayout;
pub use merge::{merge_into, merged_offsets};
pub use output::cast_to_user_schema;
pub use permutation::Permutation;
pub use ranks::{merge_ranks, Ties};
pub use sample::{joined_samples, sample, sample_rows};
pub use scatter::{Planner, Scatter};
pub use sections::{Section, Sections};
pub use tally::Tally;
