//! The only place where Rust errors become Python exceptions.

use std::fmt;
use std::io::{Error, ErrorKind};
use std::path::Path;

use arrow_schema::ArrowError;
use exoshuffle_io::{told, IoError};
use exoshuffle_kernels::records::RecordError;
use exoshuffle_kernels::KernelError;
use exoshuffle_store::StoreError;
use pyo3::exceptions::{PyBrokenPipeError, PyOSError};
use pyo3::import_exception;
use pyo3::prelude::*;

import_exception!(exoshuffle.errors, ClosedError);
import_exception!(exoshuffle.errors, CorruptBlockError);
import_exception!(exoshuffle.errors, CorruptFileError);
import_exception!(exoshuffle.errors, DiskFullError);
import_exception!(exoshuffle.errors, ForkedEngineError);
import_exception!(exoshuffle.errors, InputError);
import_exception!(exoshuffle.errors, MemoryLimitError);
import_exception!(exoshuffle.errors, OptionsError);
import_exception!(exoshuffle.errors, OutputError);
import_exception!(exoshuffle.errors, SchemaError);
import_exception!(exoshuffle.errors, ShuffleCheckError);
import_exception!(exoshuffle.errors, StorageError);

/// Returns the exception for a store error.
pub fn store_error(error: StoreError) -> PyErr {
    let message = error.to_string();
    match error {
        StoreError::Closed => ClosedError::new_err(message),
        StoreError::Forked => ForkedEngineError::new_err(message),
        StoreError::Corrupt { block, .. } | StoreError::Restore { block, .. } => {
            CorruptBlockError::new_err((message, block))
        }
        StoreError::DiskFull { .. } => DiskFullError::new_err(message),
        StoreError::TooLarge { .. } | StoreError::BudgetTooSmall { .. } => {
            MemoryLimitError::new_err(message)
        }
        StoreError::SpillDirectoryMissing { .. }
        | StoreError::SpillDirectoryNotADirectory { .. }
        | StoreError::SpillDirectoryNotWritable { .. } => OptionsError::new_err(message),
        StoreError::Interrupted(why) => match why.downcast::<PyErr>() {
            Ok(raised) => *raised,
            Err(_) => StorageError::new_err(message),
        },
        _ => StorageError::new_err(message),
    }
}

/// Returns the exception for an error of reading or writing files.
pub fn io_error(error: IoError) -> PyErr {
    let message = told(&error);
    match error {
        IoError::Corrupt { .. }
        | IoError::CorruptCompressed { .. }
        | IoError::PartialRecord { .. } => CorruptFileError::new_err(message),
        IoError::LongRow { bytes, .. }
        | IoError::LargeRow { bytes, .. }
        | IoError::ManyValues { bytes, .. } => MemoryLimitError::new_err((message, 0, bytes)),
        IoError::LargeFooter { .. }
        | IoError::LargePage { .. }
        | IoError::LargeRows { .. }
        | IoError::LongLine { .. }
        | IoError::Window { .. } => MemoryLimitError::new_err(message),
        IoError::ColumnCount { .. }
        | IoError::Unfit { .. }
        | IoError::ColumnMismatch { .. }
        | IoError::DuplicateColumn { .. } => SchemaError::new_err(message),
        IoError::Write { ref source, .. } if source.kind() == ErrorKind::BrokenPipe => {
            PyBrokenPipeError::new_err(message)
        }
        IoError::Write { .. }
        | IoError::Encode { .. }
        | IoError::FolderName { .. }
        | IoError::TooManyFolders { .. } => OutputError::new_err(message),
        IoError::BadPattern { .. }
        | IoError::UnknownColumn { .. }
        | IoError::NamesGiven { .. }
        | IoError::TypeGiven { .. }
        | IoError::UnknownEncoding { .. }
        | IoError::SharedCharacter { .. }
        | IoError::NoCharacter { .. }
        | IoError::NoSize { .. }
        | IoError::LongKey { .. }
        | IoError::NoPartition { .. }
        | IoError::UnknownFormat { .. }
        | IoError::UnknownCompression { .. }
        | IoError::UnsupportedCompression { .. }
        | IoError::RecordBytesMissing => OptionsError::new_err(message),
        _ => InputError::new_err(message),
    }
}

/// Returns the `OSError` for an error of a storage, with the number that Python knows, as calls of Python raise it.
pub fn os_error(error: &Error, path: &Path) -> PyErr {
    let of_kind = match error.kind() {
        ErrorKind::NotFound => libc::ENOENT,
        ErrorKind::AlreadyExists => libc::EEXIST,
        ErrorKind::DirectoryNotEmpty => libc::ENOTEMPTY,
        ErrorKind::IsADirectory => libc::EISDIR,
        ErrorKind::NotADirectory => libc::ENOTDIR,
        ErrorKind::WouldBlock => libc::EAGAIN,
        ErrorKind::Unsupported => libc::ENOTSUP,
        _ => libc::EIO,
    };
    let number = error.raw_os_error().unwrap_or(of_kind);
    let text = Error::from_raw_os_error(number).to_string();
    let words = text.split(" (os error").next().unwrap_or_default();
    PyOSError::new_err((number, words.to_owned(), path.as_os_str().to_owned()))
}

/// Returns the exception for an error of the kernels.
pub fn kernel_error(error: KernelError) -> PyErr {
    let message = error.to_string();
    match error {
        KernelError::UnsortableKey { .. }
        | KernelError::ColumnCount { .. }
        | KernelError::ColumnType { .. } => SchemaError::new_err(message),
        KernelError::PartitionCount { .. } | KernelError::NoKeys | KernelError::NotANumber => {
            OptionsError::new_err(message)
        }
        KernelError::NoRecords { .. } => SchemaError::new_err(message),
        KernelError::OnlySorts => OptionsError::new_err(message),
        KernelError::Check(_) => ShuffleCheckError::new_err(message),
        KernelError::Record(error) => record_error(error),
        _ => InputError::new_err(message),
    }
}

/// Returns the exception for an error of the record kernels.
pub fn record_error(error: RecordError) -> PyErr {
    let message = error.to_string();
    match error {
        RecordError::Check(_) => ShuffleCheckError::new_err(message),
        _ => OptionsError::new_err(message),
    }
}

/// Returns the exception for rows that were not conserved.
pub fn check_error(message: impl fmt::Display) -> PyErr {
    ShuffleCheckError::new_err(message.to_string())
}

/// Returns the exception for a schema or batch that Arrow refuses.
pub fn arrow_error(error: ArrowError) -> PyErr {
    OptionsError::new_err(format!("Arrow cannot express this: {error}"))
}

/// Returns the exception for an option that makes no sense.
pub fn options_error(message: String) -> PyErr {
    OptionsError::new_err(message)
}

/// Returns the exception for a schema that lacks what was asked for.
pub fn schema_error(message: String) -> PyErr {
    SchemaError::new_err(message)
}

/// An error while rows come. It becomes an exception only where there is an interpreter to raise it in.
#[derive(Debug)]
pub enum RowError {
    /// An error of reading files.
    Io(IoError),
    /// An error of the kernels.
    Kernel(KernelError),
    /// An error of an Arrow stream that another library produces or has written.
    Stream(String),
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => told(error).fmt(f),
            Self::Kernel(error) => error.fmt(f),
            Self::Stream(message) => message.fmt(f),
        }
    }
}

impl From<KernelError> for RowError {
    fn from(error: KernelError) -> Self {
        Self::Kernel(error)
    }
}

impl From<RowError> for PyErr {
    fn from(error: RowError) -> Self {
        match error {
            RowError::Io(error) => io_error(error),
            RowError::Kernel(error) => kernel_error(error),
            RowError::Stream(message) => InputError::new_err(message),
        }
    }
}
