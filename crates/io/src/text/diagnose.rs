//! Finds the line, column and value at fault after a decoder refused a batch.
//!
//! This runs only on the way to an error, so it decodes record by record, then column by column.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use memchr::memchr_iter;
use serde_json::value::RawValue;

use super::boundary::QuoteScan;
use super::{width_differs, Dialect, INFER_ROWS};
use crate::direct::{RangeReader, ReadAhead};
use crate::error::{one_line, IoError, Result};
use crate::Format;

/// The error that describes the first record in `range` that does not decode; `None` if every record does.
pub(super) fn find(
    file: &Arc<RangeReader>,
    range: Range<u64>,
    dialect: &Dialect,
) -> Result<Option<IoError>> {
    let mut scan = QuoteScan::new(dialect.delimiter);
    let mut record = Vec::new();
    let mut position = range.start;
    for window in ReadAhead::new(file.clone(), range.clone(), 1)? {
        let window = window?;
        let mut rest = &window[..];
        while !rest.is_empty() {
            let end = match dialect.format {
                Format::Csv => scan.record_end(rest),
                _ => memchr::memchr(b'\n', rest).map(|newline| newline + 1),
            };
            record.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
            rest = &rest[end.unwrap_or(rest.len())..];
            let last = position + record.len() as u64 == range.end;
            if end.is_none() && !last {
                break; // the record goes on in the next window
            }
            if let Err(error) = dialect.decode(&record) {
                let line = line_at(file, position)?;
                return Ok(Some(describe(file, dialect, &record, line, &error)));
            }
            position += record.len() as u64;
            record.clear();
        }
    }
    Ok(None)
}

/// Line number, from 1, of a position.
fn line_at(file: &Arc<RangeReader>, position: u64) -> Result<u64> {
    let mut line = 1;
    for window in ReadAhead::new(file.clone(), 0..position, 1)? {
        line += memchr_iter(b'\n', &window?).count() as u64;
    }
    Ok(line)
}

fn describe(
    file: &RangeReader,
    dialect: &Dialect,
    record: &[u8],
    line: u64,
    error: &ArrowError,
) -> IoError {
    let path = file.path().to_path_buf();
    if let Some(reason) = wrong_width(dialect, record) {
        return IoError::BadRecord { path, line, reason };
    }
    let columns = dialect
        .projection
        .clone()
        .unwrap_or_else(|| (0..dialect.schema.fields().len()).collect());
    for column in columns {
        let alone = Dialect {
            projection: Some(vec![column]),
            ..dialect.clone()
        };
        if alone.decode(record).is_ok() {
            continue;
        }
        let field = dialect.schema.field(column);
        if let Some(value) = as_text(&alone, column, record) {
            let (column, expected) = (field.name().clone(), field.data_type().to_string());
            return IoError::BadValue {
                path,
                line,
                column,
                value,
                expected,
                other: as_given(&alone, record).map(String::into_boxed_str),
            };
        }
        let reason = format!(
            "column '{}': {}",
            field.name(),
            one_line(&error.to_string())
        );
        return IoError::BadRecord { path, line, reason };
    }
    // Each column by itself is fine, so the record has one more than the schema.
    let mut reason = one_line(&error.to_string());
    if dialect.format == Format::JsonLines {
        reason += &format!(" (the columns are those of the first {INFER_ROWS} rows)");
    }
    IoError::BadRecord { path, line, reason }
}

/// The value of a column as it stands in the file.
fn as_text(alone: &Dialect, column: usize, record: &[u8]) -> Option<String> {
    let mut fields = alone.schema.fields().to_vec();
    if alone.format == Format::JsonLines {
        let record: BTreeMap<String, &RawValue> = serde_json::from_slice(record).ok()?;
        return Some(record.get(fields[column].name())?.get().to_owned());
    }
    fields[column] = Arc::new(Field::new(fields[column].name(), DataType::Utf8, true));
    let text = Dialect {
        schema: Arc::new(Schema::new(fields)),
        ..alone.clone()
    };
    shown(&text, record)
}

/// What would become of the value of a column if its type were not inferred but given.
fn as_given(alone: &Dialect, record: &[u8]) -> Option<String> {
    let given = Dialect {
        inferred: vec![false; alone.inferred.len()],
        ..alone.clone()
    };
    shown(&given, record)
}

/// The value of the only column that is decoded, if it can be.
fn shown(alone: &Dialect, record: &[u8]) -> Option<String> {
    let batch = alone.decode(record).ok()??;
    let options = FormatOptions::default().with_null("null");
    let formatter = ArrayFormatter::try_new(batch.column(0), &options).ok()?;
    Some(formatter.value(0).to_string())
}

/// A CSV record with too few or too many values.
fn wrong_width(dialect: &Dialect, record: &[u8]) -> Option<String> {
    if dialect.format != Format::Csv {
        return None;
    }
    let format = arrow_csv::reader::Format::default()
        .with_header(true)
        .with_delimiter(dialect.delimiter);
    let (schema, _) = format.infer_schema(record, Some(0)).ok()?;
    let (found, expected) = (schema.fields().len(), dialect.schema.fields().len());
    (found != expected).then(|| width_differs(found, expected, &dialect.header))
}
