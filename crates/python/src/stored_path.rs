//! The shims of `StoredPath`, a path with the storage that has it; of a lock of a directory; and of a new file.

use std::ffi::OsString;
use std::io::Result;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use exoshuffle_io::direct::DirectWriter;
use exoshuffle_io::{IoError, Kind, Lock};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{io_error, os_error};

/// See `exoshuffle_io::StoredPath`.
#[pyclass(frozen, eq, hash, from_py_object, module = "exoshuffle._native")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct StoredPath(exoshuffle_io::StoredPath);

/// The name, kind and size of something below a directory.
type Below = (OsString, &'static str, u64);

#[pymethods]
impl StoredPath {
    #[new]
    fn new(path: PathBuf) -> Self {
        Self(exoshuffle_io::StoredPath::new(path))
    }

    fn __str__(&self) -> OsString {
        self.0.path().as_os_str().to_owned()
    }

    fn __fspath__(&self) -> OsString {
        self.__str__()
    }

    fn __repr__(&self) -> String {
        format!("StoredPath({:?})", self.0.path())
    }

    fn __truediv__(&self, name: PathBuf) -> Self {
        Self(self.0.join(&name))
    }

    #[getter]
    fn name(&self) -> OsString {
        self.0.path().file_name().unwrap_or_default().to_owned()
    }

    #[getter]
    fn parents(&self) -> Vec<Self> {
        let above = std::iter::successors(self.0.parent(), exoshuffle_io::StoredPath::parent);
        above.map(Self).collect()
    }

    fn resolved(&self, py: Python<'_>) -> PyResult<Self> {
        self.call(py, exoshuffle_io::StoredPath::resolved).map(Self)
    }

    fn kind(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        Ok(self.call(py, exoshuffle_io::StoredPath::kind)?.map(named))
    }

    fn stamp(&self, py: Python<'_>) -> PyResult<(u64, i64)> {
        let stamp = self.call(py, exoshuffle_io::StoredPath::stamp)?;
        Ok((stamp.bytes, stamp.mtime_ns))
    }

    fn names(&self, py: Python<'_>) -> PyResult<Vec<OsString>> {
        self.call(py, exoshuffle_io::StoredPath::names)
    }

    fn below(&self, py: Python<'_>) -> PyResult<Vec<Below>> {
        let found = self.call(py, exoshuffle_io::StoredPath::below)?.into_iter();
        let described =
            found.map(|each| (each.name.into_os_string(), named(each.kind), each.bytes));
        Ok(described.collect())
    }

    fn start<'py>(&self, py: Python<'py>, most_bytes: u64) -> PyResult<Bound<'py, PyBytes>> {
        let start = self.call(py, |path| path.start(most_bytes))?;
        Ok(PyBytes::new(py, &start))
    }

    fn create(&self, py: Python<'_>) -> PyResult<NewFile> {
        let file = py.detach(|| DirectWriter::create(self.0.path()));
        let file = file.map_err(|error| file_error(error, self.0.path()))?;
        Ok(NewFile(Mutex::new(Some(file))))
    }

    fn create_directory(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, exoshuffle_io::StoredPath::create_directory)
    }

    fn create_directories(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, exoshuffle_io::StoredPath::create_directories)
    }

    fn rename(&self, py: Python<'_>, to: &Self) -> PyResult<()> {
        self.call(py, |path| path.rename(&to.0))
    }

    fn exchange(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        self.call(py, |path| path.exchange(&other.0))
    }

    fn link(&self, py: Python<'_>, to: &Self) -> PyResult<()> {
        self.call(py, |path| path.link(&to.0))
    }

    fn remove(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, exoshuffle_io::StoredPath::remove)
    }

    fn remove_directory(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, exoshuffle_io::StoredPath::remove_directory)
    }

    fn remove_all(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, exoshuffle_io::StoredPath::remove_all)
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, exoshuffle_io::StoredPath::sync)
    }

    fn lock(&self, py: Python<'_>) -> PyResult<StoredLock> {
        let lock = self.call(py, exoshuffle_io::StoredPath::lock)?;
        Ok(StoredLock(Mutex::new(Some(lock))))
    }

    fn disk(&self, py: Python<'_>) -> Option<(u64, u64)> {
        let disk = py.detach(|| self.0.disk())?;
        Some((disk.identity, disk.free_bytes))
    }

    fn mark<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mark = self.call(py, exoshuffle_io::StoredPath::mark)?;
        Ok(PyBytes::new(py, &mark))
    }

    fn set_mark(&self, py: Python<'_>, mark: Vec<u8>) -> PyResult<()> {
        self.call(py, |path| path.set_mark(&mark))
    }
}

impl StoredPath {
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl Fn(&exoshuffle_io::StoredPath) -> Result<T> + Send + Sync,
    ) -> PyResult<T> {
        let result = py.detach(|| call(&self.0));
        result.map_err(|error| os_error(&error, self.0.path()))
    }
}

fn named(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Other => "other",
    }
}

/// A lock of a directory.
#[pyclass(frozen, module = "exoshuffle._native")]
pub struct StoredLock(Mutex<Option<Box<dyn Lock>>>);

#[pymethods]
impl StoredLock {
    fn release(&self) {
        held(&self.0).take();
    }
}

/// A file that is being written; see `exoshuffle_io::direct::DirectWriter`.
#[pyclass(frozen, module = "exoshuffle._native")]
pub struct NewFile(Mutex<Option<DirectWriter>>);

#[pymethods]
impl NewFile {
    fn write(&self, py: Python<'_>, data: &[u8]) -> PyResult<()> {
        let call = |writer: &mut DirectWriter| {
            let written = writer.append(data);
            written.map_err(|error| file_error(error, writer.path()))
        };
        py.detach(|| held(&self.0).as_mut().map_or(Ok(()), call))
    }

    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let call = |writer: DirectWriter| {
            let path = writer.path().to_path_buf();
            let finished = writer.finish();
            finished.map_err(|error| file_error(error, &path))
        };
        py.detach(|| {
            held(&self.0)
                .take()
                .map_or(Ok(()), |writer| call(writer).map(|_| ()))
        })
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns an `OSError` where a file cannot be written, because its caller says which output that is.
fn file_error(error: IoError, path: &Path) -> PyErr {
    match error {
        IoError::Write { source, .. } => os_error(&source, path),
        other => io_error(other),
    }
}
