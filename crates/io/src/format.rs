//! File formats for the rest of this crate: the trait that each format implements in its folder, and the handle of a format.
//! `formats` has the registry.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use serde::{Serialize, Serializer};

use crate::compression::Compression;
use crate::direct::{DirectWriter, PendingFile, RangeReader};
use crate::error::Result;
use crate::source::{
    BatchStream, Detail, FileInfo, Limits, Pick, ReadMemory, ReadOptions, Request, RowRange,
    Sample, SourceFile, Span, Split, Spread, Stored, ROW_COPIES,
};
use crate::write::WriteOptions;

/// The names of a format.
#[derive(Debug)]
pub struct Names {
    /// Its name in programs.
    pub name: &'static str,
    /// Other names that programs may use.
    pub aliases: &'static [&'static str],
    /// The endings of files, without the dot; the first is that of written files.
    pub endings: &'static [&'static str],
    /// Its name for people.
    pub title: &'static str,
}

/// The parts of files that are decoded whole, however large they are.
#[derive(Debug)]
pub struct Indivisible {
    /// The words for decoding one: `decoding the largest page of`, before the path.
    pub reading: &'static str,
    /// The remedy where memory has no room for one, beside more memory.
    pub remedy: &'static str,
    /// Copies of the largest one that a task sets memory apart for, as far as half of the budget goes.
    pub copies: u64,
}

/// Inspects one file, given its number among the paths.
pub(crate) type Inspect<'a> = Box<dyn Fn(usize, &Arc<RangeReader>) -> Result<FileInfo> + Sync + 'a>;

/// A file format: how its files are inspected, cut, read and written.
pub(crate) trait FileFormat: Sync {
    fn names(&self) -> &'static Names;

    /// Whether files are characters, which may be compressed as a whole.
    fn is_text(&self) -> bool {
        false
    }

    /// Whether a file with these first bytes has this format, where that can be told.
    fn starts(&self, _start: &[u8]) -> bool {
        false
    }

    /// Whether files tell the types of their columns. If they do not, types can be given, or are inferred.
    fn tells_types(&self) -> bool {
        true
    }

    /// Whether folders `key=value` can be columns.
    fn takes_partitions(&self) -> bool {
        true
    }

    /// Whether tables can be written, if each of their types can; else they are rows of one kind.
    fn holds_tables(&self) -> bool {
        true
    }

    /// Whether rows are fixed-length records, and nothing else.
    fn holds_records(&self) -> bool {
        false
    }

    /// Whether every value stands with the name of its column. If so, a file lacks the names of columns without values.
    fn names_values(&self) -> bool {
        false
    }

    /// Whether values are packed, by dictionaries or runs, so that files may be smaller than their rows in memory.
    fn packs_values(&self) -> bool {
        false
    }

    /// Whether files tell spreads, and readers decode little of the rows that are left out.
    fn skips_rows(&self) -> bool {
        false
    }

    /// The parts of files that are decoded whole, if they may be large.
    fn indivisible(&self) -> Option<&'static Indivisible> {
        None
    }

    /// The longest row and the largest page that are read, where reading all columns was planned to take `working_bytes`.
    fn limits(&self, memory: ReadMemory, _working_bytes: u64) -> Limits {
        Limits::shared(memory)
    }

    /// The most copies of a large row at once while it is written, with the row itself.
    fn written_copies(&self) -> u64 {
        ROW_COPIES
    }

    /// Inspects all files together as far as that is needed; returns a function that inspects each.
    fn inspect<'a>(&self, paths: &'a [PathBuf], options: &'a ReadOptions) -> Result<Inspect<'a>>;

    /// Places of the input's columns in a file with this schema. Empty if they are in the same order, or if the format
    /// finds columns by their names.
    fn column_order(&self, _all: &Schema, _file: &Schema) -> Vec<usize> {
        Vec::new()
    }

    /// Cuts a file into spans of about `target` decoded bytes.
    fn cut(&self, file: &SourceFile, options: &ReadOptions, target: u64) -> Result<Vec<Span>>;

    /// The number of a split's first row within its file, or a number larger than those of all rows before.
    fn first_row(&self, split: &Split) -> u64 {
        split.start
    }

    /// Streams the rows of a split in batches of at most `batch_rows`.
    fn open(&self, request: &Request<'_>, batch_rows: usize) -> Result<BatchStream>;

    /// The spreads of some columns of a file, in the rows of `kept`; none if its format tells no values.
    fn spreads(
        &self,
        _file: &Arc<RangeReader>,
        _columns: &[&Field],
        _kept: Option<&[RowRange]>,
        _detail: Detail,
    ) -> Result<Vec<Spread>> {
        Ok(Vec::new())
    }

    /// Whether each part that `spreads` names, of row groups, may have one of some values in a column.
    fn may_hold(
        &self,
        _file: &Arc<RangeReader>,
        _column: &Field,
        _values: &ArrayRef,
        _kept: Option<&[RowRange]>,
    ) -> Result<Vec<bool>> {
        Ok(Vec::new())
    }

    /// Whether a reader of others makes the same of these columns of a file. Such a reader checks nothing beside the
    /// values, and holds row groups of at most so many bytes.
    fn are_open(
        &self,
        _file: &Arc<RangeReader>,
        _columns: &[&Field],
        _group_bytes: u64,
    ) -> Result<bool> {
        Ok(false)
    }

    /// The ways in which a file stores its columns. Only formats that pack values are asked.
    fn stored(&self, _file: &Arc<RangeReader>) -> Result<Vec<Stored>> {
        Ok(Vec::new())
    }

    /// Samples some rows of a split; returns them with their positions in it.
    fn sample(&self, request: &Request<'_>, pick: Pick) -> Result<Sample>;

    /// Returns the rows of a split that cannot be read, where options leave them out: see [`bad_rows`](crate::bad_rows).
    /// Only text has such rows.
    fn bad_rows(&self, request: &Request<'_>, _from: u64) -> Result<(RecordBatch, u64)> {
        Ok((RecordBatch::new_empty(request.wanted.clone()), 0))
    }

    /// Refuses columns that files cannot hold.
    fn check(&self, schema: &Schema) -> Result<()>;

    /// The compressions that files can have.
    fn compressions(&self) -> &'static [Compression] {
        &[Compression::None]
    }

    /// The compression where neither a program nor its input names one.
    fn usual_compression(&self) -> Compression {
        Compression::None
    }

    /// The least bits that a value of a column takes in a file without compression; 0 where none are sure.
    fn least_bits(&self, _field: &Field, _has_dictionary: bool) -> u64 {
        0
    }

    /// Begins a file for rows with this schema, of which `first` are the first.
    fn create(
        &self,
        sink: DirectWriter,
        schema: &SchemaRef,
        first: &RecordBatch,
        options: &WriteOptions,
    ) -> Result<Box<dyn Encoder>>;
}

/// The bits of a value of this type; 0 if not all values have as many.
pub(crate) fn fixed_bits(data_type: &DataType) -> u64 {
    match data_type {
        DataType::Boolean => 1,
        DataType::FixedSizeBinary(width) => 8 * u64::try_from(*width).unwrap_or(0),
        other => 8 * other.primitive_width().unwrap_or(0) as u64,
    }
}

/// A file being written.
pub(crate) trait Encoder: Send {
    /// Appends rows. Strings may be views and dictionary columns plain values, whatever the schema says.
    /// It owns them, so that it can drop a large row as soon as that is encoded.
    fn write(&mut self, path: &Path, batch: RecordBatch) -> Result<()>;

    /// Size of the file if it were finished now.
    fn bytes(&self) -> u64;

    /// Finishes the file, except for bytes that are on their way to disk.
    fn end(self: Box<Self>, path: &Path) -> Result<PendingFile>;
}

/// A file format. It travels as its name.
#[derive(Clone, Copy)]
pub struct Format(&'static dyn FileFormat);

impl Format {
    pub(crate) const fn of(format: &'static dyn FileFormat) -> Self {
        Self(format)
    }

    /// The implementation that reads and writes its files.
    pub(crate) fn driver(self) -> &'static dyn FileFormat {
        self.0
    }

    /// Whether files are characters, which may be compressed as a whole.
    pub fn is_text(self) -> bool {
        self.0.is_text()
    }

    /// The most copies of a large row at once while it is written, with the row itself.
    pub fn written_copies(self) -> u64 {
        self.0.written_copies()
    }

    /// Whether files tell the types of their columns.
    pub fn tells_types(self) -> bool {
        self.0.tells_types()
    }

    /// Whether tables can be written, if each of their types can.
    pub fn holds_tables(self) -> bool {
        self.0.holds_tables()
    }

    /// Whether rows are fixed-length records, and nothing else.
    pub fn holds_records(self) -> bool {
        self.0.holds_records()
    }

    /// Whether every value stands with the name of its column.
    pub fn names_values(self) -> bool {
        self.0.names_values()
    }

    /// Whether values are packed, so that files may be smaller than their rows in memory.
    pub fn packs_values(self) -> bool {
        self.0.packs_values()
    }

    /// Whether files tell spreads, and readers decode little of the rows that are left out.
    pub fn skips_rows(self) -> bool {
        self.0.skips_rows()
    }

    /// The parts of files that are decoded whole, if they may be large.
    pub fn indivisible(self) -> Option<&'static Indivisible> {
        self.0.indivisible()
    }

    /// The compressions that files can have.
    pub fn compressions(self) -> &'static [Compression] {
        self.0.compressions()
    }

    /// The compression where neither a program nor its input names one.
    pub fn usual_compression(self) -> Compression {
        self.0.usual_compression()
    }

    /// The least bytes of so many rows in files without compression; `has_dictionary` has a value for each column.
    pub fn least_bytes(self, schema: &Schema, has_dictionary: &[bool], num_rows: u64) -> u64 {
        let columns = schema.fields().iter().zip(has_dictionary);
        let bits = columns.map(|(field, &dictionary)| self.0.least_bits(field, dictionary));
        num_rows.saturating_mul(bits.sum()) / 8
    }

    /// Its name in programs.
    pub fn name(self) -> &'static str {
        self.0.names().name
    }

    /// The ending of written files, without the dot.
    pub fn ending(self) -> &'static str {
        let names = self.0.names();
        names.endings.first().unwrap_or(&names.name)
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Format {}

impl Hash for Format {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.names().title)
    }
}

impl Serialize for Format {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
