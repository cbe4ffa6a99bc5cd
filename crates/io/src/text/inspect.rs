//! The listing of text files.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_schema::SchemaRef;

use super::{boundary, infer_csv, infer_json};
use crate::direct::RangeReader;
use crate::error::Result;
use crate::source::{FileInfo, ReadOptions};
use crate::Format;

/// The schema of each file: types are given, or those of the whole set.
pub(crate) fn schemas(
    paths: &[PathBuf],
    format: Format,
    options: &ReadOptions,
) -> Result<Vec<SchemaRef>> {
    match (&options.schema, format) {
        (given, Format::Csv) => infer_csv::infer(paths, options.csv_delimiter, given.as_ref()),
        (Some(schema), _) => Ok(vec![schema.clone(); paths.len()]),
        (None, _) => Ok(vec![infer_json::infer(paths)?; paths.len()]),
    }
}

pub(crate) fn inspect(
    file: &Arc<RangeReader>,
    format: Format,
    schema: &SchemaRef,
    options: &ReadOptions,
) -> Result<FileInfo> {
    let start = match format {
        Format::Csv => boundary::header_end(file, options.csv_delimiter)?,
        _ => boundary::text_start(file)?,
    };
    let bytes = file.len() - start;
    Ok(FileInfo {
        schema: schema.clone(),
        rows: (bytes == 0).then_some(0),
        memory_bytes: bytes,
        groups: Vec::new(),
        dictionary_columns: vec![false; schema.fields().len()],
    })
}
