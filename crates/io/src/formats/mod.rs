//! The formats of files, a folder each, and their registry.

pub(crate) mod ipc;
pub(crate) mod parquet;
pub(crate) mod records;
pub(crate) mod text;

use crate::format::Format;

/// All formats, as error messages list them.
pub(crate) const ALL: [Format; 5] = [
    parquet::FORMAT,
    ipc::FORMAT,
    text::CSV,
    text::JSON_LINES,
    records::FORMAT,
];
