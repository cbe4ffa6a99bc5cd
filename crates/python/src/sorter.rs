//! Sorting tables and records, and the other moves of rows between partitions: sample, assign, scatter (map), sort or
//! gather (reduce). One call per step.

use std::borrow::Borrow;
use std::iter;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::SchemaRef;
use exoshuffle_io::{estimated_rows, sample_split, sample_splits};
use exoshuffle_kernels::records::RecordShape;
use exoshuffle_kernels::rows::{along, placed, Measured, RowKind};
use exoshuffle_kernels::{Assignment, Permutation, RowLayout, SortKey};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow_stream::{import, stream_error};
use crate::columns::{check_names, sort_key, unsortable};
use crate::errors::{io_error, kernel_error, options_error, record_error, RowError};
use crate::ipc::schema_from_ipc;
use crate::read_options::ReadOptions;
use crate::reading::{pieces_of, FileColumns, Reading};
use crate::row_source::RowSource;
use crate::rows::Rows;
use crate::scattered::{Content, Scattered, DIRECT_ROWS};
use crate::sections::Sections;
use crate::split::Split;

/// Rows per batch while reading: the columns of a batch of 100-byte rows then fit into a second-level cache.
const BATCH_ROWS: usize = 16 * 1024;

/// How to read a source and compare its rows.
#[pyclass(frozen)]
pub struct Sorter {
    kind: RowKind,
    schema: SchemaRef,
    files: FileColumns,
}

#[pymethods]
impl Sorter {
    #[staticmethod]
    #[pyo3(signature = (read_options, schema, keys, file_schema=None))]
    fn table(
        read_options: ReadOptions,
        schema: &[u8],
        keys: Vec<(String, bool, bool)>,
        file_schema: Option<&[u8]>,
    ) -> PyResult<Self> {
        let schema = schema_from_ipc(schema)?;
        let keys: Vec<SortKey> = keys
            .iter()
            .map(|key| sort_key(&schema, key))
            .collect::<PyResult<_>>()?;
        let layout =
            RowLayout::try_new(&schema, &keys).map_err(|error| unsortable(&schema, error))?;
        Ok(Self {
            kind: RowKind::Table(layout),
            files: FileColumns::find(&schema, file_schema, read_options)?,
            schema,
        })
    }

    #[staticmethod]
    fn records(read_options: ReadOptions, record_bytes: usize, key_bytes: usize) -> PyResult<Self> {
        let shape = RecordShape::try_new(record_bytes, key_bytes).map_err(record_error)?;
        let schema = exoshuffle_io::record_schema(record_bytes);
        Ok(Self {
            kind: RowKind::Records(shape, Arc::clone(&schema)),
            files: FileColumns::find(&schema, None, read_options)?,
            schema,
        })
    }

    #[staticmethod]
    #[pyo3(signature = (read_options, schema, seed, window=None, file_schema=None))]
    fn permutation(
        read_options: ReadOptions,
        schema: &[u8],
        seed: u64,
        window: Option<NonZeroU64>,
        file_schema: Option<&[u8]>,
    ) -> PyResult<Self> {
        let schema = schema_from_ipc(schema)?;
        let permutation = Permutation::try_new(&schema, seed).map_err(kernel_error)?;
        Ok(Self {
            kind: RowKind::Permutation(permutation.within(window)),
            files: FileColumns::find(&schema, file_schema, read_options)?,
            schema,
        })
    }

    #[getter]
    fn streams_in_place(&self) -> bool {
        self.kind.streams_in_place(&self.schema)
    }

    fn measure(
        &self,
        py: Python<'_>,
        splits: Vec<Split>,
        num_rows: usize,
        seed: u64,
    ) -> PyResult<(u64, u64, u64, u64)> {
        let FileColumns {
            schema,
            places,
            options,
        } = &self.files;
        py.detach(|| {
            let (mut sizes, mut rows_there) = (Measured::default(), 0);
            for split in &splits {
                let split: &exoshuffle_io::Split = split.borrow();
                let known = split
                    .rows
                    .and_then(|rows| self.kind.measure_unseen(rows.min(num_rows as u64)));
                if let Some(known) = known {
                    rows_there += split.rows.unwrap_or_default();
                    sizes = sizes.and(known);
                    continue;
                }
                let (batch, positions) =
                    sample_split(split, schema, &options.0, places.as_deref(), num_rows, seed)
                        .map_err(io_error)?;
                rows_there += split.rows.unwrap_or_else(|| estimated_rows(&positions));
                sizes = sizes.and(self.kind.measure(&batch).map_err(kernel_error)?);
            }
            Ok((sizes.rows, sizes.bytes, sizes.largest, rows_there))
        })
    }

    fn sample<'py>(
        &self,
        py: Python<'py>,
        splits: Vec<Split>,
        index: u32,
        num_rows: usize,
        seed: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let keys = self.files.places_of(self.kind.key_columns());
        let sample = py.detach(|| {
            let samples = sample_splits(
                &splits,
                &self.files.schema,
                &self.files.options.0,
                keys.as_deref(),
                num_rows,
                seed.wrapping_add(u64::from(index)),
            )
            .map_err(io_error)?;
            self.kind.sample_all(&samples, index).map_err(kernel_error)
        })?;
        Ok(PyBytes::new(py, &sample))
    }

    fn sample_batches<'py>(
        &self,
        py: Python<'py>,
        batches: &Bound<'py, PyAny>,
        index: u32,
        num_rows: usize,
        seed: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let batches = self.batches(batches)?;
        let sample = py.detach(|| {
            let seed = seed.wrapping_add(u64::from(index));
            self.kind.sample_batches(batches, index, num_rows, seed)
        })?;
        Ok(PyBytes::new(py, &sample))
    }

    fn sample_sections<'py>(
        &self,
        py: Python<'py>,
        sections: &Sections,
        index: u32,
        num_rows: usize,
        seed: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let side = sections.side(0);
        let sample = py.detach(|| {
            let seed = seed.wrapping_add(u64::from(index));
            let sample = self.kind.sample_sections(&side, index, num_rows, seed);
            sample.map_err(kernel_error)
        })?;
        Ok(PyBytes::new(py, &sample))
    }

    fn choose_boundaries<'py>(
        &self,
        py: Python<'py>,
        samples: Vec<Vec<u8>>,
        num_partitions: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let samples: Vec<&[u8]> = samples.iter().map(Vec::as_slice).collect();
        let bytes = self.kind.choose_boundaries(&samples, num_partitions);
        Ok(PyBytes::new(py, &bytes.map_err(kernel_error)?))
    }

    fn even_assignment<'py>(
        &self,
        py: Python<'py>,
        num_partitions: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let assignment = self.kind.even_assignment(num_partitions);
        Ok(PyBytes::new(py, &assignment.map_err(kernel_error)?))
    }

    #[pyo3(signature = (num_partitions, level=0))]
    fn hash_assignment<'py>(
        &self,
        py: Python<'py>,
        num_partitions: usize,
        level: u8,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let assignment = Assignment::hash_level(self.table_layout()?, num_partitions, level);
        Ok(PyBytes::new(
            py,
            &assignment.map_err(kernel_error)?.to_bytes(),
        ))
    }

    fn round_robin_assignment<'py>(
        &self,
        py: Python<'py>,
        num_partitions: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.table_layout()?;
        let assignment = Assignment::round_robin(num_partitions);
        Ok(PyBytes::new(
            py,
            &assignment.map_err(kernel_error)?.to_bytes(),
        ))
    }

    #[pyo3(signature = (splits, index, assignment, tag=0))]
    fn scatter(
        &self,
        py: Python<'_>,
        splits: Vec<Split>,
        index: u32,
        assignment: &[u8],
        tag: u8,
    ) -> PyResult<Scattered> {
        let assignment = assignment.to_vec();
        let reading = Reading::new(splits, &self.files);
        py.detach(|| {
            if let Some(pieces) = reading.pieces() {
                let direct = self.kind.plan_unread(&pieces, index, &assignment);
                if let Some(direct) = direct.map_err(kernel_error)? {
                    return Ok(Scattered(Content::Unread(direct.tagged(tag), reading)));
                }
            }
            let batches = reading.batches(BATCH_ROWS);
            let planned = self.kind.plan(batches, index, &assignment)?;
            Ok(Scattered(Content::Read(planned.tagged(tag))))
        })
    }

    #[pyo3(signature = (batches, index, assignment, tag=0))]
    fn scatter_batches(
        &self,
        py: Python<'_>,
        batches: &Bound<'_, PyAny>,
        index: u32,
        assignment: &[u8],
        tag: u8,
    ) -> PyResult<Scattered> {
        let batches = self.batches(batches)?;
        let assignment = assignment.to_vec();
        py.detach(|| {
            let planned = self.kind.plan(placed(batches, index), index, &assignment)?;
            Ok(Scattered(Content::Read(planned.tagged(tag))))
        })
    }

    fn scatter_rows_of(
        &self,
        py: Python<'_>,
        batches: &Bound<'_, PyAny>,
        splits: Vec<Split>,
        index: u32,
        assignment: &[u8],
    ) -> PyResult<Scattered> {
        let batches = self.batches(batches)?;
        let pieces = pieces_of(&splits).ok_or_else(unnumbered)?;
        let assignment = assignment.to_vec();
        py.detach(|| {
            let direct = self.kind.plan_unread(&pieces, index, &assignment);
            let batches = along(batches, pieces, DIRECT_ROWS);
            if let Some(direct) = direct.map_err(kernel_error)? {
                let batches = Mutex::new(Some(Box::new(batches) as _));
                return Ok(Scattered(Content::Coming(direct, batches)));
            }
            let planned = self.kind.plan(batches, index, &assignment)?;
            Ok(Scattered(Content::Read(planned)))
        })
    }

    #[pyo3(signature = (sections, index, assignment, tag=0))]
    fn scatter_sections(
        &self,
        py: Python<'_>,
        sections: &Sections,
        index: u32,
        assignment: &[u8],
        tag: u8,
    ) -> PyResult<Scattered> {
        let side = sections.side(tag);
        let assignment = assignment.to_vec();
        py.detach(|| {
            let planned = self.kind.plan_sections(&side, index, &assignment);
            let planned = planned.map_err(kernel_error)?;
            Ok(Scattered(Content::Read(planned.tagged(tag))))
        })
    }

    #[pyo3(signature = (sections, tag=0))]
    fn sort(&self, py: Python<'_>, sections: &Sections, tag: u8) -> PyResult<Rows> {
        let side = sections.side(tag);
        let rows = py.detach(|| self.kind.sorted(side)).map_err(kernel_error)?;
        Ok(Rows::new(
            RowSource::Partition(rows),
            Arc::clone(&self.schema),
        ))
    }

    #[pyo3(signature = (sections, tag=0))]
    fn gather(&self, py: Python<'_>, sections: &Sections, tag: u8) -> PyResult<Rows> {
        let side = sections.side(tag);
        let rows = py
            .detach(|| self.kind.gathered(side))
            .map_err(kernel_error)?;
        Ok(Rows::new(
            RowSource::Partition(rows),
            Arc::clone(&self.schema),
        ))
    }
}

/// The error for rows of files that do not number them.
fn unnumbered() -> PyErr {
    let message = "rows of text have no numbers in their file; number them by a step";
    options_error(message.to_owned())
}

impl Sorter {
    fn table_layout(&self) -> PyResult<&RowLayout> {
        self.kind.table().map_err(kernel_error)
    }

    /// Returns the batches of an object of Python, with the columns that this sorter was made for. The first batch is
    /// empty, so that there is always one to check the types by.
    fn batches(
        &self,
        batches: &Bound<'_, PyAny>,
    ) -> PyResult<impl Iterator<Item = Result<RecordBatch, RowError>> + Send + use<>> {
        let reader = import(batches)?;
        let schema = reader.schema();
        check_names(&self.schema, &schema)?;
        let batches = reader.map(|batch| batch.map_err(|error| stream_error(&error)));
        Ok(iter::once(Ok(RecordBatch::new_empty(schema))).chain(batches))
    }
}
