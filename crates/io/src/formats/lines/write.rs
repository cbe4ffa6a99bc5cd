//! Writes plain text: each value of the one column is a line.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{DataType, Schema, SchemaRef};

use super::FORMAT;
use crate::direct::{DirectWriter, PendingFile};
use crate::error::{IoError, Result};
use crate::format::Encoder;
use crate::write::{encode_error, forget_large};

/// A file of lines being written.
pub(super) struct LineFile {
    sink: DirectWriter,
    /// The name of the column.
    column: String,
    /// Kept between batches to reuse its memory.
    encoded: Vec<u8>,
}

impl LineFile {
    pub(super) fn create(sink: DirectWriter, schema: &SchemaRef) -> Result<Self> {
        check(schema)?;
        Ok(Self {
            sink,
            column: schema.field(0).name().clone(),
            encoded: Vec::new(),
        })
    }

    /// Returns the error for a value that would not be read back as the same row.
    fn refused(&self, path: &Path, what: &str) -> IoError {
        let column = &self.column;
        let reason = format!(
            "column '{column}' has {what}, which no line can be; replace such values, or write another format"
        );
        encode_error(path, FORMAT, &reason)
    }
}

impl Encoder for LineFile {
    fn write(&mut self, path: &Path, batch: RecordBatch) -> Result<()> {
        let texts = cast(batch.column(0), &DataType::Utf8View);
        drop(batch);
        let texts = texts.map_err(|e| encode_error(path, FORMAT, &e))?;
        let texts = texts.as_string_view();
        if texts.null_count() > 0 {
            return Err(self.refused(path, "a null"));
        }
        self.encoded.clear();
        for text in texts.iter().flatten() {
            if memchr::memchr(b'\n', text.as_bytes()).is_some() || text.ends_with('\r') {
                return Err(self.refused(path, "a text with a line end"));
            }
            self.encoded.extend_from_slice(text.as_bytes());
            self.encoded.push(b'\n');
        }
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

/// Refuses anything but one column of texts.
pub(super) fn check(schema: &Schema) -> Result<()> {
    match schema.fields().as_ref() {
        [field] if is_text(field.data_type()) => Ok(()),
        [field] => Err(IoError::Unsupported {
            format: FORMAT,
            column: field.name().clone(),
            data_type: field.data_type().to_string(),
        }),
        fields => Err(IoError::SeveralColumns {
            format: FORMAT,
            columns: fields.len(),
        }),
    }
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}
