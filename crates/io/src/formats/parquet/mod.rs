//! Parquet files as streams of batches.

mod checked;
mod columns;
mod dictionary;
mod footer;
mod page_header;
mod pages;
mod prefetch;
mod read;
mod regions;
mod shared_prefixes;
pub(crate) mod stored_types;
mod uneven;
mod windows;
pub(crate) mod write;

pub(crate) use footer::inspect;
pub(crate) use read::{open, sample};
