//! gensort and valsort, one file per call. Another thread can stop a call.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use exoshuffle_io::direct::{DirectWriter, RangeReader, ReadAhead};
use exoshuffle_kernels::gensort::{fill_records, RecordKind, RECORD_BYTES};
use exoshuffle_kernels::records::RecordShape;
use exoshuffle_kernels::valsort::Summary;
use pyo3::exceptions::PyInterruptedError;
use pyo3::prelude::*;

use crate::errors::{io_error, record_error};

/// Records that are made or checked at a time: about 1 MB.
const RECORDS_PER_STEP: u64 = 10_000;

/// Ends calls on other threads: an interrupt reaches only the main thread, and a file may take minutes.
#[pyclass(frozen)]
#[derive(Default)]
pub struct Stop(AtomicBool);

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Makes every call that was given this raise `InterruptedError` within a few MB.
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Stop {
    /// Returns whether `set` was called.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn check(&self) -> PyResult<()> {
        if self.is_set() {
            return Err(PyInterruptedError::new_err("stopped"));
        }
        Ok(())
    }
}

/// Writes `count` records from number `start` to a new file, and returns its size and CRC-32. Numbers go on from 0
/// after the last number of 128 bits.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "the options of gensort, and who may stop it"
)]
pub fn gensort_file(
    py: Python<'_>,
    path: PathBuf,
    start: u128,
    count: u64,
    ascii: bool,
    skew: bool,
    stop: &Stop,
) -> PyResult<(u64, u32)> {
    let kind = match (ascii, skew) {
        (false, false) => RecordKind::Binary,
        (true, false) => RecordKind::Ascii,
        (false, true) => RecordKind::SkewedBinary,
        (true, true) => RecordKind::SkewedAscii,
    };
    py.detach(|| {
        let mut writer = DirectWriter::create(&path).map_err(io_error)?;
        let mut buffer = vec![0; RECORDS_PER_STEP as usize * RECORD_BYTES];
        let mut done = 0;
        while done < count {
            stop.check()?;
            let step = RECORDS_PER_STEP.min(count - done);
            let records = &mut buffer[..step as usize * RECORD_BYTES];
            let first = start.wrapping_add(u128::from(done));
            fill_records(first, kind, records).map_err(record_error)?;
            writer.append(records).map_err(io_error)?;
            done += step;
        }
        let written = writer.finish().map_err(io_error)?;
        Ok((written.bytes, written.crc32))
    })
}

/// The findings of valsort in one file, or in several.
#[pyclass(frozen, from_py_object)]
#[derive(Clone)]
pub struct ValsortSummary(Summary);

#[pymethods]
impl ValsortSummary {
    #[getter]
    fn records(&self) -> u64 {
        self.0.records
    }

    #[getter]
    fn checksum(&self) -> u128 {
        self.0.checksum
    }

    #[getter]
    fn duplicates(&self) -> u64 {
        self.0.duplicates
    }

    #[getter]
    fn unordered(&self) -> u64 {
        self.0.unordered
    }

    #[getter]
    fn first_unordered(&self) -> Option<u64> {
        self.0.first_unordered
    }
}

/// Checks one file.
#[pyfunction]
pub fn valsort_file(
    py: Python<'_>,
    path: PathBuf,
    record_bytes: usize,
    key_bytes: usize,
    stop: &Stop,
) -> PyResult<ValsortSummary> {
    let shape = RecordShape::try_new(record_bytes, key_bytes).map_err(record_error)?;
    py.detach(|| {
        let file = Arc::new(RangeReader::open(&path).map_err(io_error)?);
        let mut summary = Summary::new(shape);
        let size = file.len();
        for window in ReadAhead::new(file, 0..size, record_bytes).map_err(io_error)? {
            stop.check()?;
            summary
                .update(&window.map_err(io_error)?)
                .map_err(record_error)?;
        }
        Ok(ValsortSummary(summary))
    })
}

/// Returns the summary of files that follow one another.
#[pyfunction]
pub fn combine_summaries(summaries: Vec<ValsortSummary>) -> Option<ValsortSummary> {
    let mut summaries = summaries.into_iter();
    let mut total = summaries.next()?;
    for next in summaries {
        total.0.append(&next.0);
    }
    Some(total)
}
