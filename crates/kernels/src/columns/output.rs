//! The types of sorted batches, and the way back to the types that the user declared.
//!
//! Sorted batches hold strings and binary as views and dictionaries as plain values. Writers take these as they are, so
//! nobody pays for a conversion that is not needed.

use std::sync::Arc;

use arrow_array::{new_empty_array, Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::{cast_with_options, CastOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use crate::columns::plain;
use crate::error::{KernelError, Result};
use crate::layout::RowLayout;
use crate::slot::Slot;

/// Overflow is an error, never a null.
const STRICT: CastOptions<'_> = CastOptions {
    safe: false,
    format_options: arrow_cast::display::FormatOptions::new(),
};

/// Returns the schema of sorted batches.
pub(crate) fn output_schema(layout: &RowLayout) -> SchemaRef {
    with_types(layout, |value_type| match value_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        plain => plain.clone(),
    })
}

/// Returns the schema of sorted batches whose strings and binary are not views, unless they are declared so.
pub(crate) fn plain_schema(layout: &RowLayout) -> SchemaRef {
    with_types(layout, DataType::clone)
}

/// Returns the schema of the layout with these types of values; columns beside the rows are as declared.
fn with_types(layout: &RowLayout, type_of: impl Fn(&DataType) -> DataType) -> SchemaRef {
    let schema = layout.schema();
    let fields: Vec<Field> = layout
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| {
            let data_type = match column.slot {
                Slot::Framed { .. } => field.data_type().clone(),
                _ => type_of(&column.value_type),
            };
            field.as_ref().clone().with_data_type(data_type)
        })
        .collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Converts a framed column back to its declared type.
pub(crate) fn undo_wire(
    array: &ArrayRef,
    declared: &DataType,
) -> std::result::Result<ArrayRef, ArrowError> {
    match array.data_type() == declared {
        true => Ok(Arc::clone(array)),
        false if array.is_empty() => Ok(new_empty_array(declared)),
        false => cast_with_options(array, declared, &STRICT),
    }
}

/// Converts a batch to the types that the user declared.
///
/// # Errors
/// There is another number of columns, or a value that the declared type cannot hold. Or the key type of a dictionary
/// cannot number the distinct values of the batch.
pub fn cast_to_user_schema(schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch> {
    if batch.num_columns() != schema.fields().len() {
        return Err(KernelError::ColumnCount {
            expected: schema.fields().len(),
            actual: batch.num_columns(),
        });
    }
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns
        .map(|(array, field)| cast_column(array, field))
        .collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|e| KernelError::arrow("casting to the declared schema", e))
}

fn cast_column(array: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    if array.data_type() == field.data_type() {
        return Ok(Arc::clone(array));
    }
    if let Some(plain) = plain::from_views(array, field.data_type()) {
        return Ok(plain);
    }
    cast_with_options(array, field.data_type(), &STRICT).map_err(|error| {
        match (error, field.data_type()) {
            (ArrowError::DictionaryKeyOverflowError, DataType::Dictionary(key_type, _)) => {
                KernelError::DictionaryOverflow {
                    column: field.name().clone(),
                    key_type: key_type.as_ref().clone(),
                }
            }
            (error, declared) => KernelError::arrow(
                format!("casting column '{}' to {declared}", field.name()),
                error,
            ),
        }
    })
}
