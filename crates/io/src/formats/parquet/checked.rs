//! Writes Parquet whose pages carry CRC-32 checksums, which the encoder does not write.
//!
//! The encoder hands each page to a store of ours as two blobs: its header and its data. The checksum is a field of the
//! header, so the header grows. Therefore sizes and offsets in the metadata of a column chunk are corrected before the chunk
//! goes into the file.
//!
//! Zstandard is done here, too: by one context for all columns. The encoder has one for each column of a row group.
//! 10,000 columns of 400 rows took 7.6 s and 359 MB with these, 2.2 s and 189 MB without compression.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::{Buf, Bytes};
use parquet::arrow::arrow_writer::{compute_leaves, ArrowColumnWriter, ArrowRowGroupWriterFactory};
use parquet::basic::{Compression, Type};
use parquet::column::page_store::{PageKey, PageStore, PageStoreArgs, PageStoreFactory};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, SchemaDescriptor};
use zstd::bulk::Compressor;

/// The page type of a dictionary, as the compact protocol writes it.
const DICTIONARY_PAGE: u8 = 4;
/// The first byte of an i32 in the compact protocol, if it is the next field.
const NEXT_I32: u8 = 0x15;
/// The distance of one field to the next, in the first byte of the later field.
const ONE_FIELD: u8 = 0x10;

/// Encodes batches as the row groups of a file.
pub(super) struct CheckedWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    schema: SchemaRef,
    groups: ArrowRowGroupWriterFactory,
    /// Makes the row groups of long rows.
    long_groups: ArrowRowGroupWriterFactory,
    pages: Arc<Chunks>,
    columns: Vec<ArrowColumnWriter>,
}

impl<W: Write + Send> CheckedWriter<W> {
    pub(super) fn new(
        sink: W,
        schema: SchemaRef,
        file_schema: &SchemaDescriptor,
        properties: WriterProperties,
    ) -> Result<Self> {
        let root = file_schema.root_schema_ptr();
        let (properties, packer) = packed_here(properties)?;
        let long = Arc::new(for_long_rows(properties.clone(), file_schema));
        let file = SerializedFileWriter::new(sink, Arc::clone(&root), Arc::new(properties))?;
        let pages = Arc::new(Chunks {
            pages: (0..file_schema.num_columns())
                .map(|_| Arc::default())
                .collect(),
            packer: packer.map(Arc::new),
        });
        let making = |factory: ArrowRowGroupWriterFactory| {
            factory.with_page_store_factory(Arc::clone(&pages) as Arc<dyn PageStoreFactory>)
        };
        let groups = ArrowRowGroupWriterFactory::new(&file, Arc::clone(&schema));
        // The factory takes the properties of a file, and writes nothing to it.
        let other = SerializedFileWriter::new(io::sink(), root, long)?;
        let long_groups = ArrowRowGroupWriterFactory::new(&other, Arc::clone(&schema));
        Ok(Self {
            file,
            schema,
            groups: making(groups),
            long_groups: making(long_groups),
            pages,
            columns: Vec::new(),
        })
    }

    /// Appends rows to the row group.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if self.columns.is_empty() {
            let index = self.file.flushed_row_groups().len();
            self.columns = self.groups.create_column_writers(index)?;
        }
        self.append(batch)
    }

    /// Writes a long row as a row group of its own, with two copies of its values, three if they are compressed.
    ///
    /// Among other rows it takes one more: the least or greatest value of the statistics, or the room that a page has left.
    /// The row itself is dropped before its pages are made.
    pub(super) fn write_long(&mut self, row: RecordBatch) -> Result<()> {
        self.flush()?;
        let index = self.file.flushed_row_groups().len();
        self.columns = self.long_groups.create_column_writers(index)?;
        self.append(&row)?;
        drop(row);
        self.flush()
    }

    fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut columns = self.columns.iter_mut();
        for (field, array) in self.schema.fields().iter().zip(batch.columns()) {
            for leaf in compute_leaves(field, array)? {
                let column = columns
                    .next()
                    .ok_or_else(|| broken("has too few columns"))?;
                column.write(&leaf)?;
            }
        }
        Ok(())
    }

    /// Bytes of the row group if it were finished now.
    pub(super) fn in_progress_size(&self) -> usize {
        let columns = self.columns.iter().zip(&self.pages.pages);
        columns
            .map(|(column, pages)| {
                let plain = column.get_estimated_total_bytes();
                plain.saturating_add_signed(-lock(pages).saved as isize)
            })
            .sum()
    }

    /// Bytes of the finished row groups.
    pub(super) fn bytes_written(&self) -> usize {
        self.file.bytes_written()
    }

    /// Finishes the row group.
    pub(super) fn flush(&mut self) -> Result<()> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        let codec = self.pages.packer.as_ref().map(|packer| packer.codec);
        for (column, pages) in self.columns.drain(..).zip(&self.pages.pages) {
            let mut chunk = column.close()?;
            let mut pages = lock(pages);
            pages.correct(chunk.close_mut(), codec)?;
            if pages.dictionary.is_none() {
                drop(pages);
                chunk.append_to_row_group(&mut group)?;
            } else {
                // The chunk's own method would put the dictionary first, but with a wrong size.
                let read = InOrder(std::mem::take(&mut *pages).in_order());
                group.append_column(&read, chunk.close().clone())?;
            }
        }
        group.close()?;
        Ok(())
    }

    /// Finishes the file.
    pub(super) fn into_inner(mut self) -> Result<W> {
        self.flush()?;
        self.file.into_inner()
    }
}

/// The properties of row groups with a long row: text and binary have no statistics and no dictionary there.
///
/// No page ends by its size, which would happen while the row is still there. A page has whole rows, so this makes none
/// larger.
fn for_long_rows(properties: WriterProperties, schema: &SchemaDescriptor) -> WriterProperties {
    let mut made = properties
        .into_builder()
        .set_data_page_size_limit(usize::MAX);
    for column in schema.columns() {
        if column.physical_type() == Type::BYTE_ARRAY {
            let path = column.path();
            made = made
                .set_column_statistics_enabled(path.clone(), EnabledStatistics::None)
                .set_column_dictionary_enabled(path.clone(), false);
        }
    }
    made.build()
}

/// Compresses pages that the encoder leaves as they are.
struct Packer {
    codec: Compression,
    context: Mutex<Compressor<'static>>,
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Packer").field(&self.codec).finish()
    }
}

impl Packer {
    fn packed(&self, page: &[u8]) -> Result<Bytes> {
        let mut packed = lock(&self.context).compress(page)?;
        packed.shrink_to_fit();
        Ok(packed.into())
    }
}

/// The properties for the encoder, and what compresses its pages if it does not.
fn packed_here(properties: WriterProperties) -> Result<(WriterProperties, Option<Packer>)> {
    let codec = properties.compression(&ColumnPath::new(Vec::new()));
    let Compression::ZSTD(level) = codec else {
        return Ok((properties, None));
    };
    let context = Mutex::new(Compressor::new(level.compression_level())?);
    let plain = properties
        .into_builder()
        .set_compression(Compression::UNCOMPRESSED)
        .build();
    Ok((plain, Some(Packer { codec, context })))
}

/// The pages of the column chunks of a row group.
#[derive(Debug)]
struct Chunks {
    pages: Vec<Arc<Mutex<Pages>>>,
    packer: Option<Arc<Packer>>,
}

impl PageStoreFactory for Chunks {
    fn create(&self, args: &PageStoreArgs<'_>) -> Result<Box<dyn PageStore>> {
        let pages = self.pages.get(args.column_index());
        let pages = pages.ok_or_else(|| broken("has too many columns"))?;
        *lock(pages) = Pages::default();
        Ok(Box::new(Store {
            pages: Arc::clone(pages),
            packer: self.packer.clone(),
        }))
    }
}

/// The store into which the encoder puts the pages of a column chunk.
struct Store {
    pages: Arc<Mutex<Pages>>,
    packer: Option<Arc<Packer>>,
}

impl PageStore for Store {
    fn put(&mut self, value: Bytes) -> Result<PageKey> {
        lock(&self.pages).put(value, self.packer.as_deref())
    }

    fn take(&mut self, key: PageKey) -> Result<Bytes> {
        let mut pages = lock(&self.pages);
        let blob = pages.blobs.get_mut(key.get() as usize);
        let blob = std::mem::take(blob.ok_or_else(|| broken("has no such page"))?);
        pages.bytes -= blob.len();
        Ok(blob)
    }

    fn memory_size(&self) -> usize {
        lock(&self.pages).bytes
    }
}

/// The pages of a column chunk.
#[derive(Debug, Default)]
struct Pages {
    /// Headers and data in turn.
    blobs: Vec<Bytes>,
    bytes: usize,
    /// The change of each data page.
    changes: Vec<Change>,
    /// The place of the dictionary's header, and its change.
    dictionary: Option<(usize, Change)>,
    /// Bytes that compression has saved here.
    saved: i64,
}

/// How a page differs from the one that the encoder made.
#[derive(Clone, Copy, Debug, Default)]
struct Change {
    /// Bytes by which its header has grown.
    grown: i64,
    /// Bytes by which its data has shrunk.
    saved: i64,
}

impl Pages {
    fn put(&mut self, value: Bytes, packer: Option<&Packer>) -> Result<PageKey> {
        let index = self.blobs.len();
        let (plain, is_data) = (value.len(), index % 2 == 1);
        let value = match packer.filter(|_| is_data) {
            Some(packer) => packer.packed(&value)?,
            None => value,
        };
        if is_data {
            self.finish_header(index - 1, plain, &value)?;
        }
        self.bytes += value.len();
        self.blobs.push(value);
        Ok(PageKey::new(index as u64))
    }

    /// Puts the size and the checksum of a page's data into its header.
    fn finish_header(&mut self, index: usize, plain: usize, data: &[u8]) -> Result<()> {
        let header = with_checksum(&self.blobs[index], data.len(), crc32fast::hash(data))?;
        let change = Change {
            grown: header.len() as i64 - self.blobs[index].len() as i64,
            saved: plain as i64 - data.len() as i64,
        };
        self.bytes = self.bytes.saturating_add_signed(change.grown as isize);
        self.saved += change.saved;
        if header[1] == DICTIONARY_PAGE {
            self.dictionary = Some((index, change));
        } else {
            self.changes.push(change);
        }
        self.blobs[index] = header;
        Ok(())
    }

    /// Corrects sizes and offsets, for a dictionary that comes first, and the codec if pages were compressed here.
    fn correct(&self, close: &mut ColumnCloseResult, codec: Option<Compression>) -> Result<()> {
        let dictionary = self.dictionary.iter().map(|(_, change)| change);
        let grown: i64 = { dictionary }
            .chain(&self.changes)
            .map(|change| change.grown)
            .sum();
        let added = grown - self.saved;
        let start = match self.dictionary {
            Some((index, _)) => self.blobs[index].len() + self.blobs[index + 1].len(),
            None => 0,
        } as i64;
        close.bytes_written = close.bytes_written.saturating_add_signed(added);
        let metadata = close.metadata.clone();
        let codec = codec.unwrap_or_else(|| metadata.compression());
        let (compressed, plain) = (metadata.compressed_size(), metadata.uncompressed_size());
        close.metadata = metadata
            .into_builder()
            .set_compression(codec)
            .set_dictionary_page_offset(self.dictionary.map(|_| 0))
            .set_data_page_offset(start)
            .set_total_compressed_size(compressed + added)
            .set_total_uncompressed_size(plain + grown)
            .build()?;
        let locations = close.offset_index.iter_mut();
        let mut offset = start;
        for (location, change) in { locations }
            .flat_map(|index| &mut index.page_locations)
            .zip(&self.changes)
        {
            location.compressed_page_size += (change.grown - change.saved) as i32;
            location.offset = offset;
            offset += i64::from(location.compressed_page_size);
        }
        Ok(())
    }

    /// The blobs, the dictionary first.
    fn in_order(mut self) -> VecDeque<Bytes> {
        if let Some((index, _)) = self.dictionary {
            self.blobs[..index + 2].rotate_right(2);
        }
        self.blobs.into()
    }
}

/// A column chunk as a source of bytes, which are read once, from the beginning.
struct InOrder(VecDeque<Bytes>);

impl Length for InOrder {
    fn len(&self) -> u64 {
        self.0.iter().map(|blob| blob.len() as u64).sum()
    }
}

impl ChunkReader for InOrder {
    type T = Blobs;

    fn get_read(&self, start: u64) -> Result<Blobs> {
        match start {
            0 => Ok(Blobs(self.0.clone())),
            _ => Err(broken("is read from its middle")),
        }
    }

    fn get_bytes(&self, _start: u64, _length: usize) -> Result<Bytes> {
        Err(broken("is read from its middle"))
    }
}

/// Reads blobs one after the other.
struct Blobs(VecDeque<Bytes>);

impl Read for Blobs {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        while let Some(first) = self.0.front_mut() {
            if first.is_empty() {
                self.0.pop_front();
                continue;
            }
            let n = first.len().min(out.len());
            first.copy_to_slice(&mut out[..n]);
            return Ok(n);
        }
        Ok(0)
    }
}

/// Puts the size of the data and its checksum into a page header. In the compact protocol, the header begins with the page
/// type and two sizes, plain and compressed, each an i32. The checksum, field 4, comes next, and the field behind it tells
/// the distance to the field before.
fn with_checksum(header: &[u8], num_bytes: usize, checksum: u32) -> Result<Bytes> {
    let (mut end, mut begin) = (0, 0);
    for _ in 0..3 {
        begin = end;
        if header.get(end) != Some(&NEXT_I32) {
            return Err(broken("has a page header of another kind"));
        }
        let digits = header[end + 1..].iter();
        end += 2 + { digits }.take_while(|byte| **byte >= 0x80).count();
    }
    let next = header.get(end).filter(|next| **next >= 2 * ONE_FIELD);
    let next = next.ok_or_else(|| broken("has a page header with a checksum"))?;
    let num_bytes = i32::try_from(num_bytes).map_err(|_| broken("has a page beyond 2 GiB"))?;
    let mut made = Vec::with_capacity(header.len() + 11);
    made.extend_from_slice(&header[..begin]);
    push_i32(&mut made, num_bytes);
    push_i32(&mut made, checksum as i32);
    made.push(next - ONE_FIELD);
    made.extend_from_slice(&header[end + 1..]);
    Ok(made.into())
}

/// Appends the next field, an i32, in the compact protocol.
fn push_i32(made: &mut Vec<u8>, value: i32) {
    made.push(NEXT_I32);
    let mut zigzag = ((value << 1) ^ (value >> 31)) as u32;
    while zigzag >= 0x80 {
        made.push(zigzag as u8 | 0x80);
        zigzag >>= 7;
    }
    made.push(zigzag as u8);
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error for an encoder that behaves differently than when this was written.
fn broken(what: &str) -> ParquetError {
    ParquetError::General(format!("the encoder {what}; please report this"))
}
