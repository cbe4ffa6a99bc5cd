//! The map side: the partition of each row, and the rows of each partition written to a slice.

pub(crate) mod assignment;
pub(crate) mod boundaries;
pub(crate) mod cells;
pub(crate) mod encode;
pub(crate) mod filling;
pub(crate) mod hash;
pub(crate) mod key_filter;
pub(crate) mod key_rows;
pub(crate) mod lists;
pub(crate) mod quads;
pub(crate) mod sample;
pub(crate) mod scatter;
pub(crate) mod source;
pub(crate) mod window;
