//! Finds the pages of the rows that are read, so that no others are.
//!
//! A split may be a part of a row group, and the footer tells only where a column of the whole group begins. The decoder
//! goes from page to page up to the first row, and its windows read what it passes. An epoch of 4 million rows in row
//! groups of a million read 3.3 GB of a file of 0.5 GB, and reads 1.2. The headers of pages are read first, which takes a
//! read of a few bytes each. Where columns are lists, headers do not tell rows, and the file's own index of pages is asked.
//!
//! Guarantee: pages whose sizes need care, and whatever is unusual, are left to the decoder, which finds and names them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use parquet::file::metadata::page_index::PageIndexProvider;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::index_reader::decode_offset_index;
use parquet::file::page_index::offset_index::{OffsetIndexMetaData, PageLocation};

use super::chunk::MIN_WINDOW;
use super::idle_dictionaries::without_dictionaries;
use super::kept_headers::Headers;
use super::page_header::PageSize;
use super::page_limits::PageLimits;
use super::pages::{pages, Declared};
use crate::direct::RangeReader;

/// No index of the pages of one chunk has more bytes: each page takes about a dozen.
const MOST_INDEX_BYTES: u64 = 1 << 20;
/// A footer with more is not copied, which the index of pages would need.
const MOST_FOOTER_BYTES: usize = 2 << 20;

/// The pages of column chunks of which not all rows are read; none for other chunks.
#[derive(Debug, Clone, Default)]
pub(super) struct Located(BTreeMap<(usize, usize), Pages>);

/// The pages of a column chunk.
#[derive(Debug, Clone)]
struct Pages {
    /// Pages up to the first one behind the rows that are read. The last one stands for the rest of the group.
    index: OffsetIndexMetaData,
    /// Bytes of the file that are needed, in their order.
    needed: Vec<Range<u64>>,
    /// The beginning of the data pages, if a dictionary before them has none of the values that are read.
    behind_dictionary: Option<u64>,
}

impl Located {
    /// Locates the pages of rows in some leaves. Row groups are given by number, with the range of rows in each.
    pub(super) fn find(
        file: &RangeReader,
        metadata: &ParquetMetaData,
        groups: impl Iterator<Item = (usize, Range<u64>)>,
        leaves: impl Iterator<Item = usize> + Clone,
        limits: PageLimits,
    ) -> Self {
        let mut found = BTreeMap::new();
        for (group, rows) in groups {
            let whole = metadata.row_group(group);
            let total = whole.num_rows().max(0) as u64;
            if rows.end - rows.start == total || metadata.memory_size() > MOST_FOOTER_BYTES {
                continue;
            }
            for leaf in leaves.clone() {
                let chunk = Looked::at(file, whole.column(leaf), rows.clone(), total, limits);
                if let Some(pages) = chunk.and_then(Looked::pages) {
                    found.insert((group, leaf), pages);
                }
            }
        }
        Self(found)
    }

    /// The footer with the places of these pages, by which the decoder goes.
    pub(super) fn with_index(&self, metadata: Arc<ParquetMetaData>) -> Arc<ParquetMetaData> {
        if self.0.is_empty() {
            return metadata;
        }
        let metadata = without_dictionaries(Arc::unwrap_or_clone(metadata), |group, leaf| {
            self.0.get(&(group, leaf))?.behind_dictionary
        });
        let builder = metadata.into_builder();
        Arc::new(builder.set_page_index(Some(Arc::new(self.clone()))).build())
    }

    /// The bytes of a chunk that are needed, in their order; `None` if that is the whole chunk.
    pub(super) fn needed(&self, group: usize, leaf: usize) -> Option<&[Range<u64>]> {
        self.0.get(&(group, leaf)).map(|pages| &pages.needed[..])
    }
}

impl PageIndexProvider for Located {
    fn has_offset_indexes(&self) -> bool {
        true
    }

    fn has_column_indexes(&self) -> bool {
        false
    }

    fn column_index(&self, _group: usize, _leaf: usize) -> Option<&ColumnIndexMetaData> {
        None
    }

    fn offset_index(&self, group: usize, leaf: usize) -> Option<&OffsetIndexMetaData> {
        self.0.get(&(group, leaf)).map(|pages| &pages.index)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// A column chunk that is looked at.
struct Looked<'a> {
    file: &'a RangeReader,
    column: &'a ColumnChunkMetaData,
    /// The rows that are read, and the number of all.
    rows: Range<u64>,
    total: u64,
    declared: Declared,
    limits: PageLimits,
}

/// Data pages in the order of the file, and which bytes of them are needed.
#[derive(Default)]
struct Found {
    locations: Vec<PageLocation>,
    needed: Option<Range<u64>>,
    /// The page of the dictionary, and whether the values of a needed page refer to it.
    dictionary: Option<Range<u64>>,
    is_referred_to: bool,
}

impl<'a> Looked<'a> {
    /// `None` for chunks of which little is saved.
    fn at(
        file: &'a RangeReader,
        column: &'a ColumnChunkMetaData,
        rows: Range<u64>,
        total: u64,
        limits: PageLimits,
    ) -> Option<Self> {
        let declared = Declared::of(column);
        let is_large = declared.end - declared.start > MIN_WINDOW as u64 && !file.is_small();
        is_large.then_some(Self {
            file,
            column,
            rows,
            total,
            declared,
            limits,
        })
    }

    fn pages(self) -> Option<Pages> {
        let is_flat = self.column.column_descr().max_rep_level() == 0;
        let found = if is_flat {
            self.by_headers()
        } else {
            self.by_index()
        }?;
        let (referred, idle) = match found.is_referred_to {
            true => (found.dictionary, None),
            false => (None, found.dictionary),
        };
        let mut needed: Vec<_> = referred.into_iter().collect();
        match (needed.last_mut(), found.needed?) {
            (Some(last), data) if last.end == data.start => last.end = data.end,
            (_, data) => needed.push(data),
        }
        Some(Pages {
            index: OffsetIndexMetaData {
                page_locations: found.locations,
                unencoded_byte_array_data_bytes: None,
            },
            needed,
            behind_dictionary: idle.map(|dictionary| dictionary.end),
        })
    }

    /// Goes through the headers of pages. Each value of these columns is a row.
    fn by_headers(&self) -> Option<Found> {
        // The decoder takes what lies before the first data page for the dictionary.
        let mut headers = Headers::of(self.file, self.column)?;
        let found = self.among(&mut headers);
        headers.keep();
        found
    }

    fn among(&self, headers: &mut Headers<'_>) -> Option<Found> {
        let (mut found, mut row) = (Found::default(), 0);
        loop {
            let is_behind = row >= self.rows.end;
            let (place, page) = headers.next()?;
            let page = self.usual(page)?;
            if page.is_dictionary {
                found.add_dictionary(place)?;
            } else {
                let values = Some(page.values).filter(|&values| values > 0)?;
                let bytes = place.end - place.start;
                found.locations.push(location(place.start, bytes, row)?);
                found.need(&self.rows, row..row + values, place.start, page);
                row += values;
            }
            if is_behind || row == self.total {
                return Some(found);
            }
            (row < self.total).then_some(())?;
        }
    }

    /// Goes by the index in the file. The headers of needed pages are read for their sizes.
    fn by_index(&self) -> Option<Found> {
        let index = self.index()?;
        let locations = index.page_locations();
        let first = u64::try_from(locations.first()?.offset).ok()?;
        let mut found = Found::default();
        let mut pages = pages(self.file, self.column);
        if first > self.declared.start {
            (pages.position == self.declared.start).then_some(())?;
            let page = self.usual(pages.next()?)?;
            let is_usual = page.is_dictionary && pages.position == first;
            is_usual.then_some(())?;
            found.add_dictionary(self.declared.start..first)?;
        }
        let ends = locations[1..]
            .iter()
            .map(|next| next.first_row_index as u64);
        for (page, end) in locations.iter().zip(ends.chain([self.total])) {
            let rows = page.first_row_index as u64..end;
            if rows.start < self.rows.end && rows.end > self.rows.start {
                pages.position = page.offset as u64;
                let header = self.usual(pages.next()?)?;
                let is_usual = !header.is_dictionary
                    && header.whole_bytes() == page.compressed_page_size as u64;
                is_usual.then_some(())?;
                found.need(&self.rows, rows, page.offset as u64, header);
            }
        }
        found.locations.clone_from(locations);
        Some(found)
    }

    /// The file's index of the pages, if it can be that of this chunk.
    fn index(&self) -> Option<OffsetIndexMetaData> {
        let range = self.column.offset_index_range()?;
        let length = range.end.checked_sub(range.start)?;
        let is_inside = range.end <= self.file.len() && length <= MOST_INDEX_BYTES;
        is_inside.then_some(())?;
        let bytes = self.file.read(range.start, length as usize).ok()?;
        let index = decode_offset_index(&bytes).ok()?;
        let (mut at, mut row) = (self.declared.start as i64, -1);
        for page in index.page_locations() {
            let rises = page.offset >= at && page.first_row_index > row;
            let is_first = row == -1 && page.first_row_index != 0;
            (rises && !is_first && page.compressed_page_size > 0).then_some(())?;
            at = page.offset.checked_add(page.compressed_page_size.into())?;
            row = page.first_row_index;
        }
        let fits = at as u64 <= self.declared.end && (row as u64) < self.total;
        fits.then_some(index)
    }

    /// The page, unless its sizes are impossible, or so large that the decoder has to know before it reads.
    fn usual(&self, page: PageSize) -> Option<PageSize> {
        let is_small = page.bytes <= self.limits.shared_bytes.min(self.limits.most_bytes);
        (is_small && self.declared.refused(page).is_none()).then_some(page)
    }
}

impl Found {
    fn add_dictionary(&mut self, bytes: Range<u64>) -> Option<()> {
        let is_first = self.dictionary.is_none() && self.locations.is_empty();
        self.dictionary = Some(bytes);
        is_first.then_some(())
    }

    /// Notes a data page, which begins `at` and has these rows, if some of the wanted ones are among them.
    fn need(&mut self, wanted: &Range<u64>, rows: Range<u64>, at: u64, page: PageSize) {
        /// Values as places in a dictionary, by their old and new name.
        const BY_DICTIONARY: [u64; 2] = [2, 8];
        if rows.start < wanted.end && rows.end > wanted.start {
            let start = self.needed.as_ref().map_or(at, |needed| needed.start);
            self.needed = Some(start..at + page.whole_bytes());
            self.is_referred_to |= BY_DICTIONARY.contains(&page.encoding);
        }
    }
}

fn location(at: u64, bytes: u64, first_row: u64) -> Option<PageLocation> {
    Some(PageLocation {
        offset: i64::try_from(at).ok()?,
        compressed_page_size: i32::try_from(bytes).ok()?,
        first_row_index: i64::try_from(first_row).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use arrow_array::builder::{Int32Builder, ListBuilder};
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Float32Array, PrimitiveArray, RecordBatch, StringArray};
    use arrow_select::concat::concat_batches;
    use parquet::arrow::ArrowWriter;
    use parquet::basic::Compression;
    use parquet::file::properties::{WriterProperties, WriterVersion};
    use tempfile::NamedTempFile;

    use super::super::footer;
    use super::*;
    use crate::source::{open_source, open_split, ReadOptions};

    const ROWS: u64 = 60_000;

    /// Numbers with nulls, few texts, many numbers (whose dictionary is given up) and lists of any length.
    fn rows() -> RecordBatch {
        let all = 0..ROWS as i64;
        let numbers: PrimitiveArray<Int64Type> = all
            .clone()
            .map(|row| (row % 7 > 0).then_some(row))
            .collect();
        let texts: StringArray = all
            .clone()
            .map(|row| Some(format!("text {}", row % 5)))
            .collect();
        let many: Float32Array = all.clone().map(|row| Some(row as f32 * 0.7)).collect();
        let mut lists = ListBuilder::new(Int32Builder::new());
        for row in all {
            lists.append_value((0..row % 9).map(|item| Some((row * item) as i32)));
        }
        let columns: [(_, ArrayRef); 4] = [
            ("numbers", Arc::new(numbers)),
            ("texts", Arc::new(texts)),
            ("many", Arc::new(many)),
            ("lists", Arc::new(lists.finish())),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    /// One row group in pages of 3,000 rows.
    fn written(version: WriterVersion, compression: Compression, has_index: bool) -> NamedTempFile {
        let properties = WriterProperties::builder()
            .set_writer_version(version)
            .set_compression(compression)
            .set_offset_index_disabled(!has_index)
            .set_dictionary_page_size_limit(20_000)
            .set_data_page_row_count_limit(3_000)
            .set_write_batch_size(500);
        let file = tempfile::Builder::new()
            .suffix(".parquet")
            .tempfile()
            .unwrap();
        let rows = rows();
        let sink: File = file.reopen().unwrap();
        let properties = Some(properties.build());
        let mut writer = ArrowWriter::try_new(sink, rows.schema(), properties).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
        file
    }

    fn read(file: &NamedTempFile, target: u64) -> (usize, RecordBatch) {
        let options = ReadOptions::default();
        let paths = [file.path().to_str().unwrap().to_owned()];
        let source = open_source(&paths, &options).unwrap();
        let splits = source.splits(target).unwrap();
        let mut found = Vec::new();
        for split in &splits {
            let batches = open_split(split, &source.schema, &options, None, 1_000).unwrap();
            found.extend(batches.map(Result::unwrap));
        }
        (
            splits.len(),
            concat_batches(&found[0].schema(), &found).unwrap(),
        )
    }

    #[test]
    fn rows_of_parts_of_a_group_are_those_of_the_whole() {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY] {
                for has_index in [true, false] {
                    let file = written(version, compression, has_index);
                    let (one, whole) = read(&file, u64::MAX);
                    let (several, parts) = read(&file, 50_000);
                    assert!(one == 1 && several > 10, "{one} and {several} splits");
                    assert_eq!(parts, whole);
                }
            }
        }
    }

    /// The bytes of each leaf that are read for the group in parts of so many rows.
    fn needed(file: &NamedTempFile, part: u64) -> Vec<u64> {
        let file = Arc::new(RangeReader::open(file.path()).unwrap());
        let metadata = footer::load(&file).unwrap();
        let limits = PageLimits::at_most(1 << 20);
        let mut bytes = vec![0; 4];
        for start in (0..ROWS).step_by(part as usize) {
            let groups = [(0, start..start + part)].into_iter();
            let located = Located::find(&file, &metadata, groups, 0..4, limits);
            for (leaf, bytes) in bytes.iter_mut().enumerate() {
                let whole = metadata.row_group(0).column(leaf).byte_range().1;
                let needed = located.needed(0, leaf);
                *bytes += needed.map_or(whole, |ranges| {
                    ranges.iter().map(|range| range.end - range.start).sum()
                });
            }
        }
        bytes
    }

    #[test]
    fn only_the_pages_of_the_rows_are_needed() {
        let stored = |file: &NamedTempFile| -> Vec<u64> {
            let file = Arc::new(RangeReader::open(file.path()).unwrap());
            let metadata = footer::load(&file).unwrap();
            let columns = metadata.row_group(0).columns().iter();
            columns.map(|column| column.byte_range().1).collect()
        };
        for has_index in [true, false] {
            let file = written(
                WriterVersion::PARQUET_1_0,
                Compression::UNCOMPRESSED,
                has_index,
            );
            let (whole, ten) = (stored(&file), needed(&file, 6_000));
            // The pages of 3,000 rows end where parts do; dictionaries are read for each part whose values are in them.
            for leaf in [0, 2] {
                assert!(ten[leaf] <= whole[leaf] * 3 / 2, "{ten:?} of {whole:?}");
            }
            // Small chunks are left as they are, and so are lists whose rows nothing tells.
            assert_eq!(ten[1], 10 * whole[1]);
            let expected = if has_index {
                whole[3] * 3 / 2
            } else {
                10 * whole[3]
            };
            assert!(ten[3] <= expected && (has_index || ten[3] == expected));
        }
    }

    #[test]
    fn dictionaries_without_values_that_are_read_are_left_out() {
        for has_index in [true, false] {
            let (version, compression) = (WriterVersion::PARQUET_1_0, Compression::UNCOMPRESSED);
            let file = written(version, compression, has_index);
            let file = Arc::new(RangeReader::open(file.path()).unwrap());
            let limits = PageLimits::at_most(1 << 20);
            for (rows, is_kept) in [(0..3_000, true), (57_000..ROWS, false)] {
                let metadata = footer::load(&file).unwrap();
                let groups = [(0, rows)].into_iter();
                let located = Located::find(&file, &metadata, groups, 0..4, limits);
                let found = located.with_index(metadata);
                let columns = found.row_group(0).columns();
                let have: Vec<_> = { columns.iter() }
                    .map(|column| column.dictionary_page_offset().is_some())
                    .collect();
                // The texts are few, and all in their dictionary.
                assert_eq!(have[..3], [is_kept, true, is_kept], "{has_index}");
            }
        }
    }

    #[test]
    fn headers_of_a_file_are_read_once() {
        use std::os::unix::fs::FileExt;
        use std::time::Duration;
        let file = written(WriterVersion::PARQUET_1_0, Compression::UNCOMPRESSED, false);
        let before = needed(&file, 6_000);
        let written = file.as_file().metadata().unwrap().modified().unwrap();
        // The first header of the first chunk.
        file.as_file().write_all_at(&[0; 64], 4).unwrap();
        for (later, is_known) in [(Duration::ZERO, true), (Duration::from_secs(1), false)] {
            file.as_file().set_modified(written + later).unwrap();
            assert_eq!(needed(&file, 6_000)[0] == before[0], is_known);
        }
    }

    #[test]
    fn large_pages_are_left_to_the_decoder() {
        let file = written(WriterVersion::PARQUET_1_0, Compression::UNCOMPRESSED, true);
        let file = Arc::new(RangeReader::open(file.path()).unwrap());
        let metadata = footer::load(&file).unwrap();
        for (most_bytes, is_located) in [(1 << 20, true), (5_000, false)] {
            let limits = PageLimits::at_most(most_bytes);
            let groups = [(0, 7_000..8_000)].into_iter();
            let located = Located::find(&file, &metadata, groups, 0..4, limits);
            for leaf in [0, 2, 3] {
                assert_eq!(located.needed(0, leaf).is_some(), is_located, "leaf {leaf}");
            }
        }
    }
}
