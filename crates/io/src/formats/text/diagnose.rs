//! Finds the line, column and value at fault after a decoder refused a batch.
//!
//! This runs only on the way to an error, so it decodes record by record, then column by column.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use serde_json::value::RawValue;

use super::encoding::Encoding;
use super::fields::Fields;
use super::json_scan::JsonScan;
use super::line_starts::text_start;
use super::lines::{LineEnd, Place};
use super::records::{Piece, RecordReader, Rule};
use super::scan::Fault;
use super::Notation;
use super::{lines, width_differs, Dialect, VALUE_BYTES};
use crate::direct::{RangeReader, ReadAhead};
use crate::error::{one_line, IoError, Result};
use crate::source::RowLimit;

/// Returns the error that describes the first record in `range` that does not decode; `None` if every record does.
pub(super) fn find(
    file: &Arc<RangeReader>,
    range: Range<u64>,
    dialect: &Dialect,
) -> Result<Option<IoError>> {
    let mut reader =
        RecordReader::new(file.clone(), range, dialect.rule(), dialect.max_row_bytes());
    loop {
        let position = reader.position();
        match reader.next()? {
            None => return Ok(None),
            Some(Piece::Nothing(_)) => {}
            Some(Piece::Long) => {
                return Ok(Some(dialect.long_row(file, position)));
            }
            Some(Piece::Fault(_, fault)) => return Ok(Some(fault_error(file, fault)?)),
            Some(Piece::Record(record)) => {
                if let Err(error) = dialect.decode(record) {
                    let line = lines::at(file, position, dialect.notation.line_end())?.line;
                    return Ok(Some(describe(file, dialect, record, line, &error)));
                }
            }
        }
    }
}

/// Returns the error of a record that begins at a position.
pub(super) fn bad_record(
    file: &Arc<RangeReader>,
    position: u64,
    end: LineEnd,
    reason: String,
) -> Result<IoError> {
    Ok(IoError::BadRecord {
        path: file.path().to_path_buf(),
        line: lines::at(file, position, end)?.line,
        reason,
    })
}

/// Returns the error of text that is no CSV.
pub(super) fn fault_error(file: &Arc<RangeReader>, fault: Fault) -> Result<IoError> {
    let opened = lines::at(file, fault.opened(), LineEnd::Any)?;
    Ok(IoError::BadRecord {
        path: file.path().to_path_buf(),
        line: opened.line,
        reason: fault_reason(file, fault, opened, opened.line)?,
    })
}

/// Returns the reason for text whose quote opens at a place, for a caller who knows the number of a line.
pub(super) fn fault_reason(
    file: &Arc<RangeReader>,
    fault: Fault,
    opened: Place,
    known_line: u64,
) -> Result<String> {
    let in_words = |place: Place| match place.line - known_line {
        0 => format!("in column {}", place.column),
        1 => format!("in column {} of the next line", place.column),
        lines => format!("in column {}, {lines} lines below", place.column),
    };
    let opens = in_words(opened);
    let Fault::BehindQuote { at, .. } = fault else {
        return Ok(format!("the quote that opens {opens} is never closed"));
    };
    let mut behind = lines::between(file, fault.opened(), at, LineEnd::Any)?;
    if behind.line == 1 {
        behind.column += opened.column - 1;
    }
    behind.line += opened.line - 1;
    Ok(format!(
        "the quote that opens {opens} closes, and text stands behind it, {}",
        in_words(behind)
    ))
}

/// Returns the error of text that is no CSV in place of the header, which cannot be left out like a row.
pub(super) fn header_error(file: &Arc<RangeReader>, fault: Fault) -> Result<IoError> {
    Ok(match fault_error(file, fault)? {
        IoError::BadRecord { path, line, reason } => IoError::BadHeader { path, line, reason },
        other => other,
    })
}

/// Returns the error of a line of JSON that is no object. If the first line begins a JSON document, as other programs
/// write, the error says so.
pub(super) fn not_an_object(
    file: &Arc<RangeReader>,
    position: u64,
    text: &[u8],
    reason: String,
) -> Result<IoError> {
    let is_first = text_start(file, 0)? == position;
    let ends_early = serde_json::from_slice::<&RawValue>(text).is_err_and(|error| error.is_eof());
    let document = match text.trim_ascii().first() {
        Some(b'[') => Some(("an array", ".[]")),
        Some(b'{') if ends_early => Some(("an object", ".")),
        _ => None,
    };
    match (
        document.filter(|_| is_first),
        bad_record(file, position, LineEnd::Newline, reason)?,
    ) {
        (Some((what, program)), IoError::BadRecord { path, line, .. }) => Ok(IoError::NotLines {
            path,
            line,
            what,
            program,
        }),
        (_, error) => Ok(error),
    }
}

/// Returns the error of a record in another encoding.
pub(crate) fn not_utf8(file: &Arc<RangeReader>, position: u64, end: LineEnd) -> Result<IoError> {
    Ok(IoError::NotUtf8 {
        path: file.path().to_path_buf(),
        line: lines::at(file, position, end)?.line,
    })
}

/// Returns the error of a row that begins at a position and is longer than there is memory for. The row is read to its end,
/// without being kept: the error names a limit that has room for it.
pub(crate) fn long_row(
    file: &Arc<RangeReader>,
    position: u64,
    rule: Rule,
    limit: Option<RowLimit>,
) -> IoError {
    let found = || -> Result<_> {
        let mut reader = RecordReader::new(file.clone(), position..file.len(), rule, 0);
        reader.next()?;
        Ok((
            lines::at(file, position, rule.line_end())?,
            reader.position() - position,
        ))
    };
    let limit_bytes = RowLimit::most_bytes(limit);
    match found() {
        Ok((place, bytes)) => IoError::LongRow {
            path: file.path().to_path_buf(),
            line: place.line,
            bytes,
            limit_bytes,
            enough_bytes: limit.map_or(0, |limit| limit.enough_bytes(bytes)),
        },
        Err(error) => error,
    }
}

/// Returns where the line that has a position begins, for positions behind the start of another line.
pub(super) fn start_of_line(file: &Arc<RangeReader>, from: u64, position: u64) -> Result<u64> {
    let mut reader = RecordReader::new(file.clone(), from..file.len(), Rule::Lines, 0);
    loop {
        let start = reader.position();
        if reader.next()?.is_none() || reader.position() > position {
            return Ok(start);
        }
    }
}

/// Returns the number of values of JSON in a range.
fn num_values(file: &Arc<RangeReader>, range: Range<u64>) -> Result<u64> {
    let mut scan = JsonScan::new();
    for window in ReadAhead::new(file.clone(), range, 1)? {
        scan.add(&window?);
    }
    Ok(scan.num_values())
}

impl Dialect {
    /// Returns the error of a row that begins at a position and is longer than there is memory for.
    pub(super) fn long_row(&self, file: &Arc<RangeReader>, position: u64) -> IoError {
        match long_row(file, position, self.rule(), self.max_row) {
            IoError::LongRow {
                path, line, bytes, ..
            } if self.notation == Notation::JsonLines => {
                self.long_json(file, position, (path, line, bytes))
            }
            other => other,
        }
    }

    /// Returns the error of a long row of JSON, whose values take memory beside its text.
    fn long_json(
        &self,
        file: &Arc<RangeReader>,
        position: u64,
        (path, line, bytes): (PathBuf, u64, u64),
    ) -> IoError {
        let values = match num_values(file, position..position + bytes) {
            Ok(values) => values,
            Err(error) => return error,
        };
        let limit_bytes = self.max_row_bytes();
        let counted = bytes.saturating_add(VALUE_BYTES.saturating_mul(values));
        let enough_bytes = self.max_row.map_or(0, |limit| limit.enough_bytes(counted));
        if bytes > limit_bytes as u64 {
            return IoError::LongRow {
                path,
                line,
                bytes,
                limit_bytes,
                enough_bytes,
            };
        }
        IoError::ManyValues {
            path,
            line,
            values,
            bytes: counted,
            enough_bytes,
        }
    }
}

/// Returns the error for a record that does not decode.
pub(super) fn describe(
    file: &RangeReader,
    dialect: &Dialect,
    record: &[u8],
    line: u64,
    error: &ArrowError,
) -> IoError {
    let path = file.path().to_path_buf();
    if dialect.encoding == Encoding::Utf8 && std::str::from_utf8(record).is_err() {
        return IoError::NotUtf8 { path, line };
    }
    let fault = dialect.notation.fault(record);
    if let Some(reason) = fault.or_else(|| wrong_width(dialect, record)) {
        return IoError::BadRecord { path, line, reason };
    }
    if let Some((place, key)) = unknown_key(error) {
        return IoError::UnknownKey {
            path,
            line,
            key,
            place,
        };
    }
    let of_columns = |columns| Dialect {
        projection: Some(columns),
        ..dialect.clone()
    };
    let is_json = dialect.notation == Notation::JsonLines;
    let columns = match &dialect.projection {
        // The decoder of JSON refuses some texts of any column, whichever it decodes.
        _ if is_json && of_columns(Vec::new()).decode(record).is_err() => Vec::new(),
        Some(columns) => columns.clone(),
        None => (0..dialect.schema.fields().len()).collect(),
    };
    for column in columns {
        let alone = of_columns(vec![column]);
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
    // Each column by itself is fine, so the fault is in the record as a whole.
    let reason = one_line(&error.to_string());
    IoError::BadRecord { path, line, reason }
}

/// Returns a key of JSON that has no column, and the column that it is in, if it is in one, as decoders tell them.
fn unknown_key(error: &ArrowError) -> Option<(Option<String>, String)> {
    let text = error.to_string();
    let (before, key) = { text.strip_suffix("' missing from schema")? }.split_once("column '")?;
    let column = before.split_once("whilst decoding field '");
    let column = column.and_then(|(_, behind)| behind.split_once("': "));
    Some((column.map(|(name, _)| name.to_owned()), key.to_owned()))
}

/// Returns the value of a column as it stands in the file.
fn as_text(alone: &Dialect, column: usize, record: &[u8]) -> Option<String> {
    let mut fields = alone.schema.fields().to_vec();
    if alone.notation == Notation::JsonLines {
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

/// Returns the value that a column would have if its type were not inferred but given.
fn as_given(alone: &Dialect, record: &[u8]) -> Option<String> {
    let given = Dialect {
        inferred: vec![false; alone.inferred.len()],
        ..alone.clone()
    };
    shown(&given, record)
}

/// Returns the value of the only column that is decoded, if it can be decoded.
fn shown(alone: &Dialect, record: &[u8]) -> Option<String> {
    let batch = alone.decode(record).ok()?;
    let options = FormatOptions::default().with_null("null");
    let formatter = ArrayFormatter::try_new(batch.column(0), &options).ok()?;
    Some(formatter.value(0).to_string())
}

/// Describes a CSV record with too few or too many values.
fn wrong_width(dialect: &Dialect, record: &[u8]) -> Option<String> {
    if dialect.notation != Notation::Csv {
        return None;
    }
    let mut fields = Fields::new(dialect.syntax, dialect.encoding);
    fields.split(record);
    let (found, columns) = (fields.len(), dialect.schema.fields());
    let names = columns.iter().map(|field| field.name().as_str());
    (found != columns.len()).then(|| width_differs(found, names, &dialect.header))
}
