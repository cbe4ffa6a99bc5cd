//! Boundaries between partitions: sampled keys with the position of the row that they came from.
//!
//! A sample is `[key][split u32][row u64]`, integers big-endian, so that comparing samples as bytes compares (key,
//! position). The position breaks ties: equal keys are split evenly between partitions, and the result stays stable.
//! Serialised boundaries are the R-1 samples back to back.

use std::ops::Range;

use super::{KeyWord, RecordError, RecordShape, SortedRecords};
use crate::map::cells::Cells;
use crate::{Position, MAX_PARTITIONS};

/// Bytes of a position in a sample.
const POSITION_BYTES: usize = 12;
/// Samples the keys of `records[rows]`, the first record being at `first`.
///
/// # Panics
/// If a row is not in `records`.
pub fn sample(shape: RecordShape, records: &[u8], first: Position, rows: &[u64]) -> Vec<u8> {
    let mut samples = Vec::with_capacity(rows.len() * (shape.key_bytes() + POSITION_BYTES));
    for &row in rows {
        let start = row as usize * shape.record_bytes();
        samples.extend_from_slice(&records[start..start + shape.key_bytes()]);
        samples.extend_from_slice(&first.split.to_be_bytes());
        samples.extend_from_slice(&(first.row + row).to_be_bytes());
    }
    samples
}

/// Chooses boundaries that split the samples into `num_partitions` equal parts.
///
/// With fewer samples than partitions some partitions stay empty; without any, all rows go to the first.
///
/// # Errors
/// [`RecordError::PartitionCount`], [`RecordError::CorruptBoundaries`] if the samples have another key width.
pub fn choose_boundaries(
    shape: RecordShape,
    samples: &[&[u8]],
    num_partitions: usize,
) -> Result<Boundaries, RecordError> {
    if !(1..=MAX_PARTITIONS).contains(&num_partitions) {
        return Err(RecordError::PartitionCount {
            partitions: num_partitions,
            limit: MAX_PARTITIONS,
        });
    }
    let width = sample_bytes(shape);
    if let Some(cut) = samples.iter().find(|s| !s.len().is_multiple_of(width)) {
        return Err(corrupt(shape, cut));
    }
    let sorted = SortedRecords::try_new(RecordShape::try_new(width, width)?, samples)?;
    let mut chosen = vec![u8::MAX; width * (num_partitions - 1)];
    if !sorted.is_empty() {
        for (i, out) in (1..).zip(chosen.chunks_exact_mut(width)) {
            sorted.gather(i * sorted.len() / num_partitions, out)?;
        }
    }
    Boundaries::from_bytes(shape, &chosen)
}

/// R-1 boundaries, which make R partitions: a record goes to partition `#{boundaries b : b <= (key, position)}`.
#[derive(Clone, Debug)]
pub struct Boundaries {
    shape: RecordShape,
    /// The distinct keys of the boundaries, back to back, ascending.
    keys: Vec<u8>,
    /// The first word of each distinct key.
    words: Vec<u64>,
    /// The boundaries with distinct key `k` are number `firsts[k]..firsts[k + 1]`.
    firsts: Vec<u32>,
    /// The positions of all boundaries.
    positions: Vec<Position>,
    cells: Cells,
}

impl Boundaries {
    /// Reads the bytes that [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    /// [`RecordError::CorruptBoundaries`] if the bytes are no boundaries in order, [`RecordError::PartitionCount`].
    pub fn from_bytes(shape: RecordShape, bytes: &[u8]) -> Result<Self, RecordError> {
        let width = sample_bytes(shape);
        let samples = bytes.chunks_exact(width);
        if !samples.remainder().is_empty() || !samples.clone().is_sorted() {
            return Err(corrupt(shape, bytes));
        }
        if samples.len() >= MAX_PARTITIONS {
            return Err(RecordError::PartitionCount {
                partitions: samples.len() + 1,
                limit: MAX_PARTITIONS,
            });
        }
        let (mut keys, mut words, mut firsts) = (Vec::new(), Vec::new(), Vec::new());
        let mut positions = Vec::with_capacity(samples.len());
        let word = KeyWord::new(RecordShape::try_new(width, shape.key_bytes())?, 0);
        for sample in samples {
            let (key, position) = sample.split_at(shape.key_bytes());
            if !keys.ends_with(key) {
                firsts.push(positions.len() as u32);
                words.push(word.of(sample));
                keys.extend_from_slice(key);
            }
            positions.push(read_position(position));
        }
        firsts.push(positions.len() as u32);
        let cells = Cells::new(&words);
        Ok(Self {
            shape,
            keys,
            words,
            firsts,
            positions,
            cells,
        })
    }

    /// Returns the serialised form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.positions.len() * sample_bytes(self.shape));
        for (k, key) in self.keys.chunks_exact(self.shape.key_bytes()).enumerate() {
            for position in &self.positions[self.numbers(k)] {
                bytes.extend_from_slice(key);
                bytes.extend_from_slice(&position.split.to_be_bytes());
                bytes.extend_from_slice(&position.row.to_be_bytes());
            }
        }
        bytes
    }

    /// Returns the number of partitions, R.
    pub fn num_partitions(&self) -> usize {
        self.positions.len() + 1
    }

    /// Returns the shape of the records that these boundaries split.
    pub fn shape(&self) -> RecordShape {
        self.shape
    }

    /// Returns the partition of the record with this first key word, key and position.
    #[inline(always)]
    pub(super) fn partition(&self, word: u64, record: &[u8], position: Position) -> u32 {
        let near = self.cells.range(word);
        if near.is_empty() {
            return self.firsts[near.start];
        }
        self.partition_near(near, word, self.shape.key(record), position)
    }

    /// Returns the partition, if only the distinct keys `near` can decide.
    fn partition_near(&self, near: Range<usize>, word: u64, key: &[u8], position: Position) -> u32 {
        let below = first_where(near.clone(), |k| self.words[k] >= word);
        let k = first_where(below..near.end, |k| {
            self.words[k] > word || self.distinct_key(k) >= key
        });
        let first = self.firsts[k];
        if k == near.end || self.distinct_key(k) != key {
            return first;
        }
        first + self.positions[self.numbers(k)].partition_point(|&p| p <= position) as u32
    }

    fn distinct_key(&self, k: usize) -> &[u8] {
        let key_bytes = self.shape.key_bytes();
        &self.keys[k * key_bytes..(k + 1) * key_bytes]
    }

    /// Returns the numbers of the boundaries with distinct key `k`.
    fn numbers(&self, k: usize) -> Range<usize> {
        self.firsts[k] as usize..self.firsts[k + 1] as usize
    }
}

/// Returns the first index in `range` for which `reached` holds, or the end. `reached` must hold for every index after
/// one for which it holds.
fn first_where(mut range: Range<usize>, reached: impl Fn(usize) -> bool) -> usize {
    while !range.is_empty() {
        let middle = range.start.midpoint(range.end);
        if reached(middle) {
            range.end = middle;
        } else {
            range.start = middle + 1;
        }
    }
    range.start
}

fn sample_bytes(shape: RecordShape) -> usize {
    shape.key_bytes() + POSITION_BYTES
}

fn corrupt(shape: RecordShape, bytes: &[u8]) -> RecordError {
    RecordError::CorruptBoundaries {
        bytes: bytes.len(),
        key_bytes: shape.key_bytes(),
    }
}

fn read_position(bytes: &[u8]) -> Position {
    let number = bytes.iter().fold(0u128, |n, &b| n << 8 | u128::from(b));
    Position {
        split: (number >> 64) as u32,
        row: number as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> RecordShape {
        RecordShape::try_new(4, 2).unwrap()
    }

    fn at(row: u64) -> Position {
        Position { split: 3, row }
    }

    #[test]
    fn bytes_round_trip() {
        let records = [9u8, 1, 0, 0, 2, 5, 0, 0, 9, 1, 0, 0, 7, 7, 7, 7];
        let samples = sample(shape(), &records, at(100), &[0, 1, 2, 3]);
        let boundaries = choose_boundaries(shape(), &[&samples], 4).unwrap();
        assert_eq!(boundaries.num_partitions(), 4);
        let bytes = boundaries.to_bytes();
        assert_eq!(
            Boundaries::from_bytes(shape(), &bytes).unwrap().to_bytes(),
            bytes
        );
        assert_eq!(&bytes[..6], &[7, 7, 0, 0, 0, 3]);
        assert_eq!(bytes[13], 103);
        assert_eq!(bytes[27], 100);
        assert_eq!(bytes[41], 102);
    }

    #[test]
    fn disordered_or_cut_bytes_are_refused() {
        let records = [1u8, 1, 0, 0, 2, 2, 0, 0];
        let mut bytes = sample(shape(), &records, at(0), &[1, 0]);
        assert!(Boundaries::from_bytes(shape(), &bytes).is_err());
        bytes.truncate(13);
        assert!(Boundaries::from_bytes(shape(), &bytes).is_err());
        assert!(choose_boundaries(shape(), &[&bytes], 2).is_err());
    }

    #[test]
    fn partition_counts_are_limited() {
        assert!(choose_boundaries(shape(), &[], 0).is_err());
        assert!(choose_boundaries(shape(), &[], MAX_PARTITIONS + 1).is_err());
        let most = choose_boundaries(shape(), &[], MAX_PARTITIONS).unwrap();
        assert_eq!(most.num_partitions(), MAX_PARTITIONS);
    }

    #[test]
    fn without_samples_everything_goes_to_the_first_partition() {
        let boundaries = choose_boundaries(shape(), &[], 7).unwrap();
        let record = [0xff, 0xfe, 0, 0];
        let word = KeyWord::new(shape(), 0).of(&record);
        assert_eq!(boundaries.partition(word, &record, at(0)), 0);
    }
}
