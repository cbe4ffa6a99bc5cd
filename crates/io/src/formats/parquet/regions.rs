//! Chooses the ranges of a file that a reader goes through: each large column chunk by itself, small neighbours together.
//!
//! A file of 10,000 columns and one row has 10,000 chunks of a hundred bytes. A window for each took 10,000 buffers and
//! reads, where one of each is enough.

use std::ops::Range;

use parquet::file::metadata::ParquetMetaData;

use super::chunk::{Chunk, MIN_WINDOW, TOTAL_BYTES};
use super::located::Located;
use super::page_limits::PageLimits;
use super::pages::Declared;

/// Most bytes of chunks that are read together, with the bytes between them: with the pages at both ends they fit a pooled
/// buffer.
const TOGETHER_BYTES: u64 = (1 << 20) - (8 << 10);
/// Most bytes between two such chunks.
const GAP_BYTES: u64 = 16 << 10;

/// Ranges of a file, in the order in which they are read.
pub(super) struct Regions {
    pub(super) chunks: Vec<Chunk>,
    /// Number of lanes of single chunks.
    pub(super) lanes: usize,
    /// Number of lanes behind those: each is one range, which is read whole.
    pub(super) joined: usize,
    /// Limits of the pages in the ranges, by start.
    pub(super) declared: Vec<Declared>,
    pub(super) limits: PageLimits,
}

/// Returns the ranges of the given leaves in these row groups: whole chunks, or what is needed of those that are located.
pub(super) fn regions(
    metadata: &ParquetMetaData,
    groups: &[usize],
    leaves: &[usize],
    located: &Located,
    limits: PageLimits,
) -> Regions {
    let mut chunks = Vec::with_capacity(groups.len() * leaves.len());
    let mut declared = Vec::with_capacity(chunks.capacity());
    for &group in groups {
        for (lane, &leaf) in leaves.iter().enumerate() {
            let pages = Declared::of(metadata.row_group(group).column(leaf));
            let whole = pages.start..pages.end;
            let ranges = located.needed(group, leaf);
            let ranges = ranges.unwrap_or(std::slice::from_ref(&whole));
            let chunk = |range: &Range<u64>| Chunk {
                start: range.start,
                end: range.end,
                lane,
            };
            chunks.extend(ranges.iter().map(chunk));
            declared.push(pages);
        }
    }
    declared.sort_by_key(|pages| pages.start);
    let small: u64 = { chunks.iter() }
        .filter(|chunk| is_small(chunk))
        .map(|chunk| chunk.end - chunk.start)
        .sum();
    // A joined range stays in memory as long as the reader, because columns come to its parts at different times.
    let (chunks, joined) = if small > TOTAL_BYTES as u64 {
        (chunks, 0)
    } else {
        joined(chunks, leaves.len())
    };
    Regions {
        chunks,
        lanes: leaves.len(),
        joined,
        declared,
        limits,
    }
}

fn is_small(chunk: &Chunk) -> bool {
    chunk.end - chunk.start < MIN_WINDOW as u64
}

/// Joins small neighbours into one chunk, in a lane of its own behind `lanes`; also returns the number of joined chunks.
fn joined(chunks: Vec<Chunk>, lanes: usize) -> (Vec<Chunk>, usize) {
    let (mut small, mut chunks): (Vec<Chunk>, Vec<Chunk>) = chunks.into_iter().partition(is_small);
    let mut joined = 0;
    small.sort_by_key(|chunk| chunk.start);
    let together = |a: &Chunk, start: u64, b: &Chunk| {
        b.start <= a.end + GAP_BYTES && b.end - start <= TOGETHER_BYTES
    };
    let mut rest = small.as_slice();
    while let Some(first) = rest.first() {
        let count = 1 + { rest.windows(2) }
            .take_while(|pair| together(&pair[0], first.start, &pair[1]))
            .count();
        let (run, others) = rest.split_at(count);
        rest = others;
        if count == 1 {
            chunks.push(*first);
            continue;
        }
        let end = run.iter().map(|chunk| chunk.end).max().unwrap_or(first.end);
        chunks.push(Chunk {
            start: first.start,
            end,
            lane: lanes + joined,
        });
        joined += 1;
    }
    (chunks, joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(ranges: &[(u64, u64, usize)]) -> Vec<Chunk> {
        let chunk = |&(start, end, lane): &(u64, u64, usize)| Chunk { start, end, lane };
        ranges.iter().map(chunk).collect()
    }

    #[test]
    fn small_neighbours_become_one_and_all_others_stay() {
        let far = 10 << 20;
        let given = chunks(&[
            (4, 100, 0),
            (100, 300, 1),
            (300, 300 + (1 << 20), 2),
            (far, far + 50, 0),
            (far + 60, far + 90, 1),
            (2 * far, 2 * far + 10, 0),
        ]);
        let (chunks, joined) = joined(given, 3);
        let found: Vec<_> = { chunks.iter() }
            .map(|c| (c.start, c.end, c.lane))
            .collect();
        let expected = [
            (300, 300 + (1 << 20), 2),
            (4, 300, 3),
            (far, far + 90, 4),
            (2 * far, 2 * far + 10, 0),
        ];
        assert_eq!((found, joined), (expected.to_vec(), 2));
    }

    #[test]
    fn no_run_exceeds_a_buffer() {
        let given: Vec<Chunk> = (0..1000_u64)
            .map(|i| Chunk {
                start: i * 5000,
                end: i * 5000 + 4000,
                lane: i as usize,
            })
            .collect();
        let (regions, _) = joined(given, 1000);
        assert!(regions.len() > 4);
        assert!(regions.iter().all(|c| c.end - c.start <= TOGETHER_BYTES));
    }
}
