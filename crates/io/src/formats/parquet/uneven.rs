//! Cuts row groups in which some rows are far larger than others into parts that are each even.
//!
//! A row group tells only the size of all its rows. A group of 100,000 short texts before 300 texts of 1 MB was cut by
//! the mean. The last split had all large texts, and reading it took 637 MB within 300.

use crate::source::Group;

/// Bounds of the size of runs: the places of large rows are known no finer.
const LEAST_BYTES: u64 = 1 << 20;
const MOST_BYTES: u64 = 4 << 20;
/// This many runs are enough for a small chunk.
const RUNS: u64 = 64;
/// Neighbours whose rows are within this factor of each other are even enough to be one part.
const EVEN_FACTOR: f64 = 1.5;

/// Pages of one column chunk that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageRun {
    pub(super) values: u64,
    pub(super) bytes: u64,
}

/// The pages of a column chunk, in runs.
#[derive(Debug, Clone, Default)]
pub(super) struct PageRuns {
    /// About the bytes of each run.
    target: u64,
    found: Vec<PageRun>,
}

impl PageRuns {
    /// Makes no runs yet, for a chunk of this many bytes.
    pub(super) fn of(chunk_bytes: u64) -> Self {
        Self {
            target: (chunk_bytes / RUNS).clamp(LEAST_BYTES, MOST_BYTES),
            found: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, values: u64, bytes: u64) {
        match self.found.last_mut() {
            Some(last) if last.bytes.saturating_add(bytes) <= self.target => {
                last.values = last.values.saturating_add(values);
                last.bytes += bytes;
            }
            _ => self.found.push(PageRun { values, bytes }),
        }
    }

    /// Whether there is more than one run.
    pub(super) fn are_several(&self) -> bool {
        self.found.len() > 1
    }

    /// Returns for each run the number of the row behind it, and the bytes of one of its rows. The chunk has `rows` rows,
    /// and `bytes` once it is decoded.
    fn densities(&self, rows: u64, bytes: u64) -> Vec<(u64, f64)> {
        let sum = |size: fn(&PageRun) -> u64| self.found.iter().map(size).fold(0.0, plus);
        let (values, stored) = (sum(|one| one.values), sum(|one| one.bytes));
        if values == 0.0 || stored == 0.0 {
            return Vec::new();
        }
        // In a column of lists, each row is assumed to have as many values.
        let (rows_per_value, growth) = (rows as f64 / values, bytes as f64 / stored);
        let mut before = 0.0;
        let density = |one: &PageRun| {
            before += one.values as f64;
            let per_value = one.bytes as f64 * growth / one.values.max(1) as f64;
            ((before * rows_per_value) as u64, per_value / rows_per_value)
        };
        self.found.iter().map(density).collect()
    }
}

fn plus(sum: f64, size: u64) -> f64 {
    sum + size as f64
}

/// Cuts a row group into parts that are each even, by the column chunks whose pages were inspected, each with its decoded
/// bytes. Together the parts have the rows and bytes of the group.
pub(super) fn parts(group: Group, chunks: &[(PageRuns, u64)]) -> Vec<Group> {
    let densities: Vec<Vec<(u64, f64)>> = { chunks.iter() }
        .map(|(runs, bytes)| runs.densities(group.rows, *bytes))
        .filter(|densities| !densities.is_empty())
        .collect();
    let mut ends: Vec<u64> = { densities.iter().flatten() }
        .map(|&(end, _)| end.min(group.rows))
        .chain([group.rows])
        .filter(|&end| end > 0)
        .collect();
    ends.sort_unstable();
    ends.dedup();
    let known: u64 = chunks
        .iter()
        .fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes));
    let rest = group.memory_bytes.saturating_sub(known) as f64 / group.rows.max(1) as f64;
    let mut parts: Vec<Part> = Vec::new();
    let mut start = 0;
    for end in ends {
        let of_chunk = |densities: &Vec<(u64, f64)>| {
            let place = densities.partition_point(|&(behind, _)| behind <= start);
            densities.get(place).map_or(0.0, |&(_, density)| density)
        };
        let row_bytes = rest + densities.iter().map(of_chunk).sum::<f64>();
        let part = Part {
            rows: end - start,
            bytes: row_bytes * (end - start) as f64,
        };
        match parts.last_mut() {
            Some(last) if last.is_like(&part) => last.append(&part),
            _ => parts.push(part),
        }
        start = end;
    }
    if parts.len() <= 1 {
        return vec![group];
    }
    let text_share = group.text_bytes as f64 / group.memory_bytes.max(1) as f64;
    let group = |part: Part| Group {
        rows: part.rows,
        memory_bytes: part.bytes as u64,
        text_bytes: (part.bytes * text_share) as u64,
    };
    parts.into_iter().map(group).collect()
}

struct Part {
    rows: u64,
    bytes: f64,
}

impl Part {
    fn is_like(&self, other: &Self) -> bool {
        let (one, another) = (self.row_bytes(), other.row_bytes());
        one.max(another) <= one.min(another) * EVEN_FACTOR
    }

    fn row_bytes(&self) -> f64 {
        self.bytes / self.rows.max(1) as f64
    }

    fn append(&mut self, other: &Self) {
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(pages: &[(u64, u64)]) -> (PageRuns, u64) {
        let bytes = pages.iter().map(|page| page.1).sum();
        let mut runs = PageRuns::of(bytes);
        for &(values, bytes) in pages {
            runs.push(values, bytes);
        }
        (runs, bytes)
    }

    fn sizes(parts: &[Group]) -> Vec<(u64, u64)> {
        { parts.iter() }
            .map(|part| (part.rows, part.memory_bytes))
            .collect()
    }

    #[test]
    fn large_rows_behind_small_ones_are_a_part() {
        let group = Group {
            rows: 130_000,
            memory_bytes: 31_040_000,
            text_bytes: 0,
        };
        let pages: Vec<_> = (0..30).map(|_| (1, 1_000_000)).collect();
        let chunk = chunk(&[&[(129_970, 1_000_000)], &pages[..]].concat());
        let found = sizes(&parts(group, &[chunk]));
        assert_eq!(found, [(129_970, 1_039_990), (30, 30_000_009)]);
    }

    #[test]
    fn even_rows_stay_one_group_and_sums_stay_the_same() {
        let group = Group {
            rows: 1_000,
            memory_bytes: 50_000_000,
            text_bytes: 0,
        };
        let even = chunk(&vec![(10, 400_000); 100]);
        assert_eq!(sizes(&parts(group, &[even])), [(1_000, 50_000_000)]);
        assert_eq!(sizes(&parts(group, &[])), [(1_000, 50_000_000)]);
        let uneven = [(500, 5_000_000), (100, 20_000_000), (400, 4_000_000)];
        let found = parts(group, &[chunk(&uneven), chunk(&vec![(10, 200_000); 100])]);
        assert!(found.len() >= 3);
        assert_eq!(Group::rows(&found), 1_000);
        assert!(Group::memory_bytes(&found).abs_diff(50_000_000) < 1_000);
    }

    #[test]
    fn numbers_that_no_file_can_have_do_no_harm() {
        let group = Group {
            rows: u64::MAX,
            memory_bytes: u64::MAX,
            text_bytes: u64::MAX,
        };
        for pages in [
            &[(0, 0)][..],
            &[(u64::MAX, u64::MAX / 2), (0, 5 << 20), (1, 0)],
        ] {
            let found = parts(group, &[chunk(pages)]);
            assert!(!found.is_empty());
        }
    }
}
