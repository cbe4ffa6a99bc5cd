//! CSV and JSON lines: text files that are cut at record boundaries and parsed record by record.

mod boundary;
mod csv;
mod diagnose;
mod infer_csv;
mod infer_json;
mod inspect;
mod jsonl;
mod sample;
mod stream;

pub(crate) use boundary::ranges;
pub(crate) use inspect::{inspect, schemas};
pub(crate) use sample::sample;
pub(crate) use stream::open;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};

use crate::Format;

/// How many rows types are inferred from.
const INFER_ROWS: usize = 10_000;

/// The two formats as far as they differ for reading records.
#[derive(Debug, Clone)]
struct Dialect {
    format: Format,
    delimiter: u8,
    schema: SchemaRef,
    projection: Option<Vec<usize>>,
}

/// Turns bytes into batches, whatever the format.
trait Decode: Send {
    /// Takes bytes until they end or a batch is full; returns how many. Empty input means the end.
    fn decode(&mut self, bytes: &[u8]) -> Result<usize, ArrowError>;
    /// The rows taken so far.
    fn flush(&mut self) -> Result<Option<RecordBatch>, ArrowError>;
}

impl Dialect {
    fn decoder(&self, batch_rows: usize) -> Result<Box<dyn Decode>, ArrowError> {
        match self.format {
            Format::Csv => Ok(Box::new(csv::decoder(self, batch_rows))),
            _ => Ok(Box::new(jsonl::decoder(self, batch_rows)?)),
        }
    }
}
