//! The JSON lines decoder. Missing keys are null; a key that the schema does not have is an error, since its values would
//! be lost.
//!
//! Integers are decoded as text and parsed afterwards: the decoder itself would make 2 of 2.5 without a word.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_cast::{cast_with_options, CastOptions};
use arrow_json::reader::Decoder;
use arrow_json::ReaderBuilder;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};

use super::{Decode, Dialect};

pub(super) struct JsonDecoder {
    inner: Decoder,
    /// What is decoded, with integers.
    schema: SchemaRef,
    /// Where each requested column is among those decoded, which are in schema order and distinct.
    order: Option<Vec<usize>>,
}

pub(super) fn decoder(dialect: &Dialect, batch_rows: usize) -> Result<JsonDecoder, ArrowError> {
    let (schema, order) = match &dialect.projection {
        None => (dialect.schema.clone(), None),
        Some(columns) => {
            let mut decoded = columns.clone();
            decoded.sort_unstable();
            decoded.dedup();
            let order = columns
                .iter()
                .map(|column| decoded.partition_point(|d| d < column))
                .collect();
            (Arc::new(dialect.schema.project(&decoded)?), Some(order))
        }
    };
    // Columns of mixed scalars are inferred as strings; coercion writes the others as text.
    let fields: Vec<FieldRef> = schema.fields().iter().map(with_text).collect();
    let inner = ReaderBuilder::new(Arc::new(Schema::new(fields)))
        .with_batch_size(batch_rows)
        .with_coerce_primitive(true)
        .with_strict_mode(dialect.projection.is_none())
        .build_decoder()?;
    Ok(JsonDecoder {
        inner,
        schema,
        order,
    })
}

impl Decode for JsonDecoder {
    fn decode(&mut self, bytes: &[u8]) -> Result<usize, ArrowError> {
        self.inner.decode(bytes)
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let Some(texts) = self.inner.flush()? else {
            return Ok(None);
        };
        let batch = with_integers(&texts, &self.schema)?;
        match &self.order {
            Some(order) => batch.project(order).map(Some),
            None => Ok(Some(batch)),
        }
    }
}

/// The field with text in the place of integers.
fn with_text(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::List(item) => DataType::List(with_text(item)),
        DataType::LargeList(item) => DataType::LargeList(with_text(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(with_text(item), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(with_text).collect()),
        integer if integer.is_integer() => DataType::Utf8,
        _ => return field.clone(),
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}

/// Parses what `with_text` made text.
fn with_integers(texts: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let pairs = texts.columns().iter().zip(schema.fields());
    let columns = pairs
        .map(|(text, field)| cast_with_options(text, field.data_type(), &strict))
        .collect::<Result<Vec<_>, _>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(texts.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &rows)
}
