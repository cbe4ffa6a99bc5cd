//! The CSV decoder. An empty value is null.

use arrow_array::RecordBatch;
use arrow_csv::ReaderBuilder;
use arrow_schema::ArrowError;

use super::{Decode, Dialect};

pub(super) fn decoder(dialect: &Dialect, batch_rows: usize) -> arrow_csv::reader::Decoder {
    let builder = ReaderBuilder::new(dialect.schema.clone()).with_delimiter(dialect.delimiter);
    let builder = match &dialect.projection {
        Some(columns) => builder.with_projection(columns.clone()),
        None => builder,
    };
    builder.with_batch_size(batch_rows).build_decoder()
}

impl Decode for arrow_csv::reader::Decoder {
    fn decode(&mut self, bytes: &[u8]) -> Result<usize, ArrowError> {
        self.decode(bytes)
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        self.flush()
    }
}
