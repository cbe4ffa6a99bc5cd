//! Writes one partition of the output as one or more files.

mod partitioned;

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_cast::cast;
use arrow_schema::{Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use crate::direct::{DirectWriter, PendingFile, WrittenFile};
use crate::error::{IoError, Result};
use crate::format::{Encoder, Format};
use crate::{travel, Compression};

pub use partitioned::{PartitionBy, PartitionedWriter};

/// The name of these options in errors.
const NAME: &str = "the options of a writer";
/// Rows handed to the encoder at once when files are to reach a size. The size is looked at in between, so no file but the
/// last has fewer rows.
pub const ROLL_ROWS: usize = 4096;

/// The most memory for encoded rows that a writer of text keeps between batches.
const KEPT_BYTES: usize = 16 << 20;

/// How to write files.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WriteOptions {
    /// The format.
    pub format: Format,
    /// How Parquet pages and IPC buffers are compressed.
    pub compression: Compression,
    /// Encoded bytes of a Parquet row group.
    pub row_group_bytes: usize,
    /// Begins a new file when the current one reaches this size.
    pub target_file_bytes: Option<u64>,
    /// Which columns Parquet encodes as dictionaries where that makes them smaller; by default those of dictionary type.
    pub dictionary_columns: Option<Vec<bool>>,
    /// The character between the values of a CSV line.
    pub csv_delimiter: u8,
    /// How Arrow IPC is laid out.
    pub ipc_layout: IpcLayout,
    /// Which columns become folders; [`PartitionedWriter`] is to write them.
    pub partition_by: Option<PartitionBy>,
}

/// The two layouts of Arrow IPC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum IpcLayout {
    /// With a footer, which tells where batches are.
    #[default]
    File,
    /// Read from its beginning to its end.
    Stream,
}

impl WriteOptions {
    /// Returns the defaults of a format: not compressed, row groups of 32 MiB, one file per partition.
    pub fn new(format: Format) -> Self {
        Self {
            format,
            compression: Compression::None,
            row_group_bytes: 32 << 20,
            target_file_bytes: None,
            dictionary_columns: None,
            csv_delimiter: b',',
            ipc_layout: IpcLayout::File,
            partition_by: None,
        }
    }

    /// The options as they travel to other processes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        travel::to_bytes(NAME, self)
    }

    /// The options of bytes that [`to_bytes`](Self::to_bytes) made.
    ///
    /// # Errors
    /// The bytes were made by another version, or are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        travel::from_bytes(NAME, bytes)
    }
}

/// A file of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartFile {
    /// Its name in the directory.
    pub name: String,
    /// Its rows.
    pub rows: u64,
    /// Its size.
    pub bytes: u64,
    /// CRC-32 of its content.
    pub crc32: u32,
}

/// The files of a partition; the last one may not be on disk yet.
#[derive(Default)]
pub struct PendingParts {
    written: Vec<PartFile>,
    last: Option<PendingPart>,
}

/// A file that is complete but for the bytes on their way to disk.
struct PendingPart {
    name: String,
    rows: u64,
    file: PendingFile,
}

impl PendingParts {
    /// Wraps files that are on disk.
    fn of(written: Vec<PartFile>) -> Self {
        Self {
            written,
            last: None,
        }
    }

    /// Returns the files in a folder, behind others.
    fn placed(self, mut others: Vec<PartFile>, folder: &str) -> Self {
        let within = |name: String| format!("{folder}/{name}");
        others.extend(self.written.into_iter().map(|file| PartFile {
            name: within(file.name),
            ..file
        }));
        Self {
            written: others,
            last: self.last.map(|part| PendingPart {
                name: within(part.name),
                ..part
            }),
        }
    }

    /// Waits until all files are on disk.
    pub fn wait(mut self) -> Result<Vec<PartFile>> {
        self.settle()?;
        Ok(self.written)
    }

    /// Adds a file. Waits for those before it, so that the buffers of one file at most are on their way.
    fn push(&mut self, part: PendingPart) -> Result<()> {
        self.settle()?;
        self.last = Some(part);
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        if let Some(PendingPart { name, rows, file }) = self.last.take() {
            let WrittenFile { bytes, crc32 } = file.wait()?;
            self.written.push(PartFile {
                name,
                rows,
                bytes,
                crc32,
            });
        }
        Ok(())
    }
}

/// Writes the batches of one partition. Dropped before its end, it leaves unfinished files behind.
pub struct PartWriter {
    directory: PathBuf,
    partition: usize,
    schema: SchemaRef,
    options: WriteOptions,
    /// An open file that is written instead of a new one.
    open: Option<File>,
    current: Option<OpenFile>,
    closed: PendingParts,
    num_closed: usize,
}

struct OpenFile {
    name: String,
    rows: u64,
    encoder: Box<dyn Encoder>,
}

/// Refuses columns that a format cannot hold.
pub fn check_writable(schema: &Schema, format: Format) -> Result<()> {
    format.driver().check(schema)
}

impl PartWriter {
    /// Prepares to write `partition` into `directory`, which must exist, with the columns and types of `schema`.
    pub fn new(
        directory: &Path,
        partition: usize,
        schema: SchemaRef,
        options: WriteOptions,
    ) -> Result<Self> {
        check_compression(&options)?;
        let directory = directory.to_path_buf();
        Ok(Self {
            directory,
            partition,
            schema,
            options,
            open: None,
            current: None,
            closed: PendingParts::default(),
            num_closed: 0,
        })
    }

    /// Prepares to write to an open file instead, whatever it is.
    pub fn to_open(file: File, schema: SchemaRef, options: WriteOptions) -> Result<Self> {
        let mut writer = Self::new(Path::new(""), 0, schema, options)?;
        writer.open = Some(file);
        Ok(writer)
    }

    /// Appends rows. Strings may be views and dictionary columns plain values, whatever the schema says.
    pub fn write(&mut self, batch: RecordBatch) -> Result<()> {
        let Some(target) = self.options.target_file_bytes else {
            return self.write_piece(batch);
        };
        let mut rest = batch;
        while rest.num_rows() > ROLL_ROWS {
            self.write_rolled(rest.slice(0, ROLL_ROWS), target)?;
            rest = rest.slice(ROLL_ROWS, rest.num_rows() - ROLL_ROWS);
        }
        self.write_rolled(rest, target)
    }

    /// Appends rows, and closes the file if it has its size.
    fn write_rolled(&mut self, batch: RecordBatch, target: u64) -> Result<()> {
        self.write_piece(batch)?;
        let current = self.current.as_ref();
        match current.is_some_and(|file| file.encoder.bytes() >= target) {
            true => self.close(),
            false => Ok(()),
        }
    }

    /// Finishes the last file and waits until all are on disk.
    pub fn finish(self) -> Result<Vec<PartFile>> {
        self.end()?.wait()
    }

    /// Finishes the last file. A partition without rows is one file without rows, which still tells the columns.
    pub fn end(mut self) -> Result<PendingParts> {
        if self.current.is_none() && self.num_closed == 0 {
            let empty = RecordBatch::new_empty(self.schema.clone());
            self.current = Some(self.open(&empty)?);
        }
        self.close()?;
        Ok(self.closed)
    }

    fn write_piece(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let mut file = match self.current.take() {
            Some(file) => file,
            None => self.open(&batch)?,
        };
        let path = self.directory.join(&file.name);
        file.rows += batch.num_rows() as u64;
        file.encoder.write(&path, batch)?;
        self.current = Some(file);
        Ok(())
    }

    fn open(&mut self, first: &RecordBatch) -> Result<OpenFile> {
        let (partition, extension) = (self.partition, self.options.format.ending());
        let name = match self.options.target_file_bytes {
            Some(_) => format!("part-{partition:05}-{:05}.{extension}", self.num_closed),
            None => format!("part-{partition:05}.{extension}"),
        };
        let (name, sink) = match self.open.take() {
            Some(file) => {
                let name = "standard output";
                let sink = DirectWriter::to_open(file, Path::new(name))?;
                (name.to_owned(), sink)
            }
            None => {
                let sink = DirectWriter::create(&self.directory.join(&name))?;
                (name, sink)
            }
        };
        let format = self.options.format;
        let encoder = format
            .driver()
            .create(sink, &self.schema, first, &self.options)?;
        Ok(OpenFile {
            name,
            rows: 0,
            encoder,
        })
    }

    fn close(&mut self) -> Result<()> {
        let Some(file) = self.current.take() else {
            return Ok(());
        };
        let path = self.directory.join(&file.name);
        let (name, rows) = (file.name, file.rows);
        let file = file.encoder.end(&path)?;
        self.num_closed += 1;
        self.closed.push(PendingPart { name, rows, file })
    }
}

fn check_compression(options: &WriteOptions) -> Result<()> {
    let (format, compression) = (options.format, options.compression);
    let allowed = format.compressions();
    if allowed.contains(&compression) {
        return Ok(());
    }
    let names: Vec<_> = allowed.iter().map(Compression::to_string).collect();
    Err(IoError::UnsupportedCompression {
        format,
        compression,
        allowed: names.join(", "),
    })
}

/// Returns the batch with the types of the schema.
pub(crate) fn to_schema(
    batch: RecordBatch,
    schema: &SchemaRef,
    (path, format): (&Path, Format),
) -> Result<RecordBatch> {
    let failed = |e: arrow_schema::ArrowError| encode_error(path, format, &e);
    let pairs = batch.columns().iter().zip(schema.fields());
    let columns: std::result::Result<Vec<_>, _> = pairs
        .map(|(array, field)| cast(array, field.data_type()))
        .collect();
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns.map_err(failed)?, &options)
        .map_err(failed)
}

/// Gives memory back that is kept between batches, where a large row has made it larger than usual.
pub(crate) fn forget_large(encoded: &mut Vec<u8>) {
    if encoded.capacity() > KEPT_BYTES {
        *encoded = Vec::new();
    }
}

pub(crate) fn encode_error(path: &Path, format: Format, reason: &dyn std::fmt::Display) -> IoError {
    IoError::Encode {
        path: path.to_path_buf(),
        format,
        reason: crate::error::one_line(&reason.to_string()),
    }
}
