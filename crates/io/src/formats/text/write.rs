//! Writes CSV and JSON lines: each batch becomes bytes, which go to the file.

use std::path::Path;

use arrow_array::timezone::Tz;
use arrow_array::RecordBatch;
use arrow_json::writer::LineDelimited;
use arrow_json::WriterBuilder;
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};

use super::write_csv as csv;
use super::Notation;
use crate::direct::{DirectWriter, PendingFile};
use crate::error::{IoError, Result};
use crate::format::Encoder;
use crate::write::{encode_error, forget_large, to_schema, WriteOptions};

/// A text file being written.
pub(super) struct TextFile {
    sink: DirectWriter,
    notation: Notation,
    schema: SchemaRef,
    delimiter: u8,
    /// Kept between batches to reuse its memory.
    encoded: Vec<u8>,
}

impl TextFile {
    pub(super) fn create(
        notation: Notation,
        mut sink: DirectWriter,
        schema: &SchemaRef,
        options: &WriteOptions,
    ) -> Result<Self> {
        check(schema, notation)?;
        let mut encoded = Vec::new();
        if notation == Notation::Csv {
            // The header is written even if no row follows.
            csv::header(&mut encoded, schema, options.csv_delimiter);
            sink.append(&encoded)?;
        }
        Ok(Self {
            sink,
            notation,
            schema: schema.clone(),
            delimiter: options.csv_delimiter,
            encoded,
        })
    }
}

impl Encoder for TextFile {
    fn write(&mut self, path: &Path, batch: RecordBatch) -> Result<()> {
        let format = self.notation.format();
        let batch = to_schema(batch, &self.schema, (path, format))?;
        self.encoded.clear();
        let done = match self.notation {
            Notation::Csv => csv::rows(&mut self.encoded, &batch, self.delimiter),
            Notation::JsonLines => json(&mut self.encoded, &batch),
        };
        done.map_err(|e| encode_error(path, format, &e))?;
        self.sink.append(&self.encoded)?;
        forget_large(&mut self.encoded);
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.sink.bytes()
    }

    fn end(self: Box<Self>, _: &Path) -> Result<PendingFile> {
        self.sink.end()
    }
}

/// Appends rows as JSON. A null is written, because a column without any key would be lost. Doubles without a JSON
/// number (not a number, infinity) become null, as `JSON.stringify`, pandas and Polars write them.
fn json(out: &mut Vec<u8>, batch: &RecordBatch) -> std::result::Result<(), ArrowError> {
    WriterBuilder::new()
        .with_explicit_nulls(true)
        .build::<_, LineDelimited>(out)
        .write(batch)
}

/// Refuses columns that the format cannot hold.
pub(super) fn check(schema: &Schema, notation: Notation) -> Result<()> {
    let holds = |data_type: &DataType| {
        let is_flat = notation == Notation::JsonLines || !data_type.is_nested();
        is_flat && is_text(data_type)
    };
    match schema
        .fields()
        .iter()
        .find(|field| !holds(field.data_type()))
    {
        Some(field) => Err(IoError::Unsupported {
            format: notation.format(),
            column: field.name().clone(),
            data_type: field.data_type().to_string(),
        }),
        None => Ok(()),
    }
}

/// Returns whether all values of a type have a text that can be read back. Binary would be hexadecimal digits, which
/// nothing reads as binary; an unknown time zone has no clock.
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
