//! Parquet files as streams of batches.

mod footer;
mod prefetch;
mod read;
mod windows;

pub(crate) use footer::inspect;
pub(crate) use read::{open, sample};
