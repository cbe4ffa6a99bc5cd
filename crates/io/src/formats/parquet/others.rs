//! Tells whether a reader of others, such as that of DuckDB, makes the same of some columns of a file.
//!
//! Such a reader looks at no checksums, believes the sizes that pages declare, and reads on behind a chunk that ends early.
//! Guarantee: what it could take otherwise than ours is looked for before. Columns have the types that are asked for, stored
//! in the usual way. Pages lie one behind the other, and declare sizes that can be and are not large. They have as many
//! values as their group has rows, and match their checksums where they have some. In doubt the answer is no.

use std::sync::Arc;

use arrow_schema::Field;
use parquet::basic::{Compression, ConvertedType, Encoding, LogicalType, Type};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::statistics::Statistics;
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

use super::footer;
use super::page_header::PageSize;
use super::pages::{pages, Declared};
use super::spread::{has_signed_order, leaf_of};
use super::types;
use crate::direct::RangeReader;
use crate::error::Result;
use crate::source::in_parallel;

/// Larger pages are left to our reader, which declares their memory. Every page of this size is decoded anyhow.
const MOST_PAGE_BYTES: u64 = 25_000_000;
/// Values of a page may take no bytes at all: DuckDB sets room apart for all of some encodings.
const MOST_PAGE_VALUES: u64 = 4 << 20;
/// Values of the dictionaries of a row group, in the memory of DuckDB, which does not count them.
const MOST_DICTIONARY_BYTES: u64 = 32 << 20;
/// A text in a dictionary takes so much of that.
const TEXT_BYTES: u64 = 16;
/// Checksums are made of pieces of this size.
const PIECE_BYTES: u64 = 1 << 20;
/// The row groups of smaller files are looked at by one thread.
const MANY_BYTES: u64 = 8 << 20;

/// Whether these columns can be left to another reader, which holds row groups of at most so many bytes as they are stored.
pub(super) fn are_open(
    file: &Arc<RangeReader>,
    columns: &[&Field],
    group_bytes: u64,
) -> Result<bool> {
    let (metadata, _turn) = footer::load_in_turn(file)?;
    let declared = types::declared(file, &metadata)?;
    let descriptor = metadata.file_metadata().schema_descr();
    if has_like_names(descriptor) {
        return Ok(false);
    }
    let leaves: Option<Vec<usize>> = { columns.iter() }
        .map(|column| {
            let (leaf, of_file) = leaf_of(descriptor, declared.schema(), column)?;
            let is_same = of_file.data_type() == column.data_type();
            (is_same && has_usual_type(&descriptor.column(leaf))).then_some(leaf)
        })
        .collect();
    let Some(leaves) = leaves else {
        return Ok(false);
    };
    let all = metadata.row_groups();
    let parts: Vec<&[RowGroupMetaData]> = if file.len() < MANY_BYTES {
        vec![all]
    } else {
        all.chunks(1).collect()
    };
    let found = in_parallel(&parts, |groups| {
        let is_open =
            |group| stored(group, &leaves) <= group_bytes && is_sound(file, group, &leaves);
        Ok(groups.iter().all(is_open))
    })?;
    Ok(found.into_iter().all(|is| is))
}

/// Whether names of columns differ by case alone: others take `a` and `A` for one name.
fn has_like_names(file: &SchemaDescriptor) -> bool {
    let mut names: Vec<String> = { file.root_schema().get_fields().iter() }
        .map(|field| field.name().to_lowercase())
        .collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

/// Whether all readers take the stored values for the same.
fn has_usual_type(column: &ColumnDescriptor) -> bool {
    match column.physical_type() {
        Type::BOOLEAN | Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE => true,
        // Others take JSON, names of enumerations and texts without a mark for types of their own.
        Type::BYTE_ARRAY => match column.logical_type_ref() {
            None => column.converted_type() == ConvertedType::UTF8,
            Some(kind) => *kind == LogicalType::String,
        },
        // Decimals of 128 bits.
        Type::FIXED_LEN_BYTE_ARRAY => column.type_length() <= 16,
        // Readers differ in the years that such a time can have.
        Type::INT96 => false,
    }
}

/// The bytes of these columns in the file.
fn stored(group: &RowGroupMetaData, leaves: &[usize]) -> u64 {
    let chunks = leaves.iter().map(|&leaf| group.column(leaf));
    chunks.map(|chunk| chunk.byte_range().1).sum()
}

/// Whether the chunks of these columns are as the footer tells.
fn is_sound(file: &RangeReader, group: &RowGroupMetaData, leaves: &[usize]) -> bool {
    let rows = group.num_rows() as u64;
    let mut dictionary_bytes = 0;
    leaves.iter().all(|&leaf| {
        let found = dictionary_of_sound(file, group.column(leaf), rows);
        dictionary_bytes += found.unwrap_or(0);
        found.is_some() && dictionary_bytes <= MOST_DICTIONARY_BYTES
    })
}

/// The memory for the dictionary of a chunk that has so many values and is as the footer tells; `None` of another chunk.
fn dictionary_of_sound(file: &RangeReader, column: &ColumnChunkMetaData, rows: u64) -> Option<u64> {
    let is_usual = has_usual_pages(column) && has_usual_bounds(column);
    if column.num_values() as u64 != rows || !is_usual {
        return None;
    }
    let declared = Declared::of(column);
    let width = stored_width(column);
    let mut pages = pages(file, column);
    let (mut values, mut dictionary) = (0, None);
    while values < rows {
        let start = pages.position;
        let page = pages.next()?;
        let body = start + page.header_bytes;
        let behind = body + page.stored_bytes;
        let is_sound = behind <= declared.end.min(file.len())
            && declared.refused(page).is_none()
            && page.bytes <= MOST_PAGE_BYTES
            && (1..=MOST_PAGE_VALUES).contains(&page.values)
            && matches_checksum(file, body, page);
        if !is_sound {
            return None;
        }
        if page.is_dictionary {
            // It comes first, and data follows without a gap.
            let is_first = dictionary.is_none() && values == 0;
            if !is_first || pages.position != behind || page.values > page.bytes / width {
                return None;
            }
            dictionary = Some(page.values * width.max(TEXT_BYTES));
        } else {
            values += page.values;
        }
    }
    (values == rows).then_some(dictionary.unwrap_or(0))
}

/// Whether all readers know how its values are compressed and encoded, and values do not hide their sizes.
fn has_usual_pages(column: &ColumnChunkMetaData) -> bool {
    let is_known = matches!(
        column.compression(),
        Compression::UNCOMPRESSED
            | Compression::SNAPPY
            | Compression::GZIP(_)
            | Compression::ZSTD(_)
            | Compression::LZ4_RAW
    );
    // Values that share prefixes may be far larger than their pages, and packed levels are of old writers.
    let is_odd = |encoding| match encoding {
        Encoding::DELTA_BYTE_ARRAY => true,
        Encoding::PLAIN
        | Encoding::PLAIN_DICTIONARY
        | Encoding::RLE
        | Encoding::RLE_DICTIONARY
        | Encoding::DELTA_BINARY_PACKED
        | Encoding::DELTA_LENGTH_BYTE_ARRAY
        | Encoding::BYTE_STREAM_SPLIT => false,
        _ => column.column_descr().max_def_level() > 0,
    };
    is_known && !column.encodings().any(is_odd)
}

/// Whether others leave out rows by the bounds in the footer as a filter would. Text and unsigned numbers once had another
/// order. Floats once had bounds that NaN had spoilt, and −0.0 is no 0.0 in a Bloom filter.
fn has_usual_bounds(column: &ColumnChunkMetaData) -> bool {
    let statistics = column.statistics();
    let is_old = statistics.is_some_and(Statistics::is_min_max_deprecated);
    if matches!(column.column_type(), Type::FLOAT | Type::DOUBLE) {
        let are_bounds = statistics.is_none_or(|known| !is_old && are_numbers_in_order(known));
        return are_bounds && column.bloom_filter_offset().is_none();
    }
    !is_old || has_signed_order(column.column_descr())
}

/// Whether bounds of floats are none at all, or two numbers in their order. NaN is never in order.
fn are_numbers_in_order(statistics: &Statistics) -> bool {
    match statistics {
        Statistics::Float(known) => are_in_order(known.min_opt(), known.max_opt()),
        Statistics::Double(known) => are_in_order(known.min_opt(), known.max_opt()),
        _ => false,
    }
}

fn are_in_order<T: PartialOrd>(low: Option<&T>, high: Option<&T>) -> bool {
    match (low, high) {
        (None, None) => true,
        (Some(low), Some(high)) => low <= high,
        _ => false,
    }
}

/// The least bytes of a value in a dictionary.
fn stored_width(column: &ColumnChunkMetaData) -> u64 {
    match column.column_type() {
        Type::INT64 | Type::DOUBLE => 8,
        Type::FIXED_LEN_BYTE_ARRAY => column.column_descr().type_length().max(1) as u64,
        // Texts have a length before them.
        _ => 4,
    }
}

/// Whether a page matches its checksum, if it has one.
fn matches_checksum(file: &RangeReader, body: u64, page: PageSize) -> bool {
    let Some(checksum) = page.checksum else {
        return true;
    };
    let mut hasher = crc32fast::Hasher::new();
    let (mut at, end) = (body, body + page.stored_bytes);
    while at < end {
        let bytes = (end - at).min(PIECE_BYTES);
        let Ok(piece) = file.read(at, bytes as usize) else {
            return false;
        };
        hasher.update(&piece);
        at += bytes;
    }
    hasher.finalize() == checksum
}
