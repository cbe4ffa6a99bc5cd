//! The shim of `Source`: input files, and the splits that they are read in.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use exoshuffle_io::{place, shown, together, Detail, ReadMemory, RowRange};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};

use crate::columns::column_index;
use crate::errors::io_error;
use crate::ipc::{batch_from_ipc, batch_to_ipc, schema_from_ipc, schema_to_ipc};
use crate::read_options::ReadOptions;
use crate::split::Split;

/// The parts of a source's pickle: the paths that were given, the options, and the state.
type Parts<'py> = (Vec<String>, ReadOptions, Bound<'py, PyBytes>);

/// See `exoshuffle_io::Source`.
#[pyclass(frozen, module = "exoshuffle._native")]
pub struct Source {
    source: exoshuffle_io::Source,
    paths: Vec<String>,
    read_options: ReadOptions,
}

impl Source {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.source.schema)
    }

    fn cut(
        &self,
        py: Python<'_>,
        target_bytes: u64,
        first_file: u64,
    ) -> PyResult<Vec<exoshuffle_io::Split>> {
        let splits = py.detach(|| self.source.splits(target_bytes));
        let mut splits = splits.map_err(io_error)?;
        for split in &mut splits {
            split.file_index += first_file;
        }
        Ok(splits)
    }
}

#[pymethods]
impl Source {
    #[new]
    #[pyo3(signature = (paths, read_options, located=None, memory=None))]
    fn new(
        py: Python<'_>,
        paths: Vec<String>,
        read_options: ReadOptions,
        located: Option<Vec<String>>,
        memory: Option<(u64, u64)>,
    ) -> PyResult<Self> {
        let files = located.as_ref().unwrap_or(&paths);
        let within = memory.map(|(limit_bytes, budget_bytes)| {
            read_options.0.listing_within(ReadMemory {
                limit_bytes,
                budget_bytes,
                num_tasks: 1,
                row_copies: None,
            })
        });
        let options = within.as_ref().unwrap_or(&read_options.0);
        let source = py
            .detach(|| exoshuffle_io::open_source(files, options))
            .map_err(io_error)?;
        Ok(Self {
            source,
            paths,
            read_options,
        })
    }

    #[classmethod]
    fn from_bytes(
        _: &Bound<'_, PyType>,
        paths: Vec<String>,
        read_options: ReadOptions,
        state: &[u8],
    ) -> PyResult<Self> {
        let source = exoshuffle_io::Source::from_bytes(state).map_err(io_error)?;
        Ok(Self {
            source,
            paths,
            read_options,
        })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Parts<'py>)> {
        let state = self.source.to_bytes().map_err(io_error)?;
        let from_bytes = py.get_type::<Self>().getattr("from_bytes")?;
        let options = self.read_options.clone();
        Ok((
            from_bytes,
            (self.paths.clone(), options, PyBytes::new(py, &state)),
        ))
    }

    #[getter]
    fn read_options(&self) -> ReadOptions {
        self.read_options.clone()
    }

    #[getter]
    fn paths(&self) -> Vec<String> {
        self.paths.clone()
    }

    #[getter]
    fn files(&self) -> Vec<String> {
        let paths = self.source.files.iter();
        paths
            .map(|file| shown(&file.path.to_string_lossy()).into_owned())
            .collect()
    }

    #[getter]
    fn places(&self) -> Vec<String> {
        let paths = self.source.files.iter();
        paths
            .map(|file| place(&file.path).to_string_lossy().into_owned())
            .collect()
    }

    #[getter]
    fn format(&self) -> String {
        self.source.format.name().to_owned()
    }

    #[getter]
    fn rows(&self) -> Option<u64> {
        self.source.rows
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.source.bytes
    }

    #[getter]
    fn memory_bytes(&self) -> u64 {
        self.source.memory_bytes
    }

    #[getter]
    fn num_groups(&self) -> usize {
        self.source.num_groups()
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "it is made of a Python object"
    )]
    fn working_bytes(&self, columns: HashSet<String>) -> (u64, Option<String>) {
        let (bytes, path) = self.source.working_bytes(&columns);
        let path = path.map(|path| shown(&path.to_string_lossy()).into_owned());
        (bytes, path)
    }

    #[expect(clippy::needless_pass_by_value, reason = "PyO3 makes the set")]
    fn longest_row_bytes(&self, columns: HashSet<String>) -> u64 {
        self.source.longest_row_bytes(&columns)
    }

    #[getter]
    fn record_bytes(&self) -> usize {
        if self.source.format.holds_records() {
            self.read_options.0.record_bytes.unwrap_or_default()
        } else {
            0
        }
    }

    #[getter]
    fn key_bytes(&self) -> usize {
        self.read_options.0.key_bytes
    }

    #[pyo3(signature = (limit_bytes, budget_bytes, num_tasks, row_copies=None))]
    fn read_options_within(
        &self,
        limit_bytes: u64,
        budget_bytes: u64,
        num_tasks: u64,
        row_copies: Option<u64>,
    ) -> ReadOptions {
        let memory = ReadMemory {
            limit_bytes,
            budget_bytes,
            num_tasks,
            row_copies,
        };
        let options = self.source.options_within(&self.read_options.0, memory);
        ReadOptions(Arc::new(options))
    }

    fn compression(&self, py: Python<'_>) -> PyResult<String> {
        let found = py.detach(|| self.source.compression());
        Ok(found.map_err(io_error)?.to_string())
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "it is made of a Python object"
    )]
    fn are_open(
        &self,
        py: Python<'_>,
        columns: HashSet<String>,
        group_bytes: u64,
    ) -> PyResult<bool> {
        let found = py.detach(|| self.source.are_open(&columns, group_bytes));
        found.map_err(io_error)
    }

    fn check_unchanged(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.source.check_unchanged())
            .map_err(io_error)
    }

    fn plain_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| self.source.plain_bytes()).map_err(io_error)
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "it is made of a Python object"
    )]
    fn least_bytes(&self, py: Python<'_>, columns: HashSet<String>) -> PyResult<Option<u64>> {
        let found = py.detach(|| self.source.least_bytes(&columns));
        found.map_err(io_error)
    }

    #[getter]
    fn schema_ipc<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &schema_to_ipc(&self.schema())?))
    }

    fn partitions_ipc<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let partitions = self.source.partitions().map_err(io_error)?;
        Ok(PyBytes::new(py, &batch_to_ipc(&partitions)?))
    }

    fn with_files(&self, kept: Vec<usize>) -> Self {
        Self {
            source: self.source.with_files(&kept),
            paths: self.paths.clone(),
            read_options: self.read_options.clone(),
        }
    }

    fn first_rows(&self, count: u64) -> Self {
        Self {
            source: self.source.first_rows(count),
            paths: self.paths.clone(),
            read_options: self.read_options.clone(),
        }
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "it is made of a Python object"
    )]
    fn with_rows(&self, kept: Vec<Vec<RowRange>>) -> Self {
        Self {
            source: self.source.with_rows(&kept),
            paths: self.paths.clone(),
            read_options: self.read_options.clone(),
        }
    }

    fn spreads_ipc<'py>(
        &self,
        py: Python<'py>,
        columns: Vec<String>,
        detail: &str,
        small_bytes: u64,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let detail = match detail {
            "pages" => Detail::Pages,
            _ => Detail::Groups,
        };
        let schema = self.schema();
        let columns = columns.iter().map(|name| column_index(&schema, name));
        let columns = columns.collect::<PyResult<Vec<_>>>()?;
        let found = py.detach(|| self.source.spreads(&columns, detail, small_bytes));
        let found = found.map_err(io_error)?;
        { found.iter() }
            .map(|table| Ok(PyBytes::new(py, &batch_to_ipc(table)?)))
            .collect()
    }

    fn may_hold(
        &self,
        py: Python<'_>,
        column: &str,
        values: &[u8],
        small_bytes: u64,
    ) -> PyResult<Vec<bool>> {
        let column = column_index(&self.schema(), column)?;
        let batch = batch_from_ipc(values)?;
        let found = py.detach(|| self.source.may_hold(column, batch.column(0), small_bytes));
        found.map_err(io_error)
    }

    fn dictionary_columns(&self) -> Vec<bool> {
        self.source.dictionary_columns().to_vec()
    }

    #[pyo3(signature = (target_bytes, first_file=0))]
    fn splits(&self, py: Python<'_>, target_bytes: u64, first_file: u64) -> PyResult<Vec<Split>> {
        let splits = self.cut(py, target_bytes, first_file)?;
        Ok(splits.into_iter().map(Split::from).collect())
    }

    fn larger_parts(&self, row_bytes: u64) -> Vec<Split> {
        let parts = self.source.larger_parts(row_bytes);
        parts.into_iter().map(Split::from).collect()
    }

    fn splits_together(
        &self,
        py: Python<'_>,
        target_bytes: u64,
        together_bytes: u64,
        first_file: u64,
    ) -> PyResult<Vec<Vec<Split>>> {
        let groups = together(self.cut(py, target_bytes, first_file)?, together_bytes);
        let wrapped = |group: Vec<_>| group.into_iter().map(Split::from).collect();
        Ok(groups.into_iter().map(wrapped).collect())
    }
}

/// See `exoshuffle_io::pattern_finds`.
#[pyfunction]
#[expect(
    clippy::needless_pass_by_value,
    reason = "it is made of a Python object"
)]
pub fn pattern_finds(pattern: &str, path: PathBuf) -> bool {
    exoshuffle_io::pattern_finds(pattern, &path)
}

/// See `exoshuffle_io::bad_rows`; the rows as an Arrow IPC stream.
#[pyfunction]
pub fn bad_rows<'py>(
    py: Python<'py>,
    read_options: ReadOptions,
    schema: &[u8],
    split: Split,
    from: u64,
) -> PyResult<(Bound<'py, PyBytes>, u64)> {
    let schema = schema_from_ipc(schema)?;
    let (rows, lines) = py
        .detach(|| exoshuffle_io::bad_rows(split.borrow(), &schema, &read_options.0, from))
        .map_err(io_error)?;
    Ok((PyBytes::new(py, &batch_to_ipc(&rows)?), lines))
}

/// The schema of datasets with these schemas, and with these names in errors; see `exoshuffle_io::union_schema`.
#[pyfunction]
#[pyo3(signature = (names, schemas, /))]
pub fn union_schema<'py>(
    py: Python<'py>,
    names: Vec<PathBuf>,
    schemas: Vec<Vec<u8>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let schemas = schemas.iter().map(|schema| schema_from_ipc(schema));
    let schemas = schemas.collect::<PyResult<Vec<_>>>()?;
    let origins: Vec<_> = names.iter().map(PathBuf::as_path).zip(&schemas).collect();
    let schema = exoshuffle_io::union_schema(&origins).map_err(io_error)?;
    Ok(PyBytes::new(py, &schema_to_ipc(&schema)?))
}
