//! Samples: some rows of batches in memory, and sampled keys as bytes. Boundaries are chosen from the keys.

use arrow_array::{Array, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use arrow_select::interleave::interleave;

use crate::encode::{pack, row_lengths, write_rows};
use crate::error::{KernelError, Result};
use crate::key_rows::{KeyRows, Position};
use crate::layout::RowLayout;
use crate::mix::{mix, scale};
use crate::source::Sources;

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
    Ok(KeyRows {
        rows,
        starts,
        positions: positions.to_vec(),
    }
    .to_bytes())
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
    use arrow_array::Int64Array;
    use arrow_schema::Schema;
    use std::sync::Arc;

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
    fn rows_without_columns_are_sampled_too() {
        let schema = Arc::new(Schema::empty());
        let options = RecordBatchOptions::new().with_row_count(Some(100));
        let batch = RecordBatch::try_new_with_options(schema.clone(), vec![], &options).unwrap();
        let (sample, rows) = sample_rows(&schema, &[batch], 9, 5).unwrap();
        assert_eq!((sample.num_rows(), rows.len()), (9, 9));
    }
}
