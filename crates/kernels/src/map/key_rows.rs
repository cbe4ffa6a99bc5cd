//! Sampled keys: rows of a key layout with their positions, in memory and as bytes.

use std::cmp::Ordering;

use crate::error::{KernelError, Result};
use crate::keys::prefix::{PrefixPlan, State};
use crate::layout::RowLayout;
use crate::slices::walk::RowWalker;

/// Where a row stands in the whole input; breaks ties between equal keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Index of the input split.
    pub split: u32,
    /// Row within the split.
    pub row: u64,
}

const POSITION_BYTES: usize = 12;

/// Rows of a key layout with their positions.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyRows {
    pub(crate) rows: Vec<u8>,
    pub(crate) starts: Vec<usize>,
    pub(crate) positions: Vec<Position>,
}

impl KeyRows {
    pub(crate) fn row(&self, index: usize) -> &[u8] {
        &self.rows[self.starts[index]..]
    }

    pub(crate) fn compare(&self, key_layout: &RowLayout, a: usize, b: usize) -> Ordering {
        key_layout
            .compare(self.row(a), self.row(b), State::default())
            .then(self.positions[a].cmp(&self.positions[b]))
    }

    pub(crate) fn prefixes(&self, plan: &PrefixPlan) -> Vec<u128> {
        let mut prefixes = vec![0; self.starts.len()];
        plan.fill(|i| self.row(i), &mut prefixes);
        prefixes
    }

    pub(crate) fn push(&mut self, from: &Self, index: usize) {
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

    pub(crate) fn append(&mut self, other: &Self) {
        let base = self.rows.len();
        self.starts
            .extend(other.starts.iter().map(|start| base + start));
        self.rows.extend_from_slice(&other.rows);
        self.positions.extend_from_slice(&other.positions);
    }

    /// Encodes the rows as `[count u64][(split u32, row u64) per row][rows]`.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
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

    pub(crate) fn from_bytes(
        key_layout: &RowLayout,
        bytes: &[u8],
        what: &'static str,
    ) -> Result<Self> {
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
