//! Sources of rows, as batches: lazily, in order, on any thread.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::{Schema, SchemaRef};
use exoshuffle_io::{open_splits, StreamBatches};
use exoshuffle_kernels::rows::{PartitionRows, MAX_BATCH_ROWS};
use exoshuffle_kernels::KernelError;

use crate::arrow_stream::{stream_error, Batches};
use crate::errors::RowError;
use crate::read_options::ReadOptions;
use crate::split::Split;

/// A source of rows.
pub enum RowSource {
    /// Rows of sections.
    Partition(PartitionRows),
    /// Splits, as they come, one after the other.
    Splits {
        /// The splits to read.
        splits: Vec<Split>,
        /// How.
        options: ReadOptions,
        /// The schema of the source.
        schema: SchemaRef,
        /// The columns wanted; `None` for all.
        columns: Option<Vec<usize>>,
    },
    /// A stream of another library, until it is taken.
    Stream(Mutex<Option<RecordBatchStreamReader>>),
    /// An Arrow IPC stream in memory.
    Ipc(Buffer),
}

impl RowSource {
    /// Returns the batches. Their strings may be views, and dictionaries plain values. Opens files and sorts records at
    /// once, so that a failure at the beginning happens here.
    pub fn batches(&self) -> Result<Batches, RowError> {
        self.batches_by(|rows| Ok(mapped(rows.batches()?, RowError::Kernel)))
    }

    /// Like `batches`. Where rows are gathered, each batch has so many bytes of them, and strings are as declared.
    pub fn plain_batches(&self, bytes: usize) -> Result<Batches, RowError> {
        self.batches_by(|rows| Ok(mapped(rows.plain_batches(bytes)?, RowError::Kernel)))
    }

    fn batches_by(
        &self,
        of_partition: impl FnOnce(&PartitionRows) -> Result<Batches, KernelError>,
    ) -> Result<Batches, RowError> {
        let batches: Batches = match self {
            Self::Partition(rows) => of_partition(rows).map_err(RowError::Kernel)?,
            Self::Splits {
                splits,
                options,
                schema,
                columns,
            } => {
                let batches = open_splits(
                    splits.clone(),
                    SchemaRef::clone(schema),
                    Arc::clone(&options.0),
                    columns.clone(),
                    MAX_BATCH_ROWS,
                );
                mapped(batches.map_err(RowError::Io)?, RowError::Io)
            }
            Self::Stream(stream) => {
                let reader = stream.lock().unwrap_or_else(PoisonError::into_inner).take();
                mapped(reader.ok_or_else(taken)?, |error| stream_error(&error))
            }
            Self::Ipc(stream) => {
                let batches = StreamBatches::new(stream.clone());
                mapped(batches, |error| stream_error(&error))
            }
        };
        Ok(Box::new(Fenced(Some(batches))))
    }

    /// See `PartitionRows::declared_bytes`. Returns `None` for rows of any other source.
    pub fn declared_bytes(
        &self,
        declared: &Schema,
        bytes: usize,
        alignment: usize,
    ) -> Option<(usize, usize)> {
        match self {
            Self::Partition(rows) => rows.declared_bytes(declared, bytes, alignment),
            _ => None,
        }
    }
}

/// The error for a stream that is asked for its rows again.
pub fn taken() -> RowError {
    let message =
        "the rows of a stream can be read once, and were; make them again from the same data";
    RowError::Stream(message.to_owned())
}

/// Returns batches whose errors are those of this crate.
fn mapped<E: 'static>(
    batches: impl Iterator<Item = Result<RecordBatch, E>> + Send + 'static,
    error: fn(E) -> RowError,
) -> Batches {
    Box::new(batches.map(move |batch| batch.map_err(error)))
}

/// Ends after the first error, and turns a panic into an error. Arrow's decoder panics on some damaged input, and a
/// panic must not reach a caller that is written in C.
struct Fenced(Option<Batches>);

impl Iterator for Fenced {
    type Item = Result<RecordBatch, RowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batches = self.0.as_mut()?;
        // An iterator that panicked is dropped, hence unwind safe.
        let item = catch_unwind(AssertUnwindSafe(|| batches.next())).unwrap_or_else(|_| {
            let message = "rows cannot be decoded: the decoder gave up; the bytes were damaged, make them again";
            Some(Err(RowError::Stream(message.to_owned())))
        });
        if !matches!(item, Some(Ok(_))) {
            self.0 = None;
        }
        item
    }
}
