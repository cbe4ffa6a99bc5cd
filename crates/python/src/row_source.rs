//! Sources of rows, as batches: lazily, in order, on any thread.

use std::borrow::Borrow;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::{ArrayRef, FixedSizeBinaryArray, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use exoshuffle_io::{open_split, BatchStream};
use exoshuffle_kernels::records::{RecordError, RecordOrder, RecordShape, SortedRecords};
use exoshuffle_kernels::{GatheredRows, KernelError, Permutation, Section, Tally};

use crate::arrow_stream::{stream_error, Batches};
use crate::errors::RowError;
use crate::read_options::ReadOptions;
use crate::sections::TaggedSections;
use crate::split::Split;

/// Bytes of rows that are gathered at a time: with the columns made of them, half a second-level cache.
pub const BATCH_BYTES: usize = 1 << 19;
const MAX_BATCH_ROWS: usize = 8 * 1024;
/// Bytes per column: a table with very many columns gets larger batches. Each column of a batch is an array, and half a
/// megabyte of 10,000 columns is six rows.
const COLUMN_BYTES: usize = 2 << 10;
const WIDE_BATCH_BYTES: usize = 4 << 20;

/// A source of rows.
pub enum RowSource {
    /// Rows of sections.
    Table(Arc<GatheredRows>, TaggedSections),
    /// Rows of sections whose last column is the number that they were ordered by.
    Permuted(Arc<GatheredRows>, TaggedSections),
    /// A partition of records, sorted when it goes out, since the order refers to the slices.
    Records {
        /// Width and key.
        shape: RecordShape,
        /// Schema of the one column.
        schema: SchemaRef,
        /// The records.
        side: TaggedSections,
    },
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
        self.batches_by(gathered)
    }

    /// Like `batches`. Where rows are gathered, each batch has so many bytes of them, and strings are as declared.
    pub fn plain_batches(&self, bytes: usize) -> Result<Batches, RowError> {
        self.batches_by(|rows| {
            let batches = Arc::clone(rows).plain_batches(step(rows, bytes));
            Box::new(batches.map(|batch| batch.map_err(RowError::Kernel)))
        })
    }

    fn batches_by(
        &self,
        gather: impl FnOnce(&Arc<GatheredRows>) -> Batches,
    ) -> Result<Batches, RowError> {
        let batches: Batches = match self {
            Self::Table(rows, side) => reported(gather(rows), side),
            Self::Permuted(rows, side) => Box::new(
                reported(gather(rows), side)
                    .map(|batch| Permutation::without_numbers(&batch?).map_err(RowError::Kernel)),
            ),
            Self::Records {
                shape,
                schema,
                side,
            } => {
                let batches = RecordBatches::new(*shape, schema, side);
                reported(Box::new(batches.inspect_err(|e| side.failed(e))?), side)
            }
            Self::Splits {
                splits,
                options,
                schema,
                columns,
            } => {
                let (splits, options) = (splits.clone(), options.clone());
                let (schema, columns) = (SchemaRef::clone(schema), columns.clone());
                let mut opened = splits.into_iter().map(move |split| {
                    open_split(
                        split.borrow(),
                        &schema,
                        &options.0,
                        columns.as_deref(),
                        MAX_BATCH_ROWS,
                    )
                });
                let first = opened.next().transpose().map_err(RowError::Io)?;
                let batches = first.into_iter().flatten().chain(opened.flat_map(|opened| {
                    let failed = |error| -> BatchStream { Box::new(std::iter::once(Err(error))) };
                    opened.unwrap_or_else(failed)
                }));
                Box::new(batches.map(|batch| batch.map_err(RowError::Io)))
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

    /// Returns the number of batches of `plain_batches`, and the most that their buffers take with the declared types.
    /// Each buffer is padded to a multiple of `alignment`. Returns `None` where that shows only when they are made.
    pub fn declared_bytes(
        &self,
        declared: &Schema,
        bytes: usize,
        alignment: usize,
    ) -> Option<(usize, usize)> {
        let (Self::Table(rows, _) | Self::Permuted(rows, _)) = self else {
            return None;
        };
        let step = step(rows, bytes);
        let most = rows.declared_bytes(declared, step, alignment)?;
        Some((rows.num_rows().div_ceil(step), most))
    }
}

/// Returns the rows of sections, a few at a time.
pub fn gathered(rows: &Arc<GatheredRows>) -> Batches {
    let batches = Arc::clone(rows).batches(step(rows, BATCH_BYTES));
    Box::new(batches.map(|batch| batch.map_err(RowError::Kernel)))
}

/// Returns a number of rows that have about so many bytes.
fn step(rows: &GatheredRows, bytes: usize) -> usize {
    let mean = (rows.num_bytes() / rows.num_rows().max(1)).max(1);
    let columns = rows.output_schema().fields().len();
    let bytes = bytes.max(WIDE_BATCH_BYTES.min(columns * COLUMN_BYTES));
    (bytes / mean).clamp(1, bytes / BATCH_BYTES * MAX_BATCH_ROWS)
}

/// Returns the batches; tells the sections when all were handed on, or why that cannot be.
pub fn reported(mut batches: Batches, side: &TaggedSections) -> Batches {
    let side = side.clone();
    Box::new(std::iter::from_fn(move || {
        let item = batches.next();
        match &item {
            None => side.conserved(),
            Some(Err(error)) => side.failed(error),
            Some(Ok(_)) => {}
        }
        item
    }))
}

/// Sorted records, counted as they go out; if they are not those that the maps sent, an error follows the last batch.
struct RecordBatches {
    shape: RecordShape,
    schema: SchemaRef,
    side: TaggedSections,
    /// Absent only while a batch is made.
    order: Option<RecordOrder>,
    next: usize,
    len: usize,
    handed_on: Tally,
}

impl RecordBatches {
    fn new(
        shape: RecordShape,
        schema: &SchemaRef,
        side: &TaggedSections,
    ) -> Result<Self, RowError> {
        let sorted = SortedRecords::try_new(shape, &records(side)).map_err(|error| {
            let intact = side.sections.intact(side.tag, recount(shape, side));
            RowError::Record(intact.err().map_or(error, RecordError::from))
        })?;
        Ok(Self {
            shape,
            schema: Arc::clone(schema),
            len: sorted.len(),
            order: Some(sorted.into_order()),
            side: side.clone(),
            next: 0,
            handed_on: Tally::default(),
        })
    }

    fn batch(&mut self, order: RecordOrder) -> Result<RecordBatch, RowError> {
        let width = self.shape.record_bytes();
        let count = (BATCH_BYTES / width).max(1).min(self.len - self.next);
        let slices = records(&self.side);
        let sorted = SortedRecords::resume(self.shape, &slices, order).map_err(RowError::Record)?;
        let mut records = vec![0; count * width];
        sorted
            .gather(self.next, &mut records)
            .map_err(RowError::Record)?;
        self.handed_on.add_records(&records, width);
        self.order = Some(sorted.into_order());
        self.next += count;
        self.record_batch(records).map_err(|source| {
            RowError::Kernel(KernelError::Arrow {
                action: format!("making a column of records of {width} bytes"),
                source,
            })
        })
    }

    /// Checks that the records handed on are those that the maps sent.
    fn check(&self) -> Result<(), RowError> {
        let TaggedSections { sections, tag, .. } = &self.side;
        sections
            .compare(*tag, self.handed_on, recount(self.shape, &self.side))
            .map_err(|error| RowError::Record(error.into()))
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
        let order = self.order.take()?;
        if self.next == self.len {
            return self.check().err().map(Err);
        }
        Some(self.batch(order))
    }
}

/// Counts the records that a section has now, as its map did.
pub fn recount(
    shape: RecordShape,
    side: &TaggedSections,
) -> impl Fn(&Section) -> Option<Tally> + use<'_> {
    move |section| {
        let mut tally = Tally::default();
        tally.add_records(side.sections.bytes(section), shape.record_bytes());
        Some(tally)
    }
}

/// Returns the records of each section.
fn records(side: &TaggedSections) -> Vec<&[u8]> {
    let sections = side.sections.tagged(side.tag);
    sections
        .map(|section| side.sections.bytes(section))
        .collect()
}

/// The end of a stream; bytes behind it are not part of it.
const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// The batches of an Arrow IPC stream; their arrays are parts of its buffer.
struct IpcBatches {
    decoder: StreamDecoder,
    rest: Buffer,
}

impl Iterator for IpcBatches {
    type Item = Result<RecordBatch, RowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // The end stands behind a batch. The decoder takes any bytes behind the end for an error.
        if self.rest.starts_with(&END_OF_STREAM) {
            return None;
        }
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
