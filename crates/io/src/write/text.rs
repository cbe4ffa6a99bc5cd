//! CSV, JSON lines and fixed-length records: each batch becomes bytes, which go to the file.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::RecordBatch;
use arrow_json::writer::LineDelimited;
use arrow_schema::{ArrowError, DataType, Schema};

use super::{encode_error, WriteOptions};
use crate::direct::{DirectWriter, PendingFile};
use crate::error::{IoError, Result};
use crate::Format;

/// A text file, or a file of records, being written.
pub(super) struct TextFile {
    sink: DirectWriter,
    format: Format,
    delimiter: u8,
    /// Kept between batches for its memory.
    encoded: Vec<u8>,
}

impl TextFile {
    pub(super) fn create(
        mut sink: DirectWriter,
        schema: &Schema,
        options: &WriteOptions,
    ) -> Result<Self> {
        let mut encoded = Vec::new();
        if options.format == Format::Csv {
            // The header is there even if no row follows.
            let empty = RecordBatch::new_empty(schema.clone().into());
            csv(&mut encoded, &empty, options.csv_delimiter, true)
                .map_err(|e| encode_error(sink.path(), Format::Csv, &e))?;
            sink.append(&encoded)?;
        }
        Ok(Self {
            sink,
            format: options.format,
            delimiter: options.csv_delimiter,
            encoded,
        })
    }

    pub(super) fn write(&mut self, path: &Path, batch: &RecordBatch) -> Result<()> {
        self.encoded.clear();
        let done = match self.format {
            Format::Csv => csv(&mut self.encoded, batch, self.delimiter, false),
            Format::JsonLines => {
                arrow_json::Writer::<_, LineDelimited>::new(&mut self.encoded).write(batch)
            }
            _ => return self.sink.append(records(batch)),
        };
        done.map_err(|e| encode_error(path, self.format, &e))?;
        self.sink.append(&self.encoded)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.sink.bytes()
    }

    pub(super) fn end(self) -> Result<PendingFile> {
        self.sink.end()
    }
}

fn csv(
    out: &mut Vec<u8>,
    batch: &RecordBatch,
    delimiter: u8,
    header: bool,
) -> std::result::Result<(), ArrowError> {
    arrow_csv::WriterBuilder::new()
        .with_header(header)
        .with_delimiter(delimiter)
        .build(out)
        .write(batch)
}

/// The bytes of the one column, which `check` made sure of.
fn records(batch: &RecordBatch) -> &[u8] {
    // The data of a slice begins at its first value.
    batch.column(0).as_fixed_size_binary().value_data()
}

/// Refuses columns that the format cannot hold.
pub(super) fn check(schema: &Schema, format: Format) -> Result<()> {
    let holds = |data_type: &DataType| match format {
        Format::Csv => !data_type.is_nested() && !is_binary(data_type),
        Format::Records => {
            matches!(data_type, DataType::FixedSizeBinary(_)) && schema.fields().len() == 1
        }
        _ => !matches!(data_type, DataType::Union(..)),
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

/// Text would hold hexadecimal digits, which nothing reads back as binary.
fn is_binary(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
    matches!(
        data_type,
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_)
    )
}
