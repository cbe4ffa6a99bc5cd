//! Leaves dictionaries out of the description of a file where no page that is read refers to them.
//!
//! The decoder reads and copies each dictionary that it knows of. Writers give one up when it has a megabyte, and write the
//! values behind it out. An epoch of 29 columns of numbers in 0.4 GB, as pyarrow writes them, read 0.69 GB, and reads 0.55.

use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};

/// Returns the description in which chunks begin behind their dictionaries. `behind` tells where that is, for a row group
/// and a leaf; `None` for chunks that stay as they are.
pub(super) fn without_dictionaries(
    metadata: ParquetMetaData,
    behind: impl Fn(usize, usize) -> Option<u64>,
) -> ParquetMetaData {
    let mut builder = metadata.into_builder();
    let groups = builder.take_row_groups().into_iter().enumerate();
    let groups = groups.map(|(group, whole)| of_group(whole, |leaf| behind(group, leaf)));
    builder.set_row_groups(groups.collect()).build()
}

fn of_group(group: RowGroupMetaData, behind: impl Fn(usize) -> Option<u64>) -> RowGroupMetaData {
    if (0..group.num_columns()).all(|leaf| behind(leaf).is_none()) {
        return group;
    }
    let whole = group.clone();
    let mut builder = group.into_builder();
    let columns = builder.take_columns().into_iter().enumerate();
    let columns = columns.map(|(leaf, column)| match behind(leaf) {
        Some(start) => from(start, column),
        None => Some(column),
    });
    let columns: Option<Vec<_>> = columns.collect();
    let cut = columns.and_then(|columns| builder.set_column_metadata(columns).build().ok());
    // With all its dictionaries a group is right, too.
    cut.unwrap_or(whole)
}

/// Returns the description of a chunk from its first data page on.
fn from(start: u64, column: ColumnChunkMetaData) -> Option<ColumnChunkMetaData> {
    let (begin, bytes) = column.byte_range();
    let left = (begin + bytes).checked_sub(start)?;
    let builder = column.into_builder().set_dictionary_page_offset(None);
    let builder = builder.set_data_page_offset(i64::try_from(start).ok()?);
    let builder = builder.set_total_compressed_size(i64::try_from(left).ok()?);
    builder.build().ok()
}
