//! The listing of text files.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};

use super::Notation;
use super::{boundary, infer_csv, infer_json, Dialect, Encoding};
use crate::direct::RangeReader;
use crate::error::{IoError, Result};
use crate::source::{BadRows, FileInfo, Header, ReadOptions, Syntax};

/// Returns the schema of each file: types are given by name, or those of the whole set.
pub(crate) fn schemas(
    paths: &[PathBuf],
    notation: Notation,
    options: &ReadOptions,
) -> Result<Vec<SchemaRef>> {
    let given = options.schema.iter().flat_map(|schema| schema.fields());
    if let Some(field) = { given }.find(|field| !is_readable(field, notation)) {
        return Err(IoError::TypeGiven {
            format: notation.format(),
            column: field.name().clone(),
            data_type: field.data_type().to_string(),
        });
    }
    match notation {
        Notation::Csv => infer_csv::infer(paths, options),
        _ => Ok(vec![infer_json::infer(paths, options)?; paths.len()]),
    }
}

/// Returns whether there is a decoder for the type. The decoder of CSV does not say so before it has a row.
fn is_readable(field: &FieldRef, notation: Notation) -> bool {
    let record = match notation {
        Notation::Csv => b",\n".as_slice(),
        _ => b"{}\n".as_slice(),
    };
    let nullable = Field::clone(field).with_nullable(true);
    let fields = vec![nullable, Field::new("", DataType::Utf8, true)];
    let dialect = Dialect {
        notation,
        syntax: Syntax::default(),
        encoding: Encoding::Utf8,
        nulls: None,
        bad_rows: BadRows::Raise,
        max_row: None,
        shared_bytes: u64::MAX,
        header: Header::Line,
        inferred: vec![false; fields.len()],
        schema: Arc::new(Schema::new(fields)),
        projection: None,
    };
    dialect.decode(record).is_ok()
}

pub(crate) fn inspect(
    file: &Arc<RangeReader>,
    notation: Notation,
    schema: &SchemaRef,
    options: &ReadOptions,
) -> Result<FileInfo> {
    let start = boundary::records_start(file, notation, options)?;
    let bytes = file.len() - start;
    Ok(FileInfo {
        rows: (bytes == 0).then_some(0),
        memory_bytes: bytes,
        ..FileInfo::of_schema(schema.clone())
    })
}
