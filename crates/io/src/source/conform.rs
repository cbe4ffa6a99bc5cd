//! One schema for many files: merges the schemas that files declare, and gives batches the merged schema.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef};

use super::nested;
use super::unify::unified;
use crate::error::{one_line, ColumnOrigin, IoError, Result};
use crate::Format;

/// A schema, and the path that it is from.
pub(super) type Origin<'a> = (&'a Path, &'a SchemaRef);

/// Merges the schema of another file, whose columns may be in another order and of other types; keeps the order of the
/// first. A column is nullable if it is nullable in any file.
pub(super) fn merge_by_name(first: Origin<'_>, second: Origin<'_>) -> Result<SchemaRef> {
    if first.1 == second.1 {
        return Ok(first.1.clone());
    }
    let places = places(second.1, first.1.fields().iter().map(|field| field.name()));
    let Some(places) = places.filter(|_| first.1.fields().len() == second.1.fields().len()) else {
        return Err(other_columns(first, second));
    };
    let pairs = first.1.fields().iter().zip(places);
    let pairs = pairs.map(|(a, place)| (a, second.1.field(place)));
    merged(first, second, pairs, |a, b| {
        unified(a.data_type(), b.data_type())
    })
}

fn other_columns((first_path, first): Origin<'_>, (second_path, second): Origin<'_>) -> IoError {
    IoError::ColumnCount {
        first: first_path.to_path_buf(),
        first_columns: first.fields().len(),
        second: second_path.to_path_buf(),
        second_columns: second.fields().len(),
        extra: extra_column(first, second),
    }
}

fn merged<'a>(
    (first_path, first): Origin<'_>,
    (second_path, _): Origin<'_>,
    pairs: impl Iterator<Item = (&'a FieldRef, &'a Field)>,
    data_type: impl Fn(&Field, &Field) -> Option<DataType>,
) -> Result<SchemaRef> {
    let origin = |field: &Field, path: &Path| {
        Box::new(ColumnOrigin {
            name: field.name().clone(),
            data_type: field.data_type().to_string(),
            path: path.to_path_buf(),
        })
    };
    let fields = pairs.enumerate().map(|(column, (a, b))| {
        let data_type = data_type(a, b).ok_or_else(|| IoError::ColumnMismatch {
            column,
            first: origin(a, first_path),
            second: origin(b, second_path),
        })?;
        Ok(rebuilt(a, data_type, a.is_nullable() || b.is_nullable()))
    });
    let fields = fields.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(Schema::new_with_metadata(
        fields,
        first.metadata().clone(),
    )))
}

/// Places of columns with these names in a schema; `None` if one is missing.
pub(crate) fn places<'a>(
    schema: &Schema,
    names: impl Iterator<Item = &'a String>,
) -> Option<Vec<usize>> {
    let mut by_name = None;
    names
        .enumerate()
        .map(|(index, name)| {
            // Mostly columns are in this order.
            if schema
                .fields()
                .get(index)
                .is_some_and(|field| field.name() == name)
            {
                return Some(index);
            }
            let by_name = by_name.get_or_insert_with(|| {
                let fields = schema.fields().iter().enumerate();
                fields
                    .map(|(place, field)| (field.name(), place))
                    .collect::<HashMap<_, _>>()
            });
            by_name.get(name).copied()
        })
        .collect()
}

/// The first column of each schema that the other lacks, if there is one.
fn extra_column(first: &Schema, second: &Schema) -> String {
    let lacking = |of: &Schema, other: &Schema| {
        let mut names = of.fields().iter().map(|field| field.name());
        let lacking = names.find(|name| other.index_of(name).is_err());
        lacking.map(|name| format!("'{name}'"))
    };
    match (lacking(first, second), lacking(second, first)) {
        (Some(a), Some(b)) => format!("{a} and {b} are each"),
        (Some(name), None) | (None, Some(name)) => format!("{name} is"),
        // Nothing is found only if a name occurs twice.
        (None, None) => "a column is twice".to_owned(),
    }
}

/// Merges equal types that may differ in the nullability of nested fields.
fn merge_type(a: &DataType, b: &DataType) -> Option<DataType> {
    let field = |a: &Field, b: &Field| {
        (a.name() == b.name())
            .then(|| merge_type(a.data_type(), b.data_type()))
            .flatten()
            .map(|data_type| Arc::new(rebuilt(a, data_type, a.is_nullable() || b.is_nullable())))
    };
    match (a, b) {
        (DataType::List(a), DataType::List(b)) => Some(DataType::List(field(a, b)?)),
        (DataType::LargeList(a), DataType::LargeList(b)) => Some(DataType::LargeList(field(a, b)?)),
        (DataType::Map(a, s), DataType::Map(b, t)) if s == t => {
            Some(DataType::Map(field(a, b)?, *s))
        }
        (DataType::FixedSizeList(a, n), DataType::FixedSizeList(b, m)) if n == m => {
            Some(DataType::FixedSizeList(field(a, b)?, *n))
        }
        (DataType::Struct(a), DataType::Struct(b)) if a.len() == b.len() => {
            let fields: Option<Vec<_>> = a.iter().zip(b).map(|(a, b)| field(a, b)).collect();
            Some(DataType::Struct(fields?.into()))
        }
        _ => (a == b).then(|| a.clone()),
    }
}

fn rebuilt(field: &Field, data_type: DataType, nullable: bool) -> Field {
    Field::new(field.name(), data_type, nullable).with_metadata(field.metadata().clone())
}

/// Refuses two columns of one name, because neither could be addressed.
pub(super) fn check_names(path: &Path, schema: &Schema) -> Result<()> {
    let mut seen = std::collections::HashSet::new();
    match schema
        .fields()
        .iter()
        .find(|field| !seen.insert(field.name()))
    {
        Some(field) => Err(IoError::DuplicateColumn {
            path: path.to_path_buf(),
            column: field.name().clone(),
        }),
        None => Ok(()),
    }
}

/// The schema with keys of 32 bits for dictionaries, at any depth, whose keys cannot number `rows` values. Each file has a
/// dictionary of its own, and together the dictionaries may have as many values as rows.
pub(super) fn with_wide_keys(schema: &SchemaRef, rows: Option<u64>) -> SchemaRef {
    let fields = schema.fields().iter();
    let fields: Fields = fields.map(|field| with_wide_key(field, rows)).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn with_wide_key(field: &FieldRef, rows: Option<u64>) -> FieldRef {
    use DataType::{Dictionary, FixedSizeList, LargeList, List, Map, Struct};
    // Lists may have more values than there are rows.
    let inner = |item: &FieldRef| with_wide_key(item, None);
    let wide = match field.data_type() {
        Dictionary(key, values) if rows.is_none_or(|rows| rows > most_values(key)) => {
            let key = match most_values(key) {
                u64::MAX => key.clone(),
                _ => Box::new(DataType::Int32),
            };
            Dictionary(key, values.clone())
        }
        List(item) => List(inner(item)),
        LargeList(item) => LargeList(inner(item)),
        FixedSizeList(item, size) => FixedSizeList(inner(item), *size),
        Map(entries, is_sorted) => Map(inner(entries), *is_sorted),
        Struct(fields) => Struct(
            { fields.iter() }
                .map(|field| with_wide_key(field, rows))
                .collect(),
        ),
        _ => return field.clone(),
    };
    Arc::new(field.as_ref().clone().with_data_type(wide))
}

/// The most values that keys of a type can number.
fn most_values(key: &DataType) -> u64 {
    match key {
        DataType::Int8 => 1 << 7,
        DataType::UInt8 => 1 << 8,
        DataType::Int16 => 1 << 15,
        DataType::UInt16 => 1 << 16,
        _ => u64::MAX,
    }
}

/// Gives a batch the names, nullability and metadata of `schema`. Types stay those of the arrays, because readers may
/// deliver a cheaper type of the same family (views for strings, values for dictionaries).
pub(crate) fn conform(
    batch: RecordBatch,
    schema: &Schema,
) -> std::result::Result<RecordBatch, ArrowError> {
    let fields = schema.fields().iter().zip(batch.columns());
    let fields: Vec<Field> = fields
        .map(|(field, array)| rebuilt(field, array.data_type().clone(), field.is_nullable()))
        .collect();
    if fields.len() != batch.num_columns() {
        return Err(ArrowError::SchemaError(format!(
            "{} columns where {} are declared",
            batch.num_columns(),
            fields.len()
        )));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    RecordBatch::try_new_with_options(schema, batch.columns().to_vec(), &options)
}

/// Casts columns of a batch to the types of `schema`, unless the reader delivers that type or a cheaper one.
///
/// # Errors
/// The type cannot hold a value; the error names the column.
pub(super) fn retyped(
    (path, format): (&Path, Format),
    batch: RecordBatch,
    schema: &Schema,
) -> Result<RecordBatch> {
    let pairs = || batch.columns().iter().zip(schema.fields());
    if pairs().all(|(array, field)| is_delivered(array.data_type(), field.data_type())) {
        return Ok(batch);
    }
    let mut fields = Vec::with_capacity(batch.num_columns());
    let mut columns = Vec::with_capacity(batch.num_columns());
    for (array, field) in pairs() {
        let is_fine = is_delivered(array.data_type(), field.data_type());
        let cast = match is_fine {
            true => Ok(array.clone()),
            false => nested::cast(array, field.data_type()),
        };
        let array = cast.map_err(|error| IoError::Unfit {
            column: Box::new(ColumnOrigin {
                name: field.name().clone(),
                data_type: array.data_type().to_string(),
                path: path.to_path_buf(),
            }),
            to: field.data_type().to_string(),
            reason: one_line(&error.to_string()),
        })?;
        fields.push(rebuilt(
            field,
            array.data_type().clone(),
            field.is_nullable(),
        ));
        columns.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    RecordBatch::try_new_with_options(schema, columns, &options)
        .map_err(|error| IoError::corrupt(path, format, error))
}

/// Whether an array may stand for one of the wanted type. It may have other nullability, another layout of text or binary,
/// or the values of a dictionary.
fn is_delivered(array: &DataType, wanted: &DataType) -> bool {
    use DataType::{Binary, BinaryView, Dictionary, LargeBinary, LargeUtf8, Utf8, Utf8View};
    match (array, wanted) {
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => true,
        (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView) => true,
        (Dictionary(..), _) => array == wanted,
        (_, Dictionary(_, values)) => is_delivered(array, values),
        _ => merge_type(array, wanted).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(fields: Vec<Field>) -> SchemaRef {
        Arc::new(Schema::new(fields))
    }

    #[test]
    fn nullability_is_merged_at_every_level() {
        let list =
            |nullable| DataType::List(Arc::new(Field::new("item", DataType::Int32, nullable)));
        let a = schema(vec![
            Field::new("x", DataType::Int64, false),
            Field::new("l", list(false), true),
        ]);
        let b = schema(vec![
            Field::new("x", DataType::Int64, true),
            Field::new("l", list(true), false),
        ]);
        let merged = merge_by_name((Path::new("a"), &a), (Path::new("b"), &b)).unwrap();
        assert!(merged.field(0).is_nullable());
        assert_eq!(merged.field(1), &Field::new("l", list(true), true));
    }

    #[test]
    fn a_difference_names_both_files_and_types() {
        let a = schema(vec![Field::new("x", DataType::Int64, false)]);
        let b = schema(vec![Field::new("x", DataType::Utf8, false)]);
        let error = merge_by_name((Path::new("a.csv"), &a), (Path::new("b.csv"), &b))
            .unwrap_err()
            .to_string();
        for part in ["a.csv", "b.csv", "Int64", "Utf8", "'x'"] {
            assert!(error.contains(part), "{error}");
        }
        let c = schema(vec![]);
        assert!(matches!(
            merge_by_name((Path::new("a"), &a), (Path::new("c"), &c)),
            Err(IoError::ColumnCount { .. })
        ));
    }
}
