//! One schema for many files: merging what the files declare, and making batches say what was merged.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use crate::error::{ColumnOrigin, IoError, Result};

/// Adds the schema of another file: same names and types in the same order; a column is nullable if it is anywhere.
pub(super) fn merge(first: (&Path, &SchemaRef), second: (&Path, &SchemaRef)) -> Result<SchemaRef> {
    let ((first_path, first), (second_path, second)) = (first, second);
    if first == second {
        return Ok(first.clone());
    }
    if first.fields().len() != second.fields().len() {
        return Err(IoError::ColumnCount {
            first: first_path.to_path_buf(),
            first_columns: first.fields().len(),
            second: second_path.to_path_buf(),
            second_columns: second.fields().len(),
            extra: extra_column(first, second),
        });
    }
    let mut fields = Vec::with_capacity(first.fields().len());
    for (column, (a, b)) in first.fields().iter().zip(second.fields()).enumerate() {
        let merged = (a.name() == b.name())
            .then(|| merge_type(a.data_type(), b.data_type()))
            .flatten();
        let origin = |field: &Field, path: &Path| {
            let (name, data_type) = (field.name().clone(), field.data_type().to_string());
            Box::new(ColumnOrigin {
                name,
                data_type,
                path: path.to_path_buf(),
            })
        };
        let data_type = merged.ok_or_else(|| {
            let (first, second) = (origin(a, first_path), origin(b, second_path));
            IoError::ColumnMismatch {
                column,
                first,
                second,
            }
        })?;
        fields.push(rebuilt(a, data_type, a.is_nullable() || b.is_nullable()));
    }
    Ok(Arc::new(Schema::new_with_metadata(
        fields,
        first.metadata().clone(),
    )))
}

/// The first column of the wider schema that the other lacks.
fn extra_column(first: &Schema, second: &Schema) -> String {
    let (wide, narrow) = if first.fields().len() > second.fields().len() {
        (first, second)
    } else {
        (second, first)
    };
    let mut names = wide.fields().iter().map(|field| field.name());
    let lacking = names.find(|name| narrow.index_of(name).is_err());
    // Only a name that occurs twice leaves nothing to find.
    lacking
        .or_else(|| wide.fields().last().map(|field| field.name()))
        .cloned()
        .unwrap_or_default()
}

/// Equal types that may differ in the nullability of what is nested in them.
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

/// A column that two columns share a name with cannot be addressed.
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

/// The batch with the names, nullability and metadata of `schema`; types stay those of the arrays, because readers may
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
        let merged = merge((Path::new("a"), &a), (Path::new("b"), &b)).unwrap();
        assert!(merged.field(0).is_nullable());
        assert_eq!(merged.field(1), &Field::new("l", list(true), true));
    }

    #[test]
    fn a_difference_names_both_files_and_types() {
        let a = schema(vec![Field::new("x", DataType::Int64, false)]);
        let b = schema(vec![Field::new("x", DataType::Utf8, false)]);
        let error = merge((Path::new("a.csv"), &a), (Path::new("b.csv"), &b))
            .unwrap_err()
            .to_string();
        for part in ["a.csv", "b.csv", "Int64", "Utf8", "'x'"] {
            assert!(error.contains(part), "{error}");
        }
        let c = schema(vec![]);
        assert!(matches!(
            merge((Path::new("a"), &a), (Path::new("c"), &c)),
            Err(IoError::ColumnCount { .. })
        ));
    }
}
