//! The moves of rows between partitions, for each kind of row: of a table, fixed-length records, in random order.
//!
//! [`RowKind`] samples, plans ([`Planned`], [`Direct`]) and sorts. [`PartitionRows`] hands out what a reduce found. [`Side`] has the
//! sections that rows come from, and notes whether all of them arrived.

mod direct;
mod kind;
mod measured;
mod partition;
mod placed;
mod planned;
mod records;
mod side;

pub use direct::Direct;
pub use kind::RowKind;
pub use measured::Measured;
pub use partition::{PartitionRows, BATCH_BYTES, MAX_BATCH_ROWS};
pub use placed::{along, follow, placed, Placed, RowOrigin};
pub use planned::Planned;
pub use side::{CheckedSections, Side};
