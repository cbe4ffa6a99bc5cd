//! Filters of keys: a set of bits that says of a key that it is surely not among some others, or may be.
//!
//! Guarantee: a key that was put in is never denied, whatever its type on either side, because hashes are of values
//! (`hash.rs`). Each key sets four bits of one word of 64, so that a look touches one cache line. With 16 bits for each
//! key, 0.4 % of other keys pass.

use arrow_array::RecordBatch;
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};

use crate::error::Result;
use crate::layout::{RowLayout, CHUNK_ROWS};
use crate::map::encode::{pack, row_lengths, write_rows};
use crate::map::hash::hash_keys;
use crate::map::source::Sources;
use crate::mix::scale;

const WORD_BYTES: usize = 8;

/// Puts the keys of all rows into a filter of so many bytes, of which those beyond a multiple of 8 are zeros.
///
/// # Errors
/// Batches that do not match the layout.
pub fn key_filter(
    layout: &RowLayout,
    batches: &[RecordBatch],
    num_bytes: usize,
) -> Result<Vec<u8>> {
    let mut filter = vec![0; num_bytes];
    let (words, _) = filter.as_chunks_mut::<WORD_BYTES>();
    let count = words.len() as u64;
    if count > 0 {
        for batch in batches {
            for_each_hash(layout, batch, |hash| {
                let word = &mut words[scale(hash, count) as usize];
                *word = (u64::from_le_bytes(*word) | bits(hash)).to_le_bytes();
            })?;
        }
    }
    Ok(filter)
}

/// Says of each row whether the filter may have its key.
///
/// # Errors
/// A batch that does not match the layout.
///
/// # Cost
/// Encodes and hashes the keys; a look into the filter for each.
pub fn key_marks(layout: &RowLayout, batch: &RecordBatch, filter: &[u8]) -> Result<BooleanBuffer> {
    let (words, _) = filter.as_chunks::<WORD_BYTES>();
    let count = words.len() as u64;
    if count == 0 {
        return Ok(BooleanBuffer::new_set(batch.num_rows()));
    }
    let mut marks = BooleanBufferBuilder::new(batch.num_rows());
    for_each_hash(layout, batch, |hash| {
        let word = u64::from_le_bytes(words[scale(hash, count) as usize]);
        marks.append(word & bits(hash) == bits(hash));
    })?;
    Ok(marks.finish())
}

/// The bits of a hash in its word. They are the low ones of the hash; the high ones choose the word.
fn bits(hash: u64) -> u64 {
    (0..4).fold(0, |all, place| all | 1 << (hash >> (6 * place) & 63))
}

fn for_each_hash(layout: &RowLayout, batch: &RecordBatch, mut each: impl FnMut(u64)) -> Result<()> {
    let key_layout = layout.key_layout();
    let keys = Sources::try_new(layout, batch)?.project(layout.key_columns());
    let (mut lengths, mut starts, mut tails) = (Vec::new(), Vec::new(), Vec::new());
    let (mut rows, mut hashes) = (Vec::new(), [0; CHUNK_ROWS]);
    for first in (0..batch.num_rows()).step_by(CHUNK_ROWS) {
        let count = CHUNK_ROWS.min(batch.num_rows() - first);
        row_lengths(&key_layout, &keys, first, count, &mut lengths)?;
        let end = pack(&lengths, &mut starts);
        if rows.len() < end {
            rows.resize(end, 0);
        }
        write_rows(&key_layout, &keys, first, &starts, &mut tails, &mut rows);
        let hashes = &mut hashes[..count];
        hash_keys(&key_layout, &rows, &starts, hashes);
        hashes.iter().copied().for_each(&mut each);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, StringArray};

    use super::*;
    use crate::SortKey;

    fn batch(numbers: impl Iterator<Item = i64>) -> RecordBatch {
        let numbers: Vec<i64> = numbers.collect();
        let texts = StringArray::from_iter_values(numbers.iter().map(|n| format!("t{n}")));
        let columns: [(&str, ArrayRef); 2] = [
            ("n", Arc::new(Int64Array::from(numbers))),
            ("t", Arc::new(texts)),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn layout(batch: &RecordBatch) -> RowLayout {
        let key = |column| SortKey {
            column,
            descending: false,
            nulls_first: false,
        };
        RowLayout::try_new(&batch.schema(), &[key(0), key(1)]).unwrap()
    }

    #[test]
    fn no_key_is_denied_and_few_others_pass() {
        let inside = batch(0..1000);
        let layout = layout(&inside);
        let filter = key_filter(&layout, std::slice::from_ref(&inside), 2000).unwrap();
        let marks = key_marks(&layout, &inside, &filter).unwrap();
        assert_eq!(marks.count_set_bits(), 1000);
        let marks = key_marks(&layout, &batch(1000..101_000), &filter).unwrap();
        assert!(marks.count_set_bits() < 1000, "{}", marks.count_set_bits());
    }

    #[test]
    fn a_filter_without_a_word_denies_nothing() {
        let rows = batch(0..10);
        let layout = layout(&rows);
        let filter = key_filter(&layout, &[], 7).unwrap();
        assert_eq!(
            key_marks(&layout, &rows, &filter).unwrap().count_set_bits(),
            10
        );
        let filter = key_filter(&layout, &[], 8).unwrap();
        assert_eq!(
            key_marks(&layout, &rows, &filter).unwrap().count_set_bits(),
            0
        );
    }
}
