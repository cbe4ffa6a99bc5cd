//! An input: its files, their common schema and size, and the splits a shuffle reads it in.

mod conform;
mod constants;
mod glob;
mod inspect;
mod nested;
mod partitions;
mod paths;
mod rebatch;
mod reorder;
mod sample;
mod spans;
mod split;
mod unify;

use std::collections::HashSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use crate::compressed::text_name;
use crate::error::{IoError, Result};
use crate::{Encoding, Format};

pub(crate) use conform::{conform, places};
pub use inspect::LargePages;
pub(crate) use inspect::{in_parallel, FileInfo, Group, Working};
pub use partitions::PartitionValue;
pub(crate) use partitions::NULL as NULL_PARTITION;
pub(crate) use paths::list_files;
pub(crate) use rebatch::Rebatch;
pub(crate) use reorder::other_order;
pub(crate) use sample::{pick_rows, random_below, Pick};
pub use sample::{sample_split, sample_splits, Sample};
pub(crate) use spans::{even_pieces, spans_of_groups, Span};
pub(crate) use split::Request;
pub use split::{bad_rows, open_split, together, BatchStream, Split};

/// Size and modification time: whether a file is still the one that was listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    /// Size in bytes.
    pub bytes: u64,
    /// Modification time in nanoseconds since the epoch.
    pub mtime_ns: i64,
}

impl FileStamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let mtime_ns = metadata
            .mtime()
            .wrapping_mul(1_000_000_000)
            .wrapping_add(metadata.mtime_nsec());
        Self {
            bytes: metadata.len(),
            mtime_ns,
        }
    }
}

/// How the columns of CSV get their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Header {
    /// The first line of each file says them.
    #[default]
    Line,
    /// Files have no such line: these names, or without any `column_0`, `column_1` …
    Missing(Vec<String>),
}

/// The characters that give CSV its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Syntax {
    /// What separates values.
    pub delimiter: u8,
    /// What values are in that hold delimiters or line ends; `None` if nothing has that meaning.
    pub quote: Option<u8>,
    /// Within quotes: what stands before a character that means itself, beside doubled quotes.
    pub escape: Option<u8>,
    /// What lines begin with that are no rows.
    pub comment: Option<u8>,
}

impl Default for Syntax {
    fn default() -> Self {
        Self {
            delimiter: b',',
            quote: Some(b'"'),
            escape: None,
            comment: None,
        }
    }
}

/// What becomes of rows of CSV and JSON lines that cannot be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BadRows {
    /// The first one is an error.
    #[default]
    Raise,
    /// They are left out; [`bad_rows`](crate::bad_rows) says which.
    Skip,
}

/// How to read CSV.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CsvOptions {
    /// The characters that give it its shape.
    pub syntax: Syntax,
    /// Whether the delimiter was not given: then it is a tab in files whose names end in `.tsv`.
    pub delimiter_by_name: bool,
    /// How the columns get their names.
    pub header: Header,
    /// How many lines to leave out at the start of each file.
    pub skip_rows: u64,
    /// Texts that are null, in quotes or not, beside a field without anything.
    pub null_values: Vec<String>,
    /// How characters are written.
    pub encoding: Encoding,
}

impl CsvOptions {
    /// The syntax of a file.
    pub(crate) fn syntax_of(&self, path: &Path) -> Syntax {
        let is_tsv = |extension: &std::ffi::OsStr| extension.eq_ignore_ascii_case("tsv");
        let mut syntax = self.syntax;
        if self.delimiter_by_name && text_name(path).extension().is_some_and(is_tsv) {
            syntax.delimiter = b'\t';
        }
        syntax
    }
}

/// How to read the input; the same options go to `open_source`, `open_split` and `sample_split`.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// The format of all files; by default told from their names.
    pub format: Option<Format>,
    /// How to read CSV.
    pub csv: CsvOptions,
    /// What becomes of rows of CSV and JSON lines that cannot be read.
    pub bad_rows: BadRows,
    /// Types of columns of CSV and JSON lines by name; those of others are inferred from the first 10,000 rows. Fields of
    /// JSON lines that are not among these rows are added. Partition columns are given types by it in every format.
    pub schema: Option<SchemaRef>,
    /// Whether folders `key=value` are columns.
    pub hive: bool,
    /// Bytes per record of fixed-length records.
    pub record_bytes: Option<usize>,
    /// The longest row of CSV and JSON lines that there is memory for: text does not say how long a row is before it ends.
    pub max_row_bytes: Option<usize>,
    /// The largest page of Parquet that there is memory for, whatever the footer made of its chunk.
    pub max_page_bytes: Option<usize>,
    /// The longest row of text and the largest page that several tasks may have at once.
    pub shared_bytes: Option<usize>,
}

impl ReadOptions {
    /// Bytes of a row of text beyond which it is not kept.
    pub(crate) fn row_limit(&self) -> usize {
        self.max_row_bytes.unwrap_or(usize::MAX)
    }

    /// Bytes of a page beyond which it is not decoded.
    pub(crate) fn page_limit(&self) -> u64 {
        self.max_page_bytes.map_or(u64::MAX, |bytes| bytes as u64)
    }

    /// Bytes beyond which rows are read by one task at a time.
    pub(crate) fn shared_limit(&self) -> u64 {
        self.shared_bytes.map_or(u64::MAX, |bytes| bytes as u64)
    }
}

/// What is held for less is part of the buffers of any task.
const SMALL_BYTES: u64 = 4 << 20;

/// One file of an input.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its size and modification time when it was listed.
    pub stamp: FileStamp,
    /// Its number of rows, where the format tells.
    pub rows: Option<u64>,
    /// Its estimated size when decoded.
    pub memory_bytes: u64,
    /// Its number among the files that were listed.
    index: u64,
    /// What the folders say that it is in.
    partition: Vec<PartitionValue>,
    /// Where the columns of all files are in this one of CSV, if it has them in another order.
    columns: Vec<usize>,
    pub(crate) groups: Vec<Group>,
    working: Vec<Working>,
    pages: Vec<LargePages>,
    held: Vec<Working>,
    hides_sizes: bool,
}

/// An input, listed and inspected.
#[derive(Debug, Clone)]
pub struct Source {
    /// The files, in the order their rows have.
    pub files: Vec<SourceFile>,
    /// The format of all files.
    pub format: Format,
    /// The schema of all files; a column is nullable if it is in any file.
    pub schema: SchemaRef,
    /// Rows of all files, where the format tells.
    pub rows: Option<u64>,
    /// Bytes on disk.
    pub bytes: u64,
    /// Estimated bytes when decoded.
    pub memory_bytes: u64,
    dictionary_columns: Vec<bool>,
    options: ReadOptions,
}

/// Lists the files behind `paths` (files, directories, patterns) and reads what they say about themselves.
pub fn open_source(paths: &[String], options: &ReadOptions) -> Result<Source> {
    let files = paths::list_files(paths)?;
    let format = paths::common_format(&files, options.format)?;
    let partitions = partitions_of(&files, format, options)?;
    let own = partitions.as_ref().map(|all| all.without_types(options));
    let own = own.as_ref().unwrap_or(options);
    check_types(own, format)?;
    let inspected = inspected(&files, format, own, partitions.as_ref())?;
    let mut schema = common_schema(&inspected, own, format)?;
    if inspected.len() > 1 {
        let rows = total_rows(inspected.iter().map(|(file, _)| file));
        schema = conform::with_wide_keys(&schema, rows);
    }
    conform::check_names(&inspected[0].0.path, &schema)?;
    let mut dictionary_columns = vec![true; schema.fields().len()];
    for (_, info) in inspected.iter().filter(|(_, info)| info.rows != Some(0)) {
        let names = schema.fields().iter().map(|field| field.name());
        let places = places(&info.schema, names).unwrap_or_default();
        for (all, place) in dictionary_columns.iter_mut().zip(places) {
            *all &= info.dictionary_columns.get(place).copied().unwrap_or(true);
        }
    }
    let listed = inspected.into_iter().enumerate();
    let listed = listed.map(|(index, (file, info))| SourceFile {
        index: index as u64,
        columns: format.driver().column_order(&schema, &info.schema),
        ..file
    });
    let listed = listed.collect();
    let mut source = Source::of(listed, format, schema, own);
    source.dictionary_columns = dictionary_columns;
    if let Some(partitions) = partitions {
        let fields = partitions.fields(&files, options.schema.as_ref())?;
        source.add_partitions(&partitions, fields);
    }
    Ok(source)
}

/// What files say about themselves. Names that are given for columns without a header may be those of all columns that
/// come out; then the columns of folders are not among the files', or are, which their number tells.
fn inspected(
    files: &[PathBuf],
    format: Format,
    own: &ReadOptions,
    partitions: Option<&partitions::Partitions>,
) -> Result<Vec<(SourceFile, FileInfo)>> {
    let fewer = partitions.and_then(|all| all.without_names(own));
    match fewer.map(|fewer| inspect::inspect_all(files, format, &fewer)) {
        None | Some(Err(IoError::NamesGiven { .. })) => inspect::inspect_all(files, format, own),
        Some(found) => found,
    }
}

fn partitions_of(
    files: &[PathBuf],
    format: Format,
    options: &ReadOptions,
) -> Result<Option<partitions::Partitions>> {
    if options.hive && format.driver().takes_partitions() {
        return partitions::of_paths(files);
    }
    Ok(None)
}

/// Of formats that say their types themselves, only partition columns can be given any.
fn check_types(own: &ReadOptions, format: Format) -> Result<()> {
    let given = own.schema.as_ref().filter(|_| format.tells_types());
    match given.and_then(|schema| schema.fields().first()) {
        Some(field) => Err(IoError::NoPartition {
            column: field.name().clone(),
        }),
        None => Ok(()),
    }
}

fn common_schema(
    files: &[(SourceFile, FileInfo)],
    options: &ReadOptions,
    format: Format,
) -> Result<SchemaRef> {
    // Text files without a header or a row say nothing about their columns.
    let mut informative = files
        .iter()
        .filter(|(_, info)| !info.schema.fields().is_empty());
    let Some((first, info)) = informative.next() else {
        let given = options.schema.clone().filter(|_| !format.tells_types());
        return Ok(given.unwrap_or_else(|| Arc::new(Schema::empty())));
    };
    let others = informative.map(|(file, info)| (file.path.as_path(), &info.schema));
    let all: Vec<_> = std::iter::once((first.path.as_path(), &info.schema))
        .chain(others)
        .collect();
    unified_schema(&all)
}

/// The schema of what has these schemas: the columns of the first, in its order, each of the type that holds the values
/// of all.
///
/// # Errors
/// Other columns, or types that have no common one; names the first two that differ.
fn unified_schema(origins: &[(&Path, &SchemaRef)]) -> Result<SchemaRef> {
    let Some((&(path, schema), _)) = origins.split_first() else {
        return Ok(Arc::new(Schema::empty()));
    };
    let mut schema = schema.clone();
    for (index, &other) in origins.iter().enumerate().skip(1) {
        schema = conform::merge_by_name((path, &schema), other).map_err(|error| {
            let mut before = origins[..index].iter();
            // What was merged is not what the first one says.
            let apart = before.find_map(|&one| conform::merge_by_name(one, other).err());
            apart.unwrap_or(error)
        })?;
    }
    Ok(schema)
}

/// The schema of rows of datasets that follow each other, which have these schemas: see [`unified_schema`]. Keys of
/// dictionaries have 32 bits at least, since each dataset has a dictionary of its own.
///
/// # Errors
/// Those of [`unified_schema`].
pub fn union_schema(origins: &[(&Path, &SchemaRef)]) -> Result<SchemaRef> {
    Ok(conform::with_wide_keys(&unified_schema(origins)?, None))
}

/// The sum, or the largest number there is: files may declare any sizes.
fn total(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(0, u64::saturating_add)
}

fn total_rows<'a>(files: impl Iterator<Item = &'a SourceFile>) -> Option<u64> {
    files
        .map(|file| file.rows)
        .try_fold(0, |sum: u64, rows| Some(sum.saturating_add(rows?)))
}

impl Source {
    fn of(files: Vec<SourceFile>, format: Format, schema: SchemaRef, own: &ReadOptions) -> Self {
        Self {
            rows: total_rows(files.iter()),
            bytes: total(files.iter().map(|file| file.stamp.bytes)),
            memory_bytes: total(files.iter().map(|file| file.memory_bytes)),
            dictionary_columns: vec![true; schema.fields().len()],
            options: own.clone(),
            files,
            format,
            schema,
        }
    }

    fn add_partitions(
        &mut self,
        partitions: &partitions::Partitions,
        fields: Vec<arrow_schema::Field>,
    ) {
        let (schema, columns) = partitions::widened(&self.schema, fields);
        self.dictionary_columns.resize(schema.fields().len(), true);
        for &(column, _) in &columns {
            self.dictionary_columns[column] = true;
        }
        for (index, file) in self.files.iter_mut().enumerate() {
            file.partition = partitions.of_file(index, &columns);
            let row_bytes = partitions::row_bytes(&file.partition, &schema);
            let added = |rows: u64| rows.saturating_mul(row_bytes);
            file.memory_bytes = added(file.rows.unwrap_or(0)).saturating_add(file.memory_bytes);
            for group in &mut file.groups {
                group.memory_bytes = added(group.rows).saturating_add(group.memory_bytes);
            }
        }
        self.memory_bytes = total(self.files.iter().map(|file| file.memory_bytes));
        self.schema = schema;
    }

    /// The partition columns, with a row for each file; without rows and columns if there are none.
    pub fn partitions(&self) -> Result<RecordBatch> {
        let values: Vec<&[PartitionValue]> = self.files.iter().map(|f| &f.partition[..]).collect();
        partitions::table(&values, &self.schema)
    }

    /// The same input with some of its files, given by their numbers; these keep the numbers that they have as files.
    pub fn with_files(&self, kept: &[usize]) -> Self {
        let files = kept
            .iter()
            .filter_map(|&number| self.files.get(number).cloned());
        let schema = self.schema.clone();
        Self {
            dictionary_columns: self.dictionary_columns.clone(),
            ..Self::of(files.collect(), self.format, schema, &self.options)
        }
    }

    /// Which columns are dictionary encoded throughout, so that writing them so again is likely to pay.
    pub fn dictionary_columns(&self) -> &[bool] {
        &self.dictionary_columns
    }

    /// Row groups of Parquet and batches of IPC; 0 of other formats.
    pub fn num_groups(&self) -> usize {
        self.files.iter().map(|file| file.groups.len()).sum()
    }

    /// The most that reading these columns has in memory at once beside the rows that are wanted, and the file that asks for
    /// it; 0 where that is no more than the buffers of any task.
    pub fn working_bytes(&self, columns: &HashSet<String>) -> (u64, Option<&Path>) {
        let is_wanted = |working: &&Working| {
            let is_wanted = |column| columns.contains(column);
            working.column.as_ref().is_none_or(is_wanted)
        };
        let bytes = |working: &Working| working.bytes;
        let sizes = self.files.iter().map(|file| {
            let largest = file.working.iter().filter(is_wanted).map(bytes).max();
            let held = file.held.iter().filter(is_wanted).map(bytes);
            let held = total(held);
            let held = if held < SMALL_BYTES { 0 } else { held };
            let sum = largest.unwrap_or_default().saturating_add(held);
            (sum, file.path.as_path())
        });
        let largest = sizes.max_by_key(|(bytes, _)| *bytes);
        largest.map_or((0, None), |(bytes, path)| (bytes, Some(path)))
    }

    /// Cuts the input into splits of about `target_bytes` decoded bytes; no split spans two files, every row is in
    /// exactly one. The same files and target give the same splits.
    pub fn splits(&self, target_bytes: u64) -> Result<Vec<Split>> {
        let mut splits = Vec::new();
        for file in &self.files {
            splits.extend(split::split_file(
                file,
                self.format,
                &self.options,
                target_bytes.max(1),
            )?);
        }
        Ok(splits)
    }
}

/// The columns of a projection, checked; `None` means all.
pub(crate) fn projected(schema: &SchemaRef, projection: Option<&[usize]>) -> Result<SchemaRef> {
    let Some(columns) = projection else {
        return Ok(schema.clone());
    };
    let columns_beyond = |e: arrow_schema::ArrowError| IoError::BadProjection {
        columns: schema.fields().len(),
        reason: crate::error::one_line(&e.to_string()),
    };
    schema
        .project(columns)
        .map(Arc::new)
        .map_err(columns_beyond)
}
