//! Tells how a file stores its columns: the codecs and sizes of column chunks, as the footer says.

use std::sync::Arc;

use parquet::basic::{Compression as Codec, Type};
use parquet::file::metadata::ColumnChunkMetaData;

use super::footer;
use crate::direct::RangeReader;
use crate::error::Result;
use crate::source::Stored;
use crate::Compression;

/// Returns the column chunks of a file, row group by row group.
pub(super) fn stored(file: &Arc<RangeReader>) -> Result<Vec<Stored>> {
    let (metadata, _turn) = footer::load_in_turn(file)?;
    let groups = metadata.row_groups().iter().enumerate();
    let chunks = groups.flat_map(|(group, found)| {
        let chunks = found.columns().iter();
        chunks.map(move |chunk| Stored {
            group,
            column: chunk.column_path().string(),
            compression: compression(chunk.compression()),
            bytes: chunk.compressed_size() as u64,
            plain_bytes: chunk.uncompressed_size() as u64,
            least_bytes: least_bytes(chunk),
        })
    });
    Ok(chunks.collect())
}

fn compression(codec: Codec) -> Compression {
    match codec {
        Codec::SNAPPY => Compression::Snappy,
        Codec::ZSTD(_) => Compression::Zstd,
        Codec::LZ4 | Codec::LZ4_RAW => Compression::Lz4,
        Codec::GZIP(_) => Compression::Gzip,
        Codec::UNCOMPRESSED | Codec::BROTLI(_) | Codec::LZO => Compression::None,
    }
}

/// The least size of the values of a column chunk in plain encoding.
fn least_bytes(chunk: &ColumnChunkMetaData) -> u64 {
    let values = chunk.num_values() as u64;
    let width = match chunk.column_type() {
        Type::INT32 | Type::FLOAT => 4,
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 12,
        Type::BYTE_ARRAY => {
            // Beside the values, a chunk has a bit for each one that can be null. Where a dictionary was given up, it also
            // has indexes into the dictionary.
            let has_dictionary = chunk.dictionary_page_offset().is_some();
            let beside = if has_dictionary { 3 } else { 1 };
            return (chunk.uncompressed_size() as u64)
                .saturating_sub(values.saturating_mul(beside));
        }
        Type::BOOLEAN | Type::FIXED_LEN_BYTE_ARRAY => return 0,
    };
    let nulls = { chunk.statistics() }.and_then(|statistics| statistics.null_count_opt());
    nulls.map_or(0, |nulls| {
        values.saturating_sub(nulls).saturating_mul(width)
    })
}
