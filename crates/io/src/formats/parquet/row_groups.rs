//! The row groups that hold some ranges of rows: which rows of them are read, and how the file is read for these.

use std::ops::Range;

use parquet::arrow::arrow_reader::RowSelection;
use parquet::file::metadata::ParquetMetaData;

use super::chunk::{MIN_WINDOW, TOTAL_BYTES};
use super::windows::Access;
use crate::source::RowRange;

/// Size of windows where most rows are left out, in stretches of at least `LONG_GAP` rows: a page of numbers has about as
/// many.
const PICKED_WINDOW: usize = 256 << 10;
const LONG_GAP: usize = 1 << 14;

/// The row groups that hold some ranges of rows.
#[derive(Default)]
pub(super) struct RowGroups {
    pub(super) indices: Vec<usize>,
    /// For each group, the range from its first row that is read to its last.
    pub(super) rows: Vec<Range<u64>>,
    /// For each group, the rows that are read, and all its rows.
    within: Vec<(Vec<Range<u64>>, u64)>,
}

impl RowGroups {
    /// The numbers of the groups, with the range from the first row that is read to the last.
    pub(super) fn parts(&self) -> impl Iterator<Item = (usize, Range<u64>)> + '_ {
        self.indices.iter().copied().zip(self.rows.iter().cloned())
    }

    pub(super) fn holding(metadata: &ParquetMetaData, ranges: &[RowRange]) -> Self {
        let (mut found, mut first) = (Self::default(), 0);
        for (index, group) in metadata.row_groups().iter().enumerate() {
            let rows = group.num_rows() as u64;
            let (start, end) = (first, first + rows);
            first = end;
            let within = { ranges.iter() }
                .map(|range| range.0.max(start)..range.1.min(end))
                .filter(|range| range.start < range.end)
                .map(|range| range.start - start..range.end - start);
            found.push(index, within.collect(), rows);
        }
        found
    }

    /// Those that hold some of the rows that are read, with only these, by their numbers among all of them.
    ///
    /// A sample that went through the other groups read the header of each of their pages.
    pub(super) fn holding_some(&self, picked: &[u64]) -> Self {
        let mut numbers = picked.iter().copied().peekable();
        let (mut found, mut before) = (Self::default(), 0);
        for (&index, (within, rows)) in self.indices.iter().zip(&self.within) {
            let mut places = Vec::new();
            for range in within {
                let behind = before + (range.end - range.start);
                while let Some(number) = numbers.next_if(|&number| number < behind) {
                    let place = range.start + number - before;
                    places.push(place..place + 1);
                }
                before = behind;
            }
            found.push(index, places, *rows);
        }
        found
    }

    /// Cuts them into parts whose small chunks of these leaves can be read together; a part has one group at least.
    ///
    /// A window was read for each chunk of 1,500 row groups of 300 columns. To sort them took 31 s of CPU, and takes 13.
    pub(super) fn cut(&self, metadata: &ParquetMetaData, leaves: &[usize]) -> Vec<Self> {
        let small_bytes = |index: usize| -> usize {
            let group = metadata.row_group(index);
            let chunks = leaves.iter().map(|&leaf| group.column(leaf));
            let bytes = chunks.map(|chunk| chunk.compressed_size() as usize);
            bytes.filter(|&bytes| bytes < MIN_WINDOW).sum()
        };
        let (mut parts, mut part, mut bytes) = (Vec::new(), Self::default(), 0);
        for (&index, (within, rows)) in self.indices.iter().zip(&self.within) {
            let more = small_bytes(index);
            if bytes + more > TOTAL_BYTES && !part.indices.is_empty() {
                parts.push(std::mem::take(&mut part));
                bytes = 0;
            }
            part.push(index, within.clone(), *rows);
            bytes += more;
        }
        parts.push(part);
        parts
    }

    /// Adds a group of `rows` rows if some of them are read.
    fn push(&mut self, index: usize, within: Vec<Range<u64>>, rows: u64) {
        if let Some((first, last)) = within.first().zip(within.last()) {
            self.indices.push(index);
            self.rows.push(first.start..last.end);
            self.within.push((within, rows));
        }
    }

    /// The rows that are read, counted from the first row of the first of these groups through all of them.
    fn ranges(&self) -> Vec<Range<usize>> {
        let (mut ranges, mut before) = (Vec::new(), 0);
        for (within, rows) in &self.within {
            let place = |row: u64| (before + row) as usize;
            ranges.extend(within.iter().map(|one| place(one.start)..place(one.end)));
            before += rows;
        }
        ranges
    }

    /// Number of rows that are read.
    pub(super) fn num_rows(&self) -> usize {
        let ranges = self.within.iter().flat_map(|(within, _)| within);
        ranges.map(|range| (range.end - range.start) as usize).sum()
    }

    pub(super) fn selection(&self) -> RowSelection {
        let total: u64 = self.within.iter().map(|(_, rows)| rows).sum();
        RowSelection::from_consecutive_ranges(self.ranges().into_iter(), total as usize)
    }

    /// How the file is read: at places where long stretches are left out, so that their pages are not read.
    pub(super) fn access(&self) -> Access {
        let ranges = self.ranges();
        let gaps = ranges.windows(2);
        let gaps = gaps.map(|pair| pair[1].start - pair[0].end);
        let long: usize = gaps.filter(|&rows| rows >= LONG_GAP).sum();
        match long > self.num_rows() {
            true => Access::Sparse(PICKED_WINDOW),
            false => Access::Stream,
        }
    }
}
