//! Everything that can go wrong between a table and its files: one sentence per failure, with the fault, place and remedy.
//!
//! The file is long because callers match one type, and because a sentence is judged beside its siblings.

use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, IoError>;

/// An error of reading or writing tables.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IoError {
    /// A path given by the user does not exist.
    #[error("path '{}' does not exist; check the spelling and the working directory", path.display())]
    PathMissing {
        /// The path as given.
        path: PathBuf,
    },
    /// A glob pattern matched no file.
    #[error("pattern '{pattern}' matches no file; quote the pattern and check it with ls")]
    NothingMatched {
        /// The pattern as given.
        pattern: String,
    },
    /// A directory holds no data file.
    #[error(
        "directory '{}' holds no data files; names that begin with '_' or '.' are skipped",
        path.display()
    )]
    EmptyDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// No input was given at all.
    #[error("no input paths were given; name at least one file, directory or pattern")]
    NoInput,
    /// A pattern is malformed.
    #[error("pattern '{pattern}' is malformed: {reason}; put '[' in brackets ('[[]') to mean the character itself")]
    BadPattern {
        /// The pattern as given.
        pattern: String,
        /// The fault in it.
        reason: &'static str,
    },
    /// One character has two meanings in CSV.
    #[error("{character:?} is given for two of delimiter, quote, escape and comment; give each a character of its own")]
    SharedCharacter {
        /// The character.
        character: char,
    },
    /// An option must be one character, and is not.
    #[error("{name} is {text:?}; give one ASCII character that is no line end")]
    NoCharacter {
        /// The option.
        name: &'static str,
        /// The given text.
        text: String,
    },
    /// An option must be a size, and is not.
    #[error("{name} is {value}; it must be at least 1")]
    NoSize {
        /// The option.
        name: &'static str,
        /// The given value.
        value: String,
    },
    /// The key of records is larger than a record.
    #[error("a key of {key_bytes} bytes does not fit a record of {record_bytes}; give 1 to {record_bytes}")]
    LongKey {
        /// The size of the key.
        key_bytes: usize,
        /// The size of a record.
        record_bytes: usize,
    },
    /// Bytes from another process have a version that this process does not take.
    #[error("{what} was made by another version of exoshuffle (version {version} of its bytes, and this is version {known}); run one version in all processes")]
    TravelVersion {
        /// The kind of value that was sent.
        what: &'static str,
        /// The version of its bytes.
        version: u8,
        /// The version that this process reads.
        known: u8,
    },
    /// Bytes from another process are cut off or damaged.
    #[error("{what} that came from another process is damaged: {reason}; make it again from the same files")]
    Travel {
        /// The kind of value that was sent.
        what: &'static str,
        /// The fault in its bytes.
        reason: String,
    },
    /// The format of a file cannot be told from its name.
    #[error(
        "the format of '{}' cannot be told from its name; pass the format: one of {}", path.display(), crate::Format::all_names()
    )]
    UnknownExtension {
        /// The file.
        path: PathBuf,
    },
    /// A text file is compressed.
    #[error(
        "'{}' is compressed with {compression}, and text is read plain, or compressed with gzip or zstd; decompress it first", path.display()
    )]
    CompressedText {
        /// The file.
        path: PathBuf,
        /// The name of the compression.
        compression: &'static str,
    },
    /// A text file has more than one byte per character.
    #[error(
        "'{}' is text in {encoding}, which is not supported; write it in UTF-8, for example by iconv -f {encoding} -t UTF-8",
        path.display()
    )]
    WideText {
        /// The file.
        path: PathBuf,
        /// The name of the encoding.
        encoding: &'static str,
    },
    /// Text is not in UTF-8.
    #[error(
        "'{}' line {line}: it is no UTF-8; write the file in UTF-8 or, if it is CSV, say which encoding it has \
         (encoding='latin-1', or on the command line --encoding latin-1)", path.display()
    )]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// Line in the file, from 1.
        line: u64,
    },
    /// The name of an encoding is unknown.
    #[error(
        "encoding '{name}' is not known; use utf-8, latin-1 or windows-1252, or write the files in UTF-8, for example by \
         iconv -f {name} -t UTF-8"
    )]
    UnknownEncoding {
        /// The given name.
        name: String,
    },
    /// A row of text is longer than memory has room for.
    #[error(
        "'{}' line {line}: the row has more than {} MB, and the memory limit leaves no more for one; raise memory_limit to \
         {} MB, or correct the line", path.display(), limit_bytes.div_ceil(1_000_000), enough_bytes.div_ceil(1_000_000)
    )]
    LongRow {
        /// The file.
        path: PathBuf,
        /// Line in the file, from 1.
        line: u64,
        /// The bytes of the row.
        bytes: u64,
        /// The most bytes that memory has room for.
        limit_bytes: usize,
        /// The memory limit with room for the row.
        enough_bytes: u64,
    },
    /// A row of JSON has more values than memory has room for.
    #[error(
        "'{}' line {line}: the row has {values} values, and the memory limit leaves no room for so many in one; raise \
         memory_limit to {} MB, or write them in several rows", path.display(), enough_bytes.div_ceil(1_000_000)
    )]
    ManyValues {
        /// The file.
        path: PathBuf,
        /// Line in the file, from 1.
        line: u64,
        /// The values of the row, with keys, lists and objects.
        values: u64,
        /// The bytes that the row counts for.
        bytes: u64,
        /// The memory limit with room for the row.
        enough_bytes: u64,
    },
    /// A row of a batch is longer than memory has room for.
    #[error(
        "'{}': {place} has {} MB, and the memory limit leaves {} MB for one; raise memory_limit to {} MB, or write the file \
         again with shorter values", path.display(), bytes.div_ceil(1_000_000), limit_bytes / 1_000_000,
        enough_bytes.div_ceil(1_000_000)
    )]
    LargeRow {
        /// The file.
        path: PathBuf,
        /// The row, with its number in the file where that is known.
        place: String,
        /// Its bytes.
        bytes: u64,
        /// The most bytes that memory has room for.
        limit_bytes: u64,
        /// The memory limit with room for the row.
        enough_bytes: u64,
    },
    /// The footer of a Parquet file is larger than memory has room for.
    #[error(
        "'{}': the footer has {} MB, and takes several times that in memory; the memory limit leaves {} MB for one; raise \
         memory_limit to {} MB, or write the file again with row groups of about 100 MB", path.display(),
        bytes.div_ceil(1_000_000), limit_bytes / 1_000_000, enough_bytes.div_ceil(1_000_000)
    )]
    LargeFooter {
        /// The file.
        path: PathBuf,
        /// The bytes of its footer.
        bytes: u64,
        /// The most bytes that memory has room for.
        limit_bytes: u64,
        /// The memory limit with room for the footer.
        enough_bytes: u64,
    },
    /// A page of Parquet is larger in memory than there is room for.
    #[error(
        "'{}': a page has {} MB in memory, and the memory limit leaves {} MB for one; raise memory_limit to {} MB, or write the \
         file again with smaller pages", path.display(), bytes.div_ceil(1_000_000), limit_bytes / 1_000_000,
        enough_bytes.div_ceil(1_000_000)
    )]
    LargePage {
        /// The file.
        path: PathBuf,
        /// The size that the page declares.
        bytes: u64,
        /// The most bytes that memory has room for.
        limit_bytes: u64,
        /// The memory limit with room for the page.
        enough_bytes: u64,
    },
    /// Rows of Parquet are far larger than the sampled rows that the plan was made from.
    #[error(
        "'{}': rows {start} to {end} have {} MB in memory, as they repeat the values before them, and {} MB were planned for; raise \
         memory_limit to {} MB, or write the file again with another encoding than DELTA_BYTE_ARRAY",
        path.display(), bytes.div_ceil(1_000_000), planned_bytes.div_ceil(1_000_000), enough_bytes.div_ceil(1_000_000)
    )]
    LargeRows {
        /// The file.
        path: PathBuf,
        /// The first of the rows.
        start: u64,
        /// The row behind the last of them.
        end: u64,
        /// Their bytes.
        bytes: u64,
        /// The bytes that were planned for them.
        planned_bytes: u64,
        /// The memory limit with room for the rows.
        enough_bytes: u64,
    },
    /// A directory holds a link to itself or to a directory above it.
    #[error(
        "directory '{}' is, by a link, one that holds it, so listing it would never end; remove the link or name the files",
        path.display()
    )]
    DirectoryCircle {
        /// The path by which the directory contains itself.
        path: PathBuf,
    },
    /// Inputs have several formats.
    #[error(
        "'{}' looks like {first_format} but '{}' looks like {second_format}; pass the format if all files have the same, or read them separately",
        first.display(), second.display()
    )]
    MixedFormats {
        /// The first file.
        first: PathBuf,
        /// Its format.
        first_format: crate::Format,
        /// The first file that differs.
        second: PathBuf,
        /// Its format.
        second_format: crate::Format,
    },
    /// A format name is unknown.
    #[error(
        "format '{name}' is not known; use one of {}",
        crate::Format::all_names()
    )]
    UnknownFormat {
        /// The given name.
        name: String,
    },
    /// A compression name is unknown.
    #[error(
        "compression '{name}' is not known; use one of {}",
        crate::Compression::NAMES
    )]
    UnknownCompression {
        /// The given name.
        name: String,
    },
    /// The number of columns differs between two files.
    #[error(
        "'{}' has {first_columns} columns but '{}' has {second_columns}, and {extra} in one of them only; what goes together must have the same columns: read them apart, add or drop columns (with_columns, drop), and unite them by union",
        first.display(), second.display()
    )]
    ColumnCount {
        /// The first file.
        first: PathBuf,
        /// Its number of columns.
        first_columns: usize,
        /// The file that differs.
        second: PathBuf,
        /// Its number of columns.
        second_columns: usize,
        /// The columns that one file lacks, or for each file a column that the other lacks.
        extra: String,
    },
    /// A column differs between two files.
    #[error("column {column} is {first} but {second}, and no type holds the values of both; convert one of them, or keep them apart")]
    ColumnMismatch {
        /// Number of the column, from 0.
        column: usize,
        /// The column in the first file.
        first: Box<ColumnOrigin>,
        /// The column in the file that differs.
        second: Box<ColumnOrigin>,
    },
    /// A value does not fit the type that a column has in all files together.
    #[error("column {column} but {to} in all together, which one of its values does not fit: {reason}; convert one of the files, or keep them apart")]
    Unfit {
        /// The column in the file.
        column: Box<ColumnOrigin>,
        /// Its type in all files.
        to: String,
        /// The message of the cast.
        reason: String,
    },
    /// Two columns have the same name.
    #[error(
        "'{}' has two columns named '{column}'; rename one of them, or, of CSV, leave the header out (skip_rows=1, header=False) \
         and name all columns by a pyarrow schema (schema=)", path.display()
    )]
    DuplicateColumn {
        /// The file.
        path: PathBuf,
        /// The name.
        column: String,
    },
    /// Files lie in folders `key=value` of different keys.
    #[error(
        "'{}' lies in folders with the keys {first_keys}, and '{}' in folders with the keys {second_keys}; read them separately, \
         or pass hive=False (--no-hive) to make no columns of folders named key=value", first.display(), second.display()
    )]
    MixedPartitions {
        /// The first file.
        first: PathBuf,
        /// Its keys.
        first_keys: String,
        /// The first file that differs.
        second: PathBuf,
        /// Its keys.
        second_keys: String,
    },
    /// A file lies in two folders of the same key.
    #[error(
        "'{}' lies in two folders with the key '{key}'; rename one, or pass hive=False (--no-hive) to make no columns of folders \
         named key=value", path.display()
    )]
    PartitionTwice {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
    },
    /// The value of a folder does not have the given type.
    #[error(
        "'{}' lies in the folder of {column} = '{value}', which is not a value of type {expected}; give the column the type text, \
         or rename the folder", path.display()
    )]
    PartitionValue {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// The value.
        value: String,
        /// The type.
        expected: String,
    },
    /// A type is given to a partition column that does not exist.
    #[error(
        "a type is given to column '{column}', but no folder is named {column}=value, and only text files can be given types of \
         their own columns; correct the name, or cast the column instead"
    )]
    NoPartition {
        /// The column.
        column: String,
    },
    /// A type is given to a column that does not exist.
    #[error(
        "the schema given has a column '{column}', but those of '{}' are, or the nearest of many, '{names}'; correct the name", path.display()
    )]
    UnknownColumn {
        /// The file.
        path: PathBuf,
        /// The given column.
        column: String,
        /// The columns of the file.
        names: String,
    },
    /// The format cannot be read as the type that a column is given.
    #[error(
        "{format} cannot be read as column '{column}' of type {data_type}; give it another type and cast it afterwards"
    )]
    TypeGiven {
        /// The format.
        format: crate::Format,
        /// The column.
        column: String,
        /// The given type.
        data_type: String,
    },
    /// The number of given names differs from the number of columns of a file without a header.
    #[error(
        "'{}' has {columns} columns, but the schema given names {names}; give one name for each column", path.display()
    )]
    NamesGiven {
        /// The file.
        path: PathBuf,
        /// Number of given names.
        names: usize,
        /// Its number of columns.
        columns: usize,
    },
    /// The bytes of a file violate its format.
    #[error("'{}' is not a readable {format} file: {reason}; write the file again or leave it out", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The format it was read as.
        format: crate::Format,
        /// The message of the parser.
        reason: String,
    },
    /// Numbers of 32 bits are stored with steps of more, which the decoder refuses.
    #[error(
        "'{}': column '{column}' has numbers of 32 bits without a sign whose DELTA_BINARY_PACKED pages have steps of 64 bits, as \
         DuckDB writes them with PARQUET_VERSION v2, and they cannot be read; write the file again with PARQUET_VERSION v1, \
         or with the column as BIGINT", path.display()
    )]
    WideSteps {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
    },
    /// Compressed text violates its format.
    #[error("'{}' cannot be decompressed as {codec}: {reason}; write the file again or leave it out", path.display())]
    CorruptCompressed {
        /// The file.
        path: PathBuf,
        /// The name of the compression.
        codec: &'static str,
        /// The message of the decoder.
        reason: String,
    },
    /// A line of compressed text would not fit into memory.
    #[error(
        "a line of '{}' has more than {most} bytes, and rows that large cannot be read within the memory limit; raise memory_limit, or leave the file out",
        path.display()
    )]
    LongLine {
        /// The file.
        path: PathBuf,
        /// The most bytes that a line may have.
        most: u64,
    },
    /// Decompressing takes a window that memory has no room for.
    #[error(
        "'{}' was compressed with a window that the memory limit has no room for; raise memory_limit, or compress it again without --long and --ultra",
        path.display()
    )]
    Window {
        /// The file.
        path: PathBuf,
    },
    /// A value of a text file does not have the type of its column.
    #[error("{}", bad_value(path, *line, column, (value, other.as_deref()), expected))]
    BadValue {
        /// The file.
        path: PathBuf,
        /// Line in the file, from 1.
        line: u64,
        /// Name of the column.
        column: String,
        /// The text that does not parse.
        value: String,
        /// The type of the column.
        expected: String,
        /// The value that a given, not inferred, type would make of the text.
        other: Option<Box<str>>,
    },
    /// A record of a text file is malformed.
    #[error("'{}' line {line}: {reason}; correct the line, or leave it out by bad_rows='skip' (--bad-rows skip)", path.display())]
    BadRecord {
        /// The file.
        path: PathBuf,
        /// Line in the file, from 1.
        line: u64,
        /// The fault.
        reason: String,
    },
    /// CSV that is read as one column seems to have several, with another delimiter between them.
    #[error(
        "'{}' would be one column, {name:?}, and each of its first lines has as many '{}' as the header: write \
         delimiter={:?} (--delimiter '{}'), or delimiter={:?} for one column", path.display(), delimiter.escape_default(),
        delimiter.to_string(), delimiter.escape_default(), used.to_string()
    )]
    OtherDelimiter {
        /// The file.
        path: PathBuf,
        /// The name of the only column.
        name: String,
        /// The delimiter that it seems to have.
        delimiter: char,
        /// The delimiter that it was read with.
        used: char,
    },
    /// The header of CSV is malformed.
    #[error(
        "'{}' line {line}, the header: {reason}; correct the line, or leave it out by skip_rows={line} and header=False \
         (--skip-rows {line} --no-header)", path.display()
    )]
    BadHeader {
        /// The file.
        path: PathBuf,
        /// Line in the file, from 1.
        line: u64,
        /// The fault.
        reason: String,
    },
    /// A file of JSON is one document, not lines.
    #[error(
        "'{}' line {line}: it begins {what} over several rows or lines, where each line must be one object; write it so, for \
         example by jq -c '{program}'", path.display()
    )]
    NotLines {
        /// The file.
        path: PathBuf,
        /// Line in the file, from 1.
        line: u64,
        /// The kind of value that begins there.
        what: &'static str,
        /// A program that makes lines of it.
        program: &'static str,
    },
    /// A row of JSON lines has a key without a column.
    #[error(
        "'{}' line {line}: {}; {}, or leave the row out by bad_rows='skip' (--bad-rows skip)",
        path.display(), new_key(place.as_deref(), key), new_key_remedy(place.as_deref(), key)
    )]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// Line in the file, from 1.
        line: u64,
        /// The key.
        key: String,
        /// The column whose value has the key; `None` if the row itself has it.
        place: Option<String>,
    },
    /// A text file has fewer lines than should be left out.
    #[error("'{}' has {lines} lines, and skip_rows={skip_rows} (--skip-rows) leaves out more; give {lines} or fewer", path.display())]
    SkipsTooMany {
        /// The file.
        path: PathBuf,
        /// Number of lines to leave out.
        skip_rows: u64,
        /// Number of lines in the file.
        lines: u64,
    },
    /// The size of a record file is no multiple of the record.
    #[error(
        "'{}' has {bytes} bytes, which is no multiple of the record size {record_bytes}; check the record size or whether the file is truncated",
        path.display()
    )]
    PartialRecord {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// Bytes per record.
        record_bytes: usize,
    },
    /// Records were asked for without their size.
    #[error(
        "the record format needs the number of bytes per record, at least 1; pass record_bytes"
    )]
    RecordBytesMissing,
    /// A file changed since it was listed.
    #[error("'{}' changed since it was listed ({what}); list the input again", path.display())]
    FileChanged {
        /// The file.
        path: PathBuf,
        /// The difference.
        what: String,
    },
    /// The path is no regular file.
    #[error("'{}' is not a regular file; copy its content to a file first", path.display())]
    NotRegular {
        /// The path.
        path: PathBuf,
    },
    /// The operating system refused to read.
    #[error("cannot read '{}': {source}; check the permissions and the disk", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The operating system refused to write.
    #[error("cannot write '{}': {source}; {}", path.display(), write_remedy(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The first line of CSV, which names the columns, does not end where it should.
    #[error(
        "'{}' line {line}: the first row has more than {limit_bytes} bytes, and no more is read of it to find the columns; \
         correct the file, or say what ends and separates its values", path.display()
    )]
    LongHeader {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The most bytes that it may have.
        limit_bytes: usize,
    },
    /// The format holds one column, and the table has others.
    #[error("{format} can hold one column, and there are {columns}; select one, or write another format")]
    SeveralColumns {
        /// The format.
        format: crate::Format,
        /// Number of columns.
        columns: usize,
    },
    /// Files of the format cannot be written.
    #[error("{format} can only be read; write another format")]
    ReadOnly {
        /// The format.
        format: crate::Format,
    },
    /// A file is larger than a value can be.
    #[error("'{}' has {bytes} bytes, and one value has {} at most; read it by another format", path.display(), i32::MAX)]
    LargeFile {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// The format cannot hold a column.
    #[error("{format} cannot hold column '{column}' of type {data_type}; drop or cast the column, or write another format")]
    Unsupported {
        /// The format.
        format: crate::Format,
        /// The column.
        column: String,
        /// Its type.
        data_type: String,
    },
    /// The format does not know the compression.
    #[error("{format} files cannot be compressed with {compression}; use one of {allowed}")]
    UnsupportedCompression {
        /// The format.
        format: crate::Format,
        /// The wanted compression.
        compression: crate::Compression,
        /// The compressions of the format.
        allowed: String,
    },
    /// A table could not be encoded.
    #[error("cannot encode '{}' as {format}: {reason}; cast the column or write another format", path.display())]
    Encode {
        /// The file being written.
        path: PathBuf,
        /// The format.
        format: crate::Format,
        /// The message of the encoder.
        reason: String,
    },
    /// A value is too long to be the name of a folder.
    #[error(
        "the folder of {column} = '{value}' would have a name of {bytes} bytes, and names have at most {limit}; partition by shorter \
         values, for example by their first letters"
    )]
    FolderName {
        /// The column.
        column: String,
        /// The value.
        value: String,
        /// Bytes of the name.
        bytes: usize,
        /// The most bytes of a name.
        limit: usize,
    },
    /// Columns to partition by have more values than an output may have folders.
    #[error(
        "partitioning by {columns} makes more than {limit} folders, which is the limit; partition by fewer or coarser values, for \
         example date_trunc('month', day), or sort by these columns instead"
    )]
    TooManyFolders {
        /// The columns.
        columns: String,
        /// The most folders.
        limit: usize,
    },
    /// A projection names a column that does not exist.
    #[error("the table has {columns} columns but another was asked for ({reason}); name existing columns")]
    BadProjection {
        /// Columns of the table.
        columns: usize,
        /// The message of the projection.
        reason: String,
    },
    /// No memory for a buffer.
    #[error(
        "cannot map {bytes} bytes for a file buffer: {source}; lower the number of parallel tasks"
    )]
    Memory {
        /// Size of the buffer.
        bytes: usize,
        /// The cause.
        source: std::io::Error,
    },
}

/// A column of a file.
#[derive(Debug)]
pub struct ColumnOrigin {
    /// Its name.
    pub name: String,
    /// Its type.
    pub data_type: String,
    /// The file.
    pub path: PathBuf,
}

impl std::fmt::Display for ColumnOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "'{}' of type {} in '{}'",
            self.name,
            self.data_type,
            self.path.display()
        )
    }
}

/// Says which key of JSON is new, and in which column's values.
fn new_key(place: Option<&str>, key: &str) -> String {
    let within = place.map_or(String::new(), |column| format!(" of column '{column}'"));
    format!(
        "the key '{key}'{within} is in none of the first 10,000 rows, which the columns are from"
    )
}

fn new_key_remedy(place: Option<&str>, key: &str) -> String {
    match place {
        None => format!(
            "give it a type (schema={{'{key}': 'text'}}, or on the command line --column-type {key}=text), select the columns \
             that you need"
        ),
        Some(column) => format!("give '{column}' a type that has it (schema=), select other columns"),
    }
}

impl IoError {
    /// The fault in a row of text, without its place and the remedy.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::BadRecord { reason, .. } => reason.clone(),
            Self::UnknownKey { key, place, .. } => new_key(place.as_deref(), key),
            Self::BadValue {
                column,
                value,
                expected,
                ..
            } => format!(
                "column '{column}': '{}' is not a value of type {expected}",
                one_line(value)
            ),
            Self::NotUtf8 { .. } => "it is no UTF-8".to_owned(),
            other => other.to_string(),
        }
    }

    pub(crate) fn read(path: &Path, source: std::io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            std::io::ErrorKind::NotFound => Self::PathMissing { path },
            _ => Self::Read { path, source },
        }
    }

    pub(crate) fn write(path: &Path, source: std::io::Error) -> Self {
        Self::Write {
            path: path.to_path_buf(),
            source,
        }
    }

    pub(crate) fn corrupt(
        path: &Path,
        format: crate::Format,
        reason: impl std::fmt::Display,
    ) -> Self {
        Self::Corrupt {
            path: path.to_path_buf(),
            format,
            reason: one_line(&reason.to_string()),
        }
    }

    pub(crate) fn changed(path: &Path, what: impl Into<String>) -> Self {
        Self::FileChanged {
            path: path.to_path_buf(),
            what: what.into(),
        }
    }
}

/// Makes one short line of a foreign message, which may be long and have several lines: an error stays one sentence.
pub(crate) fn one_line(text: &str) -> String {
    const LIMIT: usize = 200;
    let mut line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((cut, _)) = line.char_indices().nth(LIMIT) {
        line.truncate(cut);
        line.push('…');
    }
    line.trim_end_matches('.').to_string()
}

fn bad_value(
    path: &Path,
    line: u64,
    column: &str,
    (value, other): (&str, Option<&str>),
    expected: &str,
) -> String {
    // Spaces around a value may be the fault, so short values are shown as they are.
    let is_short = value.len() <= 50 && !value.contains(['\n', '\r']);
    let value = if is_short {
        value.to_owned()
    } else {
        one_line(value)
    };
    let (what, same) = match other.map(one_line) {
        Some(other) => (
            format!("'{value}' would become {other} as a value of type {expected}"),
            "give it the same if that is meant, ",
        ),
        None => (format!("'{value}' is not a value of type {expected}"), ""),
    };
    format!(
        "'{}' line {line}, column '{column}': {what}; types that are not given are inferred from the first 10,000 rows, so \
         give the column another (schema={{'{column}': 'text'}}, or on the command line --column-type {column}=text), {same}\
         or correct the value",
        path.display(),
    )
}

fn write_remedy(source: &std::io::Error) -> &'static str {
    match source.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            "free disk space or write to another file system"
        }
        std::io::ErrorKind::AlreadyExists => "remove the file or choose another directory",
        std::io::ErrorKind::NotFound => "create the directory first",
        _ => "check the permissions and the disk",
    }
}
