//! The shim of `Format`: the facts that differ between formats, and their registry.

use std::path::PathBuf;

use pyo3::prelude::*;

use crate::ipc::schema_from_ipc;

/// See `exoshuffle_io::Format`.
#[pyclass(frozen, module = "exoshuffle._native")]
pub struct Format(exoshuffle_io::Format);

#[pymethods]
impl Format {
    #[getter]
    fn name(&self) -> &'static str {
        self.0.name()
    }

    #[getter]
    fn ending(&self) -> &'static str {
        self.0.ending()
    }

    #[getter]
    fn compressions(&self) -> Vec<String> {
        let compressions = self.0.compressions().iter();
        compressions.map(ToString::to_string).collect()
    }

    #[getter]
    fn usual_compression(&self) -> String {
        self.0.usual_compression().to_string()
    }

    #[getter]
    fn is_text(&self) -> bool {
        self.0.is_text()
    }

    #[getter]
    fn tells_types(&self) -> bool {
        self.0.tells_types()
    }

    #[getter]
    fn holds_tables(&self) -> bool {
        self.0.holds_tables()
    }

    #[getter]
    fn holds_records(&self) -> bool {
        self.0.holds_records()
    }

    #[getter]
    fn names_values(&self) -> bool {
        self.0.names_values()
    }

    #[getter]
    fn packs_values(&self) -> bool {
        self.0.packs_values()
    }

    #[getter]
    fn skips_rows(&self) -> bool {
        self.0.skips_rows()
    }

    #[getter]
    fn indivisible(&self) -> Option<(&'static str, &'static str, u64)> {
        let found = self.0.indivisible()?;
        Some((found.reading, found.remedy, found.copies))
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "it is made of a Python object"
    )]
    fn least_bytes(
        &self,
        schema: &[u8],
        has_dictionary: Vec<bool>,
        num_rows: u64,
    ) -> PyResult<u64> {
        let schema = schema_from_ipc(schema)?;
        Ok(self.0.least_bytes(&schema, &has_dictionary, num_rows))
    }

    fn __repr__(&self) -> String {
        format!("<Format: {}>", self.0)
    }
}

/// All formats, as error messages list them.
#[pyfunction]
pub fn formats() -> Vec<Format> {
    let all = exoshuffle_io::Format::all().iter();
    all.map(|&format| Format(format)).collect()
}

/// The format that the ending of a file name stands for.
#[pyfunction]
#[expect(
    clippy::needless_pass_by_value,
    reason = "it is made of a Python object"
)]
pub fn format_of_name(name: PathBuf) -> Option<&'static str> {
    exoshuffle_io::Format::from_extension(&name).map(exoshuffle_io::Format::name)
}

/// See `exoshuffle_io::Format::of_start`.
#[pyfunction]
pub fn format_of_start(start: &[u8]) -> &'static str {
    exoshuffle_io::Format::of_start(start).name()
}
