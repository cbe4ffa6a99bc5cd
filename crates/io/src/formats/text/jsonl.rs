//! The JSON lines decoder. Missing keys are null. A key that the schema does not have is an error, since its values
//! would be lost. Beside the columns that holds only where all columns are asked for; within a column it holds wherever
//! that column is asked for.
//!
//! Numbers of columns whose type was inferred have a decoder of their own, which takes only numbers and loses no digit.
//! Numbers of columns whose type was given are decoded as text, also from within quotes, and parsed afterwards. The
//! decoder itself would make 2 of 2.5, and infinity of 1e300 as a float, without a word.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch, RecordBatchOptions};
use arrow_json::reader::{
    ArrayDecoder, Decoder, DecoderContext, DecoderFactory, Tape, TapeElement,
};
use arrow_json::ReaderBuilder;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};

use super::{exact, given, number, Decode, Dialect};

pub(super) struct JsonDecoder {
    inner: Decoder,
    /// The schema that is decoded, with all numbers.
    schema: SchemaRef,
    /// Where each requested column is among the decoded ones, which are in schema order and distinct.
    order: Option<Vec<usize>>,
}

pub(super) fn decoder(dialect: &Dialect, batch_rows: usize) -> Result<JsonDecoder, ArrowError> {
    let (decoded, order) = match &dialect.projection {
        None => ((0..dialect.schema.fields().len()).collect(), None),
        Some(columns) => {
            let mut decoded = columns.clone();
            decoded.sort_unstable();
            decoded.dedup();
            let order = columns
                .iter()
                .map(|column| decoded.partition_point(|d| d < column))
                .collect();
            (decoded, Some(order))
        }
    };
    let schema = Arc::new(dialect.schema.project(&decoded)?);
    let fields = { schema.fields().iter() }
        .zip(decoded)
        .map(|(field, column)| match dialect.inferred[column] {
            true => field.clone(),
            false => with_text(field),
        });
    // Columns of mixed scalars are inferred as strings; coercion writes the other scalars as text.
    let inner = ReaderBuilder::new(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
        .with_batch_size(batch_rows)
        .with_decoder_factory(Arc::new(Lossless))
        .with_coerce_primitive(true)
        .with_strict_mode(schema.fields().len() == dialect.schema.fields().len())
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

    fn num_rows(&self) -> usize {
        self.inner.len()
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let Some(texts) = self.inner.flush()? else {
            return Ok(None);
        };
        let batch = with_numbers(&texts, &self.schema)?;
        match &self.order {
            Some(order) => batch.project(order).map(Some),
            None => Ok(Some(batch)),
        }
    }
}

/// Returns the field with text in the place of numbers.
fn with_text(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::List(item) => DataType::List(with_text(item)),
        DataType::LargeList(item) => DataType::LargeList(with_text(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(with_text(item), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(with_text).collect()),
        number if number.is_integer() => DataType::Utf8,
        DataType::Float32 | DataType::Float64 => DataType::Utf8,
        _ => return field.clone(),
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}

/// Parses the values that `with_text` made text.
fn with_numbers(texts: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let pairs = texts.columns().iter().zip(schema.fields());
    let columns = pairs
        .map(|(text, field)| given::column(text, field.data_type()))
        .collect::<Result<Vec<_>, _>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(texts.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &rows)
}

/// Makes the decoders of the types that numbers are inferred as, and of objects.
#[derive(Debug)]
struct Lossless;

impl DecoderFactory for Lossless {
    fn make_default_decoder(
        &self,
        context: &DecoderContext,
        field: &FieldRef,
        is_nullable: bool,
    ) -> Result<Option<Box<dyn ArrayDecoder>>, ArrowError> {
        Ok(match field.data_type() {
            DataType::Int64 => Some(Box::new(Exact::<Int64Type>(number::exact_i64))),
            DataType::UInt64 => Some(Box::new(Exact::<UInt64Type>(number::exact_u64))),
            DataType::Float64 => Some(Box::new(Exact::<Float64Type>(number::exact_f64))),
            // This decoder knows which keys a row may have: its field, unlike those of columns, has no name.
            DataType::Struct(_) if field.name().is_empty() && !field.is_nullable() => None,
            DataType::Struct(fields) if !context.strict_mode() => Some(Box::new(KnownKeys {
                names: fields.iter().map(|field| field.name().clone()).collect(),
                inner: context.make_builtin_decoder(field, is_nullable)?,
            })),
            _ => None,
        })
    }
}

/// Decodes objects that have only these keys.
struct KnownKeys {
    names: HashSet<String>,
    inner: Box<dyn ArrayDecoder>,
}

impl ArrayDecoder for KnownKeys {
    fn decode(&mut self, tape: &Tape<'_>, places: &[u32]) -> Result<ArrayRef, ArrowError> {
        for &place in places {
            let TapeElement::StartObject(end) = tape.get(place) else {
                continue;
            };
            let mut at = place + 1;
            while at < end {
                let TapeElement::String(name) = tape.get(at) else {
                    return Err(tape.error(at, "field name"));
                };
                let name = tape.get_string(name);
                if !self.names.contains(name) {
                    // The words of the decoder where it refuses unknown keys itself.
                    let error = format!("column '{name}' missing from schema");
                    return Err(ArrowError::JsonError(error));
                }
                at = tape.next(at + 1, "field value")?;
            }
        }
        self.inner.decode(tape, places)
    }
}

/// Decodes numbers by this function of their text.
struct Exact<T: ArrowPrimitiveType>(fn(&str) -> Option<T::Native>);

impl<T: ArrowPrimitiveType> ArrayDecoder for Exact<T> {
    fn decode(&mut self, tape: &Tape<'_>, places: &[u32]) -> Result<ArrayRef, ArrowError> {
        let values = places.iter().map(|&place| match tape.get(place) {
            TapeElement::Null => Ok(None),
            TapeElement::Number(text) => {
                let text = tape.get_string(text);
                self.0(text).map(Some).ok_or_else(|| exact::refused(text))
            }
            _ => Err(tape.error(place, "number")),
        });
        let values = values.collect::<Result<PrimitiveArray<T>, ArrowError>>()?;
        Ok(Arc::new(values))
    }
}
