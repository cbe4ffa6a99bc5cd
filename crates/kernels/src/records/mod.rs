//! Fixed-length records: bytes back to back, the key at the start of each, compared as unsigned bytes.
//!
//! The map side samples ([`sample`]), chooses [`Boundaries`] and scatters ([`Scatter`]); the reduce side sorts
//! ([`sort_into`], [`SortedRecords`]). Everything is stable: equal keys keep their input order.

mod boundaries;
mod error;
pub mod gensort;
mod radix;
mod scatter;
mod slices;
mod sort;
pub mod valsort;

pub use boundaries::{choose_boundaries, sample, Boundaries};
pub use error::RecordError;
pub use scatter::Scatter;
pub use sort::{sort_into, RecordOrder, SortedRecords};

/// The record width of the sort benchmarks. Copies of this width are compiled with the width as a constant.
pub(crate) const BENCHMARK_RECORD_BYTES: usize = 100;

/// How wide a record is and how many of its first bytes are the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordShape {
    record_bytes: usize,
    key_bytes: usize,
}

impl RecordShape {
    /// Checks and makes a shape.
    ///
    /// # Errors
    /// [`RecordError::InvalidShape`] unless `1 <= key_bytes <= record_bytes`.
    pub fn try_new(record_bytes: usize, key_bytes: usize) -> Result<Self, RecordError> {
        if key_bytes == 0 || key_bytes > record_bytes {
            return Err(RecordError::InvalidShape {
                record_bytes,
                key_bytes,
            });
        }
        Ok(Self {
            record_bytes,
            key_bytes,
        })
    }

    /// Returns the bytes of one record.
    pub fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    /// Returns the bytes of the key, which starts the record.
    pub fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Returns the number of records in `bytes`.
    ///
    /// # Errors
    /// [`RecordError::PartialRecord`] if the last record is cut off.
    pub fn count(&self, bytes: &[u8]) -> Result<usize, RecordError> {
        if bytes.len().is_multiple_of(self.record_bytes) {
            return Ok(bytes.len() / self.record_bytes);
        }
        Err(RecordError::PartialRecord {
            bytes: bytes.len(),
            record_bytes: self.record_bytes,
        })
    }

    /// Returns the key of `record`.
    pub(crate) fn key<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        &record[..self.key_bytes]
    }
}

/// Reads eight key bytes, from `depth` on, as one integer that orders like the bytes do.
///
/// A key that ends sooner is filled up with zeros: between keys of one length that changes no order.
#[derive(Clone, Copy)]
pub(crate) struct KeyWord {
    depth: usize,
    mask: u64,
    /// Whether the record has eight bytes from `depth` on, so that they can be read at once, and masked.
    wide: bool,
}

impl KeyWord {
    /// Reads the word at byte `depth` of the keys of `shape`; `depth < key_bytes`.
    pub(crate) fn new(shape: RecordShape, depth: usize) -> Self {
        let bytes = (shape.key_bytes - depth).min(8);
        Self {
            depth,
            mask: u64::MAX << (64 - 8 * bytes),
            wide: depth + 8 <= shape.record_bytes,
        }
    }

    /// Returns the byte of a record where the word begins.
    #[inline(always)]
    pub(crate) fn first_byte(self, record: &[u8]) -> &u8 {
        &record[self.depth]
    }

    /// Returns the word of one record.
    #[inline(always)]
    pub(crate) fn of(self, record: &[u8]) -> u64 {
        let mut word = [0u8; 8];
        if self.wide {
            word.copy_from_slice(&record[self.depth..self.depth + 8]);
        } else {
            let rest = &record[self.depth..];
            word[..rest.len()].copy_from_slice(rest);
        }
        u64::from_be_bytes(word) & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_need_a_key_inside_the_record() {
        assert!(RecordShape::try_new(100, 10).is_ok());
        assert!(RecordShape::try_new(4, 4).is_ok());
        assert!(RecordShape::try_new(4, 0).is_err());
        assert!(RecordShape::try_new(4, 5).is_err());
    }

    #[test]
    fn count_refuses_a_cut_record() {
        let shape = RecordShape::try_new(4, 2).unwrap();
        assert_eq!(shape.count(&[0; 12]).unwrap(), 3);
        assert!(shape.count(&[0; 13]).is_err());
    }

    #[test]
    fn key_words_leave_out_the_payload() {
        let record = [1, 2, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        let shape = RecordShape::try_new(10, 3).unwrap();
        assert_eq!(KeyWord::new(shape, 0).of(&record), 0x0102_0300_0000_0000);
        let short = RecordShape::try_new(3, 2).unwrap();
        assert_eq!(
            KeyWord::new(short, 0).of(&record[..3]),
            0x0102_0000_0000_0000
        );
        let whole = RecordShape::try_new(10, 10).unwrap();
        assert_eq!(KeyWord::new(whole, 8).of(&record), 0xffff_0000_0000_0000);
    }
}
