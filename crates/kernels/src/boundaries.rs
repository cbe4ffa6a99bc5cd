//! Boundaries: R-1 sampled keys that split the key space, and the partition of every row.
//!
//! A boundary is a key and a position in the input. A row goes to partition `#{boundaries b : b <= (key, position)}`;
//! because positions differ, rows with equal keys are split evenly too, and the split is stable.

use std::cmp::Ordering;
use std::hint::select_unpredictable;

use arrow_array::RecordBatch;

use crate::encode::{pack, row_lengths, write_rows};
use crate::error::{KernelError, Result};
use crate::layout::{RowLayout, CHUNK_ROWS};
use crate::order::Prefix;
use crate::prefix::{PrefixPlan, State};
use crate::source::Sources;
use crate::walk::RowWalker;

/// The most partitions that can be planned.
pub const MAX_PARTITIONS: usize = 1 << 20;

/// Where a row stands in the whole input; the tie-break between equal keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Index of the input split.
    pub split: u32,
    /// Row within the split.
    pub row: u64,
}

const POSITION_BYTES: usize = 12;

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
    /// The topmost 64 bits of the prefixes, which nearly always decide.
    tops: Vec<u64>,
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
        let (prefixes, tops) = if plan.is_narrow() {
            let narrow: Vec<u64> = prefixes.iter().map(|prefix| *prefix as u64).collect();
            (Prefixes::Narrow(narrow.clone()), narrow)
        } else {
            let tops = prefixes.iter().map(|prefix| prefix.top()).collect();
            (Prefixes::Wide(prefixes), tops)
        };
        Self {
            key_layout: key_layout.clone(),
            num_partitions,
            keys,
            shared,
            plan,
            prefixes,
            tops,
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
            let mut below = count_below(&self.tops, prefix.top());
            if self.tops.get(below) == Some(&prefix.top()) {
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
fn count_below(boundaries: &[u64], top: u64) -> usize {
    let (mut start, mut size) = (0, boundaries.len());
    while size > 1 {
        let half = size / 2;
        start = select_unpredictable(boundaries[start + half] < top, start + half, start);
        size -= half;
    }
    start + usize::from(size == 1 && boundaries[start] < top)
}

/// Rows of a key layout with their positions.
#[derive(Debug, Clone, Default)]
struct KeyRows {
    rows: Vec<u8>,
    starts: Vec<usize>,
    positions: Vec<Position>,
}

impl KeyRows {
    fn row(&self, index: usize) -> &[u8] {
        &self.rows[self.starts[index]..]
    }

    fn compare(&self, key_layout: &RowLayout, a: usize, b: usize) -> Ordering {
        key_layout
            .compare(self.row(a), self.row(b), State::default())
            .then(self.positions[a].cmp(&self.positions[b]))
    }

    fn prefixes(&self, plan: &PrefixPlan) -> Vec<u128> {
        let mut prefixes = vec![0; self.starts.len()];
        plan.fill(|i| self.row(i), &mut prefixes);
        prefixes
    }

    fn push(&mut self, from: &Self, index: usize) {
        let end = from
            .starts
            .get(index + 1)
            .copied()
            .unwrap_or(from.rows.len());
        self.starts.push(self.rows.len());
        self.rows
            .extend_from_slice(&from.rows[from.starts[index]..end]);
        self.positions.push(from.positions[index]);
    }

    fn append(&mut self, other: &Self) {
        let base = self.rows.len();
        self.starts
            .extend(other.starts.iter().map(|start| base + start));
        self.rows.extend_from_slice(&other.rows);
        self.positions.extend_from_slice(&other.positions);
    }

    /// `[count u64][(split u32, row u64) per row][rows]`
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes =
            Vec::with_capacity(8 + POSITION_BYTES * self.positions.len() + self.rows.len());
        bytes.extend((self.positions.len() as u64).to_le_bytes());
        for position in &self.positions {
            bytes.extend(position.split.to_le_bytes());
            bytes.extend(position.row.to_le_bytes());
        }
        bytes.extend_from_slice(&self.rows);
        bytes
    }

    fn from_bytes(key_layout: &RowLayout, bytes: &[u8], what: &'static str) -> Result<Self> {
        let corrupt = |reason| KernelError::CorruptKeys { what, reason };
        let (count, rest) = bytes
            .split_first_chunk()
            .ok_or(corrupt("their number is cut off"))?;
        let count = usize::try_from(u64::from_le_bytes(*count)).unwrap_or(usize::MAX);
        let (positions, rows) = count
            .checked_mul(POSITION_BYTES)
            .and_then(|n| rest.split_at_checked(n))
            .ok_or(corrupt("the positions are cut off"))?;
        let (positions, _) = positions.as_chunks::<POSITION_BYTES>();
        let positions = positions.iter().map(read_position).collect();
        let mut walker = RowWalker::new(key_layout, rows, 0);
        let (mut starts, mut chunk) = (Vec::with_capacity(count), Vec::new());
        loop {
            walker
                .next_chunk(&mut chunk)
                .map_err(|_| corrupt("a key is cut off"))?;
            if chunk.is_empty() {
                break;
            }
            starts.extend_from_slice(&chunk);
        }
        if starts.len() != count {
            return Err(corrupt("there is not one position per key"));
        }
        Ok(Self {
            rows: rows.to_vec(),
            starts,
            positions,
        })
    }
}

fn read_position(bytes: &[u8; POSITION_BYTES]) -> Position {
    let [a, b, c, d, row @ ..] = *bytes;
    Position {
        split: u32::from_le_bytes([a, b, c, d]),
        row: u64::from_le_bytes(row),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
