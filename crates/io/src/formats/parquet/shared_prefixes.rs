//! Measures values that are stored as a prefix shared with the value before, and a suffix, by the lengths in their pages.
//!
//! The footer tells the stored size, and some writers do not count repeated values in its statistics either (pyarrow 26). It
//! declared 1 MB for 300 texts of 1 MB, and a plan for them took 564 MB within 300. A few values do not tell either: behind
//! 100,000 short texts, those texts took 627 MB.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use parquet::column::page::PageReader;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::serialized_reader::SerializedPageReader;

use super::located::Located;
use super::page_limits::PageLimits;
use super::pages::{dictionary, shares};
use super::regions::regions;
use super::row_sizes::{of_page, Rows, Unknown};
use super::uneven::PageRuns;
use super::windows::{Access, Windows};
use super::FORMAT;
use crate::direct::RangeReader;
use crate::error::{IoError, Result};
use crate::source::in_parallel;

/// Bytes that are read at once: a page of 1 MiB, which most writers do not exceed.
const WINDOW_BYTES: usize = 1 << 20;
/// The largest page that is decompressed when files are listed, several at once.
const MOST_PAGE_BYTES: u64 = 16 << 20;
/// The largest page that is decompressed when a file is listed, one at a time.
const MOST_ALONE_BYTES: u64 = 64 << 20;
/// The lock of a thread that decompresses a large page.
static ALONE: Mutex<()> = Mutex::new(());

/// The column chunks of a file whose values may share prefixes.
#[derive(Debug, Default)]
pub(super) struct Prefixed {
    /// For each row group: leaves, and the sizes of their decoded rows.
    pub(super) groups: Vec<Vec<(usize, Decoded)>>,
    /// Whether the size of each row is known.
    pub(super) is_exact: bool,
}

/// Inspects all pages, or one in `one_of`, which then gives an estimate; on several threads if only one file is inspected.
///
/// # Errors
/// A page is not what its header declares.
pub(super) fn look(
    file: &Arc<RangeReader>,
    metadata: &Arc<ParquetMetaData>,
    one_of: impl FnOnce() -> u64,
    is_alone: bool,
) -> Result<Prefixed> {
    let groups = metadata.row_groups();
    let mut prefixed = Prefixed {
        groups: vec![Vec::new(); groups.len()],
        is_exact: true,
    };
    let sharing: Vec<(usize, usize)> = { groups.iter().enumerate() }
        .flat_map(|(number, group)| {
            let leaves = (0..group.num_columns()).filter(|&leaf| shares(group.column(leaf)));
            leaves.map(move |leaf| (number, leaf))
        })
        .collect();
    if sharing.is_empty() {
        return Ok(prefixed);
    }
    let one_of = one_of();
    let look = |&chunk: &(usize, usize)| look_at(file, metadata, chunk, one_of);
    let found = if is_alone {
        in_parallel(&sharing, look)?
    } else {
        sharing.iter().map(look).collect::<Result<_>>()?
    };
    for ((number, leaf), found) in sharing.into_iter().zip(found) {
        prefixed.is_exact &= found.is_exact;
        prefixed.groups[number].push((leaf, found));
    }
    Ok(prefixed)
}

/// Inspects all rows of a chunk. Its pages may be larger if no other thread inspects large pages meanwhile.
fn look_at(
    file: &Arc<RangeReader>,
    metadata: &Arc<ParquetMetaData>,
    chunk: (usize, usize),
    one_of: u64,
) -> Result<Decoded> {
    let look = |max_page_bytes| {
        let scope = Scope {
            one_of,
            max_page_bytes,
            rows: 0..metadata.row_group(chunk.0).num_rows().max(0) as u64,
        };
        decoded(file, metadata, chunk, scope)
    };
    let found = look(MOST_PAGE_BYTES)?;
    if found.too_large == 0 {
        return Ok(found);
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    look(MOST_ALONE_BYTES)
}

/// The part of a chunk that is inspected.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    /// One in this many pages.
    pub(super) one_of: u64,
    /// Only pages with at most this many bytes.
    pub(super) max_page_bytes: u64,
    /// Rows of the row group.
    pub(super) rows: Range<u64>,
}

/// Sizes of the rows of a column chunk once they are decoded.
#[derive(Debug, Clone)]
pub(super) struct Decoded {
    /// Bytes of the inspected rows.
    pub(super) bytes: u64,
    looked: u64,
    /// Bytes of the largest row.
    pub(super) largest: u64,
    /// The places of large rows.
    pub(super) runs: PageRuns,
    /// Whether each row was inspected, up to the row where reading ends, too.
    pub(super) is_exact: bool,
    /// Bytes of a page that is too large to be inspected; 0 if there is none.
    pub(super) too_large: u64,
    wanted: Range<u64>,
    /// The number of the next row.
    next: u64,
    /// Bytes found so far of the row before, which may go on.
    open: Option<u64>,
}

/// Measures the rows of a column chunk as they are once decoded; the chunk is given by group and leaf.
///
/// # Errors
/// A page is not what its header declares.
pub(super) fn decoded(
    file: &Arc<RangeReader>,
    metadata: &Arc<ParquetMetaData>,
    (group, leaf): (usize, usize),
    scope: Scope,
) -> Result<Decoded> {
    let column = metadata.row_group(group).column(leaf);
    let descriptor = column.column_descr();
    let regions = regions(
        metadata,
        &[group],
        &[leaf],
        &Located::default(),
        PageLimits::at_most(scope.max_page_bytes),
    );
    let windows = Windows::over(file.clone(), regions, Access::Sparse(WINDOW_BYTES));
    let mean = dictionary(file, column).map_or(0, |(count, bytes)| bytes / count.max(1));
    let rows = metadata.row_group(group).num_rows().max(0) as usize;
    let mut found = Decoded::of(scope.rows);
    let pages = SerializedPageReader::new(Arc::new(windows.clone()), column, rows, None);
    let mut pages = pages.map_err(|e| IoError::corrupt(file.path(), FORMAT, e))?;
    let mut number = 0;
    while let Ok(Some(page)) = pages.peek_next_page() {
        let levels = page.num_levels.unwrap_or_default() as u64;
        // Where rows are lists, only their levels tell the number of rows in a page.
        let is_outside = descriptor.max_rep_level() == 0 && found.is_outside(levels);
        if page.is_dict || is_outside || number % scope.one_of > 0 {
            found.is_exact &= page.is_dict || is_outside;
            found.pass(levels);
            if pages.skip_next_page().is_err() {
                break;
            }
        } else {
            let Ok(Some(page)) = pages.get_next_page() else {
                break;
            };
            match of_page(&page, descriptor, mean, &mut found) {
                Ok(()) => {}
                Err(Unknown::Broken) => break,
                Err(Unknown::Lengths(count)) => {
                    let reason = format!("a page of {levels} values has the lengths of {count}");
                    return Err(IoError::corrupt(file.path(), FORMAT, reason));
                }
                Err(Unknown::Levels) => {
                    let reason = "a page of DELTA_BYTE_ARRAY has levels in BIT_PACKED, which hide how large its values are";
                    return Err(IoError::corrupt(file.path(), FORMAT, reason));
                }
            }
        }
        number += u64::from(!page.is_dict);
    }
    found.close();
    if let Some(IoError::LargePage { bytes, .. }) = windows.failure() {
        (found.is_exact, found.too_large) = (false, bytes);
    }
    Ok(found)
}

impl Decoded {
    fn of(wanted: Range<u64>) -> Self {
        Self {
            bytes: 0,
            looked: 0,
            largest: 0,
            runs: PageRuns::of(0),
            is_exact: true,
            too_large: 0,
            wanted,
            next: 0,
            open: None,
        }
    }

    /// Estimates the bytes of this many rows, if they are like the inspected rows.
    pub(super) fn of_rows(&self, rows: u64) -> u64 {
        let bytes = u128::from(self.bytes) * u128::from(rows) / u128::from(self.looked.max(1));
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Whether none of the next `rows` rows is wanted.
    fn is_outside(&self, rows: u64) -> bool {
        self.next >= self.wanted.end || self.next.saturating_add(rows) <= self.wanted.start
    }

    /// Skips rows without inspecting them.
    fn pass(&mut self, rows: u64) {
        self.close();
        self.next = self.next.saturating_add(rows);
    }

    /// Ends the row before, to which nothing more belongs.
    fn close(&mut self) {
        let number = self.next.wrapping_sub(1);
        if let Some(bytes) = self.open.take().filter(|_| self.wanted.contains(&number)) {
            self.bytes = self.bytes.saturating_add(bytes);
            self.looked += 1;
            self.largest = self.largest.max(bytes);
            self.runs.push(1, bytes);
        }
    }
}

impl Rows for Decoded {
    fn add(&mut self, begins: bool, bytes: u64) {
        if begins {
            self.close();
            self.next = self.next.saturating_add(1);
        }
        self.open = Some(self.open.unwrap_or(0).saturating_add(bytes));
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::builder::{ListBuilder, StringBuilder};
    use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;
    use parquet::basic::{Compression, ZstdLevel};
    use parquet::file::properties::{WriterProperties, WriterVersion};

    use parquet::basic::Encoding;

    use super::super::footer;
    use super::super::pages::Declared;
    use super::*;

    type Opened = (
        tempfile::NamedTempFile,
        Arc<RangeReader>,
        Arc<ParquetMetaData>,
    );

    /// A file with this column, in pages of about 100 rows.
    fn file(column: ArrayRef, version: WriterVersion, compression: Compression) -> Opened {
        let batch = RecordBatch::try_from_iter([("s", column)]).unwrap();
        let properties = WriterProperties::builder()
            .set_encoding(Encoding::DELTA_BYTE_ARRAY)
            .set_dictionary_enabled(false)
            .set_writer_version(version)
            .set_compression(compression)
            .set_data_page_row_count_limit(100)
            .set_write_batch_size(50)
            .build();
        let file = tempfile::NamedTempFile::new().unwrap();
        let sink = file.reopen().unwrap();
        let mut writer = ArrowWriter::try_new(sink, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let reader = Arc::new(RangeReader::open(file.path()).unwrap());
        let metadata = footer::load(&reader).unwrap();
        (file, reader, metadata)
    }

    fn bytes_of((_, file, metadata): &Opened, rows: Range<u64>) -> (u64, u64) {
        let scope = Scope {
            one_of: 1,
            max_page_bytes: u64::MAX,
            rows,
        };
        let found = decoded(file, metadata, (0, 0), scope).unwrap();
        assert!(found.is_exact);
        (found.bytes, found.largest)
    }

    /// Uneven lengths; some rows have none.
    fn length(row: usize) -> Option<usize> {
        match row % 7 {
            3 => None,
            5 => Some(row * 11),
            rest => Some(rest),
        }
    }

    fn check(column: &ArrayRef, sizes: &[u64]) {
        let zstd = Compression::ZSTD(ZstdLevel::default());
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, zstd] {
                let opened = file(column.clone(), version, compression);
                let all = 0..sizes.len();
                for rows in [all, 0..1, 99..102, 250..251, 303..500, 599..600] {
                    let expected = &sizes[rows.clone()];
                    let largest = expected.iter().copied().max().unwrap();
                    let found = bytes_of(&opened, rows.start as u64..rows.end as u64);
                    assert_eq!(found, (expected.iter().sum(), largest), "{rows:?}");
                }
            }
        }
    }

    #[test]
    fn rows_have_what_they_have_whatever_is_missing() {
        let text = "x".repeat(7_000);
        let texts = (0..600).map(|row| length(row).map(|bytes| &text[..bytes]));
        let column: ArrayRef = Arc::new(texts.collect::<StringArray>());
        let sizes = (0..600).map(|row| 4 + length(row).unwrap_or(0) as u64);
        check(&column, &sizes.collect::<Vec<_>>());
    }

    #[test]
    fn rows_of_lists_have_what_their_values_have() {
        let text = "x".repeat(7_000);
        let mut lists = ListBuilder::new(StringBuilder::new());
        let mut sizes = Vec::new();
        for row in 0..600 {
            let count = row % 4;
            for value in 0..count {
                lists
                    .values()
                    .append_option(length(row + value).map(|bytes| &text[..bytes]));
            }
            lists.append(row % 5 > 0);
            let bytes = (0..count).map(|value| 4 + length(row + value).unwrap_or(0) as u64);
            let is_empty = count == 0 || row % 5 == 0;
            sizes.push(if is_empty { 4 } else { bytes.sum() });
        }
        // The values of missing lists are not written.
        let column: ArrayRef = Arc::new(lists.finish());
        assert_eq!(column.len(), sizes.len());
        check(&column, &sizes);
    }

    #[test]
    fn long_values_behind_short_ones_are_found_unless_not_all_pages_are_looked_at() {
        let long = "x".repeat(100_000);
        let texts = (0..1_000).map(|row| if row < 950 { "a" } else { long.as_str() });
        let column: ArrayRef = Arc::new(texts.map(Some).collect::<StringArray>());
        let (_file, reader, metadata) =
            file(column, WriterVersion::PARQUET_1_0, Compression::SNAPPY);
        let found = |one_of| {
            let prefixed = look(&reader, &metadata, || one_of, true).unwrap();
            let (_, found) = prefixed.groups[0][0].clone();
            (prefixed.is_exact, found.of_rows(1_000), found.largest)
        };
        assert_eq!(found(1), (true, 950 * 5 + 50 * 100_004, 100_004));
        assert_eq!(found(100), (false, 1_000 * 5, 5));
    }

    #[test]
    fn values_of_fixed_size_are_told_by_the_footer() {
        let values = (0..1_000).map(|row| (row == 0).then_some([7_u8; 200]));
        let values = FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 200);
        let column: ArrayRef = Arc::new(values.unwrap());
        let (_file, reader, metadata) =
            file(column, WriterVersion::PARQUET_1_0, Compression::SNAPPY);
        let chunk = metadata.row_group(0).column(0);
        let encodings: Vec<_> = chunk.encodings().collect();
        assert!(encodings.contains(&Encoding::DELTA_BYTE_ARRAY));
        let listed = footer::inspect(&reader, || 1, true, None).unwrap();
        assert_eq!(listed.memory_bytes, 200_000);
    }

    #[test]
    fn an_encoding_that_the_footer_hides_is_refused() {
        let column: ArrayRef = Arc::new(StringArray::from(vec!["a"; 100]));
        let (_file, reader, metadata) =
            file(column, WriterVersion::PARQUET_1_0, Compression::SNAPPY);
        let listed = metadata.row_group(0).column(0).clone();
        let hidden = { listed.clone().into_builder() }
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE])
            .build()
            .unwrap();
        let header = reader.read(listed.data_page_offset() as u64, 64).unwrap();
        let check = |column| Declared::of(column).checked(&header, |_| Ok::<_, ()>(header.clone()));
        assert!(check(&listed).unwrap().is_ok());
        let reason = check(&hidden).unwrap().unwrap_err();
        assert!(reason.contains("DELTA_BYTE_ARRAY, which the footer does not list"));
    }

    #[test]
    fn pages_that_are_too_large_are_told() {
        let column: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(100_000)]));
        let (_file, reader, metadata) =
            file(column, WriterVersion::PARQUET_1_0, Compression::SNAPPY);
        let scope = Scope {
            one_of: 1,
            max_page_bytes: 50_000,
            rows: 0..1,
        };
        let found = decoded(&reader, &metadata, (0, 0), scope).unwrap();
        assert!(!found.is_exact && found.too_large > 100_000);
    }
}
