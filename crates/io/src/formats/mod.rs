//! The formats of files, a folder each, and their registry.

pub(crate) mod ipc;
pub(crate) mod lines;
pub(crate) mod parquet;
pub(crate) mod records;
pub(crate) mod text;
pub(crate) mod whole;

use crate::format::Format;

/// All formats, as error messages list them.
pub(crate) static ALL: [Format; 7] = [
    parquet::FORMAT,
    ipc::FORMAT,
    text::CSV,
    text::JSON_LINES,
    records::FORMAT,
    lines::FORMAT,
    whole::FORMAT,
];
