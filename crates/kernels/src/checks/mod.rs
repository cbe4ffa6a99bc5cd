//! Checks: sums of the hashes of rows, by which every lost or changed row is found.

pub(crate) mod check;
pub(crate) mod row_hash;
pub(crate) mod tally;
