//! The formats of files, a folder each: how files are listed, read and written.

pub(crate) mod ipc;
pub(crate) mod parquet;
pub(crate) mod records;
pub(crate) mod text;
