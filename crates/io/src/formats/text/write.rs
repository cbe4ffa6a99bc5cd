//! CSV, JSON lines and fixed-length records: each batch becomes bytes, which go to the file.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::timezone::Tz;
use arrow_array::RecordBatch;
use arrow_json::writer::LineDelimited;
use arrow_json::WriterBuilder;
use arrow_schema::{ArrowError, DataType, Schema};

use super::write_csv as csv;
use crate::direct::{DirectWriter, PendingFile};
use crate::error::{IoError, Result};
use crate::write::{encode_error, WriteOptions};
use crate::Format;

/// A text file, or a file of records, being written.
pub(crate) struct TextFile {
    sink: DirectWriter,
    format: Format,
    delimiter: u8,
    /// Kept between batches for its memory.
    encoded: Vec<u8>,
}

impl TextFile {
    pub(crate) fn create(
        mut sink: DirectWriter,
        schema: &Schema,
        options: &WriteOptions,
    ) -> Result<Self> {
        let mut encoded = Vec::new();
        if options.format == Format::Csv {
            // The header is there even if no row follows.
            csv::header(&mut encoded, schema, options.csv_delimiter);
            sink.append(&encoded)?;
        }
        Ok(Self {
            sink,
            format: options.format,
            delimiter: options.csv_delimiter,
            encoded,
        })
    }

    pub(crate) fn write(&mut self, path: &Path, batch: &RecordBatch) -> Result<()> {
        self.encoded.clear();
        let done = match self.format {
            Format::Csv => csv::rows(&mut self.encoded, batch, self.delimiter),
            Format::JsonLines => json(&mut self.encoded, batch),
            _ => return self.sink.append(records(batch)),
        };
        done.map_err(|e| encode_error(path, self.format, &e))?;
        self.sink.append(&self.encoded)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.sink.bytes()
    }

    pub(crate) fn end(self) -> Result<PendingFile> {
        self.sink.end()
    }
}

/// A null is written, because a key that no row has would be a column that is gone. Doubles that JSON has no numbers for
/// (not a number, infinity) become null, as `JSON.stringify`, pandas and Polars write them.
fn json(out: &mut Vec<u8>, batch: &RecordBatch) -> std::result::Result<(), ArrowError> {
    WriterBuilder::new()
        .with_explicit_nulls(true)
        .build::<_, LineDelimited>(out)
        .write(batch)
}

/// The bytes of the one column, which `check` made sure of.
fn records(batch: &RecordBatch) -> &[u8] {
    // The data of a slice begins at its first value.
    batch.column(0).as_fixed_size_binary().value_data()
}

/// Refuses columns that the format cannot hold.
pub(crate) fn check(schema: &Schema, format: Format) -> Result<()> {
    let holds = |data_type: &DataType| match format {
        Format::Records => {
            matches!(data_type, DataType::FixedSizeBinary(_)) && schema.fields().len() == 1
        }
        Format::Csv => !data_type.is_nested() && is_text(data_type),
        _ => is_text(data_type),
    };
    match schema
        .fields()
        .iter()
        .find(|field| !holds(field.data_type()))
    {
        Some(field) => Err(IoError::Unsupported {
            format,
            column: field.name().clone(),
            data_type: field.data_type().to_string(),
        }),
        None => Ok(()),
    }
}

/// Whether all values within a type have a text that can be read back. Binary would be hexadecimal digits, which nothing
/// reads as binary; a time zone that nobody knows has no clock.
fn is_text(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, Dictionary, FixedSizeBinary, LargeBinary};
    match data_type {
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) | DataType::Union(..) => false,
        DataType::Timestamp(_, Some(zone)) => zone.parse::<Tz>().is_ok(),
        Dictionary(_, values) => is_text(values),
        DataType::RunEndEncoded(_, values) => is_text(values.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| is_text(field.data_type())),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => is_text(item.data_type()),
        _ => true,
    }
}
