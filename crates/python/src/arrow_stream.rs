//! Arrow's C stream interface in both directions: batches of other libraries as ours and ours as theirs, no bytes
//! copied.
//!
//! A stream carries only the text of an error, so the error that ended one of our streams is kept beside it.
//!
//! Neither direction needs the interpreter while batches come. Batches may keep objects of Python alive. The thread
//! that drops the last reference to one waits for the interpreter then, so nothing here is dropped under a lock.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::{options_error, RowError};

/// Batches of one schema, in order; they end after the first error.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, RowError>> + Send>;

/// The name that the protocol gives to capsules of streams.
const NAME: &std::ffi::CStr = c"arrow_array_stream";

/// Takes the stream of an object that has `__arrow_c_stream__`.
pub fn import(object: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let Some(export) = object.getattr_opt("__arrow_c_stream__")? else {
        return Err(options_error(format!(
            "{} holds no Arrow batches; pass a pyarrow.Table, a RecordBatchReader or anything else with __arrow_c_stream__",
            object.get_type()
        )));
    };
    let capsule = export.call0()?.cast_into::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(NAME))?;
    // SAFETY: by the protocol a capsule of this name points to an initialised stream, and lives until the end of this
    // function. The stream is moved out, and the capsule is left marked as released, so that its destructor passes over
    // it. The interpreter is held, so nobody else takes it at the same time.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.cast().as_ptr()) };
    RecordBatchStreamReader::try_new(stream).map_err(|error| stream_error(&error).into())
}

/// Makes an error of a failure in a stream that another library produces.
pub fn stream_error(error: &ArrowError) -> RowError {
    RowError::Stream(format!(
        "an Arrow stream cannot be read: {error}; check what produces it"
    ))
}

/// Holds the error that ended one of our streams.
#[derive(Clone, Default)]
pub struct Failure(Arc<Mutex<Option<RowError>>>);

impl Failure {
    /// Takes the error, to be raised once.
    pub fn take(&self) -> Option<RowError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn keep(&self, error: RowError) -> ArrowError {
        // The message becomes a C string, which must not hold a zero byte.
        let message = error.to_string().replace('\0', "\\0");
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        ArrowError::ExternalError(message.into())
    }
}

/// Makes a capsule with a stream of `batches`, all of which have this schema. The stream is released with the capsule
/// if nobody takes it.
pub fn export<'py>(
    py: Python<'py>,
    schema: SchemaRef,
    batches: Batches,
    failure: Failure,
) -> PyResult<Bound<'py, PyCapsule>> {
    let exported = Exported {
        schema,
        batches,
        failure,
    };
    let stream = FFI_ArrowArrayStream::new(Box::new(exported));
    PyCapsule::new_with_value(py, stream, NAME)
}

struct Exported {
    schema: SchemaRef,
    batches: Batches,
    failure: Failure,
}

impl Iterator for Exported {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.next()?;
        Some(batch.map_err(|error| self.failure.keep(error)))
    }
}

impl RecordBatchReader for Exported {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}
