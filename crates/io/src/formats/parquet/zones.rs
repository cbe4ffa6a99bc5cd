//! Zones of timestamps whose unit is another in the file than Arrow's schema in the footer says.
//!
//! pyarrow stores such timestamps: of nanoseconds before version 13 (`version="2.4"`), of seconds in all versions. The types
//! of a file know UTC alone. The decoder takes the zone of Arrow's schema only where the units are equal.

use std::sync::Arc;

use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::root_as_message;
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use base64::prelude::{Engine, BASE64_STANDARD};
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::file::metadata::ParquetMetaData;

/// Before a schema in Arrow's IPC format: a mark, and its length.
const PREFIX: [u8; 4] = [u8::MAX; 4];
const PREFIX_BYTES: usize = 8;

/// The schema that was read with the zones that Arrow's schema declares; `None` if no zone differs.
pub(super) fn declared(metadata: &ParquetMetaData, read: &Schema) -> Option<SchemaRef> {
    if !read.flattened_fields().into_iter().any(has_zone) {
        return None;
    }
    let declared = arrow_schema_of(metadata)?;
    let fields: Vec<_> = { read.fields().iter() }
        .map(|field| match declared.field_with_name(field.name()) {
            Ok(declared) => zoned(field, declared),
            Err(_) => field.clone(),
        })
        .collect();
    let zoned = Schema::new_with_metadata(fields, read.metadata().clone());
    (zoned != *read).then(|| Arc::new(zoned))
}

fn has_zone(field: &Field) -> bool {
    matches!(field.data_type(), DataType::Timestamp(_, Some(_)))
}

fn arrow_schema_of(metadata: &ParquetMetaData) -> Option<Schema> {
    let pairs = metadata.file_metadata().key_value_metadata()?;
    let pair = pairs
        .iter()
        .find(|pair| pair.key == ARROW_SCHEMA_META_KEY)?;
    let bytes = BASE64_STANDARD.decode(pair.value.as_ref()?).ok()?;
    let message = match bytes.get(PREFIX_BYTES..) {
        Some(message) if bytes.starts_with(&PREFIX) => message,
        _ => &bytes,
    };
    try_fb_to_schema(root_as_message(message).ok()?.header_as_schema()?).ok()
}

fn zoned(read: &FieldRef, declared: &Field) -> FieldRef {
    let data_type = match (read.data_type(), declared.data_type()) {
        (DataType::Timestamp(unit, Some(_)), DataType::Timestamp(_, Some(zone))) => {
            DataType::Timestamp(*unit, Some(zone.clone()))
        }
        (DataType::Struct(read), DataType::Struct(declared)) if read.len() == declared.len() => {
            let pairs = read.iter().zip(declared);
            DataType::Struct(
                pairs
                    .map(|(read, declared)| zoned(read, declared))
                    .collect(),
            )
        }
        (DataType::List(read), DataType::List(declared)) => DataType::List(zoned(read, declared)),
        (DataType::LargeList(read), DataType::LargeList(declared)) => {
            DataType::LargeList(zoned(read, declared))
        }
        (DataType::FixedSizeList(read, length), DataType::FixedSizeList(declared, _)) => {
            DataType::FixedSizeList(zoned(read, declared), *length)
        }
        (DataType::Map(read, sorted), DataType::Map(declared, _)) => {
            DataType::Map(zoned(read, declared), *sorted)
        }
        _ => return read.clone(),
    };
    Arc::new(Field::clone(read).with_data_type(data_type))
}

#[cfg(test)]
mod tests {
    use arrow_schema::TimeUnit;
    use parquet::arrow::{encode_arrow_schema, ArrowSchemaConverter};
    use parquet::file::metadata::{FileMetaData, KeyValue};

    use super::*;

    fn timestamps(unit: TimeUnit, zone: &str) -> Schema {
        let kind = DataType::Timestamp(unit, Some(zone.into()));
        let item = |name| Arc::new(Field::new(name, kind.clone(), true));
        Schema::new(vec![
            Field::new("ts", kind.clone(), true),
            Field::new("list", DataType::List(item("item")), true),
            Field::new("struct", DataType::Struct(vec![item("x")].into()), true),
        ])
    }

    fn metadata(stored: &Schema, declared: &Schema) -> ParquetMetaData {
        let types = Arc::new(ArrowSchemaConverter::new().convert(stored).unwrap());
        let encoded = encode_arrow_schema(declared);
        let pairs = vec![KeyValue::new(ARROW_SCHEMA_META_KEY.to_string(), encoded)];
        let file = FileMetaData::new(2, 0, None, Some(pairs), types, None);
        ParquetMetaData::new(file, vec![])
    }

    #[test]
    fn zones_of_another_unit_are_taken() {
        let read = timestamps(TimeUnit::Microsecond, "UTC");
        let wanted = timestamps(TimeUnit::Microsecond, "Europe/Berlin");
        for unit in [TimeUnit::Nanosecond, TimeUnit::Second] {
            let metadata = metadata(&read, &timestamps(unit, "Europe/Berlin"));
            assert_eq!(declared(&metadata, &read).as_deref(), Some(&wanted));
        }
        assert_eq!(declared(&metadata(&read, &wanted), &wanted), None);
        assert_eq!(declared(&metadata(&read, &read), &read), None);
    }
}
