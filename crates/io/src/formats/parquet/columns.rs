//! Chooses which columns are decoded together. Mostly all are, batch by batch. If their pages do not fit into the buffers of
//! a task, a few columns are decoded at a time, for all wanted rows.
//!
//! A page is decoded in one piece and stays in memory until its last row. 2,000 columns with pages of 320 kB took 1.2 GB
//! for a split of 62 rows. A few columns at a time take only their pages, and those rows.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::SchemaDescriptor;

use super::chunk::MIN_WINDOW;
use super::pages::held_estimate;
use crate::direct::RangeReader;
use crate::source::LargePages;

/// Most bytes of pages, dictionaries and smallest windows of columns that are decoded together: the buffers of a task. They
/// hold a dozen and a half columns with pages of 1 MiB, as most writers make them.
pub(super) const TOGETHER_BYTES: u64 = 24 << 20;
/// Memory of each column beside its pages: decoders of values and levels, and a reader of pages. Reading 10,000 columns of
/// 100 rows took 110 MB, of which their pages took 17.
const DECODER_BYTES: u64 = 8 << 10;

/// Groups the top-level columns; groups are decoded one after the other, and a large column is a group by itself.
pub(super) fn together(
    file: &RangeReader,
    metadata: &ParquetMetaData,
    groups: &[usize],
    roots: &[usize],
    known: &[LargePages],
) -> Vec<Vec<usize>> {
    let sizes = sizes(file, metadata, groups, roots, known);
    let mut together: Vec<Vec<usize>> = Vec::new();
    let mut room = 0;
    for (&root, size) in roots.iter().zip(sizes) {
        match together.last_mut() {
            Some(last) if size <= room => last.push(root),
            _ => {
                together.push(vec![root]);
                room = TOGETHER_BYTES;
            }
        }
        room = room.saturating_sub(size);
    }
    together
}

/// Memory for decoding each of the columns, beside its rows.
fn sizes(
    file: &RangeReader,
    metadata: &ParquetMetaData,
    groups: &[usize],
    roots: &[usize],
    known: &[LargePages],
) -> Vec<u64> {
    let schema = metadata.file_metadata().schema_descr();
    let mut by_root = vec![0; number_of_roots(schema)];
    for leaf in 0..schema.num_columns() {
        let root = schema.get_column_root_idx(leaf);
        if roots.binary_search(&root).is_err() {
            continue;
        }
        let columns = groups
            .iter()
            .map(|&group| metadata.row_group(group).column(leaf));
        let place = known.binary_search_by_key(&(leaf as u64), |known| known.leaf);
        let known = place.ok().map(|place| known[place].bytes);
        let (mut pages, mut stored) = (known.unwrap_or(0), 0_u64);
        for column in columns {
            if known.is_none() {
                pages = pages.max(held_estimate(file, column));
            }
            stored = stored.saturating_add(column.byte_range().1);
        }
        // A column has two windows: the one in use and the one being read.
        by_root[root] = pages
            .saturating_add(DECODER_BYTES + stored.min(2 * MIN_WINDOW as u64))
            .saturating_add(by_root[root]);
    }
    roots.iter().map(|&root| by_root[root]).collect()
}

fn number_of_roots(schema: &SchemaDescriptor) -> usize {
    schema.root_schema().get_fields().len()
}

/// Bytes of a batch's strings if each is written out; the page of a dictionary has far fewer.
pub(super) fn view_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().filter_map(bytes_of_views).sum()
}

/// Bytes of a batch if each of its strings is written out.
pub(super) fn written_out_bytes(batch: &RecordBatch) -> usize {
    let bytes =
        |array: &ArrayRef| bytes_of_views(array).unwrap_or_else(|| array.get_array_memory_size());
    batch.columns().iter().map(bytes).sum()
}

fn bytes_of_views(array: &ArrayRef) -> Option<usize> {
    match array.data_type() {
        DataType::Utf8View => Some(array.as_string_view().total_buffer_bytes_used()),
        DataType::BinaryView => Some(array.as_binary_view().total_buffer_bytes_used()),
        _ => None,
    }
}
