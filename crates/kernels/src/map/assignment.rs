//! Assignments: how rows find their partition: by ranges of keys, by a hash of keys, or in turn.
//!
//! Ranges order the partitions and split equal keys between them. Equal ranges of random numbers do so without
//! comparing any. A hash keeps equal keys together, in no order. Assignment in turn makes partitions of equal size,
//! whatever the rows hold.

use arrow_schema::DataType;

use crate::error::{KernelError, Result};
use crate::layout::{RowLayout, CHUNK_ROWS};
use crate::map::boundaries::Boundaries;
use crate::map::hash::hash_keys;
use crate::map::key_rows::Position;
use crate::mix::{mix, scale};
use crate::slot::Slot;

/// The most partitions that can be planned.
pub const MAX_PARTITIONS: usize = 1 << 20;

/// First byte of a serialised assignment.
const RANGE: u8 = 0;
const HASH: u8 = 1;
const ROUND_ROBIN: u8 = 2;
const HASH_LEVEL: u8 = 3;
const EVEN: u8 = 4;

/// A number of partitions that can be planned: 1 to [`MAX_PARTITIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionCount(u32);

impl PartitionCount {
    /// Checks the number.
    ///
    /// # Errors
    /// [`KernelError::PartitionCount`] if it is out of range.
    pub fn try_new(count: usize) -> Result<Self> {
        match u32::try_from(count) {
            Ok(number) if (1..=MAX_PARTITIONS).contains(&count) => Ok(Self(number)),
            _ => Err(KernelError::PartitionCount {
                count,
                limit: MAX_PARTITIONS,
            }),
        }
    }

    /// Returns the number.
    pub fn get(self) -> usize {
        self.0 as usize
    }
}

/// How rows find their partition.
#[allow(clippy::large_enum_variant, reason = "a map has one")]
#[derive(Debug, Clone)]
pub enum Assignment {
    /// By key: partition r holds the keys between boundaries r - 1 and r.
    Range(Boundaries),
    /// By the hash of the key columns (`hash.rs`): equal keys meet in one partition. Level 0 scales the hash h by the
    /// number of partitions, level l > 0 scales mix(h ^ l). So one level divides the rows that another has brought
    /// together, except equal keys.
    Hash(PartitionCount, u8),
    /// By equal ranges of the key, a number of 64 bits: the number is scaled by the number of partitions.
    Even(PartitionCount),
    /// In turn, by position alone: the partitions of a split differ by at most one row.
    RoundRobin(PartitionCount),
}

impl Assignment {
    /// Assigns by the hash of the layout's keys.
    ///
    /// # Errors
    /// A number of partitions out of range, a layout without keys.
    pub fn hash(layout: &RowLayout, num_partitions: usize) -> Result<Self> {
        Self::hash_level(layout, num_partitions, 0)
    }

    /// Assigns by the hash of the layout's keys, for rows that the levels below have brought together.
    ///
    /// # Errors
    /// As `hash`.
    pub fn hash_level(layout: &RowLayout, num_partitions: usize, level: u8) -> Result<Self> {
        if layout.keys().is_empty() {
            return Err(KernelError::NoKeys);
        }
        PartitionCount::try_new(num_partitions).map(|count| Self::Hash(count, level))
    }

    /// Assigns by equal ranges of the layout's key.
    ///
    /// # Errors
    /// A number of partitions out of range, a key that is not one ascending `uint64` without nulls.
    pub fn even(layout: &RowLayout, num_partitions: usize) -> Result<Self> {
        let key_layout = layout.key_layout();
        let number = Slot::Fixed { at: 0, width: 8 };
        match (key_layout.columns(), key_layout.keys()) {
            ([column], [key])
                if column.value_type == DataType::UInt64
                    && column.slot == number
                    && !key.descending =>
            {
                PartitionCount::try_new(num_partitions).map(Self::Even)
            }
            _ => Err(KernelError::NotANumber),
        }
    }

    /// Assigns in turn.
    ///
    /// # Errors
    /// A number of partitions out of range.
    pub fn round_robin(num_partitions: usize) -> Result<Self> {
        PartitionCount::try_new(num_partitions).map(Self::RoundRobin)
    }

    /// Returns the number of partitions, R.
    pub fn num_partitions(&self) -> usize {
        match self {
            Self::Range(boundaries) => boundaries.num_partitions(),
            Self::Hash(count, _) | Self::Even(count) | Self::RoundRobin(count) => count.get(),
        }
    }

    /// Returns the assignment as bytes, for another process. A tag byte comes first, then the boundaries or the number
    /// of partitions, then the level of a hash if it is above 0.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (tag, rest) = match self {
            Self::Range(boundaries) => (RANGE, boundaries.to_bytes()),
            Self::Hash(count, 0) => (HASH, u64::from(count.0).to_le_bytes().to_vec()),
            Self::Hash(count, level) => {
                let mut rest = u64::from(count.0).to_le_bytes().to_vec();
                rest.push(*level);
                (HASH_LEVEL, rest)
            }
            Self::Even(count) => (EVEN, u64::from(count.0).to_le_bytes().to_vec()),
            Self::RoundRobin(count) => (ROUND_ROBIN, u64::from(count.0).to_le_bytes().to_vec()),
        };
        let mut bytes = vec![tag];
        bytes.extend(rest);
        bytes
    }

    /// Reads the bytes that `to_bytes` wrote for the same layout.
    ///
    /// # Errors
    /// Bytes that hold no assignment, or boundaries of other keys.
    pub fn from_bytes(layout: &RowLayout, bytes: &[u8]) -> Result<Self> {
        let corrupt = |reason| KernelError::CorruptKeys {
            what: "assignment",
            reason,
        };
        let (&tag, rest) = bytes.split_first().ok_or(corrupt("it is empty"))?;
        let number = |bytes: &[u8]| -> Result<usize> {
            let count = <[u8; 8]>::try_from(bytes);
            let count = count.map_err(|_| corrupt("it has no number of partitions"))?;
            Ok(usize::try_from(u64::from_le_bytes(count)).unwrap_or(usize::MAX))
        };
        match tag {
            RANGE => Boundaries::from_bytes(&layout.key_layout(), rest).map(Self::Range),
            HASH => Self::hash(layout, number(rest)?),
            HASH_LEVEL => {
                let (&level, count) = rest.split_last().ok_or(corrupt("it has no level"))?;
                Self::hash_level(layout, number(count)?, level)
            }
            EVEN => Self::even(layout, number(rest)?),
            ROUND_ROBIN => Self::round_robin(number(rest)?),
            _ => Err(corrupt("its first byte names no kind")),
        }
    }

    /// Returns whether `assign` looks at keys.
    pub(crate) fn reads_keys(&self) -> bool {
        !matches!(self, Self::RoundRobin(_))
    }

    /// Fills `partitions[i]` for the key row at `keys[starts[i]..]`; the first row has position `first`, the others
    /// follow. Takes at most `CHUNK_ROWS` rows, and looks at the kind of assignment once for all of them.
    pub(crate) fn assign(
        &self,
        key_layout: &RowLayout,
        (keys, starts): (&[u8], &[usize]),
        first: Position,
        partitions: &mut [u32],
    ) {
        match self {
            Self::Range(boundaries) => boundaries.assign(keys, starts, first, partitions),
            Self::Hash(count, level) => {
                let mut hashes = [0; CHUNK_ROWS];
                let hashes = &mut hashes[..starts.len()];
                hash_keys(key_layout, keys, starts, hashes);
                if *level > 0 {
                    for hash in hashes.iter_mut() {
                        *hash = mix(*hash ^ u64::from(*level));
                    }
                }
                for (partition, &hash) in partitions.iter_mut().zip(hashes.iter()) {
                    *partition = scale(hash, u64::from(count.0)) as u32;
                }
            }
            Self::Even(count) => {
                for (partition, &start) in partitions.iter_mut().zip(starts) {
                    let mut number = [0; 8];
                    number.copy_from_slice(&keys[start..start + 8]);
                    *partition = scale(u64::from_le_bytes(number), u64::from(count.0)) as u32;
                }
            }
            Self::RoundRobin(count) => deal(*count, first, partitions),
        }
    }
}

/// Deals rows to partitions in turn. Splits begin at partitions that spread as multiples of the golden ratio do. So the
/// rows of many small splits do not crowd in the first partitions.
fn deal(count: PartitionCount, first: Position, partitions: &mut [u32]) {
    let count = u64::from(count.0);
    let start = (u64::from(first.split.wrapping_mul(0x9E37_79B9)) * count) >> 32;
    let mut next = ((start + first.row % count) % count) as u32;
    for partition in partitions {
        *partition = next;
        next += 1;
        if u64::from(next) == count {
            next = 0;
        }
    }
}
