//! Where rows come from, as batches: lazily, in order, on any thread.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::{ArrayRef, FixedSizeBinaryArray, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::{ArrowError, SchemaRef};
use exoshuffle_io::{open_split, Split};
use exoshuffle_kernels::records::{RecordOrder, RecordShape, SortedRecords};
use exoshuffle_kernels::{GatheredRows, KernelError, Permutation};

use crate::arrow_stream::stream_error;
use crate::errors::RowError;
use crate::source::ReadConfig;

/// Bytes of rows that are gathered at a time: with the columns made of them, half a second-level cache.
const BATCH_BYTES: usize = 1 << 19;
const MAX_BATCH_ROWS: usize = 8 * 1024;

/// Batches of one schema, in order; they end after the first error.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, RowError>> + Send>;

/// Where rows come from.
pub enum RowSource {
    /// Rows of slices.
    Table(Arc<GatheredRows>),
    /// Rows of slices that end in the number they were ordered by.
    Permuted(Arc<GatheredRows>),
    /// A partition of records, sorted when it goes out, since the order refers to the slices.
    Records {
        /// Width and key.
        shape: RecordShape,
        /// Schema of the one column.
        schema: SchemaRef,
        /// The records.
        slices: Vec<Buffer>,
    },
    /// A split, as it comes.
    Split {
        /// What to read.
        split: Box<Split>,
        /// How.
        config: Box<ReadConfig>,
        /// The schema of the source.
        schema: SchemaRef,
        /// The columns wanted; `None` for all.
        columns: Option<Vec<usize>>,
    },
    /// A stream of somebody else, until it is taken.
    Stream(Mutex<Option<RecordBatchStreamReader>>),
    /// An Arrow IPC stream in memory.
    Ipc(Buffer),
}

impl RowSource {
    /// The batches; their strings may be views, and dictionaries plain values. Opens files and sorts records at once,
    /// so that what fails at the beginning fails here.
    pub fn batches(&self) -> Result<Batches, RowError> {
        let batches: Batches = match self {
            Self::Table(rows) => gathered(Arc::clone(rows)),
            Self::Permuted(rows) => Box::new(
                gathered(Arc::clone(rows))
                    .map(|batch| Permutation::without_numbers(&batch?).map_err(RowError::Kernel)),
            ),
            Self::Records {
                shape,
                schema,
                slices,
            } => Box::new(RecordBatches::new(*shape, schema, slices)?),
            Self::Split {
                split,
                config,
                schema,
                columns,
            } => {
                let options = &config.options;
                let batches =
                    open_split(split, schema, options, columns.as_deref(), MAX_BATCH_ROWS);
                Box::new(
                    batches
                        .map_err(RowError::Io)?
                        .map(|b| b.map_err(RowError::Io)),
                )
            }
            Self::Stream(stream) => {
                let reader = stream.lock().unwrap_or_else(PoisonError::into_inner).take();
                let reader = reader.ok_or_else(|| {
                    let message = "the rows of a stream can be read once, and were; make them again from the same data";
                    RowError::Stream(message.to_owned())
                })?;
                Box::new(reader.map(|batch| batch.map_err(|error| stream_error(&error))))
            }
            Self::Ipc(stream) => Box::new(IpcBatches {
                decoder: StreamDecoder::new(),
                rest: stream.clone(),
            }),
        };
        Ok(Box::new(Fenced(Some(batches))))
    }
}

/// The rows of slices, a batch at a time.
pub fn gathered(rows: Arc<GatheredRows>) -> Batches {
    let mean = (rows.num_bytes() / rows.num_rows().max(1)).max(1);
    let step = (BATCH_BYTES / mean).clamp(1, MAX_BATCH_ROWS);
    let starts = (0..rows.num_rows()).step_by(step);
    Box::new(starts.map(move |start| rows.batch(start, step).map_err(RowError::Kernel)))
}

struct RecordBatches {
    shape: RecordShape,
    schema: SchemaRef,
    slices: Vec<Buffer>,
    /// Absent only while a batch is made.
    order: Option<RecordOrder>,
    next: usize,
    len: usize,
}

impl RecordBatches {
    fn new(shape: RecordShape, schema: &SchemaRef, slices: &[Buffer]) -> Result<Self, RowError> {
        let bytes: Vec<&[u8]> = slices.iter().map(Buffer::as_slice).collect();
        let sorted = SortedRecords::try_new(shape, &bytes).map_err(RowError::Record)?;
        Ok(Self {
            shape,
            schema: Arc::clone(schema),
            len: sorted.len(),
            order: Some(sorted.into_order()),
            slices: slices.to_vec(),
            next: 0,
        })
    }

    fn batch(&mut self, order: RecordOrder) -> Result<RecordBatch, RowError> {
        let width = self.shape.record_bytes();
        let count = (BATCH_BYTES / width).max(1).min(self.len - self.next);
        let slices: Vec<&[u8]> = self.slices.iter().map(Buffer::as_slice).collect();
        let sorted = SortedRecords::resume(self.shape, &slices, order).map_err(RowError::Record)?;
        let mut records = vec![0; count * width];
        sorted
            .gather(self.next, &mut records)
            .map_err(RowError::Record)?;
        self.order = Some(sorted.into_order());
        self.next += count;
        self.record_batch(records).map_err(|source| {
            RowError::Kernel(KernelError::Arrow {
                action: format!("making a column of records of {width} bytes"),
                source,
            })
        })
    }

    fn record_batch(&self, records: Vec<u8>) -> Result<RecordBatch, ArrowError> {
        let width = i32::try_from(self.shape.record_bytes())
            .map_err(|error| ArrowError::ExternalError(error.into()))?;
        let column: ArrayRef =
            Arc::new(FixedSizeBinaryArray::try_new(width, records.into(), None)?);
        RecordBatch::try_new(Arc::clone(&self.schema), vec![column])
    }
}

impl Iterator for RecordBatches {
    type Item = Result<RecordBatch, RowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.len {
            return None;
        }
        let order = self.order.take()?;
        Some(self.batch(order))
    }
}

/// The batches of an Arrow IPC stream; their arrays are parts of its buffer.
struct IpcBatches {
    decoder: StreamDecoder,
    rest: Buffer,
}

impl Iterator for IpcBatches {
    type Item = Result<RecordBatch, RowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.decoder.decode(&mut self.rest) {
            Ok(Some(batch)) => Some(Ok(batch)),
            Ok(None) => {
                let end = self.decoder.finish();
                end.err().map(|error| Err(stream_error(&error)))
            }
            Err(error) => Some(Err(stream_error(&error))),
        }
    }
}

/// Ends after the first error, and makes an error of a panic: Arrow's decoder panics on some damaged input, and a panic
/// must not reach a caller that is written in C.
struct Fenced(Option<Batches>);

impl Iterator for Fenced {
    type Item = Result<RecordBatch, RowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batches = self.0.as_mut()?;
        // What is left half done is dropped, hence unwind safe.
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
