//! Options of the writer as they travel between processes: JSON.

use exoshuffle_io::{Format, IpcLayout, PartitionBy, WriteOptions};
use pyo3::prelude::*;
use serde_json::Value;
use std::path::PathBuf;

use crate::errors::{io_error, options_error};
use crate::ipc::schema_from_ipc;

/// Reads the JSON that Python sends.
pub fn write_options(text: &str) -> PyResult<WriteOptions> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| options_error(format!("write options are no JSON: {error}")))?;
    let word = |name: &str| {
        value
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let number = |name: &str| value.get(name).and_then(Value::as_u64);
    let mut options = WriteOptions::new(word("format").parse().map_err(io_error)?);
    options.compression = word("compression").parse().map_err(io_error)?;
    options.target_file_bytes = number("target_file_bytes");
    if let Some(bytes) = number("row_group_bytes") {
        options.row_group_bytes = bytes as usize;
    }
    if value.get("ipc_stream").and_then(Value::as_bool) == Some(true) {
        options.ipc_layout = IpcLayout::Stream;
    }
    if value.get("csv_tabs").and_then(Value::as_bool) == Some(true) {
        options.csv_delimiter = b'\t';
    }
    let columns = value.get("dictionary_columns").and_then(Value::as_array);
    options.dictionary_columns = columns.map(|columns| {
        columns
            .iter()
            .map(|column| column.as_bool().unwrap_or_default())
            .collect()
    });
    Ok(options)
}

/// The format that files of this name have, by their ending.
#[pyfunction]
pub fn format_of_name(name: PathBuf) -> Option<&'static str> {
    Format::from_extension(&name).map(Format::name)
}

/// All formats: their names, the endings of files that are written, the compressions, and whether they are text, tell the
/// types of columns, and hold any table.
#[pyfunction]
pub fn formats() -> Vec<(&'static str, &'static str, Vec<String>, [bool; 3])> {
    let described = |&format: &Format| {
        let compressions = format.compressions().iter();
        let compressions = compressions.map(ToString::to_string).collect();
        let facts = [
            format.is_text(),
            format.tells_types(),
            format.holds_tables(),
        ];
        (format.name(), format.ending(), compressions, facts)
    };
    Format::all().iter().map(described).collect()
}

/// What becomes folders, by the options that Python sends; `None` where nothing does.
pub fn partition_by(text: &str) -> Option<PartitionBy> {
    let value: Value = serde_json::from_str(text).ok()?;
    let columns = value.get("partition_by")?.as_array()?.iter();
    Some(PartitionBy {
        columns: columns
            .filter_map(|name| Some(name.as_str()?.to_owned()))
            .collect(),
        max_folders: value
            .get("max_folders")
            .and_then(Value::as_u64)
            .unwrap_or(u64::MAX) as usize,
    })
}

/// Raises if no table with this schema can be written in the format, before any work was done for it.
#[pyfunction]
pub fn check_writable(schema: &[u8], format: &str) -> PyResult<()> {
    let format: Format = format.parse().map_err(io_error)?;
    exoshuffle_io::check_writable(&*schema_from_ipc(schema)?, format).map_err(io_error)
}
