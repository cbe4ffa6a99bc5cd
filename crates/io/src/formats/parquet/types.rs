//! The types that columns of Parquet files are decoded to: those that their writer declared, or cheaper ones.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::basic::Type;
use parquet::file::metadata::ParquetMetaData;

use super::zones;
use super::FORMAT;
use crate::direct::RangeReader;
use crate::error::{IoError, Result};

/// The file's schema as its writer declared it, but for types that the decoder refuses or reads otherwise than others do.
pub(super) fn declared(
    file: &RangeReader,
    metadata: &Arc<ParquetMetaData>,
) -> Result<ArrowReaderMetadata> {
    let corrupt = |e| IoError::corrupt(file.path(), FORMAT, e);
    let loaded = ArrowReaderMetadata::try_new(metadata.clone(), ArrowReaderOptions::new());
    let loaded = loaded.map_err(corrupt)?;
    let schema = int96_in_micros(metadata, loaded.schema())
        .or_else(|| zones::declared(metadata, loaded.schema()));
    let decodable = decodable(metadata, schema.as_ref().unwrap_or(loaded.schema()));
    match decodable.or(schema) {
        None => Ok(loaded),
        Some(schema) => {
            let options = ArrowReaderOptions::new().with_schema(schema);
            ArrowReaderMetadata::try_new(metadata.clone(), options).map_err(corrupt)
        }
    }
}

/// The schema with the values of dictionaries whose types the decoder refuses in dictionaries, though pyarrow writes
/// them. These are decimals, halves, booleans, and timestamps of 96 bits. `None` if there are none.
fn decodable(metadata: &ParquetMetaData, schema: &SchemaRef) -> Option<SchemaRef> {
    let mut leaves = int96_leaves(metadata).into_iter();
    let fields = schema.fields().iter();
    let fields: Fields = fields
        .map(|field| without_refused(field, &mut leaves))
        .collect();
    (fields != *schema.fields())
        .then(|| Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

/// The field without such dictionaries; `leaves` tells of each leaf whether it has 96 bits, in their order.
fn without_refused(field: &FieldRef, leaves: &mut impl Iterator<Item = bool>) -> FieldRef {
    use DataType as T;
    let data_type = match field.data_type() {
        T::Struct(fields) => T::Struct(
            fields
                .iter()
                .map(|field| without_refused(field, leaves))
                .collect(),
        ),
        T::List(item) => T::List(without_refused(item, leaves)),
        T::LargeList(item) => T::LargeList(without_refused(item, leaves)),
        T::Map(entries, sorted) => T::Map(without_refused(entries, leaves), *sorted),
        leaf => match (leaves.next(), leaf) {
            (is_int96, T::Dictionary(_, values)) => match **values {
                T::Boolean
                | T::Float16
                | T::Decimal32(..)
                | T::Decimal64(..)
                | T::Decimal128(..)
                | T::Decimal256(..) => (**values).clone(),
                T::Timestamp(..) if is_int96 == Some(true) => (**values).clone(),
                _ => return field.clone(),
            },
            _ => return field.clone(),
        },
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}

/// Whether each leaf has timestamps of 96 bits.
fn int96_leaves(metadata: &ParquetMetaData) -> Vec<bool> {
    let columns = metadata.file_metadata().schema_descr().columns();
    { columns.iter() }
        .map(|column| column.physical_type() == Type::INT96)
        .collect()
}

/// The schema with microseconds for timestamps of 96 bits, as Spark means them and DuckDB reads them. In nanoseconds, an
/// int64 holds only the years 1677 to 2262; another year, such as 9999, would silently become one of these. `None` if the
/// file has no such timestamps, or its writer has declared their type.
fn int96_in_micros(metadata: &ParquetMetaData, schema: &Schema) -> Option<SchemaRef> {
    let is_int96 = int96_leaves(metadata);
    let pairs = metadata.file_metadata().key_value_metadata();
    let is_declared =
        pairs.is_some_and(|pairs| pairs.iter().any(|pair| pair.key == ARROW_SCHEMA_META_KEY));
    if is_declared || !is_int96.contains(&true) {
        return None;
    }
    let mut leaves = is_int96.into_iter();
    let fields = schema.fields().iter();
    let fields: Vec<_> = fields.map(|field| in_micros(field, &mut leaves)).collect();
    Some(Arc::new(Schema::new_with_metadata(
        fields,
        schema.metadata().clone(),
    )))
}

/// The field with microseconds for nanoseconds in the leaves that `leaves` marks, in their order.
fn in_micros(field: &FieldRef, leaves: &mut impl Iterator<Item = bool>) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(
            fields
                .iter()
                .map(|field| in_micros(field, leaves))
                .collect(),
        ),
        DataType::List(item) => DataType::List(in_micros(item, leaves)),
        DataType::Map(entries, sorted) => DataType::Map(in_micros(entries, leaves), *sorted),
        leaf => match (leaves.next(), leaf) {
            (Some(true), DataType::Timestamp(TimeUnit::Nanosecond, zone)) => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            _ => leaf.clone(),
        },
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}

/// The cheapest types to decode into: views for strings and binary, values for dictionaries.
pub(super) fn cheapest(
    metadata: &Arc<ParquetMetaData>,
    declared: ArrowReaderMetadata,
) -> ArrowReaderMetadata {
    let field = |field: &Arc<Field>| match as_view(field.data_type()) {
        Some(data_type) => Arc::new(field.as_ref().clone().with_data_type(data_type)),
        None => field.clone(),
    };
    let fields: Vec<_> = declared.schema().fields().iter().map(field).collect();
    let schema: SchemaRef = Arc::new(Schema::new_with_metadata(
        fields,
        declared.schema().metadata().clone(),
    ));
    let options = ArrowReaderOptions::new().with_schema(schema);
    // If the decoder does not know a hint, the declared types remain, which are right too.
    ArrowReaderMetadata::try_new(metadata.clone(), options).unwrap_or(declared)
}

fn as_view(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => Some(DataType::Utf8View),
        DataType::Binary | DataType::LargeBinary => Some(DataType::BinaryView),
        DataType::Dictionary(_, values) => as_view(values),
        _ => None,
    }
}
