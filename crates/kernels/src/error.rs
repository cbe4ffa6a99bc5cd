//! The one error type of this crate.
//!
//! Every message is a sentence that names the value, the limit and the remedy.

use arrow_schema::{ArrowError, DataType};

use crate::checks::check::CheckError;
use crate::records::RecordError;

/// The result of every fallible kernel.
pub type Result<T, E = KernelError> = std::result::Result<T, E>;

/// An error of a kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// A key column has a type without an order.
    #[error("column '{column}' of type {data_type} cannot be a sort key; sort by a number, date, time, boolean, string or binary column, or cast it to one first")]
    UnsortableKey {
        /// Name of the column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// A key names a column that does not exist.
    #[error("sort key refers to column {index}, but the schema has {columns} columns; use an index below {columns}")]
    KeyOutOfRange {
        /// The index given.
        index: usize,
        /// Number of columns of the schema.
        columns: usize,
    },
    /// A batch has another number of columns than the schema.
    #[error("a batch has {actual} columns where the schema has {expected}; read it with the schema of the job")]
    ColumnCount {
        /// Columns of the schema.
        expected: usize,
        /// Columns of the batch.
        actual: usize,
    },
    /// A batch has a column of a type that its schema does not allow.
    #[error("column '{column}' is {actual} in a batch, but the schema says {expected}; cast the column, or give the schema that all files share")]
    ColumnType {
        /// Name of the column.
        column: String,
        /// The type that the schema declares.
        expected: DataType,
        /// The type found.
        actual: DataType,
    },
    /// A null in a column that is declared free of nulls.
    #[error("column '{column}' is declared not nullable but holds {count} nulls in one batch; declare it nullable or fill the nulls")]
    UnexpectedNull {
        /// Name of the column.
        column: String,
        /// Nulls in the batch that was refused.
        count: usize,
    },
    /// A string or binary value is longer than the length in an Arrow view can be.
    #[error("a value of column '{column}' has {bytes} bytes, more than the {limit} that a row can hold; split the value")]
    ValueTooLong {
        /// Name of the column.
        column: String,
        /// Length of the value.
        bytes: u64,
        /// The longest value allowed.
        limit: u64,
    },
    /// The values of a column in one batch are longer than its offsets reach.
    #[error("the values of column '{column}' in one output batch have more bytes than {data_type} can number; declare the large type")]
    BatchTooLong {
        /// Name of the column.
        column: String,
        /// The type that was declared.
        data_type: DataType,
    },
    /// A dictionary column has more distinct values than its key type can number.
    #[error("column '{column}' has more distinct values in one output batch than dictionary keys of type {key_type} can number; declare a wider key type or the plain value type")]
    DictionaryOverflow {
        /// Name of the column.
        column: String,
        /// The key type of the dictionary.
        key_type: DataType,
    },
    /// A slice does not hold whole rows of the layout.
    #[error("slice is corrupt at byte {offset}: {reason}; the data was damaged or written with another schema, run the job again")]
    CorruptSlice {
        /// Where in the slice reading failed.
        offset: u64,
        /// The fault there.
        reason: &'static str,
    },
    /// A hash was asked for where there is nothing to hash.
    #[error("rows without key columns cannot be assigned by hash; name the columns to hash, or deal rows in turn")]
    NoKeys,
    /// Equal ranges were asked for on a key that is not a number of 64 bits.
    #[error("only a single ascending key of type uint64 without nulls has equal ranges; choose boundaries out of samples")]
    NotANumber,
    /// Encoded samples, boundaries or assignments cannot be read.
    #[error("encoded {what} cannot be read: {reason}; the bytes were damaged or written with another key, sample again")]
    CorruptKeys {
        /// "samples", "boundaries" or "assignment".
        what: &'static str,
        /// The fault.
        reason: &'static str,
    },
    /// The output buffer has the wrong size.
    #[error("the output buffer has {actual} bytes but the slices need {expected}; allocate as many as their last offset says")]
    OutputSize {
        /// Bytes needed.
        expected: u64,
        /// Bytes given.
        actual: u64,
    },
    /// There are more slices than a row location can number.
    #[error("{count} slices for one reduce exceed the limit of {limit}; merge slices first or use fewer, larger splits")]
    TooManySlices {
        /// Slices given.
        count: usize,
        /// The most that one reduce takes.
        limit: usize,
    },
    /// The blocks belong to different shuffles.
    #[error(
        "blocks of {expected} and {actual} slices cannot be merged; merge blocks of one shuffle"
    )]
    SliceCount {
        /// Slices of the first block.
        expected: usize,
        /// Slices of another.
        actual: usize,
    },
    /// A number of partitions that cannot be planned.
    #[error("{count} partitions were asked for, but the number must lie between 1 and {limit}; choose one in that range")]
    PartitionCount {
        /// Partitions asked for.
        count: usize,
        /// The most allowed.
        limit: usize,
    },
    /// Rows of a table are needed, and others were given.
    #[error(
        "a sorter of records and one of random order can only sort; make one with Sorter.table"
    )]
    OnlySorts,
    /// A batch holds other columns than records of this width.
    #[error("a batch holds no records of {record_bytes} bytes; pass one fixed-size binary column of that width without nulls")]
    NoRecords {
        /// Bytes of a record.
        record_bytes: usize,
    },
    /// An error of fixed-length records.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Rows were not conserved.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// Arrow refused an operation.
    #[error("{action} failed: {source}; check the types of the columns")]
    Arrow {
        /// The operation.
        action: String,
        /// Arrow's own reason.
        source: ArrowError,
    },
}

impl KernelError {
    /// Wraps an Arrow error with the operation that failed.
    pub(crate) fn arrow(action: impl Into<String>, source: ArrowError) -> Self {
        Self::Arrow {
            action: action.into(),
            source,
        }
    }
}
