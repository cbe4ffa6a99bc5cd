//! Checks sorted output as Ordinal's `valsort` does: order, duplicates and a checksum that no order changes.
//!
//! A [`Summary`] takes records piece by piece, or the summaries of the parts of an output one after the other. Both
//! ways give the same result as one pass over everything.

use crate::records::{RecordError, RecordShape};

/// The facts about a sequence of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Width and key of the records.
    pub shape: RecordShape,
    /// The number of records.
    pub records: u64,
    /// The sum of the CRC-32 (zlib's) of all records; `valsort` prints it in hex.
    pub checksum: u128,
    /// Records whose key is equal to the one before.
    pub duplicates: u64,
    /// Records whose key is less than the one before.
    pub unordered: u64,
    /// The number of the first record whose key is less than the one before.
    pub first_unordered: Option<u64>,
    /// The key of the first record; empty if there is none.
    pub first_key: Vec<u8>,
    /// The key of the last record; empty if there is none.
    pub last_key: Vec<u8>,
}

impl Summary {
    /// Returns the summary of no records.
    pub fn new(shape: RecordShape) -> Self {
        Self {
            shape,
            records: 0,
            checksum: 0,
            duplicates: 0,
            unordered: 0,
            first_unordered: None,
            first_key: Vec::new(),
            last_key: Vec::new(),
        }
    }

    /// Returns whether no record is out of order.
    pub fn is_sorted(&self) -> bool {
        self.unordered == 0
    }

    /// Adds `records`, which follow those already seen.
    ///
    /// # Errors
    /// [`RecordError::PartialRecord`] if they are not whole.
    pub fn update(&mut self, records: &[u8]) -> Result<(), RecordError> {
        let count = self.shape.count(records)?;
        let mut rest = records.chunks_exact(self.shape.record_bytes());
        let Some(first) = rest.next() else {
            return Ok(());
        };
        let mut previous = self.shape.key(first);
        let mut checksum = u128::from(crc32fast::hash(first));
        self.follow(previous);
        for (i, record) in (1..).zip(rest) {
            checksum += u128::from(crc32fast::hash(record));
            let key = self.shape.key(record);
            self.compare(previous, key, i);
            previous = key;
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(previous);
        self.checksum += checksum;
        self.records += count as u64;
        Ok(())
    }

    /// Adds the records that `next` summarises.
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn append(&mut self, next: &Summary) {
        assert_eq!(
            self.shape, next.shape,
            "summaries of one output have one record shape"
        );
        if next.records == 0 {
            return;
        }
        self.follow(&next.first_key);
        let inside = next.first_unordered.map(|number| self.records + number);
        self.first_unordered = self.first_unordered.or(inside);
        self.unordered += next.unordered;
        self.duplicates += next.duplicates;
        self.checksum += next.checksum;
        self.records += next.records;
        self.last_key.clone_from(&next.last_key);
    }

    /// Compares the last record with the first of the next ones.
    fn follow(&mut self, key: &[u8]) {
        if self.records == 0 {
            self.first_key = key.to_vec();
            return;
        }
        let previous = std::mem::take(&mut self.last_key);
        self.compare(&previous, key, 0);
    }

    /// Compares two keys, of which the second belongs to the record `ahead` records after those counted.
    #[inline(always)]
    fn compare(&mut self, previous: &[u8], key: &[u8], ahead: u64) {
        match previous.cmp(key) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => self.duplicates += 1,
            std::cmp::Ordering::Greater => {
                self.unordered += 1;
                self.first_unordered.get_or_insert(self.records + ahead);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(records: &[[u8; 3]]) -> Summary {
        let mut summary = Summary::new(RecordShape::try_new(3, 2).unwrap());
        summary.update(records.as_flattened()).unwrap();
        summary
    }

    #[test]
    fn swapped_records_are_found() {
        let sorted = summary(&[[1, 0, 9], [1, 1, 9], [2, 0, 9], [3, 0, 9]]);
        assert!(sorted.is_sorted());
        let swapped = summary(&[[1, 0, 9], [2, 0, 9], [1, 1, 9], [3, 0, 9]]);
        assert_eq!((swapped.unordered, swapped.first_unordered), (1, Some(2)));
        assert_eq!(sorted.checksum, swapped.checksum);
        assert_eq!(sorted.first_key, [1, 0]);
        assert_eq!(sorted.last_key, [3, 0]);
    }

    #[test]
    fn equal_keys_are_counted_and_payload_is_not_compared() {
        let equal = summary(&[[1, 1, 9], [1, 1, 8], [1, 1, 7], [1, 2, 0]]);
        assert_eq!((equal.duplicates, equal.unordered), (2, 0));
    }

    #[test]
    fn a_changed_record_changes_the_checksum() {
        let one = summary(&[[1, 1, 9], [1, 2, 9]]);
        let other = summary(&[[1, 1, 9], [1, 2, 8]]);
        assert_ne!(one.checksum, other.checksum);
    }

    #[test]
    fn borders_between_parts_count() {
        let mut parts = summary(&[[5, 0, 0]]);
        parts.append(&summary(&[]));
        parts.append(&summary(&[[5, 0, 1], [6, 0, 0]]));
        parts.append(&summary(&[[4, 0, 0]]));
        assert_eq!(parts.records, 4);
        assert_eq!(parts.duplicates, 1);
        assert_eq!((parts.unordered, parts.first_unordered), (1, Some(3)));
        assert_eq!(
            parts,
            summary(&[[5, 0, 0], [5, 0, 1], [6, 0, 0], [4, 0, 0]])
        );
    }

    #[test]
    fn cut_records_are_refused() {
        let mut summary = summary(&[]);
        assert!(summary.update(&[0; 4]).is_err());
    }
}
