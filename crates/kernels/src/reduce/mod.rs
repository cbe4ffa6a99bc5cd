//! The reduce side: rows are found in slices, sorted, and handed out as batches.

pub(crate) mod batches;
pub(crate) mod gather;
pub(crate) mod ties;
