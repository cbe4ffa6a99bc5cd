//! Moves each record into the slice of its partition; within a slice the input order is kept.
//!
//! Two passes, so that the caller can allocate the block in between: [`Scatter::plan`] reads the keys, finds each
//! record's partition and with it the slice offsets; [`Scatter::write`] copies the records there.

use super::{Boundaries, KeyWord, RecordError, RecordShape, BENCHMARK_RECORD_BYTES};
use crate::prefetch::prefetch;
use crate::Position;

/// The place of a record is asked for this many records before it is written.
const PREFETCH_RECORDS: usize = 16;

/// The partition of every record of some chunks.
pub struct Scatter {
    shape: RecordShape,
    partitions: Vec<u32>,
    slice_offsets: Vec<u64>,
}

impl Scatter {
    /// Finds the partition of every record of `chunks`, the first of which is at position `first`.
    ///
    /// # Errors
    /// [`RecordError::PartialRecord`] if a chunk ends inside a record.
    ///
    /// # Cost
    /// 4 bytes per record; about 15 ns per record for random keys.
    pub fn plan(
        chunks: &[&[u8]],
        boundaries: &Boundaries,
        first: Position,
    ) -> Result<Self, RecordError> {
        let shape = boundaries.shape();
        let mut partitions = Vec::with_capacity(count_records(shape, chunks)?);
        let word = KeyWord::new(shape, 0);
        let mut position = first;
        for chunk in chunks {
            let records = chunk.chunks_exact(shape.record_bytes());
            partitions.extend(records.map(|record| {
                let partition = boundaries.partition(word.of(record), record, position);
                position.row += 1;
                partition
            }));
        }
        let slice_offsets = slice_offsets(shape, &partitions, boundaries.num_partitions());
        Ok(Self {
            shape,
            partitions,
            slice_offsets,
        })
    }

    /// R+1 byte offsets: slice `r` is `slice_offsets()[r]..slice_offsets()[r + 1]` of the output.
    pub fn slice_offsets(&self) -> &[u64] {
        &self.slice_offsets
    }

    /// The number of records.
    pub fn records(&self) -> usize {
        self.partitions.len()
    }

    /// Copies the records of the chunks that were planned into their slices of `out`.
    ///
    /// # Errors
    /// [`RecordError::OutputSize`] unless `chunks` and `out` both have the planned number of bytes;
    /// [`RecordError::PartialRecord`].
    ///
    /// # Cost
    /// About 20 ns per 100-byte record, for some thousands of partitions too.
    pub fn write(&self, chunks: &[&[u8]], out: &mut [u8]) -> Result<(), RecordError> {
        let expected = self.partitions.len() * self.shape.record_bytes();
        let planned = count_records(self.shape, chunks)? * self.shape.record_bytes();
        for actual in [planned, out.len()] {
            if actual != expected {
                return Err(RecordError::OutputSize { expected, actual });
            }
        }
        if self.shape.record_bytes() == BENCHMARK_RECORD_BYTES {
            self.copy_records(chunks, out, BENCHMARK_RECORD_BYTES);
        } else {
            self.copy_records(chunks, out, self.shape.record_bytes());
        }
        Ok(())
    }

    #[inline(always)]
    fn copy_records(&self, chunks: &[&[u8]], out: &mut [u8], record_bytes: usize) {
        let mut ends = self.slice_offsets.clone();
        let mut partitions = self.partitions.iter();
        let mut ahead = self.partitions.iter().skip(PREFETCH_RECORDS);
        for chunk in chunks {
            for (record, &partition) in chunk.chunks_exact(record_bytes).zip(&mut partitions) {
                if let Some(&later) = ahead.next() {
                    let start = ends[later as usize] as usize;
                    prefetch(&out[start..start + record_bytes]);
                }
                let end = &mut ends[partition as usize];
                let start = *end as usize;
                out[start..start + record_bytes].copy_from_slice(record);
                *end += record_bytes as u64;
            }
        }
    }
}

fn count_records(shape: RecordShape, chunks: &[&[u8]]) -> Result<usize, RecordError> {
    chunks.iter().map(|chunk| shape.count(chunk)).sum()
}

fn slice_offsets(shape: RecordShape, partitions: &[u32], num_partitions: usize) -> Vec<u64> {
    let mut offsets = vec![0; num_partitions + 1];
    for &partition in partitions {
        offsets[partition as usize + 1] += shape.record_bytes() as u64;
    }
    for r in 0..num_partitions {
        offsets[r + 1] += offsets[r];
    }
    offsets
}
