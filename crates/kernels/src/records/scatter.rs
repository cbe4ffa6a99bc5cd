//! Moves each record into the slice of its partition; within a slice the input order is kept.
//!
//! There are two passes, so that the caller can allocate the block in between. [`Scatter::plan`] reads the keys, finds
//! each record's partition and with it the slice offsets. [`Scatter::write`] copies the records there and hashes them
//! as it reads them. Every slice is a section (`sections.rs`).

use super::{Boundaries, KeyWord, RecordError, RecordShape, BENCHMARK_RECORD_BYTES};
use crate::checks::check::CheckError;
use crate::checks::row_hash::hash_rows;
use crate::checks::tally::Tally;
use crate::prefetch::prefetch;
use crate::slices::sections::{self, write_header, Origin};
use crate::Position;

/// The memory at the place of a record is asked for this many records before it is written.
const PREFETCH_RECORDS: usize = 16;
/// Records that are hashed, then copied: few enough to stay in the first-level cache between the two.
const CACHED_RECORDS: usize = 128;

/// The partition of every record of some chunks.
pub struct Scatter {
    shape: RecordShape,
    partitions: Vec<u32>,
    slice_offsets: Vec<u64>,
    tag: u8,
    map: u32,
}

impl Scatter {
    /// Finds the partition of every record of `chunks`, the first of which is at position `first`. Slices say that they
    /// come from map number `first.split`.
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
            tag: 0,
            map: first.split,
        })
    }

    /// Marks the slices as coming from the input with this tag, instead of 0.
    #[must_use]
    pub fn tagged(self, tag: u8) -> Self {
        Self { tag, ..self }
    }

    /// Returns R+1 byte offsets: slice `r` is `slice_offsets()[r]..slice_offsets()[r + 1]` of the output.
    pub fn slice_offsets(&self) -> &[u64] {
        &self.slice_offsets
    }

    /// Returns the number of records.
    pub fn records(&self) -> usize {
        self.partitions.len()
    }

    /// Copies the records of the chunks that were planned into their slices of `out`.
    ///
    /// # Errors
    /// [`RecordError::OutputSize`] unless `chunks` and `out` both have the planned number of bytes;
    /// [`RecordError::PartialRecord`]; records that do not fill their slices.
    ///
    /// # Cost
    /// About 20 ns per 100-byte record, for some thousands of partitions too, and its hash (`tally.rs`).
    pub fn write(&self, chunks: &[&[u8]], out: &mut [u8]) -> Result<(), RecordError> {
        let record_bytes = self.shape.record_bytes();
        let expected = self.partitions.len() * record_bytes;
        let planned = count_records(self.shape, chunks)? * record_bytes;
        let headers = (self.slice_offsets.len() - 1) * sections::HEADER_BYTES;
        for (expected, actual) in [(expected, planned), (expected + headers, out.len())] {
            if actual != expected {
                return Err(RecordError::OutputSize { expected, actual });
            }
        }
        let tallies = if record_bytes == BENCHMARK_RECORD_BYTES {
            self.copy_records(chunks, out, BENCHMARK_RECORD_BYTES)?
        } else {
            self.copy_records(chunks, out, record_bytes)?
        };
        let (tag, map) = (self.tag, self.map);
        for (partition, (tally, ends)) in
            (0..).zip(tallies.into_iter().zip(self.slice_offsets.windows(2)))
        {
            let origin = Origin {
                tag,
                map,
                partition,
            };
            write_header(origin, tally, &mut out[ends[0] as usize..ends[1] as usize]);
        }
        Ok(())
    }

    /// Copies the records, and returns the tally of each slice.
    #[inline(always)]
    fn copy_records<'a>(
        &self,
        chunks: &[&'a [u8]],
        out: &mut [u8],
        record_bytes: usize,
    ) -> Result<Vec<Tally>, RecordError> {
        let (starts, slice_ends) = (&self.slice_offsets, &self.slice_offsets[1..]);
        let first_record = |&start: &u64| start as usize + sections::HEADER_BYTES;
        let mut ends: Vec<usize> = starts.iter().map(first_record).collect();
        let mut tallies = vec![Tally::default(); slice_ends.len()];
        let mut partitions = self.partitions.as_slice();
        let mut ahead = partitions.iter().skip(PREFETCH_RECORDS);
        let cached = |chunk: &&'a [u8]| chunk.chunks(CACHED_RECORDS * record_bytes);
        for records in chunks.iter().flat_map(cached) {
            let (here, rest) = partitions.split_at(records.len() / record_bytes);
            partitions = rest;
            let records = || here.iter().zip(records.chunks_exact(record_bytes));
            hash_rows(records(), |&partition, hash| {
                tallies[partition as usize].add_hash(hash)
            });
            for (&partition, record) in records() {
                if let Some(&later) = ahead.next() {
                    let start = ends[later as usize];
                    prefetch(&out[start..start + record_bytes]);
                }
                let end = &mut ends[partition as usize];
                out[*end..*end + record_bytes].copy_from_slice(record);
                *end += record_bytes;
            }
        }
        let mut filled = ends.iter().zip(slice_ends);
        match filled.position(|(&end, &slice_end)| end as u64 != slice_end) {
            Some(partition) => Err(CheckError::Scattered { partition }.into()),
            None => Ok(tallies),
        }
    }
}

fn count_records(shape: RecordShape, chunks: &[&[u8]]) -> Result<usize, RecordError> {
    chunks.iter().map(|chunk| shape.count(chunk)).sum()
}

fn slice_offsets(shape: RecordShape, partitions: &[u32], num_partitions: usize) -> Vec<u64> {
    let mut row_bytes = vec![0; num_partitions];
    for &partition in partitions {
        row_bytes[partition as usize] += shape.record_bytes() as u64;
    }
    sections::slice_offsets(row_bytes.into_iter())
}
