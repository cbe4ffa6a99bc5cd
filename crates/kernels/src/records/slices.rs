//! Several slices of records under one 32-bit numbering, in input order.
//!
//! A number is (chunk, record in chunk); a chunk has up to 4096 records of one slice. Finding a record is then one
//! table look-up, whatever the number of slices. The table stays in the cache: 16 bytes for 4096 records.

use std::slice::ChunksExact;

use super::{RecordError, RecordShape};

/// Records in a chunk, as a power of two.
const CHUNK_BITS: u32 = 12;
const CHUNK_RECORDS: usize = 1 << CHUNK_BITS;
const MAX_CHUNKS: usize = 1 << (u32::BITS - CHUNK_BITS);

/// Records by number.
pub(super) struct Slices<'a> {
    chunks: Vec<&'a [u8]>,
    shape: RecordShape,
    records: usize,
}

/// Records of one slice, numbered without gaps.
pub(super) struct Chunk<'a> {
    /// The number of the first record.
    pub(super) first: u32,
    /// The records, in order.
    pub(super) records: ChunksExact<'a, u8>,
}

impl<'a> Slices<'a> {
    /// Numbers the records of `slices`.
    pub(super) fn try_new(shape: RecordShape, slices: &[&'a [u8]]) -> Result<Self, RecordError> {
        let mut chunks = Vec::new();
        let mut records = 0;
        for slice in slices {
            records += shape.count(slice)?;
            chunks.extend(slice.chunks(CHUNK_RECORDS * shape.record_bytes));
        }
        if chunks.len() > MAX_CHUNKS {
            return Err(RecordError::TooManyRecords {
                records,
                slices: slices.len(),
            });
        }
        Ok(Self {
            chunks,
            shape,
            records,
        })
    }

    /// Returns the number of records.
    pub(super) fn len(&self) -> usize {
        self.records
    }

    /// Returns width and key of the records.
    pub(super) fn shape(&self) -> RecordShape {
        self.shape
    }

    /// Returns the chunks, in input order.
    pub(super) fn chunks(&self) -> impl Iterator<Item = Chunk<'a>> + '_ {
        (0u32..).zip(&self.chunks).map(|(chunk, bytes)| Chunk {
            first: chunk << CHUNK_BITS,
            records: bytes.chunks_exact(self.shape.record_bytes),
        })
    }

    /// Returns the record with number `index`, whose width the caller may know as a constant.
    #[inline(always)]
    pub(super) fn record(&self, index: u32, record_bytes: usize) -> &'a [u8] {
        let chunk = self.chunks[(index >> CHUNK_BITS) as usize];
        let start = (index as usize & (CHUNK_RECORDS - 1)) * record_bytes;
        &chunk[start..start + record_bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ascend_across_slices_and_find_their_record() {
        let shape = RecordShape::try_new(4, 4).unwrap();
        let bytes: Vec<u8> = (0..10_000u32).flat_map(u32::to_be_bytes).collect();
        let (a, rest) = bytes.split_at(4 * 5000);
        let (b, c) = rest.split_at(4);
        let slices = Slices::try_new(shape, &[a, b, &[], c]).unwrap();
        assert_eq!(slices.len(), 10_000);
        let all: Vec<_> = slices
            .chunks()
            .flat_map(|chunk| (chunk.first..).zip(chunk.records))
            .collect();
        assert!(all.is_sorted_by_key(|&(index, _)| index));
        for (i, &(index, record)) in (0u32..).zip(&all) {
            assert_eq!(record, i.to_be_bytes());
            assert_eq!(slices.record(index, 4), record);
        }
    }

    #[test]
    fn cut_slices_are_refused() {
        let shape = RecordShape::try_new(4, 4).unwrap();
        assert!(Slices::try_new(shape, &[&[0; 8], &[0; 7]]).is_err());
    }
}
