//! The row groups that hold some ranges of rows: which rows of them are read, and how the file is read for these.

use std::ops::Range;

use parquet::arrow::arrow_reader::RowSelection;
use parquet::file::metadata::ParquetMetaData;

use super::windows::Access;
use crate::source::RowRange;

/// Size of windows where most rows are left out, in stretches of at least `LONG_GAP` rows: a page of numbers has about as
/// many.
const PICKED_WINDOW: usize = 256 << 10;
const LONG_GAP: usize = 1 << 14;

/// The row groups that hold some ranges of rows.
pub(super) struct RowGroups {
    pub(super) indices: Vec<usize>,
    /// For each group, the range from its first row that is read to its last.
    pub(super) rows: Vec<Range<u64>>,
    /// The rows that are read, counted from the first row of the first of these groups through all of them.
    ranges: Vec<Range<usize>>,
    /// Rows of all these groups.
    total: usize,
}

impl RowGroups {
    /// The numbers of the groups, with the range from the first row that is read to the last.
    pub(super) fn parts(&self) -> impl Iterator<Item = (usize, Range<u64>)> + '_ {
        self.indices.iter().copied().zip(self.rows.iter().cloned())
    }

    pub(super) fn holding(metadata: &ParquetMetaData, ranges: &[RowRange]) -> Self {
        let (mut found, mut first) = (Self::none(), 0);
        for (index, group) in metadata.row_groups().iter().enumerate() {
            let (start, end) = (first, first + group.num_rows() as u64);
            first = end;
            let within = { ranges.iter() }
                .map(|range| range.0.max(start)..range.1.min(end))
                .filter(|range| range.start < range.end)
                .map(|range| range.start - start..range.end - start);
            let within: Vec<_> = within.collect();
            let hull = within.first().zip(within.last());
            let Some(hull) = hull.map(|(first, last)| first.start..last.end) else {
                continue;
            };
            let before = found.total;
            let place = |row: u64| before + row as usize;
            let within = within.into_iter();
            found
                .ranges
                .extend(within.map(|range| place(range.start)..place(range.end)));
            found.indices.push(index);
            found.rows.push(hull);
            found.total += group.num_rows() as usize;
        }
        found
    }

    fn none() -> Self {
        Self {
            indices: Vec::new(),
            rows: Vec::new(),
            ranges: Vec::new(),
            total: 0,
        }
    }

    /// Number of rows that are read.
    pub(super) fn num_rows(&self) -> usize {
        self.ranges.iter().map(ExactSizeIterator::len).sum()
    }

    pub(super) fn selection(&self) -> RowSelection {
        RowSelection::from_consecutive_ranges(self.ranges.iter().cloned(), self.total)
    }

    /// Some of the rows that are read, by their numbers among these.
    pub(super) fn some(&self, picked: &[u64]) -> RowSelection {
        let mut rows = picked.iter().map(|&row| row as usize).peekable();
        let (mut before, mut places) = (0, Vec::with_capacity(picked.len()));
        for range in &self.ranges {
            let behind = before + range.len();
            while let Some(row) = rows.next_if(|&row| row < behind) {
                let place = range.start + row - before;
                places.push(place..place + 1);
            }
            before = behind;
        }
        RowSelection::from_consecutive_ranges(places.into_iter(), self.total)
    }

    /// How the file is read: at places where long stretches are left out, so that their pages are not read.
    pub(super) fn access(&self) -> Access {
        let gaps = self.ranges.windows(2);
        let gaps = gaps.map(|pair| pair[1].start - pair[0].end);
        let long: usize = gaps.filter(|&rows| rows >= LONG_GAP).sum();
        match long > self.num_rows() {
            true => Access::Sparse(PICKED_WINDOW),
            false => Access::Stream,
        }
    }
}
