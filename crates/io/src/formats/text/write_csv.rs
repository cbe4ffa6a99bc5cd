//! Writes CSV: a null is an empty value, an empty string is `""`, as pyarrow, Polars and DuckDB write them. The writer
//! of `arrow-csv` makes an empty value of both.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeStringArray, RecordBatch, StringArray, StringViewArray};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, Schema};
use memchr::{memchr, memchr3};

/// Appends the line of column names.
pub(super) fn header(out: &mut Vec<u8>, schema: &Schema, delimiter: u8) {
    for (column, field) in schema.fields().iter().enumerate() {
        if column > 0 {
            out.push(delimiter);
        }
        value(out, field.name(), delimiter);
    }
    out.push(b'\n');
}

/// Appends a line for each row.
pub(super) fn rows(
    out: &mut Vec<u8>,
    batch: &RecordBatch,
    delimiter: u8,
) -> Result<(), ArrowError> {
    let options = FormatOptions::default();
    let columns = batch
        .columns()
        .iter()
        .map(|column| Ok((Values::of(column, &options)?, column.logical_nulls())));
    let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
    // Readers would skip an empty line.
    let alone = columns.len() == 1;
    let mut text = String::new();
    for row in 0..batch.num_rows() {
        for (column, (values, nulls)) in columns.iter().enumerate() {
            if column > 0 {
                out.push(delimiter);
            }
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                value(out, values.text(row, &mut text)?, delimiter);
            } else if alone {
                value(out, "", delimiter);
            }
        }
        out.push(b'\n');
    }
    Ok(())
}

/// The values of a column as texts.
enum Values<'a> {
    /// Texts are written from where they are: a large one takes no copy.
    Texts(&'a StringArray),
    LargeTexts(&'a LargeStringArray),
    TextViews(&'a StringViewArray),
    Others(ArrayFormatter<'a>),
}

impl<'a> Values<'a> {
    fn of(column: &'a ArrayRef, options: &FormatOptions<'a>) -> Result<Self, ArrowError> {
        Ok(match column.data_type() {
            DataType::Utf8 => Self::Texts(column.as_string()),
            DataType::LargeUtf8 => Self::LargeTexts(column.as_string()),
            DataType::Utf8View => Self::TextViews(column.as_string_view()),
            _ => Self::Others(ArrayFormatter::try_new(column.as_ref(), options)?),
        })
    }

    /// Returns the text of a value that is not null, which may be made in `made`.
    fn text<'t>(&'t self, row: usize, made: &'t mut String) -> Result<&'t str, ArrowError> {
        match self {
            Self::Texts(texts) => Ok(texts.value(row)),
            Self::LargeTexts(texts) => Ok(texts.value(row)),
            Self::TextViews(texts) => Ok(texts.value(row)),
            Self::Others(formatter) => {
                made.clear();
                formatter.value(row).write(made)?;
                Ok(made)
            }
        }
    }
}

/// Appends a value, in quotes where it would be read as something else without.
fn value(out: &mut Vec<u8>, text: &str, delimiter: u8) {
    let bytes = text.as_bytes();
    let plain = memchr3(delimiter, b'"', b'\n', bytes).is_none() && memchr(b'\r', bytes).is_none();
    if plain && !bytes.is_empty() {
        out.extend_from_slice(bytes);
        return;
    }
    // Room that is made bit by bit may be twice what is needed.
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    for (index, part) in bytes.split(|&byte| byte == b'"').enumerate() {
        if index > 0 {
            out.extend_from_slice(b"\"\"");
        }
        out.extend_from_slice(part);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    fn written(columns: Vec<(&str, ArrayRef)>) -> String {
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns
                .into_iter()
                .map(|(name, column)| (name, column, true)),
        )
        .unwrap();
        let mut out = Vec::new();
        header(&mut out, &batch.schema(), b';');
        rows(&mut out, &batch, b';').unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_empty_string_is_not_a_null() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some(""), None, Some("a;\"b\"\n")]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(-3)]));
        assert_eq!(
            written(vec![("t", texts), ("n;", numbers)]),
            "t;\"n;\"\n\"\";1\n;\n\"a;\"\"b\"\"\n\";-3\n"
        );
    }

    #[test]
    fn a_null_in_the_only_column_is_a_line() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        assert_eq!(written(vec![("n", numbers)]), "n\n1\n\"\"\n");
    }
}
