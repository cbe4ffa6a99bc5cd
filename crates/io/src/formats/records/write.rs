//! Writes fixed-length records: the bytes of the one column are the file.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Schema, SchemaRef};

use super::FORMAT;
use crate::direct::{DirectWriter, PendingFile};
use crate::error::{IoError, Result};
use crate::format::Encoder;
use crate::write::to_schema;

/// A file of records being written.
pub(super) struct RecordFile {
    sink: DirectWriter,
    schema: SchemaRef,
}

impl RecordFile {
    pub(super) fn create(sink: DirectWriter, schema: &SchemaRef) -> Result<Self> {
        check(schema)?;
        Ok(Self {
            sink,
            schema: schema.clone(),
        })
    }
}

impl Encoder for RecordFile {
    fn write(&mut self, path: &Path, batch: RecordBatch) -> Result<()> {
        let batch = to_schema(batch, &self.schema, (path, FORMAT))?;
        // The data of a slice begins at its first value.
        let records = batch.column(0).as_fixed_size_binary();
        self.sink.append(records.value_data())
    }

    fn bytes(&self) -> u64 {
        self.sink.bytes()
    }

    fn end(self: Box<Self>, _: &Path) -> Result<PendingFile> {
        self.sink.end()
    }
}

/// Refuses anything but one column of values of one size.
pub(super) fn check(schema: &Schema) -> Result<()> {
    let is_record = |data_type: &DataType| {
        matches!(data_type, DataType::FixedSizeBinary(_)) && schema.fields().len() == 1
    };
    let mut fields = schema.fields().iter();
    match fields.find(|field| !is_record(field.data_type())) {
        Some(field) => Err(IoError::Unsupported {
            format: FORMAT,
            column: field.name().clone(),
            data_type: field.data_type().to_string(),
        }),
        None => Ok(()),
    }
}
