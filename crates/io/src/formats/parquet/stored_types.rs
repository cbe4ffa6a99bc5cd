//! Stores types that Parquet has no name for as the nearest type: seconds as milliseconds, dates of 64 bits as dates of 32.
//!
//! Why: the encoder writes such types as plain integers, and their type only into the metadata of Arrow. Other readers would
//! read numbers.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::{cast_with_options, CastOptions};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};

/// Overflow is an error, never a null.
const STRICT: CastOptions<'_> = CastOptions {
    safe: false,
    format_options: arrow_cast::display::FormatOptions::new(),
};

/// The schema of a file with rows of this schema.
pub(super) fn stored_schema(schema: &SchemaRef) -> SchemaRef {
    let fields: Vec<FieldRef> = schema.fields().iter().map(stored_field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The batch with the types of its file.
pub(super) fn stored(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema();
    if schema
        .fields()
        .iter()
        .all(|field| stored_type(field.data_type()).is_none())
    {
        return Ok(batch.clone());
    }
    let columns: Result<Vec<ArrayRef>, ArrowError> = batch
        .columns()
        .iter()
        .map(|array| match stored_type(array.data_type()) {
            Some(stored) => cast_with_options(array, &stored, &STRICT),
            None => Ok(Arc::clone(array)),
        })
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(stored_schema(&schema), columns?, &options)
}

fn stored_field(field: &FieldRef) -> FieldRef {
    match stored_type(field.data_type()) {
        Some(stored) => Arc::new(Field::clone(field).with_data_type(stored)),
        None => Arc::clone(field),
    }
}

/// The type that a file has instead of this one; `None` if it has this type itself.
fn stored_type(data_type: &DataType) -> Option<DataType> {
    use DataType as T;
    let within = |item: &FieldRef| {
        let stored = stored_field(item);
        (!Arc::ptr_eq(&stored, item)).then_some(stored)
    };
    match data_type {
        T::Timestamp(TimeUnit::Second, zone) => {
            Some(T::Timestamp(TimeUnit::Millisecond, zone.clone()))
        }
        T::Time32(TimeUnit::Second) => Some(T::Time32(TimeUnit::Millisecond)),
        T::Date64 => Some(T::Date32),
        T::Dictionary(keys, values) => {
            stored_type(values).map(|values| T::Dictionary(keys.clone(), Box::new(values)))
        }
        T::List(item) => within(item).map(T::List),
        T::LargeList(item) => within(item).map(T::LargeList),
        T::FixedSizeList(item, size) => within(item).map(|item| T::FixedSizeList(item, *size)),
        T::Map(entries, sorted) => within(entries).map(|entries| T::Map(entries, *sorted)),
        T::Struct(fields) => fields
            .iter()
            .any(|field| within(field).is_some())
            .then(|| T::Struct(fields.iter().map(stored_field).collect())),
        _ => None,
    }
}
