//! Samples a few rows of a split, representative of sorted and random inputs, at a fraction of the cost of reading it.
//!
//! The split is divided into equal regions. In each, a stretch at a random place is read, and rows are taken from it at a
//! regular stride. So a sorted input is sampled at as many places as there are regions, and pages between the stretches
//! need not be read.

use std::borrow::Borrow;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::conform::retyped;
use super::constants::Widening;
use super::reorder::Reordered;
use super::split::Request;
use super::{ReadOptions, Split};
use crate::error::Result;
use crate::guard::guarded;

/// Most splits that are sampled among those that one task reads.
const MAX_SAMPLED: u64 = 16;

/// Some rows, and their positions.
pub type Sample = (RecordBatch, Vec<u64>);

/// Samples about `num_rows` rows of splits that are read one after the other; returns a sample for each split that is used.
///
/// Positions are ascending, count through all splits, and are as exact as those of [`sample_split`]. The same arguments give
/// the same samples.
pub fn sample_splits(
    splits: &[impl Borrow<Split>],
    schema: &SchemaRef,
    options: &ReadOptions,
    projection: Option<&[usize]>,
    num_rows: usize,
    seed: u64,
) -> Result<Vec<Sample>> {
    let total: u64 = splits.iter().map(|split| split.borrow().size()).sum();
    let places = (splits.len() as u64).min(MAX_SAMPLED);
    let (mut samples, mut before, mut seen) = (Vec::new(), 0, 0);
    for (index, split) in splits.iter().map(Borrow::borrow).enumerate() {
        // Places lie evenly in all splits; this split gives the same share of the rows as it has of the places.
        let end = before + split.size();
        let is_last = index + 1 == splits.len();
        let behind = if is_last {
            places
        } else {
            share(places, end, total.max(1))
        };
        if behind > seen {
            let wanted = share(num_rows as u64, behind - seen, places).max(1);
            let (rows, positions) =
                sample_split(split, schema, options, projection, wanted as usize, seed)?;
            // The number of rows before a split of text is estimated by the size of rows in this split.
            let rows_here = positions.last().map_or(1, |last| last + 1);
            let first = match split.rows {
                Some(_) => before,
                None => share(before, rows_here, split.size().max(rows_here)),
            };
            samples.push((rows, positions.iter().map(|row| row + first).collect()));
        }
        (before, seen) = (end, behind.max(seen));
    }
    Ok(samples)
}

/// Samples up to `num_rows` rows of a split; returns them with their positions in it, ascending.
///
/// Positions are exact for formats that tell their rows, and estimated for CSV and JSON lines. The same arguments give
/// the same sample.
pub fn sample_split(
    split: &Split,
    schema: &SchemaRef,
    options: &ReadOptions,
    projection: Option<&[usize]>,
    num_rows: usize,
    seed: u64,
) -> Result<Sample> {
    if !split.partition.is_empty() {
        let mut widening = Widening::new(split, schema, options, projection)?;
        let columns = widening.columns.as_deref();
        let (schema, options) = (&widening.schema, &widening.options);
        let (batch, picked) =
            sample_split(&widening.split, schema, options, columns, num_rows, seed)?;
        return Ok((widening.widen(&batch)?, picked));
    }
    if !split.columns.is_empty() {
        let file = Reordered::new(split, schema, projection)?;
        let columns = Some(&file.columns[..]);
        return sample_split(&file.split, &file.schema, options, columns, num_rows, seed);
    }
    let request = Request::new(split, schema, options, projection)?;
    let pick = Pick {
        num_rows,
        seed: mix(seed ^ mix(split.start)),
    };
    let (sample, rows) = guarded(&split.path, split.format, || {
        split.format.driver().sample(&request, pick)
    })?;
    Ok((
        retyped((&split.path, split.format), sample, &request.wanted)?,
        rows,
    ))
}

/// Estimates how many rows a split has by the positions of a sample of it. These lie evenly, so half of all rows are before
/// their mean.
pub fn estimated_rows(positions: &[u64]) -> u64 {
    let count = positions.len() as u128;
    if count < 2 {
        return count as u64;
    }
    let sum: u128 = positions.iter().map(|&position| u128::from(position)).sum();
    (2 * sum).div_ceil(count - 1) as u64
}

/// The number of rows to take, and the seed that chooses them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pick {
    pub(crate) num_rows: usize,
    pub(crate) seed: u64,
}

/// One in this many rows lies in a stretch (more if more rows are wanted than that).
const STRETCHES_COVER: u64 = 8;

/// Picks row numbers below `rows`, ascending, in `regions` stretches; in each, runs of about `together` rows, or a few less,
/// follow each other.
pub(crate) fn pick_rows(rows: u64, pick: Pick, regions: u64, together: u64) -> Vec<u64> {
    let wanted = pick.num_rows as u64;
    if wanted >= rows {
        return (0..rows).collect();
    }
    // One spare row per region ensures that no region gets more picks than it has rows.
    let regions = regions.min(wanted).min(rows - wanted).max(1);
    let mut picked = Vec::with_capacity(pick.num_rows);
    for region in 0..regions {
        let (first, end) = (
            share(rows, region, regions),
            share(rows, region + 1, regions),
        );
        let count = share(wanted, region + 1, regions) - share(wanted, region, regions);
        let stretch = ((end - first) / STRETCHES_COVER).max(count);
        let start = first + random_below(pick.seed ^ mix(region), end - first - stretch + 1);
        let runs = count.div_ceil(together).max(1);
        for run in 0..runs {
            // The rows between runs are divided as evenly among the runs as the rows of runs.
            let gaps = start + share(stretch - count, run, runs);
            let taken = share(count, run, runs)..share(count, run + 1, runs);
            picked.extend(taken.map(|row| gaps + row));
        }
    }
    picked
}

/// The first `part` of `parts` equal parts of a number.
fn share(of: u64, part: u64, parts: u64) -> u64 {
    (u128::from(of) * u128::from(part) / u128::from(parts)) as u64
}

pub(crate) fn random_below(seed: u64, bound: u64) -> u64 {
    ((u128::from(mix(seed)) * u128::from(bound)) >> 64) as u64
}

/// The finaliser of SplitMix64: every input bit affects every output bit.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_tell_how_many_rows_there_are() {
        let every = |stride: u64, count: u64| (0..count).map(|i| i * stride).collect::<Vec<_>>();
        for rows in [0, 1, 2, 7, 1000] {
            assert_eq!(estimated_rows(&every(1, rows)), rows);
        }
        assert_eq!(estimated_rows(&every(40, 256)), 40 * 256);
    }

    #[test]
    fn picks_are_ascending_distinct_and_complete() {
        for rows in [0, 1, 7, 100, 10_000] {
            for num_rows in [0, 1, 3, 16, 99, 500, 20_000] {
                for (regions, together) in [(1, 1), (4, 7), (16, 1), (16, 40), (16, 1000)] {
                    let picked = pick_rows(rows, Pick { num_rows, seed: 5 }, regions, together);
                    assert_eq!(picked.len() as u64, rows.min(num_rows as u64));
                    assert!(picked.windows(2).all(|w| w[0] < w[1]));
                    assert!(picked.iter().all(|&row| row < rows));
                }
            }
        }
    }

    #[test]
    fn every_part_of_a_sorted_split_is_seen() {
        let pick = Pick {
            num_rows: 1000,
            seed: 42,
        };
        for together in [1, 40] {
            let picked = pick_rows(1_000_000, pick, 16, together);
            for sixteenth in 0..16 {
                let inside = picked.iter().filter(|&&row| row / 62_500 == sixteenth);
                assert!((62..=63).contains(&inside.count()));
            }
        }
    }

    #[test]
    fn rows_that_are_read_together_follow_each_other() {
        let pick = Pick {
            num_rows: 1600,
            seed: 1,
        };
        let picked = pick_rows(1_000_000, pick, 16, 40);
        let runs = picked.chunk_by(|before, row| before + 1 == *row);
        let lengths: Vec<_> = runs.map(<[u64]>::len).collect();
        assert!(
            lengths.iter().all(|length| (33..=40).contains(length)),
            "{lengths:?}"
        );
    }
}
