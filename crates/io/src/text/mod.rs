//! CSV and JSON lines: text files that are cut at record boundaries and parsed record by record.

mod boundary;
mod compressed;
mod csv;
mod csv_values;
mod diagnose;
mod exact;
mod infer_csv;
mod infer_json;
mod inspect;
mod jsonl;
mod number;
mod quoted_empty;
mod sample;
mod stream;

pub(crate) use boundary::ranges;
pub(crate) use inspect::{inspect, schemas};
pub(crate) use sample::sample;
pub(crate) use stream::open;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};

use crate::source::Header;
use crate::Format;

/// How many rows types are inferred from.
const INFER_ROWS: usize = 10_000;

/// The two formats as far as they differ for reading records.
#[derive(Debug, Clone)]
struct Dialect {
    format: Format,
    delimiter: u8,
    header: Header,
    schema: SchemaRef,
    /// Which columns of the schema have a type that nobody gave: what they hold must be exactly what is written.
    inferred: Vec<bool>,
    projection: Option<Vec<usize>>,
}

/// What is wrong with a CSV record of another width than the first.
fn width_differs(found: usize, expected: usize, header: &Header) -> String {
    match header {
        Header::Line => format!("values: {found}, but columns in the header: {expected}"),
        Header::Missing(_) => format!("values: {found}, but columns in the first line: {expected}"),
    }
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
            Format::Csv => Ok(Box::new(csv::decoder(self, batch_rows)?)),
            _ => Ok(Box::new(jsonl::decoder(self, batch_rows)?)),
        }
    }

    /// Decodes one record.
    fn decode(&self, record: &[u8]) -> Result<Option<RecordBatch>, ArrowError> {
        let mut decoder = self.decoder(1)?;
        decoder.decode(record)?;
        decoder.decode(&[])?;
        decoder.flush()
    }
}
