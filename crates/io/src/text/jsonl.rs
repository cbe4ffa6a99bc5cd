//! The JSON lines decoder. Keys that the schema does not have are skipped, missing ones are null.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_json::reader::Decoder;
use arrow_json::ReaderBuilder;
use arrow_schema::ArrowError;

use super::{Decode, Dialect};

pub(super) struct JsonDecoder {
    inner: Decoder,
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
    let inner = ReaderBuilder::new(schema)
        .with_batch_size(batch_rows)
        .with_coerce_primitive(true)
        .build_decoder()?;
    Ok(JsonDecoder { inner, order })
}

impl Decode for JsonDecoder {
    fn decode(&mut self, bytes: &[u8]) -> Result<usize, ArrowError> {
        self.inner.decode(bytes)
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let batch = self.inner.flush()?;
        match (batch, &self.order) {
            (Some(batch), Some(order)) => batch.project(order).map(Some),
            (batch, _) => Ok(batch),
        }
    }
}
