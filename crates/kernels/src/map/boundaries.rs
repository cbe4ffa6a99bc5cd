//! Boundaries: R-1 sampled keys that split the key space, and the partition of every row.
//!
//! A boundary is a key and a position in the input. A row goes to partition `#{boundaries b : b <= (key, position)}`.
//! Because positions differ, rows with equal keys are split evenly too, and the split is stable.

use std::cmp::Ordering;

use crate::error::{KernelError, Result};
use crate::keys::prefix::{PrefixPlan, State};
use crate::layout::{RowLayout, CHUNK_ROWS};
use crate::map::assignment::{PartitionCount, MAX_PARTITIONS};
use crate::map::cells::Cells;
use crate::map::window::{count_below, Window};
use crate::order::Prefix;

use crate::map::key_rows::{KeyRows, Position};

/// Stands for a partition that is not decided yet; no partition has this number.
const UNDECIDED: u32 = u32::MAX;

/// Picks the boundaries of `num_partitions` partitions, evenly spaced in the sorted samples.
///
/// # Errors
/// Corrupt samples, or a number of partitions out of range.
pub fn choose_boundaries(
    key_layout: &RowLayout,
    samples: &[&[u8]],
    num_partitions: usize,
) -> Result<Boundaries> {
    let num_partitions = PartitionCount::try_new(num_partitions)?.get();
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
    /// The beginning that all boundaries share, as far as it does not tell them apart (URLs, paths).
    shared: Vec<(PrefixPlan, u128)>,
    /// How prefixes go on after the shared beginning.
    plan: PrefixPlan,
    prefixes: Prefixes,
    /// Window of each prefix, which nearly always decides.
    windows: Vec<u64>,
    window: Window,
    cells: Cells,
}

/// Comparisons deal with a longer common beginning.
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
        let windows: Vec<u64> = prefixes.iter().map(|&prefix| window.of(prefix)).collect();
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
            cells: Cells::new(&windows),
            windows,
            window,
        }
    }

    /// Returns the number of partitions, R.
    pub fn num_partitions(&self) -> usize {
        self.num_partitions
    }

    /// Returns the boundaries as bytes, for another process.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = (self.num_partitions as u64).to_le_bytes().to_vec();
        bytes.extend(self.keys.to_bytes());
        bytes
    }

    /// Reads the bytes that `to_bytes` wrote for the same key layout.
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
    /// Takes at most `CHUNK_ROWS` rows.
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

    /// Finds the partitions that are still undecided.
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
            let near = self.cells.range(window);
            let mut below = near.start + count_below(&self.windows[near], window);
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

    /// Counts how many of the `tied` boundaries from `start` on are not greater. `key` is given where keys may differ.
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
