//! Arrow IPC files (random access) and streams as streams of batches.

mod dictionaries;
mod index;
mod read;
mod views;
pub(crate) mod write;
mod write_dictionaries;

pub(crate) use index::inspect;
pub(crate) use read::{open, sample};
