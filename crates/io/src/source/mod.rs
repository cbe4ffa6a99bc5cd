//! An input: its files, their common schema and size, and the splits that a shuffle reads.

mod conform;
mod constants;
mod glob;
mod inspect;
mod kept;
mod limits;
mod nested;
mod options;
mod others;
mod partitions;
mod paths;
mod rebatch;
mod reorder;
mod sample;
mod sequence;
mod spans;
mod split;
mod spread;
mod stored;
mod unify;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use crate::error::{IoError, Result};
use crate::storage::FileStamp;
use crate::{travel, Format};

pub(crate) use conform::{conform, places};
pub use glob::pattern_finds;
pub use inspect::LargePages;
pub(crate) use inspect::{in_parallel, FileInfo, Group, Working};
pub use kept::RowRange;
pub(crate) use limits::{Limits, TextRow, MIN_ROW_BYTES, ROW_COPIES};
pub use limits::{ReadMemory, RowLimit};
pub use options::{BadRows, CsvOptions, GivenOptions, Header, ReadOptions, Syntax};
pub use partitions::PartitionValue;
pub(crate) use partitions::NULL as NULL_PARTITION;
pub(crate) use paths::list_files;
pub(crate) use rebatch::Rebatch;
pub(crate) use reorder::other_order;
pub use sample::{estimated_rows, sample_split, sample_splits, Sample};
pub(crate) use sample::{pick_rows, random_below, Pick};
pub use sequence::open_splits;
use spans::whole_groups;
pub(crate) use spans::{even_pieces, spans_of_groups, Span};
pub(crate) use split::Request;
pub use split::{bad_rows, open_split, together, BatchStream, Split};
pub use spread::Detail;
pub(crate) use spread::Spread;
pub(crate) use stored::Stored;

/// The name of a source in errors.
const NAME: &str = "an input";
/// Held memory below this size counts as part of the buffers of any task.
const SMALL_BYTES: u64 = 4 << 20;

/// One file of an input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SourceFile {
    /// Its path.
    #[serde(with = "travel::path")]
    pub path: PathBuf,
    /// Its size and modification time when it was listed.
    pub stamp: FileStamp,
    /// Its number of rows, where the format tells.
    pub rows: Option<u64>,
    /// Its estimated size when decoded.
    pub memory_bytes: u64,
    /// Its number among the files that were listed.
    index: u64,
    /// The values of its folders.
    partition: Vec<PartitionValue>,
    /// Places of the input's columns in this file of CSV, if it has them in another order.
    columns: Vec<usize>,
    pub(crate) groups: Vec<Group>,
    /// The rows that are read; `None` if all are.
    pub(crate) kept: Option<Vec<RowRange>>,
    working: Vec<Working>,
    pages: Vec<LargePages>,
    held: Vec<Working>,
    hides_sizes: bool,
}

impl SourceFile {
    /// The file with only those of its rows that are in these ranges, too.
    fn with_rows(&self, ranges: &[RowRange]) -> Self {
        let mut file = self.clone();
        let mut rows = kept::apart(ranges);
        if let Some(before) = &self.kept {
            let both = rows
                .iter()
                .map(|range| kept::within(before, range.0, range.1));
            rows = both.flatten().collect();
        }
        file.kept = Some(rows);
        let groups = whole_groups(&file.groups, file.kept.as_deref());
        let groups: Vec<Group> = groups.map(|(group, _)| group).collect();
        file.rows = Some(Group::rows(&groups));
        file.memory_bytes = Group::memory_bytes(&groups);
        file
    }
}

/// An input, listed and inspected.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Source {
    /// The files, in the order of their rows.
    pub files: Vec<SourceFile>,
    /// The format of all files.
    pub format: Format,
    /// The schema of all files; a column is nullable if it is in any file.
    #[serde(with = "travel::schema")]
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

/// Lists the files behind `paths` (files, directories, patterns) and inspects them.
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

/// Inspects the files. Names that are given for columns without a header may include those of folders; the number of
/// columns in the files tells whether they do.
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

/// Checks that types are given only to partition columns, if files of the format tell their own types.
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
    // Text files without a header or a row tell nothing about their columns.
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

/// The common schema of these schemas: the columns of the first, in its order, each of the type that holds all values.
///
/// # Errors
/// The columns differ, or types have no common one; the error names the first two schemas that differ.
fn unified_schema(origins: &[(&Path, &SchemaRef)]) -> Result<SchemaRef> {
    let Some((&(path, schema), _)) = origins.split_first() else {
        return Ok(Arc::new(Schema::empty()));
    };
    let mut schema = schema.clone();
    for (index, &other) in origins.iter().enumerate().skip(1) {
        schema = conform::merge_by_name((path, &schema), other).map_err(|error| {
            let mut before = origins[..index].iter();
            // The merged schema is not that of the first file, so looks for a file that differs by itself.
            let apart = before.find_map(|&one| conform::merge_by_name(one, other).err());
            apart.unwrap_or(error)
        })?;
    }
    Ok(schema)
}

/// The schema of the union of datasets with these schemas: see [`unified_schema`]. Keys of dictionaries have at least 32
/// bits, because each dataset has a dictionary of its own.
///
/// # Errors
/// Those of [`unified_schema`].
pub fn union_schema(origins: &[(&Path, &SchemaRef)]) -> Result<SchemaRef> {
    Ok(conform::with_wide_keys(&unified_schema(origins)?, None))
}

/// The sum, which saturates at the largest number: files may declare any sizes.
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

    /// The same input with some of its files, given by their numbers; each file keeps its own number.
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

    /// The same input with some of the rows of each file; each file keeps its number, and those without rows are left out.
    /// Only for formats whose positions are rows.
    pub fn with_rows(&self, kept: &[Vec<RowRange>]) -> Self {
        let files = { self.files.iter().zip(kept) }
            .filter(|(_, ranges)| !ranges.is_empty())
            .map(|(file, ranges)| file.with_rows(ranges));
        let schema = self.schema.clone();
        Self {
            dictionary_columns: self.dictionary_columns.clone(),
            ..Self::of(files.collect(), self.format, schema, &self.options)
        }
    }

    /// The same input with only its first rows; all rows where the format does not cut files into groups of rows.
    pub fn first_rows(&self, count: u64) -> Self {
        if self.files.iter().any(|file| file.groups.is_empty()) {
            return self.clone();
        }
        let mut left = count;
        let mut first = |file: &SourceFile| {
            let all = [(0, Group::rows(&file.groups))];
            let ranges = kept::part(file.kept.as_deref().unwrap_or(&all), 0, left);
            left -= kept::num_rows(&ranges);
            ranges
        };
        let ranges: Vec<_> = self.files.iter().map(&mut first).collect();
        self.with_rows(&ranges)
    }

    /// Says for each column whether it is dictionary encoded throughout, so that a dictionary is likely to pay again.
    pub fn dictionary_columns(&self) -> &[bool] {
        &self.dictionary_columns
    }

    /// Number of row groups of Parquet or batches of IPC that have rows to read; 0 for other formats.
    pub fn num_groups(&self) -> usize {
        { self.files.iter() }
            .map(|file| whole_groups(&file.groups, file.kept.as_deref()).count())
            .sum()
    }

    /// The most memory that reading these columns takes at once beside the wanted rows, and the file that needs it.
    ///
    /// The number is 0 if it is no more than the buffers of any task.
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

    /// The most bytes that a row can have in these columns, as far as that is more than the buffers of any task. A page or
    /// batch may be mostly one row.
    pub fn longest_row_bytes(&self, columns: &HashSet<String>) -> u64 {
        let is_wanted = |working: &&Working| {
            { working.column.as_ref() }.is_none_or(|column| columns.contains(column))
        };
        let of_file = |file: &SourceFile| {
            let large = file.working.iter().chain(&file.held).filter(is_wanted);
            total(large.map(|working| working.row_bytes))
        };
        self.files.iter().map(of_file).max().unwrap_or_default()
    }

    /// Returns the row groups, batches or parts of them whose rows must be over twice as large as `row_bytes` in sum. A
    /// sample that found so many bytes a row has missed these. Empty for formats that tell no sizes.
    pub fn larger_parts(&self, row_bytes: u64) -> Vec<Split> {
        let parts = |file| split::larger_parts(file, self.format, row_bytes);
        self.files.iter().flat_map(parts).collect()
    }

    /// The input as bytes, for other processes, with the facts about all its files.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        travel::to_bytes(NAME, self)
    }

    /// Returns the input that [`to_bytes`](Self::to_bytes) made these bytes of; inspects no file.
    ///
    /// # Errors
    /// The bytes were made by another version, or are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        travel::from_bytes(NAME, bytes)
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

/// The schema of a projection, checked; `None` means all columns.
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
