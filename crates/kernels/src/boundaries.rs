//! Boundaries: R-1 sampled keys that split the key space, and the partition of every row.
//!
//! A boundary is a key and a position in the input. A row goes to partition `#{boundaries b : b <= (key, position)}`;
//! because positions differ, rows with equal keys are split evenly too, and the split is stable.

use std::cmp::Ordering;
use std::hint::select_unpredictable;

use arrow_array::RecordBatch;

use crate::encode::{pack, row_lengths, write_rows};
use crate::error::{KernelError, Result};
use crate::key_rows::KeyRows;
use crate::layout::{RowLayout, CHUNK_ROWS};
use crate::order::Prefix;
use crate::prefix::{PrefixPlan, State};
use crate::source::Sources;

pub use crate::key_rows::Position;

/// The most partitions that can be planned.
pub const MAX_PARTITIONS: usize = 1 << 20;

/// No partition has this number.
const UNDECIDED: u32 = u32::MAX;

/// Encodes sampled keys: `keys` has the columns of `key_layout`, `positions[i]` is where row i comes from.
///
/// # Errors
/// Columns that do not match the layout, or another number of positions than rows.
pub fn sample(
    key_layout: &RowLayout,
    keys: &RecordBatch,
    positions: &[Position],
) -> Result<Vec<u8>> {
    if positions.len() != keys.num_rows() {
        return Err(KernelError::CorruptKeys {
            what: "samples",
            reason: "there is not one position per row",
        });
    }
    let sources = Sources::try_new(key_layout, keys)?;
    let mut lengths = Vec::new();
    row_lengths(key_layout, &sources, 0, sources.rows, &mut lengths)?;
    let mut starts = Vec::new();
    let mut rows = vec![0; pack(&lengths, &mut starts)];
    write_rows(key_layout, &sources, 0, &starts, &mut Vec::new(), &mut rows);
    Ok(KeyRows {
        rows,
        starts,
        positions: positions.to_vec(),
    }
    .to_bytes())
}

/// Picks the boundaries of `num_partitions` partitions, evenly spaced in the sorted samples.
///
/// # Errors
/// Corrupt samples, or a number of partitions out of range.
pub fn choose_boundaries(
    key_layout: &RowLayout,
    samples: &[&[u8]],
    num_partitions: usize,
) -> Result<Boundaries> {
    if !(1..=MAX_PARTITIONS).contains(&num_partitions) {
        return Err(KernelError::PartitionCount {
            count: num_partitions,
            limit: MAX_PARTITIONS,
        });
    }
    let mut all = KeyRows::default();
    for sample in samples {
        all.append(&KeyRows::from_bytes(key_layout, sample, "samples")?);
    }
    let mut order: Vec<usize> = (0..all.starts.len()).collect();
    order.sort_unstable_by(|&a, &b| all.compare(key_layout, a, b));
    let mut chosen = KeyRows::default();
    if !order.is_empty() {
        for i in 1..num_partitions {
            chosen.push(&all, order[i * order.len() / num_partitions]);
        }
    }
    Ok(Boundaries::new(key_layout, num_partitions, chosen))
}

/// The boundaries of R partitions: R-1 of them, or none if there were no samples.
#[derive(Debug, Clone)]
pub struct Boundaries {
    key_layout: RowLayout,
    num_partitions: usize,
    keys: KeyRows,
    /// What all boundaries begin with, as far as it does not tell them apart (URLs, paths).
    shared: Vec<(PrefixPlan, u128)>,
    /// How prefixes go on from there.
    plan: PrefixPlan,
    prefixes: Prefixes,
    /// Window of each prefix, which nearly always decides.
    windows: Vec<u64>,
    window: Window,
}

/// The 64 bits of a prefix behind those that all boundaries have in common.
#[derive(Debug, Clone, Copy)]
struct Window {
    base: u128,
    shift: u32,
}

impl Window {
    /// For sorted prefixes of `bits` bits.
    fn new(prefixes: &[u128], bits: u32) -> Self {
        let (first, last) = (
            prefixes.first().copied().unwrap_or(0),
            prefixes.last().copied().unwrap_or(0),
        );
        let common = ((first ^ last).leading_zeros() + bits - 128).min(bits - 64);
        let shift = bits - 64 - common;
        Self {
            base: first >> shift >> 64 << shift << 64,
            shift,
        }
    }

    /// Keeps the order; what does not begin like the boundaries becomes 0 or the maximum.
    #[inline]
    fn of(self, prefix: u128) -> u64 {
        u64::try_from(prefix.saturating_sub(self.base) >> self.shift).unwrap_or(u64::MAX)
    }
}

/// A longer common beginning is left to comparisons.
const MAX_SHARED: usize = 16;

#[derive(Debug, Clone)]
enum Prefixes {
    Narrow(Vec<u64>),
    Wide(Vec<u128>),
}

impl Boundaries {
    fn new(key_layout: &RowLayout, num_partitions: usize, keys: KeyRows) -> Self {
        let fields = key_layout.keys();
        let mut plan = PrefixPlan::first(fields);
        let mut prefixes: Vec<u128> = keys.prefixes(&plan);
        let mut shared = Vec::new();
        while let (Some(&first), Some(&last)) = (prefixes.first(), prefixes.last()) {
            match plan.after(first) {
                Some(state) if first == last && shared.len() < MAX_SHARED => {
                    let next = PrefixPlan::next(fields, state);
                    prefixes = keys.prefixes(&next);
                    shared.push((std::mem::replace(&mut plan, next), first));
                }
                _ => break,
            }
        }
        let window = Window::new(&prefixes, if plan.is_narrow() { 64 } else { 128 });
        let windows = prefixes.iter().map(|&prefix| window.of(prefix)).collect();
        let prefixes = match plan.is_narrow() {
            true => Prefixes::Narrow(prefixes.into_iter().map(|prefix| prefix as u64).collect()),
            false => Prefixes::Wide(prefixes),
        };
        Self {
            key_layout: key_layout.clone(),
            num_partitions,
            keys,
            shared,
            plan,
            prefixes,
            windows,
            window,
        }
    }

    /// Number of partitions, R.
    pub fn num_partitions(&self) -> usize {
        self.num_partitions
    }

    /// The boundaries as bytes, for another process.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = (self.num_partitions as u64).to_le_bytes().to_vec();
        bytes.extend(self.keys.to_bytes());
        bytes
    }

    /// Reads what `to_bytes` wrote for the same key layout.
    ///
    /// # Errors
    /// Bytes that do not hold sorted boundaries.
    pub fn from_bytes(key_layout: &RowLayout, bytes: &[u8]) -> Result<Self> {
        let corrupt = |reason| KernelError::CorruptKeys {
            what: "boundaries",
            reason,
        };
        let (count, rest) = bytes
            .split_first_chunk()
            .ok_or(corrupt("the number of partitions is cut off"))?;
        let num_partitions = usize::try_from(u64::from_le_bytes(*count)).unwrap_or(usize::MAX);
        let keys = KeyRows::from_bytes(key_layout, rest, "boundaries")?;
        if !(1..=MAX_PARTITIONS).contains(&num_partitions) || keys.starts.len() >= num_partitions {
            return Err(corrupt("there are too many of them"));
        }
        if (1..keys.starts.len()).any(|i| keys.compare(key_layout, i - 1, i).is_gt()) {
            return Err(corrupt("they are out of order"));
        }
        Ok(Self::new(key_layout, num_partitions, keys))
    }

    /// Fills `partitions[i]` for the key row at `starts[i]`; the first row has position `first`, the others follow.
    /// At most `CHUNK_ROWS` rows.
    pub(crate) fn assign(
        &self,
        keys: &[u8],
        starts: &[usize],
        first: Position,
        partitions: &mut [u32],
    ) {
        partitions.fill(UNDECIDED);
        for (plan, prefix) in &self.shared {
            let mut prefixes = [0u128; CHUNK_ROWS];
            let prefixes = &mut prefixes[..starts.len()];
            plan.fill(|i| &keys[starts[i]..], prefixes);
            for (partition, own) in partitions.iter_mut().zip(prefixes) {
                match (*own).cmp(prefix) {
                    Ordering::Less if *partition == UNDECIDED => *partition = 0,
                    Ordering::Greater if *partition == UNDECIDED => {
                        *partition = self.keys.starts.len() as u32
                    }
                    _ => {}
                }
            }
        }
        match &self.prefixes {
            Prefixes::Narrow(prefixes) => self.search(prefixes, keys, starts, first, partitions),
            Prefixes::Wide(prefixes) => self.search(prefixes, keys, starts, first, partitions),
        }
    }

    /// Finds the partitions that are undecided so far.
    fn search<P: Prefix>(
        &self,
        boundaries: &[P],
        keys: &[u8],
        starts: &[usize],
        first: Position,
        partitions: &mut [u32],
    ) {
        let mut prefixes = [P::default(); CHUNK_ROWS];
        let prefixes = &mut prefixes[..starts.len()];
        self.plan.fill(|i| &keys[starts[i]..], prefixes);
        for (i, (prefix, partition)) in prefixes.iter().zip(partitions).enumerate() {
            if *partition != UNDECIDED {
                continue;
            }
            let window = self.window.of(prefix.bits());
            let mut below = count_below(&self.windows, window);
            if self.windows.get(below) == Some(&window) {
                below += boundaries[below..].partition_point(|b| b < prefix);
                let tied = boundaries[below..].partition_point(|b| b == prefix);
                let position = Position {
                    row: first.row + i as u64,
                    ..first
                };
                let key = self.plan.after(prefix.bits()).map(|_| &keys[starts[i]..]);
                below += self.count_tied(below, tied, key, position);
            }
            *partition = below as u32;
        }
    }

    /// How many of the `tied` boundaries from `start` on are not greater; `key` where keys may differ.
    fn count_tied(
        &self,
        start: usize,
        tied: usize,
        key: Option<&[u8]>,
        position: Position,
    ) -> usize {
        let (mut low, mut high) = (start, start + tied);
        while low < high {
            let middle = (low + high) / 2;
            let order = key.map_or(Ordering::Equal, |row| {
                self.key_layout
                    .compare(self.keys.row(middle), row, State::default())
            });
            if order
                .then(self.keys.positions[middle].cmp(&position))
                .is_gt()
            {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low - start
    }
}

/// Number of boundaries below. No branch depends on the data (a mispredicted one costs more than all the
/// comparisons), so searches of several rows overlap.
#[inline]
fn count_below(boundaries: &[u64], window: u64) -> usize {
    let (mut start, mut size) = (0, boundaries.len());
    while size > 1 {
        let half = size / 2;
        start = select_unpredictable(boundaries[start + half] < window, start + half, start);
        size -= half;
    }
    start + usize::from(size == 1 && boundaries[start] < window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_keep_the_order() {
        let inside = [7 << 100 | 5 << 60, 7 << 100 | 9 << 60];
        let window = Window::new(&inside, 128);
        assert!(window.of(inside[0]) < window.of(inside[1]));
        assert_eq!((window.of(6 << 100), window.of(9 << 100)), (0, u64::MAX));
        assert_eq!(Window::new(&[3, 4], 64).of(4), 4);
        assert_eq!(Window::new(&[], 128).of(1 << 127), u64::MAX);
    }

    #[test]
    fn counting_matches_a_plain_count() {
        for size in 0..40u64 {
            let boundaries: Vec<u64> = (0..size).map(|b| b / 3 * 10).collect();
            for prefix in 0..150 {
                assert_eq!(
                    count_below(&boundaries, prefix),
                    boundaries.iter().filter(|&&b| b < prefix).count()
                );
            }
        }
    }
}
