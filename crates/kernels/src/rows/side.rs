//! The opened slices of a partition: what their maps counted, and whether the rows that went on agree.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::checks::check::CheckError;
use crate::error::KernelError;
use crate::records::RecordError;
use crate::slices::sections::Sections;

/// The result of the checks of each tag's rows.
#[derive(Debug, Default)]
struct Outcome {
    /// Tags of which all rows were handed on.
    conserved: BTreeSet<u8>,
    /// The first fault that was found.
    failure: Option<CheckError>,
}

/// The sections of a partition, and the outcome of their checks. Rows may leave on any thread.
#[derive(Debug)]
pub struct CheckedSections {
    sections: Arc<Sections>,
    outcome: Arc<Mutex<Outcome>>,
}

impl CheckedSections {
    /// Wraps sections of which no rows were handed on yet.
    pub fn new(sections: Sections) -> Self {
        Self {
            sections: Arc::new(sections),
            outcome: Arc::default(),
        }
    }

    /// Returns the sections.
    pub fn sections(&self) -> &Sections {
        &self.sections
    }

    /// Returns how many rows the maps counted.
    pub fn num_rows(&self) -> u64 {
        let tags = self.sections.tags().into_iter();
        tags.map(|tag| self.sections.sent(tag).rows()).sum()
    }

    /// Returns the fault of the rows that were handed on, if one was found.
    pub fn failure(&self) -> Option<CheckError> {
        locked(&self.outcome).failure.clone()
    }

    /// Checks that all rows, or those of one tag, were handed on and are those that the maps sent.
    ///
    /// # Errors
    /// The first fault that was found.
    pub fn check(&self, tag: Option<u8>) -> Result<(), CheckError> {
        let mut outcome = locked(&self.outcome);
        let tags = self.sections.tags().into_iter();
        let unread = tags
            .filter(|found| tag.is_none_or(|tag| tag == *found))
            .filter(|tag| !outcome.conserved.contains(tag))
            .map(|tag| self.sections.sent(tag).rows())
            .find(|&rows| rows > 0);
        if let Some(rows) = unread {
            outcome.failure.get_or_insert(CheckError::Unread { rows });
        }
        outcome.failure.clone().map_or(Ok(()), Err)
    }

    /// Returns the rows of one tag.
    pub fn side(&self, tag: u8) -> Side {
        Side {
            sections: Arc::clone(&self.sections),
            tag,
            outcome: Arc::clone(&self.outcome),
        }
    }
}

/// The sections of one tag, and the outcome to which the result of their checks goes.
#[derive(Debug, Clone)]
pub struct Side {
    /// All sections.
    pub(super) sections: Arc<Sections>,
    /// The tag of those that are meant.
    pub(super) tag: u8,
    outcome: Arc<Mutex<Outcome>>,
}

impl Side {
    /// Notes that all rows were handed on and found to be those sent.
    pub(super) fn conserved(&self) {
        locked(&self.outcome).conserved.insert(self.tag);
    }

    /// Notes that the rows are wrong, if this error says so.
    pub(super) fn failed(&self, error: &KernelError) {
        if let KernelError::Check(error) | KernelError::Record(RecordError::Check(error)) = error {
            let mut outcome = locked(&self.outcome);
            outcome.failure.get_or_insert_with(|| error.clone());
        }
    }
}

/// The outcome is consistent after every statement, so a panic elsewhere does not spoil it.
fn locked(outcome: &Mutex<Outcome>) -> MutexGuard<'_, Outcome> {
    outcome.lock().unwrap_or_else(PoisonError::into_inner)
}
