//! Slices: the bytes that go from a map to a reduce, with their sections, frames and rows.

pub(crate) mod framed_rows;
pub(crate) mod frames;
pub(crate) mod pieces;
pub(crate) mod sections;
pub(crate) mod walk;
