//! Cuts a file: by its bytes, by its records, or by the groups of its rows.

use super::inspect::Group;
use super::kept::{num_rows, part, within, RowRange};

/// A part of a file: a split without its file.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) group: u64,
    pub(super) group_start: u64,
    pub(super) groups: u64,
    pub(super) rows: Option<u64>,
    pub(super) memory_bytes: u64,
    /// The rows that are read, if rows between them are not; empty if all are.
    pub(super) kept: Vec<RowRange>,
}

impl Span {
    pub(crate) fn of_bytes(range: std::ops::Range<u64>) -> Self {
        let (start, end) = (range.start, range.end);
        Self {
            start,
            end,
            group: 0,
            group_start: 0,
            groups: 0,
            rows: None,
            memory_bytes: end - start,
            kept: Vec::new(),
        }
    }

    /// All rows of a file.
    pub(crate) fn of_rows(rows: u64, memory_bytes: u64) -> Self {
        Self {
            rows: Some(rows),
            memory_bytes,
            ..Self::of_bytes(0..rows)
        }
    }

    pub(crate) fn of_records(first: u64, last: u64, record_bytes: u64) -> Self {
        Self {
            rows: Some(last - first),
            ..Self::of_bytes(first * record_bytes..last * record_bytes)
        }
    }
}

/// Cuts `rows` rows of `bytes` bytes into equal pieces of about `target` bytes.
pub(crate) fn even_pieces(rows: u64, bytes: u64, target: u64) -> impl Iterator<Item = (u64, u64)> {
    let pieces = if rows == 0 {
        0
    } else {
        bytes.div_ceil(target).clamp(1, rows)
    };
    let cut = move |i: u64| (u128::from(i) * u128::from(rows) / u128::from(pieces)) as u64;
    (0..pieces).map(move |i| (cut(i), cut(i + 1)))
}

/// Each group that has rows to read, as a span; `kept` are the rows of the file that are read, `None` if all are.
pub(super) fn whole_groups<'a>(
    groups: &'a [Group],
    kept: Option<&'a [RowRange]>,
) -> impl Iterator<Item = (Group, Span)> + 'a {
    let mut row = 0_u64;
    let whole = move |(index, group): (usize, &Group)| {
        let start = row;
        row = row.saturating_add(group.rows);
        let ranges = match kept {
            Some(kept) => within(kept, start, row),
            None => vec![(start, row)],
        };
        let group = group.part(num_rows(&ranges));
        let groups = (index as u64, start, 1);
        (group, span_of(groups, ranges, group.memory_bytes))
    };
    let spans = groups.iter().enumerate().map(whole);
    spans.filter(|(group, _)| group.rows > 0)
}

/// The span of these rows. `groups` are the index of its first group, the first row of that, and their number.
fn span_of(groups: (u64, u64, u64), ranges: Vec<RowRange>, memory_bytes: u64) -> Span {
    let start = ranges.first().map_or(groups.1, |range| range.0);
    Span {
        start,
        end: ranges.last().map_or(start, |range| range.1),
        group: groups.0,
        group_start: groups.1,
        groups: groups.2,
        rows: Some(num_rows(&ranges)),
        memory_bytes,
        kept: if ranges.len() > 1 { ranges } else { Vec::new() },
    }
}

/// Joins small groups and cuts large ones. Groups that rows are left out between are not joined.
pub(crate) fn spans_of_groups(
    groups: &[Group],
    kept: Option<&[RowRange]>,
    target: u64,
) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut open = false; // whether the last span may still grow
    for (group, whole) in whole_groups(groups, kept) {
        let large = group.memory_bytes / 3 * 2 > target;
        match spans.last_mut() {
            Some(last)
                if open
                    && !large
                    && last.end == whole.start
                    && last.kept.is_empty()
                    && whole.kept.is_empty()
                    && last.memory_bytes.saturating_add(group.memory_bytes) / 5 * 4 <= target =>
            {
                last.end = whole.end;
                last.groups = whole.group + 1 - last.group;
                last.rows = Some(last.end - last.start);
                last.memory_bytes += group.memory_bytes;
            }
            _ if large => {
                spans.extend(pieces(&group, &whole, target));
                open = false;
            }
            _ => {
                spans.push(whole);
                open = true;
            }
        }
    }
    spans
}

/// Cuts the rows of a group into equal pieces.
fn pieces<'a>(group: &Group, whole: &'a Span, target: u64) -> impl Iterator<Item = Span> + 'a {
    let group = *group;
    let pieces = even_pieces(group.rows, group.memory_bytes, target);
    pieces.map(move |(first, last)| {
        let ranges = match &whole.kept[..] {
            [] => vec![(
                whole.start.saturating_add(first),
                whole.start.saturating_add(last),
            )],
            kept => part(kept, first, last),
        };
        let groups = (whole.group, whole.group_start, 1);
        span_of(groups, ranges, group.part(last - first).memory_bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(sizes: &[(u64, u64)]) -> Vec<Group> {
        sizes
            .iter()
            .map(|&(rows, memory_bytes)| Group {
                rows,
                memory_bytes,
                text_bytes: 0,
            })
            .collect()
    }

    #[test]
    fn spans_are_contiguous_and_near_the_target() {
        let groups = groups(&[
            (10, 100),
            (0, 5),
            (10, 100),
            (10, 100),
            (100, 1000),
            (1, 1),
            (50, 400),
        ]);
        for target in [1, 30, 100, 250, 300, 1000, 10_000] {
            let spans = spans_of_groups(&groups, None, target);
            let mut row = 0;
            for span in &spans {
                assert_eq!(span.start, row);
                assert_eq!(span.rows, Some(span.end - span.start));
                assert!(span.end > span.start && span.group_start <= span.start);
                let within = &groups[span.group as usize..(span.group + span.groups) as usize];
                let rows: u64 = within.iter().map(|group| group.rows).sum();
                assert!(span.end <= span.group_start + rows);
                assert!(span.memory_bytes <= 2 * target + 10, "{span:?} at {target}");
                row = span.end;
            }
            assert_eq!(row, 181);
        }
        assert_eq!(spans_of_groups(&groups, None, 10_000).len(), 1);
        assert_eq!(spans_of_groups(&[], None, 10).len(), 0);
    }

    #[test]
    fn rows_that_are_left_out_are_in_no_span() {
        let groups = groups(&[(10, 100), (10, 100), (10, 100), (100, 1000)]);
        let kept = [(0, 10), (20, 22), (28, 30), (30, 40), (90, 100)];
        for target in [1, 20, 100, 250, 10_000] {
            let spans = spans_of_groups(&groups, Some(&kept), target);
            let rows = spans.iter().flat_map(|span| match &span.kept[..] {
                [] => vec![(span.start, span.end)],
                kept => kept.to_vec(),
            });
            let rows: Vec<u64> = rows.flat_map(|(start, end)| start..end).collect();
            let expected = kept.iter().flat_map(|&(start, end)| start..end);
            assert_eq!(rows, expected.collect::<Vec<_>>(), "at {target}");
            let bytes: u64 = spans.iter().map(|span| span.memory_bytes).sum();
            assert_eq!(bytes, 340, "at {target}");
        }
        assert!(spans_of_groups(&groups, Some(&[]), 10).is_empty());
    }

    #[test]
    fn sizes_that_no_file_can_have_do_no_harm() {
        let most = [(u64::MAX / 2, u64::MAX), (u64::MAX, u64::MAX), (7, 3)];
        let groups = groups(&most);
        assert_eq!(Group::memory_bytes(&groups), u64::MAX);
        assert_eq!(Group::rows(&groups), u64::MAX);
        let spans = spans_of_groups(&groups[..1], None, u64::MAX / 4);
        assert!(spans.len() > 1);
        assert!(spans.iter().all(|span| span.memory_bytes <= u64::MAX / 4));
        assert!(!spans_of_groups(&groups, None, u64::MAX / 4).is_empty());
    }
}
