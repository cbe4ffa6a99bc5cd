//! How large values are that are stored as what they share with the one before, and the rest: a few are decoded.
//!
//! The footer tells the size of what is stored, and some writers do not count repeated values in its statistics either
//! (pyarrow 26): 300 texts of 1 MB were said to have 1 MB, and a plan for them took 564 MB within 300.

use std::sync::Arc;

use arrow_array::Array;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
    RowSelector,
};
use parquet::arrow::ProjectionMask;
use parquet::basic::Encoding;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use super::pages;
use super::regions::regions;
use super::windows::{Access, Windows, MIN_WINDOW};
use crate::direct::RangeReader;

/// Rows of the first page that are decoded, each by itself.
const PROBED_ROWS: u64 = 8;
/// No larger page is decoded for this. Such pages are planned for by their own size.
const MOST_PAGE_BYTES: u64 = 16 << 20;

/// Whether values of a column chunk may be stored so.
pub(super) fn shares(column: &ColumnChunkMetaData) -> bool {
    { column.encodings() }.any(|encoding| encoding == Encoding::DELTA_BYTE_ARRAY)
}

/// About what the values of a column chunk have in all; `None` where they do not share anything, or cannot be decoded.
pub(super) fn decoded_bytes(
    file: &Arc<RangeReader>,
    metadata: &Arc<ParquetMetaData>,
    group: usize,
    leaf: usize,
) -> Option<u64> {
    let rows = metadata.row_group(group).num_rows().max(0) as u64;
    let column = metadata.row_group(group).column(leaf);
    if !shares(column) || rows == 0 {
        return None;
    }
    let first = pages::first_data(file, column)?;
    if first.bytes > MOST_PAGE_BYTES {
        return None;
    }
    let values = column.num_values().max(1) as u64;
    let together = u128::from(rows) * u128::from(first.values) / u128::from(values);
    let together = u64::try_from(together).ok()?.clamp(1, rows);
    let picked = PROBED_ROWS.min(together);
    let selection = evenly(together, picked);
    let bytes = bytes_of_rows(file, metadata, (group, leaf), selection)?;
    let mean = u128::from(bytes) * u128::from(rows) / u128::from(picked);
    u64::try_from(mean).ok()
}

/// So many of the first rows, at regular distances.
fn evenly(rows: u64, picked: u64) -> RowSelection {
    let distance = (rows / picked) as usize;
    let one = [RowSelector::select(1), RowSelector::skip(distance - 1)];
    one.repeat(picked as usize).into()
}

/// What the selected rows have of one leaf. One is in memory at a time.
fn bytes_of_rows(
    file: &Arc<RangeReader>,
    metadata: &Arc<ParquetMetaData>,
    (group, leaf): (usize, usize),
    selection: RowSelection,
) -> Option<u64> {
    // Without the types that the writer had, all of these are offsets and bytes.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let arrow = ArrowReaderMetadata::try_new(metadata.clone(), options).ok()?;
    let regions = regions(metadata, &[group], &[leaf], MOST_PAGE_BYTES);
    let windows = Windows::over(file.clone(), regions, Access::Sparse(MIN_WINDOW));
    let mask = ProjectionMask::leaves(arrow.parquet_schema(), [leaf]);
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(windows, arrow)
        .with_row_groups(vec![group])
        .with_projection(mask)
        .with_row_selection(selection)
        .with_batch_size(1);
    let mut bytes = 0;
    for batch in reader.build().ok()? {
        for column in batch.ok()?.columns() {
            bytes += column.to_data().get_slice_memory_size().ok()? as u64;
        }
    }
    Some(bytes)
}
