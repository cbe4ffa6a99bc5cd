//! Where the messages of an IPC file or stream are.
//!
//! The file format has a footer with the positions. In a stream, the message headers are walked and the bodies skipped.
//! Both yield the same index, so that reading does not care. Only the header of a batch tells its rows.

use std::sync::Arc;

use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::{Block, CompressionType, MessageHeader};
use arrow_schema::{DataType, SchemaRef};

use super::dictionaries;
use super::FORMAT;
use crate::direct::{RangeReader, WINDOW};
use crate::error::{IoError, Result};
use crate::source::{FileInfo, Group, Working};

const MAGIC: &[u8] = b"ARROW1";
/// The beginning of a Feather file of version 1, a format of its own.
const FEATHER_1: &[u8] = b"FEA1";
const CONTINUATION: [u8; 4] = [0xFF; 4];
/// Footer length and magic at the end of a file.
const TRAILER_BYTES: u64 = 10;
/// Compressed buffers begin with their size in memory, or with a word for those that are not compressed after all.
const PREFIX_BYTES: u64 = 8;
const UNCOMPRESSED: i64 = -1;
/// Bodies up to this size are read whole to find the prefixes.
const READ_WHOLE_BYTES: u64 = 256 << 10;

/// The messages of a file.
pub(super) struct Index {
    pub(super) schema: SchemaRef,
    pub(super) dictionaries: Vec<Block>,
    pub(super) batches: Vec<Block>,
}

pub(super) fn corrupt(file: &RangeReader, reason: impl std::fmt::Display) -> IoError {
    IoError::corrupt(file.path(), FORMAT, reason)
}

/// Finds the messages.
pub(super) fn load(file: &RangeReader) -> Result<Index> {
    let start = file.read(0, file.len().min(8) as usize)?;
    if start.starts_with(MAGIC) {
        from_footer(file)
    } else if start.starts_with(FEATHER_1) {
        Err(corrupt(
            file,
            "it is Feather of version 1; pyarrow.feather.read_table reads it, and write_feather writes version 2",
        ))
    } else if start.len() == 8 {
        from_stream(file)
    } else {
        Err(corrupt(
            file,
            format!("{} bytes hold neither a file nor a stream", start.len()),
        ))
    }
}

fn from_footer(file: &RangeReader) -> Result<Index> {
    let trailer_start = file
        .len()
        .checked_sub(TRAILER_BYTES)
        .ok_or_else(|| corrupt(file, "there is no footer"))?;
    let trailer = file.read(trailer_start, TRAILER_BYTES as usize)?;
    let trailer: [u8; 10] = trailer
        .as_ref()
        .try_into()
        .map_err(|_| corrupt(file, "there is no footer"))?;
    let bytes = arrow_ipc::reader::read_footer_length(trailer).map_err(|e| corrupt(file, e))?;
    let start = trailer_start
        .checked_sub(bytes as u64)
        .ok_or_else(|| corrupt(file, "the footer exceeds the file"))?;
    let footer = file.read(start, bytes)?;
    let footer = arrow_ipc::root_as_footer(&footer).map_err(|e| corrupt(file, e))?;
    let schema = footer
        .schema()
        .ok_or_else(|| corrupt(file, "the footer has no schema"))?;
    let index = Index {
        schema: Arc::new(try_fb_to_schema(schema).map_err(|e| corrupt(file, e))?),
        dictionaries: footer.dictionaries().iter().flatten().copied().collect(),
        batches: footer.recordBatches().iter().flatten().copied().collect(),
    };
    for block in index.dictionaries.iter().chain(&index.batches) {
        extent(file, block)?;
    }
    Ok(index)
}

fn from_stream(file: &RangeReader) -> Result<Index> {
    let mut index: Option<Index> = None;
    let mut position = 0;
    while let Some(header) = header_at(file, position)? {
        let message = arrow_ipc::root_as_message(&header.message).map_err(|e| corrupt(file, e))?;
        let block = Block::new(position as i64, header.bytes as i32, message.bodyLength());
        position = extent(file, &block)?;
        match (message.header_type(), index.as_mut()) {
            (MessageHeader::Schema, None) => {
                let schema = message
                    .header_as_schema()
                    .ok_or_else(|| corrupt(file, "the schema is missing"))?;
                let schema = Arc::new(try_fb_to_schema(schema).map_err(|e| corrupt(file, e))?);
                index = Some(Index {
                    schema,
                    dictionaries: Vec::new(),
                    batches: Vec::new(),
                });
            }
            (MessageHeader::DictionaryBatch, Some(index)) => index.dictionaries.push(block),
            (MessageHeader::RecordBatch, Some(index)) => index.batches.push(block),
            (other, _) => {
                let kind = other.variant_name().unwrap_or("unknown");
                return Err(corrupt(
                    file,
                    format!(
                        "unexpected message of kind {kind} at byte {}",
                        block.offset()
                    ),
                ));
            }
        }
    }
    index.ok_or_else(|| corrupt(file, "the stream has no schema"))
}

/// Returns where a block ends. It must lie in the file and have a header.
pub(super) fn extent(file: &RangeReader, block: &Block) -> Result<u64> {
    let parts = (
        u64::try_from(block.offset()),
        u64::try_from(block.metaDataLength()),
        u64::try_from(block.bodyLength()),
    );
    if let (Ok(offset), Ok(header @ 8..), Ok(body)) = parts {
        let end = offset
            .checked_add(header)
            .and_then(|end| end.checked_add(body));
        if let Some(end) = end.filter(|&end| end <= file.len()) {
            return Ok(end);
        }
    }
    Err(corrupt(
        file,
        format!("the message at byte {} exceeds the file", block.offset()),
    ))
}

pub(super) struct Header {
    pub(super) message: Buffer,
    /// Bytes before the body.
    bytes: u64,
}

/// Returns the header of the message at `position`; `None` at the end of the stream.
pub(super) fn header_at(file: &RangeReader, position: u64) -> Result<Option<Header>> {
    let prefix = file.read(position, (file.len() - position).min(8) as usize)?;
    let word = |at: usize| prefix.get(at..at + 4).map(|b| [b[0], b[1], b[2], b[3]]);
    // Before version 0.15 there was no continuation marker.
    let (length, skipped) = match word(0) {
        None => return Ok(None),
        Some(CONTINUATION) => (
            word(4).ok_or_else(|| corrupt(file, "it ends within a message"))?,
            8,
        ),
        Some(length) => (length, 4),
    };
    match u64::try_from(i32::from_le_bytes(length)) {
        Ok(0) => Ok(None),
        Ok(length) if position + skipped + length <= file.len() => {
            let message = file.read(position + skipped, length as usize)?.into();
            Ok(Some(Header {
                message,
                bytes: skipped + length,
            }))
        }
        _ => Err(corrupt(
            file,
            format!("the message at byte {position} exceeds the file"),
        )),
    }
}

/// Returns rows and decoded bytes of a batch.
pub(super) fn group(file: &RangeReader, block: &Block) -> Result<Group> {
    let header = header_at(file, block.offset() as u64)?
        .ok_or_else(|| corrupt(file, "a batch is missing"))?;
    let message = arrow_ipc::root_as_message(&header.message).map_err(|e| corrupt(file, e))?;
    let batch = message
        .header_as_record_batch()
        .ok_or_else(|| corrupt(file, "a batch is missing"))?;
    let rows = u64::try_from(batch.length())
        .map_err(|_| corrupt(file, "a batch has a negative number of rows"))?;
    let stored = block.bodyLength() as u64;
    let decoded = match batch.compression() {
        Some(_) => decoded_bytes(file, block, &batch)?,
        None => 0,
    };
    Ok(Group {
        rows,
        memory_bytes: decoded.max(stored),
        text_bytes: decoded.max(stored),
    })
}

/// Returns the size in memory that the buffers of a compressed batch declare.
pub(super) fn decoded_bytes(
    file: &RangeReader,
    block: &Block,
    batch: &arrow_ipc::RecordBatch<'_>,
) -> Result<u64> {
    let body = block.offset() as u64 + block.metaDataLength() as u64;
    let stored = block.bodyLength() as u64;
    let whole = if stored <= READ_WHOLE_BYTES {
        Some(file.read(body, stored as usize)?)
    } else {
        None
    };
    let mut total = 0_u64;
    for buffer in batch.buffers().iter().flatten() {
        let outside = || corrupt(file, "a buffer lies outside of its message");
        let (offset, length) = (
            u64::try_from(buffer.offset()).map_err(|_| outside())?,
            u64::try_from(buffer.length()).map_err(|_| outside())?,
        );
        if offset.checked_add(length).is_none_or(|end| end > stored) {
            return Err(outside());
        }
        if length < PREFIX_BYTES {
            continue;
        }
        let prefix = match &whole {
            Some(body) => body.slice(offset as usize..(offset + PREFIX_BYTES) as usize),
            None => file.read(body + offset, PREFIX_BYTES as usize)?,
        };
        let declared = prefix
            .first_chunk()
            .map(|prefix| i64::from_le_bytes(*prefix));
        total = total.saturating_add(match declared {
            Some(UNCOMPRESSED) | None => length,
            Some(declared) => believed(file, declared, length, batch.compression())?,
        });
    }
    Ok(total)
}

/// Returns the bytes that a compressed buffer declares, if its bytes can hold so many.
fn believed(
    file: &RangeReader,
    declared: i64,
    stored: u64,
    compression: Option<arrow_ipc::BodyCompression<'_>>,
) -> Result<u64> {
    // The largest expansion by the shortest token for the longest run, rounded up: Zstandard takes 4 bytes for a block
    // of 128 KiB.
    let ratio = match compression.map(|compression| compression.codec()) {
        Some(CompressionType::LZ4_FRAME) => 256,
        _ => 40_000,
    };
    let most = stored * ratio;
    match u64::try_from(declared) {
        Ok(bytes) if bytes <= most => Ok(bytes),
        _ => {
            let reason = format!(
                "a buffer claims to have {declared} bytes, and its {stored} bytes in the file can hold {most} at most"
            );
            Err(corrupt(file, reason))
        }
    }
}

/// Checks the buffers of a message. The decoder panics on buffers outside of the message, and allocates whatever length
/// a compressed buffer claims to have.
pub(super) fn check_buffers(file: &RangeReader, block: &Block, content: &[u8]) -> Result<()> {
    let skipped = if content.starts_with(&CONTINUATION) {
        8
    } else {
        4
    };
    let message = arrow_ipc::root_as_message(content.get(skipped..).unwrap_or(&[]));
    let message = message.map_err(|e| corrupt(file, e))?;
    let dictionary = message
        .header_as_dictionary_batch()
        .and_then(|dictionary| dictionary.data());
    let Some(batch) = message.header_as_record_batch().or(dictionary) else {
        return Err(corrupt(
            file,
            format!("the message at byte {} has no rows", block.offset()),
        ));
    };
    let body = content
        .get(block.metaDataLength() as usize..)
        .unwrap_or(&[]);
    for buffer in batch.buffers().iter().flatten() {
        let bytes = slice(body, buffer.offset(), buffer.length());
        let bytes = bytes.ok_or_else(|| corrupt(file, "a buffer lies outside of its message"))?;
        let Some(prefix) = bytes
            .first_chunk()
            .filter(|_| batch.compression().is_some())
        else {
            continue;
        };
        let declared = i64::from_le_bytes(*prefix);
        if declared != UNCOMPRESSED {
            believed(file, declared, bytes.len() as u64, batch.compression())?;
        }
    }
    Ok(())
}

fn slice(body: &[u8], offset: i64, length: i64) -> Option<&[u8]> {
    let (offset, length) = (usize::try_from(offset).ok()?, usize::try_from(length).ok()?);
    body.get(offset..offset.checked_add(length)?)
}

/// Returns the listing of one IPC file.
pub(super) fn inspect(file: &Arc<RangeReader>) -> Result<FileInfo> {
    let index = load(file)?;
    let groups: Vec<Group> = index
        .batches
        .iter()
        .map(|block| group(file, block))
        .collect::<Result<_>>()?;
    let held = dictionaries::held(file, &index)?;
    let is_dictionary =
        |field: &Arc<arrow_schema::Field>| matches!(field.data_type(), DataType::Dictionary(..));
    Ok(FileInfo {
        rows: Some(Group::rows(&groups)),
        memory_bytes: Group::memory_bytes(&groups),
        dictionary_columns: index.schema.fields().iter().map(is_dictionary).collect(),
        schema: index.schema,
        working: working(&index.batches, &groups),
        pages: Vec::new(),
        held,
        groups,
        hides_sizes: false,
    })
}

/// Returns what a reader holds of the largest batch: its bytes, and their decoded form if they are compressed.
fn working(blocks: &[Block], groups: &[Group]) -> Vec<Working> {
    /// Several smaller batches are read at a time.
    const LARGE_BYTES: u64 = 4 * WINDOW as u64;
    let sizes = blocks.iter().zip(groups).map(|(block, group)| {
        let stored = block.bodyLength() as u64;
        // Where nothing is compressed, columns are parts of the bytes that were read.
        if stored == group.memory_bytes {
            stored
        } else {
            stored + group.memory_bytes
        }
    });
    let large = sizes.max().filter(|&bytes| bytes > LARGE_BYTES);
    let row_bytes = groups.iter().map(|group| group.memory_bytes).max();
    let working = |bytes| Working {
        column: None,
        bytes,
        row_bytes: row_bytes.unwrap_or_default(),
    };
    large.map(working).into_iter().collect()
}
