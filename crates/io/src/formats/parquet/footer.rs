//! Reads the footer of a Parquet file: schema, row groups, sizes, encodings.

use std::collections::BTreeMap;
use std::sync::Arc;

use parquet::basic::{Encoding, Type};
use parquet::file::metadata::{
    ColumnChunkMetaData, FooterTail, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData,
};
use parquet::file::reader::ChunkReader;
use parquet::file::FOOTER_SIZE;

use super::chunk::Chunk;
use super::columns::TOGETHER_BYTES;
use super::mended::mended;
use super::pages;
use super::shared_prefixes::{self, Decoded, Prefixed};
use super::types;
use super::uneven::{self, PageRuns};
use super::windows::{Access, Windows};
use super::FORMAT;
use crate::direct::RangeReader;
use crate::error::{IoError, Result};
use crate::source::{FileInfo, Group, LargePages, RowLimit, Working};
use crate::turns::Turn;

/// Footers are mostly smaller than this, so that one read finds them whole.
const TAIL_BYTES: u64 = 64 << 10;
/// Larger footers are inspected one at a time, and plans count them. Sixteen threads with one of 5 MB each took 500 MB.
const SHARED_BYTES: u64 = 2 << 20;
/// Bytes of the length of a value that has any length.
const LENGTH_BYTES: u64 = 4;
/// No page has fewer bytes, with its header, or more values: their number has 31 bits.
const LEAST_PAGE_BYTES: u64 = 10;
const MOST_OF_PAGE: u64 = 1 << 31;
/// Copies of a value that shares its beginning with the one before, beside its page and the row. The decoder makes the value
/// and copies it, and so does a writer. With two copies, values of 20 MB took 325 MB within 300.
const VALUE_COPIES: u64 = 4;
/// Memory of a row, in its sizes. Where a page is too large to be inspected, each of its values may be as long as the page.
const ROW_COPIES: u64 = 7;

/// Reads and decodes the footer.
pub(super) fn load(file: &Arc<RangeReader>) -> Result<Arc<ParquetMetaData>> {
    decoded(file, &tail(file))
}

/// The same for a look at the footer, for which no task has set memory apart. Large ones are in memory one at a time: as
/// long as their turn is held.
pub(super) fn load_in_turn(
    file: &Arc<RangeReader>,
) -> Result<(Arc<ParquetMetaData>, Option<Turn>)> {
    let tail = tail(file);
    let turn = turn(told_length(file, &tail));
    Ok((decoded(file, &tail)?, turn))
}

/// Waits for the turn if a footer of so many bytes is large.
fn turn(length: u64) -> Option<Turn> {
    (length > SHARED_BYTES).then(Turn::take)
}

/// The end of the file, which the footer is read from.
fn tail(file: &Arc<RangeReader>) -> Windows {
    let tail = Chunk {
        start: file.len().saturating_sub(TAIL_BYTES),
        end: file.len(),
        lane: 0,
    };
    let access = Access::Sparse(2 * TAIL_BYTES as usize);
    Windows::new(file.clone(), vec![tail], 1, access)
}

/// The bytes of the footer as the end of the file tells them; 0 where that is damaged.
fn told_length(file: &RangeReader, tail: &Windows) -> u64 {
    let end = { file.len().checked_sub(FOOTER_SIZE as u64) }
        .and_then(|start| tail.get_bytes(start, FOOTER_SIZE).ok());
    end.and_then(|end| FooterTail::try_from(end.as_ref()).ok())
        .map_or(0, |end| end.metadata_length() as u64)
}

fn decoded(file: &RangeReader, tail: &Windows) -> Result<Arc<ParquetMetaData>> {
    let metadata = ParquetMetaDataReader::new().parse_and_finish(tail);
    let metadata = metadata.or_else(|e| mended_footer(file, tail).ok_or(e));
    let metadata = metadata.map_err(|e| IoError::corrupt(file.path(), FORMAT, e))?;
    check(file, &metadata)?;
    Ok(Arc::new(metadata))
}

/// Decodes a footer that has to be mended.
fn mended_footer(file: &RangeReader, tail: &Windows) -> Option<ParquetMetaData> {
    let length = told_length(file, tail);
    let start = file.len().checked_sub(FOOTER_SIZE as u64 + length)?;
    let footer = file.read(start, usize::try_from(length).ok()?).ok()?;
    ParquetMetaDataReader::decode_metadata(&mended(&footer)?).ok()
}

/// Refuses numbers that cannot be, because the decoder trusts them.
fn check(file: &RangeReader, metadata: &ParquetMetaData) -> Result<()> {
    let corrupt = |reason: String| Err(IoError::corrupt(file.path(), FORMAT, reason));
    let mut rows = 0_i64;
    for group in metadata.row_groups() {
        if group.num_rows() < 0 {
            return corrupt(format!("a row group claims {} rows", group.num_rows()));
        }
        rows = rows.saturating_add(group.num_rows());
        for column in group.columns() {
            let start = column
                .dictionary_page_offset()
                .unwrap_or_else(|| column.data_page_offset());
            let end = start.checked_add(column.compressed_size());
            let inside = start >= 0
                && column.compressed_size() >= 0
                && end.is_some_and(|end| end as u64 <= file.len());
            if !inside || column.num_values() < 0 || column.uncompressed_size() < 0 {
                return corrupt(format!(
                    "column '{}' lies outside of the file",
                    column.column_path().string()
                ));
            }
            let pages = column.compressed_size() as u64 / LEAST_PAGE_BYTES + 1;
            let most = pages.saturating_mul(MOST_OF_PAGE);
            let claimed = group.num_rows().max(column.num_values()) as u64;
            if claimed > most {
                return corrupt(format!(
                    "column '{}' claims {claimed} values, and its {} bytes can hold {most} at most",
                    column.column_path().string(),
                    column.compressed_size()
                ));
            }
        }
    }
    if rows != metadata.file_metadata().num_rows() {
        return corrupt(format!(
            "{} rows declared but the row groups have {rows}",
            metadata.file_metadata().num_rows()
        ));
    }
    Ok(())
}

/// The memory of a large footer: its bytes, and its facts. A reader has it as long as it reads, and each task another.
fn held(length: u64, metadata: &ParquetMetaData) -> Vec<Working> {
    let working = Working {
        column: None,
        bytes: length.saturating_add(metadata.memory_size() as u64),
        row_bytes: 0,
    };
    { (length > SHARED_BYTES).then_some(working).into_iter() }.collect()
}

/// Inspects one Parquet file. Among pages of values that share prefixes, one in `one_of` is inspected.
pub(super) fn inspect(
    file: &Arc<RangeReader>,
    one_of: impl FnOnce() -> u64,
    is_alone: bool,
    max_footer: Option<RowLimit>,
) -> Result<FileInfo> {
    let tail = tail(file);
    let length = told_length(file, &tail);
    if let Some(limit) = max_footer.filter(|limit| length > limit.row_bytes) {
        return Err(IoError::LargeFooter {
            path: file.path().to_path_buf(),
            bytes: length,
            limit_bytes: limit.row_bytes,
            enough_bytes: limit.enough_bytes(length),
        });
    }
    let _turn = turn(length);
    let metadata = decoded(file, &tail)?;
    drop(tail);
    let schema = types::declared(file, &metadata)?.schema().clone();
    let prefixed = shared_prefixes::look(file, &metadata, one_of, is_alone)?;
    let looked = look(file, &metadata, &prefixed);
    let groups = { metadata.row_groups().iter() }
        .zip(looked.chunks)
        .zip(&prefixed.groups);
    let groups: Vec<Group> = groups
        .flat_map(|((group, chunks), sharing)| parts(file, group, chunks, sharing))
        .collect();
    Ok(FileInfo {
        rows: Some(Group::rows(&groups)),
        memory_bytes: Group::memory_bytes(&groups),
        dictionary_columns: dictionary_columns(&metadata, schema.fields().len()),
        schema,
        groups,
        working: looked.working,
        pages: looked.pages,
        held: held(length, &metadata),
        hides_sizes: !prefixed.is_exact,
    })
}

/// Cuts a row group into parts in which all rows are about as large.
fn parts(
    file: &RangeReader,
    group: &RowGroupMetaData,
    mut chunks: Vec<(usize, PageRuns)>,
    sharing: &[(usize, Decoded)],
) -> Vec<Group> {
    let rows = group.num_rows() as u64;
    let columns = group.columns().iter();
    let mut sizes: Vec<u64> = columns.map(|column| told_bytes(file, column)).collect();
    for (leaf, found) in sharing {
        let bytes = found.of_rows(rows);
        if found.is_exact {
            sizes[*leaf] = bytes;
            chunks.retain(|(other, _)| other != leaf);
            if found.runs.are_several() {
                chunks.push((*leaf, found.runs.clone()));
            }
        } else {
            sizes[*leaf] = sizes[*leaf].max(bytes);
        }
    }
    let texts = group.columns().iter().map(text_bytes);
    let whole = Group {
        rows,
        memory_bytes: sizes.iter().copied().fold(0, u64::saturating_add),
        text_bytes: texts.fold(0, u64::saturating_add),
    };
    let chunks = chunks.into_iter();
    let chunks: Vec<_> = chunks.map(|(leaf, found)| (found, sizes[leaf])).collect();
    uneven::parts(whole, &chunks)
}

/// The facts that the pages of large columns tell.
struct Looked {
    /// Columns whose decoding takes more memory than the buffers of a task.
    working: Vec<Working>,
    /// Memory of the leaves whose pages were all inspected.
    pages: Vec<LargePages>,
    /// The column chunks of these leaves, for each row group.
    chunks: Vec<Vec<(usize, PageRuns)>>,
}

fn look(file: &RangeReader, metadata: &ParquetMetaData, prefixed: &Prefixed) -> Looked {
    let schema = metadata.file_metadata().schema_descr();
    // The leaves of a column are decoded together.
    let mut peaks: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    let mut pages = Vec::new();
    let mut found = vec![Vec::new(); metadata.num_row_groups()];
    for leaf in 0..schema.num_columns() {
        let chunks = || { metadata.row_groups().iter() }.map(|group| group.column(leaf));
        let mut peak = { chunks() }
            .map(|chunk| pages::most_bytes(file, chunk))
            .fold(0, u64::max);
        let mut value = peak;
        // Inspecting 1,600 pages of 170 MB took 100 ms on a cold disk; sorting their rows took 1,700 ms.
        if peak > TOGETHER_BYTES {
            let (mut held, mut most) = (0, 0);
            value = 0;
            for (chunk, of_group) in chunks().zip(&mut found) {
                let (size, runs) = pages::decoding(file, chunk);
                held = size.held_bytes.max(held);
                most = size.peak_bytes.max(most);
                value = size.value_bytes.max(value);
                of_group.push((leaf, runs));
            }
            peak = most;
            pages.push(LargePages {
                leaf: leaf as u64,
                bytes: held,
            });
        }
        let sharing = value_bytes(prefixed, leaf);
        peak = peak.saturating_add(sharing);
        let of_column = peaks.entry(schema.get_column_root_idx(leaf)).or_default();
        of_column.0 = of_column.0.saturating_add(peak);
        of_column.1 = of_column
            .1
            .saturating_add(value.max(sharing / VALUE_COPIES));
    }
    let large = { peaks.into_iter() }.filter(|&(_, (peak, _))| peak > TOGETHER_BYTES);
    let working = |(root, (bytes, row_bytes)): (usize, (u64, u64))| Working {
        column: Some(schema.root_schema().get_fields()[root].name().to_owned()),
        bytes,
        row_bytes,
    };
    Looked {
        working: large.map(working).collect(),
        pages,
        chunks: found,
    }
}

/// Memory of a leaf's values that share prefixes, beside their pages and the rows.
fn value_bytes(prefixed: &Prefixed, leaf: usize) -> u64 {
    let bytes = |found: &Decoded| {
        let known = found.largest.saturating_mul(VALUE_COPIES);
        known.max(found.too_large.saturating_mul(ROW_COPIES))
    };
    { prefixed.groups.iter().flatten() }
        .filter(|(other, _)| *other == leaf)
        .fold(0, |most, (_, found)| bytes(found).max(most))
}

/// Bytes of a column chunk in memory, as its footer and its dictionary tell them.
pub(super) fn told_bytes(file: &RangeReader, column: &ColumnChunkMetaData) -> u64 {
    /// Values of a smaller chunk are not long on average.
    const SMALL_BYTES: u64 = 64 << 10;
    let values = column.num_values() as u64;
    let encoded = column.uncompressed_size() as u64;
    match column.column_type() {
        Type::BOOLEAN => values,
        Type::INT32 | Type::FLOAT => values.saturating_mul(4),
        Type::INT64 | Type::DOUBLE => values.saturating_mul(8),
        Type::INT96 => values.saturating_mul(12),
        Type::FIXED_LEN_BYTE_ARRAY => {
            let width = u64::try_from(column.column_descr().type_length());
            values.saturating_mul(width.unwrap_or_default())
        }
        Type::BYTE_ARRAY => match column.unencoded_byte_array_data_bytes() {
            Some(bytes) => {
                let bytes = u64::try_from(bytes).unwrap_or(encoded);
                bytes.saturating_add(values.saturating_mul(LENGTH_BYTES))
            }
            None if is_dictionary(column) => {
                let mean = match pages::dictionary(file, column) {
                    Some((number, bytes)) if encoded >= SMALL_BYTES => bytes / number.max(1),
                    _ => 0,
                };
                // No value is assumed to be longer than the whole chunk.
                encoded.max(values.saturating_mul(mean.clamp(16, encoded.max(16))))
            }
            None => encoded,
        },
    }
}

/// Bytes of the values of any length in a column chunk, at least, without their lengths. Dictionaries have each value once,
/// so that they tell less.
fn text_bytes(column: &ColumnChunkMetaData) -> u64 {
    if column.column_type() != Type::BYTE_ARRAY {
        return 0;
    }
    let lengths = (column.num_values() as u64).saturating_mul(LENGTH_BYTES);
    let stored = (column.uncompressed_size() as u64).saturating_sub(lengths);
    let told = column.unencoded_byte_array_data_bytes();
    told.and_then(|bytes| u64::try_from(bytes).ok())
        .unwrap_or(stored)
}

/// Says for each top-level column whether it is dictionary encoded in every chunk of every leaf.
fn dictionary_columns(metadata: &ParquetMetaData, columns: usize) -> Vec<bool> {
    let schema = metadata.file_metadata().schema_descr();
    let mut all = vec![
        metadata
            .row_groups()
            .iter()
            .any(|group| group.num_rows() > 0);
        columns
    ];
    for group in metadata
        .row_groups()
        .iter()
        .filter(|group| group.num_rows() > 0)
    {
        for (leaf, column) in group.columns().iter().enumerate() {
            if let Some(all) = all.get_mut(schema.get_column_root_idx(leaf)) {
                *all &= is_dictionary(column);
            }
        }
    }
    all
}

/// Whether all data pages of a chunk are dictionary encoded.
fn is_dictionary(column: &ColumnChunkMetaData) -> bool {
    let is_index = |encoding: Encoding| {
        matches!(
            encoding,
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY
        )
    };
    match column.page_encoding_stats_mask() {
        Some(pages) => {
            pages.is_only(Encoding::RLE_DICTIONARY) || pages.is_only(Encoding::PLAIN_DICTIONARY)
        }
        // Without statistics per page, the chunk must have no encoding of values but that of the dictionary page itself.
        None => {
            column.dictionary_page_offset().is_some()
                && column.encodings().any(is_index)
                && column
                    .encodings()
                    .all(|e| is_index(e) || matches!(e, Encoding::PLAIN | Encoding::RLE))
        }
    }
}
