//! Parquet files as streams of batches.

mod columns;
mod footer;
mod page_header;
mod pages;
mod prefetch;
mod read;
mod regions;
mod shared_prefixes;
mod uneven;
mod windows;

pub(crate) use footer::inspect;
pub(crate) use read::{open, sample};
