//! The faults of fixed-length records, their shape or their boundaries.

use thiserror::Error;

use crate::checks::check::CheckError;

/// Errors of the kernels for fixed-length records.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordError {
    /// The key does not fit into the record.
    #[error("a record of {record_bytes} bytes cannot have a key of {key_bytes} bytes; choose a key of 1 to {record_bytes} bytes")]
    InvalidShape {
        /// Bytes of a record.
        record_bytes: usize,
        /// Bytes of its key.
        key_bytes: usize,
    },
    /// The input ends inside a record.
    #[error("{bytes} bytes are not a whole number of {record_bytes}-byte records; check the record size, or whether the input was cut off")]
    PartialRecord {
        /// Length of the input.
        bytes: usize,
        /// Bytes of a record.
        record_bytes: usize,
    },
    /// There are more records than one sort can number.
    #[error("{records} records in {slices} slices are more than one sort can take (2^32 in all, slices rounded up to 4096); use more output partitions")]
    TooManyRecords {
        /// Records asked for.
        records: usize,
        /// Slices they come in.
        slices: usize,
    },
    /// There are more partitions than a scatter can number.
    #[error("{partitions} partitions were asked for, but a scatter makes 1 to {limit}; choose a number in that range")]
    PartitionCount {
        /// Partitions asked for.
        partitions: usize,
        /// The most that there can be.
        limit: usize,
    },
    /// The bytes are no samples or boundaries of this key width.
    #[error("{bytes} bytes are not samples or boundaries in order for {key_bytes}-byte keys; make them with the same record shape")]
    CorruptBoundaries {
        /// Length of the serialised form.
        bytes: usize,
        /// Bytes of a key.
        key_bytes: usize,
    },
    /// Rows were not conserved.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// The caller's buffer has another size than the result.
    #[error("the output buffer has {actual} bytes, but needs {expected}; size it from the plan of the same records")]
    OutputSize {
        /// Bytes needed.
        expected: usize,
        /// Bytes given.
        actual: usize,
    },
}
