//! Hive partitions: folders `key=value` in the path of a file are columns of its rows.
//!
//! Keys and values are percent-decoded. A column is int64, date or timestamp if all its values are written so, else text.
//! `007` and `+7` stay text, as in DuckDB and in the CSV reader, because a number would not tell how they were written.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow_cast::{cast_with_options, CastOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use serde::{Deserialize, Serialize};

use super::{Header, ReadOptions};
use crate::direct::known;
use crate::error::{IoError, Result};

/// The name of the folder of nulls.
pub(crate) const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// The value of a partition column in one file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PartitionValue {
    /// Number of the column in the schema of the source.
    pub column: usize,
    /// Whether the file has a column of this name too, which the value replaces.
    pub in_file: bool,
    /// The value as text.
    pub text: Option<String>,
}

/// The partition columns of an input.
#[derive(Debug, Clone)]
pub(super) struct Partitions {
    /// Their names, in the order of the first path.
    names: Vec<String>,
    /// Their values in each file, in this order.
    values: Vec<Vec<Option<String>>>,
}

/// The partition columns of all files, from their folders; `None` if there are no such folders.
pub(super) fn of_paths(files: &[PathBuf]) -> Result<Option<Partitions>> {
    let mut partitions: Option<Partitions> = None;
    for (index, path) in files.iter().enumerate() {
        let found = keys_of(path)?;
        let names: Vec<String> = found.iter().map(|(key, _)| key.clone()).collect();
        let all = partitions.get_or_insert_with(|| Partitions {
            names: names.clone(),
            values: Vec::with_capacity(files.len()),
        });
        let value = |name: &String| found.iter().find(|(key, _)| key == name);
        let values: Option<Vec<_>> = all
            .names
            .iter()
            .map(|name| value(name).map(|(_, text)| text.clone()))
            .collect();
        match values {
            Some(values) if found.len() == all.names.len() => all.values.push(values),
            _ => {
                return Err(IoError::MixedPartitions {
                    first: files[0].clone(),
                    first_keys: listed(&all.names),
                    second: files[index].clone(),
                    second_keys: listed(&names),
                })
            }
        }
    }
    Ok(partitions.filter(|partitions| !partitions.names.is_empty()))
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    quoted.join(", ")
}

/// The keys and values of the folders that a file is in.
fn keys_of(path: &Path) -> Result<Vec<(String, Option<String>)>> {
    let mut folders = Vec::new();
    for component in known(path).parent().unwrap_or(Path::new("")).components() {
        match component {
            Component::Normal(name) => folders.push(name.to_str().and_then(key_and_value)),
            Component::ParentDir => drop(folders.pop()),
            _ => {}
        }
    }
    let found: Vec<(String, Option<String>)> = folders.into_iter().flatten().collect();
    for (index, (key, _)) in found.iter().enumerate() {
        if found[..index].iter().any(|(before, _)| before == key) {
            return Err(IoError::PartitionTwice {
                path: path.to_path_buf(),
                key: key.clone(),
            });
        }
    }
    Ok(found)
}

fn key_and_value(folder: &str) -> Option<(String, Option<String>)> {
    let (key, value) = folder.split_once('=')?;
    let value = (value != NULL).then(|| decoded(value));
    (!key.is_empty()).then(|| (decoded(key), value))
}

/// The text with its percent codes decoded; unchanged if it has none, or if the bytes are no text.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = (first == b'%' && after.len() >= 2).then(|| &after[..2]);
        let code = code.filter(|code| code.iter().all(u8::is_ascii_hexdigit));
        let byte = code
            .and_then(|code| std::str::from_utf8(code).ok())
            .and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

impl Partitions {
    /// The options for the files themselves: without the types of partition columns.
    pub(super) fn without_types(&self, options: &ReadOptions) -> ReadOptions {
        without(options, |name| self.names.iter().any(|own| own == name))
    }

    /// The options with only the names of the files' own columns, for files without a header.
    ///
    /// `None` if partition columns have none of the given names, or all.
    pub(super) fn without_names(&self, options: &ReadOptions) -> Option<ReadOptions> {
        let Header::Missing(given) = &options.csv.header else {
            return None;
        };
        let mut options = options.clone();
        let kept = given.iter().filter(|name| !self.names.contains(name));
        let kept: Vec<_> = kept.cloned().collect();
        let is_fewer = !kept.is_empty() && kept.len() < given.len();
        options.csv.header = Header::Missing(kept);
        is_fewer.then_some(options)
    }

    /// The columns as fields. Types that are given must hold all values.
    pub(super) fn fields(
        &self,
        files: &[PathBuf],
        given: Option<&SchemaRef>,
    ) -> Result<Vec<Field>> {
        let field = |(index, name): (usize, &String)| {
            let texts = self.column(index);
            let given = given.and_then(|schema| schema.field_with_name(name).ok());
            let data_type = match given {
                Some(field) => field.data_type().clone(),
                None => inferred(&texts),
            };
            if let Some(file) = first_misfit(&texts, &data_type) {
                return Err(IoError::PartitionValue {
                    path: files[file].clone(),
                    column: name.clone(),
                    value: texts.value(file).to_owned(),
                    expected: data_type.to_string(),
                });
            }
            Ok(Field::new(name, data_type, true))
        };
        self.names.iter().enumerate().map(field).collect()
    }

    /// The values of a file; `columns` has the number of each column in the schema, and whether the file has it too.
    pub(super) fn of_file(&self, file: usize, columns: &[(usize, bool)]) -> Vec<PartitionValue> {
        let values = columns.iter().zip(&self.values[file]);
        values
            .map(|(&(column, in_file), text)| PartitionValue {
                column,
                in_file,
                text: text.clone(),
            })
            .collect()
    }

    fn column(&self, index: usize) -> StringArray {
        self.values
            .iter()
            .map(|values| values[index].as_deref())
            .collect()
    }
}

/// The options without the types of some columns.
pub(super) fn without(options: &ReadOptions, is_left_out: impl Fn(&str) -> bool) -> ReadOptions {
    let kept = options.schema.as_ref().map(|schema| {
        let fields = schema.fields().iter();
        let kept: Vec<_> = fields.filter(|f| !is_left_out(f.name())).cloned().collect();
        Arc::new(Schema::new_with_metadata(kept, schema.metadata().clone()))
    });
    ReadOptions {
        schema: kept.filter(|schema| !schema.fields().is_empty()),
        ..options.clone()
    }
}

/// The schema of files with partition columns, each in the place of the file's column or behind all others.
///
/// Also returns the number of each partition column, and whether the file has it too.
pub(super) fn widened(schema: &SchemaRef, fields: Vec<Field>) -> (SchemaRef, Vec<(usize, bool)>) {
    let mut all: Vec<_> = schema.fields().iter().cloned().collect();
    let mut columns = Vec::with_capacity(fields.len());
    for field in fields {
        match schema.index_of(field.name()) {
            Ok(index) => {
                all[index] = Arc::new(field);
                columns.push((index, true));
            }
            Err(_) => {
                columns.push((all.len(), false));
                all.push(Arc::new(field));
            }
        }
    }
    let schema = Schema::new_with_metadata(all, schema.metadata().clone());
    (Arc::new(schema), columns)
}

/// Bytes of the partition's values in a row.
pub(super) fn row_bytes(values: &[PartitionValue], schema: &Schema) -> u64 {
    let width = |value: &PartitionValue| {
        let fixed = schema.field(value.column).data_type().primitive_width();
        fixed.unwrap_or_else(|| 4 + value.text.as_ref().map_or(0, String::len))
    };
    values.iter().map(|value| width(value) as u64).sum()
}

/// The partition columns of files, with a row for each file.
pub(super) fn table(files: &[&[PartitionValue]], schema: &SchemaRef) -> Result<RecordBatch> {
    let columns: Vec<usize> = files.first().map_or_else(Vec::new, |values| {
        values.iter().map(|value| value.column).collect()
    });
    let array = |(index, &column): (usize, &usize)| {
        let texts: StringArray = files
            .iter()
            .map(|values| values[index].text.as_deref())
            .collect();
        as_type(&texts, schema.field(column).data_type())
    };
    let arrays: Result<Vec<ArrayRef>> = columns.iter().enumerate().map(array).collect();
    let fields = super::projected(schema, Some(&columns))?;
    let options = RecordBatchOptions::new().with_row_count(Some(files.len()));
    RecordBatch::try_new_with_options(fields, arrays?, &options).map_err(unlikely)
}

/// Casts the values of a partition column to its type.
pub(super) fn as_type(texts: &StringArray, data_type: &DataType) -> Result<ArrayRef> {
    cast_with_options(texts, data_type, &CastOptions::default()).map_err(unlikely)
}

/// An error that should not occur: all values of partition columns were cast to their types before.
pub(super) fn unlikely(error: arrow_schema::ArrowError) -> IoError {
    IoError::BadProjection {
        columns: 0,
        reason: crate::error::one_line(&error.to_string()),
    }
}

/// The first file whose value is not one of the type.
fn first_misfit(texts: &StringArray, data_type: &DataType) -> Option<usize> {
    let Ok(values) = as_type(texts, data_type) else {
        return (0..texts.len()).find(|&file| texts.is_valid(file));
    };
    (0..texts.len()).find(|&file| texts.is_valid(file) && values.is_null(file))
}

/// Whether a value is written as values of a type are.
type Shape = fn(&str) -> bool;

/// The type of a column without a given type.
fn inferred(texts: &StringArray) -> DataType {
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let candidates: [(Shape, DataType); 4] = [
        (is_integer, DataType::Int64),
        (is_date, DataType::Date32),
        (
            is_timestamp,
            DataType::Timestamp(TimeUnit::Microsecond, None),
        ),
        (is_zoned, utc),
    ];
    let values: Vec<&str> = texts.iter().flatten().collect();
    let fits = |(looks, data_type): &(Shape, DataType)| {
        values.iter().all(|text| looks(text)) && first_misfit(texts, data_type).is_none()
    };
    let found = candidates.into_iter().find(fits);
    found
        .filter(|_| !values.is_empty())
        .map_or(DataType::Utf8, |(_, data_type)| data_type)
}

/// `0`, `-12`, but neither `007`, `+7` nor `-0`.
fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_plain && (text == "0" || !digits.starts_with('0'))
}

/// `2024-01-02` or `2024-1-2`.
fn is_date(text: &str) -> bool {
    let shapes = ["dddd-dd-dd", "dddd-d-dd", "dddd-dd-d", "dddd-d-d"];
    shapes.iter().any(|shape| has_shape(text, shape))
}

/// `2024-01-02 03:04:05` or with a `T`, and with or without fractions of a second as small as 1 µs.
fn is_timestamp(text: &str) -> bool {
    let (date, time) = text.split_at_checked(10).unwrap_or((text, ""));
    let (whole, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let is_fraction =
        (1..=6).contains(&fraction.len()) && fraction.bytes().all(|b| b.is_ascii_digit());
    let is_time = has_shape(whole, " dd:dd:dd") || has_shape(whole, "Tdd:dd:dd");
    has_shape(date, "dddd-dd-dd") && is_time && is_fraction
}

/// A timestamp with an offset: `Z`, `+01:00`.
fn is_zoned(text: &str) -> bool {
    let offset = |suffix: &str| has_shape(suffix, "+dd:dd") || has_shape(suffix, "-dd:dd");
    let before = text.strip_suffix('Z').or_else(|| {
        let (before, suffix) = text.split_at_checked(text.len().checked_sub(6)?)?;
        offset(suffix).then_some(before)
    });
    before.is_some_and(is_timestamp)
}

/// Whether the text has the shape, in which `d` is any digit.
fn has_shape(text: &str, shape: &str) -> bool {
    text.len() == shape.len()
        && text
            .bytes()
            .zip(shape.bytes())
            .all(|(byte, wanted)| match wanted {
                b'd' => byte.is_ascii_digit(),
                _ => byte == wanted,
            })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(values: &[Option<&str>]) -> DataType {
        inferred(&values.iter().copied().collect())
    }

    #[test]
    fn columns_get_the_narrowest_type_that_all_values_are_written_as() {
        let stamp =
            |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into));
        let cases = [
            (vec![Some("1"), Some("-5"), None], DataType::Int64),
            (vec![Some("007"), Some("12")], DataType::Utf8),
            (vec![Some("+7")], DataType::Utf8),
            (vec![Some("99999999999999999999")], DataType::Utf8),
            (vec![Some("1.5")], DataType::Utf8),
            (vec![Some("true")], DataType::Utf8),
            (vec![Some("")], DataType::Utf8),
            (vec![None], DataType::Utf8),
            (
                vec![Some("2024-01-02"), None, Some("2024-1-2")],
                DataType::Date32,
            ),
            (vec![Some("2024-02-30")], DataType::Utf8),
            (vec![Some("2024-01-02"), Some("5")], DataType::Utf8),
            (vec![Some("2024-01-02 03:04:05")], stamp(None)),
            (vec![Some("2024-01-02T03:04:05.123")], stamp(None)),
            (vec![Some("2024-01-02T03:04:05Z")], stamp(Some("UTC"))),
            (vec![Some("2024-01-02T03:04:05+01:00")], stamp(Some("UTC"))),
        ];
        for (values, expected) in cases {
            assert_eq!(types(&values), expected, "{values:?}");
        }
    }

    #[test]
    fn folders_are_decoded() {
        let of = |path: &str| keys_of(Path::new(path)).unwrap();
        let pair = |key: &str, value: Option<&str>| (key.to_owned(), value.map(str::to_owned));
        assert_eq!(of("/data/k=a%2Fb%3Dc/f.csv"), [pair("k", Some("a/b=c"))]);
        assert_eq!(of("k=a=b/f.csv"), [pair("k", Some("a=b"))]);
        assert_eq!(of("k=100%/f.csv"), [pair("k", Some("100%"))]);
        assert_eq!(
            of("k=%C3%A9/x=%ff/f"),
            [pair("k", Some("é")), pair("x", Some("%ff"))]
        );
        assert_eq!(of("k=%5F%5fx/f"), [pair("k", Some("__x"))]);
        assert_eq!(of("k=__HIVE_DEFAULT_PARTITION__/f"), [pair("k", None)]);
        assert_eq!(of("k=/f"), [pair("k", Some(""))]);
        assert_eq!(of("k=1/../k=2/f"), [pair("k", Some("2"))]);
        assert_eq!(of("=1/plain/k=v.csv"), []);
        assert!(keys_of(Path::new("k=1/k=2/f")).is_err());
    }

    #[test]
    fn files_in_folders_of_other_keys_are_named() {
        let paths = |paths: &[&str]| of_paths(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert!(paths(&["a/x", "b/y"]).unwrap().is_none());
        let swapped = paths(&["a=1/b=2/x", "b=3/a=4/x"]).unwrap().unwrap();
        assert_eq!(
            swapped.values[1],
            [Some("4".to_owned()), Some("3".to_owned())]
        );
        for mixed in [
            ["a=1/x", "c/y"],
            ["c/y", "a=1/x"],
            ["a=1/x", "b=1/y"],
            ["a=1/x", "a=1/b=1/y"],
        ] {
            let error = paths(&mixed).unwrap_err().to_string();
            assert!(
                error.contains(mixed[0]) && error.contains(mixed[1]),
                "{error}"
            );
        }
    }
}
