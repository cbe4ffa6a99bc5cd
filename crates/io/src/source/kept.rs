//! Ranges of rows that are kept of a file, where all others are neither read nor decoded.
//!
//! Guarantee: ranges are in order, have rows, and no two of them touch.

use arrow_array::{Array, BooleanArray};
use arrow_select::filter::{prep_null_mask_filter, SlicesIterator};

/// The first row of a range, and the row behind its last.
pub type RowRange = (u64, u64);

/// Number of rows in all ranges.
pub(crate) fn num_rows(ranges: &[RowRange]) -> u64 {
    ranges.iter().map(|(start, end)| end - start).sum()
}

/// The ranges as they should be: in order and apart, whatever came in.
pub(super) fn apart(ranges: &[RowRange]) -> Vec<RowRange> {
    let mut given: Vec<RowRange> = { ranges.iter().copied() }
        .filter(|(start, end)| start < end)
        .collect();
    given.sort_unstable();
    let mut apart: Vec<RowRange> = Vec::with_capacity(given.len());
    for (start, end) in given {
        match apart.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => apart.push((start, end)),
        }
    }
    apart
}

/// The parts of the ranges that lie between two rows.
pub(super) fn within(ranges: &[RowRange], start: u64, end: u64) -> Vec<RowRange> {
    let first = ranges.partition_point(|range| range.1 <= start);
    { ranges[first..].iter() }
        .take_while(|range| range.0 < end)
        .map(|range| (range.0.max(start), range.1.min(end)))
        .collect()
}

/// The rows from number `first` to before number `last`, counted among the rows of the ranges.
pub(super) fn part(ranges: &[RowRange], first: u64, last: u64) -> Vec<RowRange> {
    let (mut before, mut part) = (0, Vec::new());
    for &(start, end) in ranges {
        let behind = before + (end - start);
        let (from, to) = (first.max(before), last.min(behind));
        if from < to {
            part.push((start + from - before, start + to - before));
        }
        before = behind;
    }
    part
}

/// The rows of the ranges for which masks, one after the other, are true; null is not.
pub(super) fn picked(ranges: &[RowRange], masks: &[BooleanArray]) -> Vec<RowRange> {
    let mut picked: Vec<RowRange> = Vec::new();
    let mut ranges = ranges.iter().peekable();
    // Rows before the current range, and before the current mask.
    let (mut before, mut masked) = (0, 0);
    for mask in masks {
        for (from, to) in SlicesIterator::new(&without_nulls(mask)) {
            let (mut from, to) = (masked + from as u64, masked + to as u64);
            while from < to {
                let Some(&(start, end)) = ranges.peek() else {
                    return picked;
                };
                let behind = before + (end - start);
                if from >= behind {
                    ranges.next();
                    before = behind;
                    continue;
                }
                let first = start + from - before;
                let last = start + to.min(behind) - before;
                match picked.last_mut() {
                    Some(open) if open.1 == first => open.1 = last,
                    _ => picked.push((first, last)),
                }
                from = to.min(behind);
            }
        }
        masked += mask.len() as u64;
    }
    picked
}

fn without_nulls(mask: &BooleanArray) -> BooleanArray {
    match mask.null_count() {
        0 => mask.clone(),
        _ => prep_null_mask_filter(mask),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_and_counted() {
        let ranges = apart(&[(50, 60), (0, 10), (10, 12), (5, 5), (20, 30)]);
        assert_eq!(ranges, [(0, 12), (20, 30), (50, 60)]);
        assert_eq!(num_rows(&ranges), 32);
        assert_eq!(within(&ranges, 5, 25), [(5, 12), (20, 25)]);
        assert_eq!(within(&ranges, 12, 20), []);
        assert_eq!(part(&ranges, 10, 24), [(10, 12), (20, 30), (50, 52)]);
        assert_eq!(part(&ranges, 0, 32), ranges);
        assert_eq!(part(&ranges, 3, 3), []);
    }

    #[test]
    fn masks_pick_rows_of_ranges() {
        let masks = [
            BooleanArray::from(vec![Some(true), Some(true), None]),
            BooleanArray::from(vec![true, true, false, true]),
        ];
        let found = picked(&[(0, 4), (10, 13)], &masks);
        assert_eq!(found, [(0, 2), (3, 4), (10, 11), (12, 13)]);
        assert_eq!(picked(&[(0, 2)], &masks), [(0, 2)]);
        assert_eq!(picked(&[], &masks), []);
    }
}
