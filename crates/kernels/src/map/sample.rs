//! Samples: some rows of batches in memory, and sampled keys as bytes. Boundaries are chosen from the keys.

use arrow_array::{Array, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use arrow_select::interleave::interleave;

use crate::error::{KernelError, Result};
use crate::layout::RowLayout;
use crate::map::encode::{pack, row_lengths, write_rows};
use crate::map::key_rows::{KeyRows, Position};
use crate::map::source::Sources;
use crate::mix::{mix, scale};

/// Boundaries travel with every task. Six texts of 20 MB among 100,000 short ones, sorted by within 300 MB, took 1,467.
const MOST_VALUE_BYTES: usize = 1 << 20;

/// Returns up to `num_rows` rows of batches of `schema`, and their numbers, ascending. Takes one row at a random place
/// of each of `num_rows` equal parts, so that sorted input is seen everywhere. The same arguments give the same rows.
///
/// # Errors
/// Batches that cannot be put together.
pub fn sample_rows(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    num_rows: usize,
    seed: u64,
) -> Result<(RecordBatch, Vec<u64>)> {
    let mut starts = vec![0];
    let mut total = 0;
    for batch in batches {
        total += batch.num_rows() as u64;
        starts.push(total);
    }
    let picked = pick_rows(total, (num_rows as u64).min(total), seed);
    if picked.is_empty() {
        return Ok((RecordBatch::new_empty(schema.clone()), picked));
    }
    let place = |&row: &u64| {
        let batch = starts.partition_point(|&start| start <= row) - 1;
        (batch, (row - starts[batch]) as usize)
    };
    let places: Vec<(usize, usize)> = picked.iter().map(place).collect();
    let column = |c| {
        let arrays: Vec<&dyn Array> = batches.iter().map(|b| b.column(c).as_ref()).collect();
        interleave(&arrays, &places)
    };
    let columns = (0..schema.fields().len())
        .map(column)
        .collect::<std::result::Result<_, _>>();
    let options = RecordBatchOptions::new().with_row_count(Some(places.len()));
    let sample = columns
        .and_then(|columns| RecordBatch::try_new_with_options(schema.clone(), columns, &options))
        .map_err(|e| KernelError::arrow("taking sampled rows", e))?;
    Ok((sample, picked))
}

fn pick_rows(total: u64, count: u64, seed: u64) -> Vec<u64> {
    let seed = mix(seed);
    let start = |part: u64| (u128::from(part) * u128::from(total) / u128::from(count)) as u64;
    let pick = |part: u64| start(part) + scale(mix(seed ^ part), start(part + 1) - start(part));
    (0..count).map(pick).collect()
}

/// Encodes sampled keys: `keys` has the columns of `key_layout`, `positions[i]` says where row i comes from.
///
/// # Errors
/// Columns that do not match the layout, or another number of positions than rows.
pub fn sample(
    key_layout: &RowLayout,
    keys: &RecordBatch,
    positions: &[Position],
) -> Result<Vec<u8>> {
    if positions.len() != keys.num_rows() {
        return Err(KernelError::CorruptKeys {
            what: "samples",
            reason: "there is not one position per row",
        });
    }
    let sources = Sources::try_new(key_layout, keys)?;
    let mut lengths = Vec::new();
    row_lengths(key_layout, &sources, 0, sources.rows, &mut lengths)?;
    let mut starts = Vec::new();
    let mut rows = vec![0; pack(&lengths, &mut starts)];
    write_rows(key_layout, &sources, 0, &starts, &mut Vec::new(), &mut rows);
    let keys = KeyRows {
        rows,
        starts,
        positions: positions.to_vec(),
    };
    Ok(shortened(key_layout, &keys).to_bytes())
}

/// Keys in which no text has more than [`MOST_VALUE_BYTES`]: its beginning, which divides rows as well.
fn shortened(key_layout: &RowLayout, keys: &KeyRows) -> KeyRows {
    let mut short = KeyRows {
        positions: keys.positions.clone(),
        ..KeyRows::default()
    };
    for index in 0..keys.starts.len() {
        let (key, start) = (keys.row(index), short.rows.len());
        short.starts.push(start);
        let mut from = key_layout.fixed_bytes();
        short.rows.extend_from_slice(&key[..from]);
        for number in 0..key_layout.num_variable() {
            let at = key_layout.lengths_at() + 4 * number;
            let [a, b, c, d] = [0, 1, 2, 3].map(|byte| key[at + byte]);
            let length = u32::from_le_bytes([a, b, c, d]) as usize;
            let kept = length.min(MOST_VALUE_BYTES);
            short.rows[start + at..start + at + 4].copy_from_slice(&(kept as u32).to_le_bytes());
            short.rows.extend_from_slice(&key[from..from + kept]);
            from += length;
        }
    }
    short
}

/// Joins samples into one.
///
/// # Errors
/// Bytes that [`sample`] did not make.
pub fn joined_samples(key_layout: &RowLayout, samples: &[Vec<u8>]) -> Result<Vec<u8>> {
    let mut all = KeyRows::default();
    for sample in samples {
        all.append(&KeyRows::from_bytes(key_layout, sample, "samples")?);
    }
    Ok(all.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use arrow_schema::Schema;
    use std::sync::Arc;

    use crate::keys::key::SortKey;

    #[test]
    fn picks_are_ascending_distinct_and_one_of_each_part() {
        for (total, count) in [(0, 0), (1, 1), (10, 10), (1000, 7), (1 << 60, 50)] {
            let picked = pick_rows(total, count, 3);
            assert_eq!(picked.len() as u64, count);
            assert!(picked.is_sorted_by(|a, b| a < b) && picked.iter().all(|&row| row < total));
            let part = |row| (u128::from(row) * u128::from(count) / u128::from(total)) as usize;
            assert!(
                total > 1000
                    || picked
                        .iter()
                        .enumerate()
                        .all(|(i, &row)| { part(row).abs_diff(i) <= 1 })
            );
        }
        assert_ne!(pick_rows(1000, 7, 1), pick_rows(1000, 7, 2));
    }

    #[test]
    fn rows_come_from_the_batches_they_are_in() {
        let batch = |from: i64, to: i64| {
            let values = Int64Array::from_iter_values(from..to);
            RecordBatch::try_from_iter([("n", Arc::new(values) as _)]).unwrap()
        };
        let batches = [batch(0, 10), batch(10, 10), batch(10, 500), batch(500, 501)];
        let schema = batches[0].schema();
        for num_rows in [0, 1, 40, 501, 9000] {
            let (sample, rows) = sample_rows(&schema, &batches, num_rows, 5).unwrap();
            assert_eq!(rows.len(), num_rows.min(501));
            let expected = Int64Array::from_iter_values(rows.iter().map(|&row| row as i64));
            assert_eq!(sample.column(0).as_ref(), &expected);
        }
    }

    #[test]
    fn of_long_texts_the_beginning_is_the_key() {
        let long = "x".repeat(MOST_VALUE_BYTES + 5);
        let keys = |last: &str| {
            let texts = StringArray::from(vec![Some("short"), None, Some(last), Some("")]);
            let numbers = Int64Array::from(vec![Some(1), Some(2), None, Some(4)]);
            let others = StringArray::from(vec!["a", last, "b", "c"]);
            let columns: [(_, ArrayRef); 3] = [
                ("s", Arc::new(texts)),
                ("n", Arc::new(numbers)),
                ("t", Arc::new(others)),
            ];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        let sampled = |batch: &RecordBatch| {
            let key = |column| SortKey {
                column,
                descending: false,
                nulls_first: false,
            };
            let layout = RowLayout::try_new(&batch.schema(), &[key(0), key(1), key(2)]).unwrap();
            let positions = [0, 1, 2, 3].map(|row| Position { split: 7, row });
            let bytes = sample(&layout.key_layout(), batch, &positions).unwrap();
            assert!(KeyRows::from_bytes(&layout.key_layout(), &bytes, "samples").is_ok());
            bytes
        };
        let expected = sampled(&keys(&long[..MOST_VALUE_BYTES]));
        assert!(sampled(&keys(&long)) == expected);
        assert!(sampled(&keys(&long[5..])) == expected);
        assert!(sampled(&keys(&long[6..])) != expected);
    }

    #[test]
    fn rows_without_columns_are_sampled_too() {
        let schema = Arc::new(Schema::empty());
        let options = RecordBatchOptions::new().with_row_count(Some(100));
        let batch = RecordBatch::try_new_with_options(schema.clone(), vec![], &options).unwrap();
        let (sample, rows) = sample_rows(&schema, &[batch], 9, 5).unwrap();
        assert_eq!((sample.num_rows(), rows.len()), (9, 9));
    }
}
