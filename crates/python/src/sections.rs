//! The opened slices of a partition: what their maps counted, and whether the rows that went on agree.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_buffer::Buffer;
use bytes::Bytes;
use exoshuffle_kernels as kernels;
use exoshuffle_kernels::records::RecordError;
use exoshuffle_kernels::{CheckError, KernelError};
use pyo3::prelude::*;

use crate::buffers::ByteView;
use crate::errors::{check_error, RowError};

/// The result of the checks of each tag's rows.
#[derive(Default)]
struct Outcome {
    /// Tags of which all rows were handed on.
    conserved: BTreeSet<u8>,
    /// The first fault that was found.
    failure: Option<String>,
}

impl Outcome {
    fn note(&mut self, error: &CheckError) {
        self.failure.get_or_insert_with(|| error.to_string());
    }
}

/// The slices of a partition, which must have a section of every map.
#[pyclass(frozen)]
pub struct Sections {
    sections: Arc<kernels::Sections>,
    outcome: Arc<Mutex<Outcome>>,
}

#[pymethods]
impl Sections {
    /// Opens the slices of a partition, and keeps them alive. They hold the output of the maps from `first` to before
    /// `end`, or of as many as there are; of any maps if `first` is None.
    #[new]
    #[pyo3(signature = (slices, partition=0, first=Some(0), end=None))]
    fn new(
        slices: Vec<Bound<'_, PyAny>>,
        partition: u32,
        first: Option<u32>,
        end: Option<u32>,
    ) -> PyResult<Self> {
        let buffer = |slice| Ok(Buffer::from(Bytes::from_owner(ByteView::new(slice)?)));
        let slices: Vec<Buffer> = slices.iter().map(buffer).collect::<PyResult<_>>()?;
        let sections = kernels::Sections::open(slices, partition, first, end);
        let sections = sections.map_err(check_error)?;
        Ok(Self {
            sections: Arc::new(sections),
            outcome: Arc::default(),
        })
    }

    /// Returns the number of maps whose output this is.
    fn __len__(&self) -> usize {
        self.sections.len()
    }

    /// Returns how many rows the maps counted.
    #[getter]
    fn num_rows(&self) -> u64 {
        let tags = self.sections.tags().into_iter();
        tags.map(|tag| self.sections.sent(tag).rows()).sum()
    }

    /// Returns the number of the first map whose output this is; 0 if there is none.
    #[getter]
    fn first_map(&self) -> u32 {
        self.sections.first_map().unwrap_or(0)
    }

    /// Returns the fault of the rows that were handed on, or None. For errors on their way through Arrow streams, which
    /// carry text alone.
    #[getter]
    fn failure(&self) -> Option<String> {
        self.outcome().failure.clone()
    }

    /// Raises an error unless all rows, or those of one tag, were handed on and are those that the maps sent.
    #[pyo3(signature = (tag=None))]
    fn check(&self, tag: Option<u8>) -> PyResult<()> {
        let mut outcome = self.outcome();
        let tags = self.sections.tags().into_iter();
        let unread = tags
            .filter(|found| tag.is_none_or(|tag| tag == *found))
            .filter(|tag| !outcome.conserved.contains(tag))
            .map(|tag| self.sections.sent(tag).rows())
            .find(|&rows| rows > 0);
        if let Some(rows) = unread {
            outcome.note(&CheckError::Unread { rows });
        }
        outcome
            .failure
            .as_ref()
            .map_or(Ok(()), |f| Err(check_error(f)))
    }
}

impl Sections {
    fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the rows of one tag.
    pub fn side(&self, tag: u8) -> TaggedSections {
        TaggedSections {
            sections: Arc::clone(&self.sections),
            tag,
            outcome: Arc::clone(&self.outcome),
        }
    }
}

/// The sections of one tag, and the outcome to which the result of their checks goes.
#[derive(Clone)]
pub struct TaggedSections {
    /// All sections.
    pub sections: Arc<kernels::Sections>,
    /// The tag of those that are meant.
    pub tag: u8,
    outcome: Arc<Mutex<Outcome>>,
}

impl TaggedSections {
    /// Notes that all rows were handed on and found to be those sent.
    pub fn conserved(&self) {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.conserved.insert(self.tag);
    }

    /// Notes that the rows are wrong, if this error says so.
    pub fn failed(&self, error: &RowError) {
        if let RowError::Kernel(KernelError::Check(error))
        | RowError::Record(RecordError::Check(error)) = error
        {
            let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
            outcome.note(error);
        }
    }
}
