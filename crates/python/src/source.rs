//! Input files: what there is, and the splits it is read in.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use exoshuffle_io::{
    place, shown, together, BadRows, CsvOptions, Encoding, Format, Header, ReadOptions, Split,
    Syntax,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::errors::{io_error, options_error};
use crate::ipc::{batch_to_ipc, schema_from_ipc, schema_to_ipc};

/// The records of gensort.
const GENSORT_RECORD_BYTES: usize = 100;
const GENSORT_KEY_BYTES: usize = 10;

/// Options of the reader as they travel between processes: JSON.
#[derive(Clone)]
pub struct ReadConfig {
    /// For the reader.
    pub options: ReadOptions,
    /// Bytes of a record's key.
    pub key_bytes: usize,
}

impl ReadConfig {
    /// Reads the JSON that Python sends.
    pub fn parse(text: &str) -> PyResult<Self> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| options_error(format!("read options are no JSON: {error}")))?;
        let mut options = ReadOptions {
            record_bytes: size(&value, "record_bytes")?,
            max_row_bytes: size(&value, "max_row_bytes")?,
            max_page_bytes: size(&value, "max_page_bytes")?,
            shared_bytes: size(&value, "shared_bytes")?,
            ..ReadOptions::default()
        };
        if let Some(name) = value.get("format").and_then(Value::as_str) {
            options.format = Some(name.parse::<Format>().map_err(io_error)?);
        }
        options.csv = csv_options(&value)?;
        options.bad_rows = match value.get("bad_rows").and_then(Value::as_str) {
            Some("skip") => BadRows::Skip,
            _ => BadRows::Raise,
        };
        options.hive = value.get("hive") != Some(&Value::Bool(false));
        let schema: Option<Vec<u8>> = field(&value, "schema")?;
        options.schema = schema.map(|bytes| schema_from_ipc(&bytes)).transpose()?;
        let record_bytes = *options.record_bytes.get_or_insert(GENSORT_RECORD_BYTES);
        let key_bytes = size(&value, "key_bytes")?.unwrap_or(GENSORT_KEY_BYTES.min(record_bytes));
        if key_bytes > record_bytes {
            return Err(options_error(format!(
                "a key of {key_bytes} bytes does not fit a record of {record_bytes}; give 1 to {record_bytes}"
            )));
        }
        Ok(Self { options, key_bytes })
    }
}

/// The options of CSV.
fn csv_options(value: &Value) -> PyResult<CsvOptions> {
    let mut csv = CsvOptions {
        delimiter_by_name: value.get("csv_delimiter").is_none(),
        skip_rows: value
            .get("csv_skip_rows")
            .and_then(Value::as_u64)
            .unwrap_or(0),
        null_values: field(value, "csv_null_values")?.unwrap_or_default(),
        ..CsvOptions::default()
    };
    csv.syntax.delimiter = character(value, "delimiter")?.unwrap_or(csv.syntax.delimiter);
    csv.syntax.quote = match value.get("csv_quote").and_then(Value::as_str) {
        Some("") => None,
        _ => character(value, "quote")?.or(csv.syntax.quote),
    };
    csv.syntax.escape = character(value, "escape")?.filter(|&byte| Some(byte) != csv.syntax.quote);
    csv.syntax.comment = character(value, "comment")?;
    let Syntax {
        delimiter,
        quote,
        escape,
        comment,
    } = csv.syntax;
    let given = [Some(delimiter), quote, escape, comment];
    let mut given: Vec<u8> = given.into_iter().flatten().collect();
    given.sort_unstable();
    if let Some(pair) = given.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(options_error(format!(
            "{:?} is given for two of delimiter, quote, escape and comment; give each a character of its own",
            char::from(pair[0])
        )));
    }
    if value.get("csv_header") == Some(&Value::Bool(false)) {
        csv.header = Header::Missing(field(value, "csv_names")?.unwrap_or_default());
    }
    if let Some(name) = value.get("csv_encoding").and_then(Value::as_str) {
        csv.encoding = name.parse::<Encoding>().map_err(io_error)?;
    }
    Ok(csv)
}

/// A character among the options of CSV.
fn character(value: &Value, name: &str) -> PyResult<Option<u8>> {
    let Some(text) = value.get(format!("csv_{name}")).and_then(Value::as_str) else {
        return Ok(None);
    };
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | 0) => Ok(Some(*byte)),
        _ => Err(options_error(format!(
            "{name} is {text:?}; give one ASCII character that is no line end"
        ))),
    }
}

/// A list among the options.
fn field<T: DeserializeOwned>(options: &Value, name: &str) -> PyResult<Option<T>> {
    let field = options.get(name).cloned().map(serde_json::from_value);
    field
        .transpose()
        .map_err(|error| options_error(format!("{name} is no list as expected: {error}")))
}

/// A number of bytes among the options.
fn size(options: &Value, name: &str) -> PyResult<Option<usize>> {
    let Some(value) = options.get(name) else {
        return Ok(None);
    };
    let number = value
        .as_u64()
        .and_then(|number| usize::try_from(number).ok());
    match number {
        Some(number) if number > 0 => Ok(Some(number)),
        _ => Err(options_error(format!(
            "{name} is {value}; it must be at least 1"
        ))),
    }
}

/// Parses a split that Python carried.
pub fn parse_split(text: &str) -> PyResult<Split> {
    serde_json::from_str(text)
        .map_err(|error| options_error(format!("a split is no JSON: {error}")))
}

/// Parses splits that Python carried.
pub fn parse_splits(texts: &[String]) -> PyResult<Vec<Split>> {
    texts.iter().map(|text| parse_split(text)).collect()
}

fn split_text(split: &Split) -> PyResult<String> {
    serde_json::to_string(split)
        .map_err(|error| options_error(format!("a split has no JSON form: {error}")))
}

/// See `exoshuffle_io::Source`.
#[pyclass(frozen)]
pub struct Source {
    source: exoshuffle_io::Source,
    paths: Vec<String>,
    config: ReadConfig,
    read_options: String,
}

impl Source {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.source.schema)
    }

    fn cut(&self, py: Python<'_>, target_bytes: u64, first_file: u64) -> PyResult<Vec<Split>> {
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
    #[pyo3(signature = (paths, read_options, located=None))]
    fn new(
        py: Python<'_>,
        paths: Vec<String>,
        read_options: String,
        located: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let config = ReadConfig::parse(&read_options)?;
        let files = located.as_ref().unwrap_or(&paths);
        let source = py
            .detach(|| exoshuffle_io::open_source(files, &config.options))
            .map_err(io_error)?;
        Ok(Self {
            source,
            paths,
            config,
            read_options,
        })
    }

    #[getter]
    fn read_options(&self) -> &str {
        &self.read_options
    }

    /// The files, directories and patterns that were given.
    #[getter]
    fn paths(&self) -> Vec<String> {
        self.paths.clone()
    }

    /// The files, as people know them.
    #[getter]
    fn files(&self) -> Vec<String> {
        let paths = self.source.files.iter();
        paths
            .map(|file| shown(&file.path.to_string_lossy()).into_owned())
            .collect()
    }

    /// Where the bytes of the files are.
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

    /// Row groups of Parquet and batches of IPC; 0 of other formats.
    #[getter]
    fn num_groups(&self) -> usize {
        self.source.num_groups()
    }

    /// See `exoshuffle_io::Source::working_bytes`, with the path as people know it; names that are no columns of the source
    /// count for nothing.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "it is made of a Python object"
    )]
    fn working_bytes(&self, columns: HashSet<String>) -> (u64, Option<String>) {
        let (bytes, path) = self.source.working_bytes(&columns);
        let path = path.map(|path| shown(&path.to_string_lossy()).into_owned());
        (bytes, path)
    }

    /// Bytes per record; 0 for tables.
    #[getter]
    fn record_bytes(&self) -> usize {
        if self.source.format.name() == "records" {
            self.config.options.record_bytes.unwrap_or_default()
        } else {
            0
        }
    }

    #[getter]
    fn key_bytes(&self) -> usize {
        self.config.key_bytes
    }

    #[getter]
    fn schema_ipc<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &schema_to_ipc(&self.schema())?))
    }

    /// The partition columns as an Arrow IPC stream, with a row for each file.
    fn partitions_ipc<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let partitions = self.source.partitions().map_err(io_error)?;
        Ok(PyBytes::new(py, &batch_to_ipc(&partitions)?))
    }

    /// The same input with some of its files, given by their numbers.
    fn with_files(&self, kept: Vec<usize>) -> Self {
        Self {
            source: self.source.with_files(&kept),
            paths: self.paths.clone(),
            config: self.config.clone(),
            read_options: self.read_options.clone(),
        }
    }

    fn dictionary_columns(&self) -> Vec<bool> {
        self.source.dictionary_columns().to_vec()
    }

    /// The input cut into splits of about `target_bytes`, as JSON; its files are numbered from `first_file` on.
    #[pyo3(signature = (target_bytes, first_file=0))]
    fn splits(&self, py: Python<'_>, target_bytes: u64, first_file: u64) -> PyResult<Vec<String>> {
        let splits = self.cut(py, target_bytes, first_file)?;
        splits.iter().map(split_text).collect()
    }

    /// The same; neighbours are together that have about `together_bytes`.
    fn splits_together(
        &self,
        py: Python<'_>,
        target_bytes: u64,
        together_bytes: u64,
        first_file: u64,
    ) -> PyResult<Vec<Vec<String>>> {
        let groups = together(self.cut(py, target_bytes, first_file)?, together_bytes);
        let texts = |group: &Vec<Split>| group.iter().map(split_text).collect();
        groups.iter().map(texts).collect()
    }
}

/// See `exoshuffle_io::bad_rows`; the rows as an Arrow IPC stream.
#[pyfunction]
pub fn bad_rows<'py>(
    py: Python<'py>,
    read_options: &str,
    schema: &[u8],
    split: &str,
    from: u64,
) -> PyResult<(Bound<'py, PyBytes>, u64)> {
    let (config, schema) = (ReadConfig::parse(read_options)?, schema_from_ipc(schema)?);
    let split = parse_split(split)?;
    let (rows, lines) = py
        .detach(|| exoshuffle_io::bad_rows(&split, &schema, &config.options, from))
        .map_err(io_error)?;
    Ok((PyBytes::new(py, &batch_to_ipc(&rows)?), lines))
}

/// The schema of what has these schemas, which are called so in errors; see `exoshuffle_io::union_schema`.
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
