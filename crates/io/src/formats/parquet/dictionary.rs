//! Estimates from a sample of the first batches whether a dictionary makes a column of a Parquet file smaller.
//!
//! The encoder looks every value up until its dictionary exceeds a megabyte, and then writes both the dictionary and plain
//! values. For TPC-H's lineitem and orders, joined, that took a quarter of the time of a reduce, and made columns larger.
//! Guarantee: a dictionary is left out only where values hardly repeat in a large sample, or in half of a row group. Fewer
//! rows never decide against it, because values may repeat behind them.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use twox_hash::XxHash3_64;

/// Rows that are sampled, or up to half as many more, evenly spread: 1 ms per column and file.
const SAMPLE_ROWS: usize = 16_384;
/// Fewer rows tell too little about the rest of the file.
const MIN_ROWS: usize = 2 * SAMPLE_ROWS;
/// This many rows are enough if they are half a row group.
const MIN_ROWS_OF_GROUP: usize = 64;
/// Most batches that are held back.
const MAX_BATCHES: usize = 16;
/// Most dictionaries of a file, so that the buffers of a task have room for them: the encoder begins each with 74 kB.
/// 10,000 columns of 100 rows, written within 300 MB, peaked at 593 MB.
const MAX_DICTIONARIES: usize = 256;
/// The size at which the encoder gives a dictionary up: parquet's default size of a dictionary page.
const PAGE_BYTES: f64 = 1_048_576.0;

/// Statistics of the sampled values of a column.
#[derive(Debug, Default)]
struct Sample {
    /// Sampled rows.
    rows: usize,
    /// Values that are not null.
    values: usize,
    /// Bytes of all values in plain encoding.
    bytes: usize,
    /// Hashes of the values, each once.
    hashes: Vec<u64>,
}

/// Whether these first batches of a file tell enough, or no more should be held back. No more are held back when their
/// number has reached its limit, or when they have the bytes of half a row group. A join of rows of 500 kB within 330 MB
/// held 16 batches of 16 MB back, and peaked at 790 MB.
pub(super) fn suffice(first: &[RecordBatch], row_group_bytes: usize) -> bool {
    let (rows, batches) = (num_rows(first), first.len());
    rows >= MIN_ROWS || batches >= MAX_BATCHES || num_bytes(first) >= row_group_bytes / 2
}

/// Chooses the candidates among the columns of a file that get a dictionary, given its first batches. A dictionary has to be
/// worth building in row groups of `row_group_bytes`; among many columns, those get one that save most bytes.
pub(super) fn chosen(
    first: &[RecordBatch],
    row_group_bytes: usize,
    candidates: &[bool],
) -> Vec<bool> {
    let few = |chosen: &[bool]| chosen.iter().filter(|&&is| is).count() <= MAX_DICTIONARIES;
    let mut chosen = candidates.to_vec();
    for (chosen, pays) in chosen
        .iter_mut()
        .zip(dictionaries_pay(first, row_group_bytes))
    {
        *chosen &= pays;
    }
    if few(&chosen) {
        return chosen;
    }
    let step = (num_rows(first) / SAMPLE_ROWS).max(1);
    let saved = |column: usize| sample(first, column, step).map_or(0.0, |sample| sample.saved());
    let mut ranked: Vec<(f64, usize)> = { 0..chosen.len() }
        .filter(|&column| chosen[column] && !first.is_empty())
        .map(|column| (saved(column), column))
        .filter(|&(saved, _)| saved > 0.0)
        .collect();
    ranked.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    chosen.fill(false);
    for &(_, column) in ranked.iter().take(MAX_DICTIONARIES) {
        chosen[column] = true;
    }
    chosen
}

/// Says for each column of a file's first batches whether a dictionary pays in row groups of `row_group_bytes`.
fn dictionaries_pay(first: &[RecordBatch], row_group_bytes: usize) -> Vec<bool> {
    let num_columns = first.first().map_or(0, RecordBatch::num_columns);
    let total = num_rows(first);
    // With 2,000 columns, a row group has 750 rows, and looking these up in 2,000 dictionaries took a third of a sort.
    let is_half_a_group = num_bytes(first) >= row_group_bytes / 2 && total >= MIN_ROWS_OF_GROUP;
    if total < MIN_ROWS && !is_half_a_group {
        return vec![true; num_columns];
    }
    let samples: Vec<_> = (0..num_columns)
        .map(|column| sample(first, column, (total / SAMPLE_ROWS).max(1)))
        .collect();
    let row_bytes: f64 = samples.iter().flatten().map(Sample::row_bytes).sum();
    let group_rows = row_group_bytes as f64 / row_bytes.max(1.0);
    let pays = |sample: &Option<Sample>| sample.as_ref().is_none_or(|s| s.pays(group_rows));
    samples.iter().map(pays).collect()
}

/// Bytes of the rows of batches, without other rows that share their buffers.
fn num_bytes(batches: &[RecordBatch]) -> usize {
    let bytes = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8View => column.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => column.as_binary_view().total_buffer_bytes_used(),
        _ => column.to_data().get_slice_memory_size().unwrap_or_default(),
    };
    batches
        .iter()
        .flat_map(RecordBatch::columns)
        .map(bytes)
        .sum()
}

fn num_rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// Samples one in `step` rows of a column; `None` for types that are not flat.
fn sample(batches: &[RecordBatch], column: usize, step: usize) -> Option<Sample> {
    let mut sample = Sample::default();
    for batch in batches {
        let column = batch.column(column);
        let value_of = values_of(column)?;
        for row in (0..column.len()).step_by(step) {
            sample.rows += 1;
            if column.is_valid(row) {
                let (hash, length) = value_of(row);
                sample.hashes.push(hash);
                sample.values += 1;
                sample.bytes += length;
            }
        }
    }
    sample.hashes.sort_unstable();
    sample.hashes.dedup();
    Some(sample)
}

/// Returns the hash of a row's value, and its bytes in plain encoding.
type ValueOf<'a> = Box<dyn Fn(usize) -> (u64, usize) + 'a>;

fn values_of(column: &dyn Array) -> Option<ValueOf<'_>> {
    let text = |bytes: &[u8]| (hash(bytes), 4 + bytes.len());
    Some(match column.data_type() {
        DataType::Utf8 => {
            let values = column.as_string::<i32>();
            Box::new(move |row| text(values.value(row).as_bytes()))
        }
        DataType::LargeUtf8 => {
            let values = column.as_string::<i64>();
            Box::new(move |row| text(values.value(row).as_bytes()))
        }
        DataType::Utf8View => {
            let values = column.as_string_view();
            Box::new(move |row| text(values.value(row).as_bytes()))
        }
        DataType::Binary => {
            let values = column.as_binary::<i32>();
            Box::new(move |row| text(values.value(row)))
        }
        DataType::LargeBinary => {
            let values = column.as_binary::<i64>();
            Box::new(move |row| text(values.value(row)))
        }
        DataType::BinaryView => {
            let values = column.as_binary_view();
            Box::new(move |row| text(values.value(row)))
        }
        data_type => {
            let width = data_type.primitive_width()?;
            let data = column.to_data();
            let start = data.offset() * width;
            let values = data.buffers().first()?.slice(start);
            Box::new(move |row| (hash(&values[row * width..][..width]), width))
        }
    })
}

/// A hash that is the same in every process, so that the same rows give the same file.
fn hash(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

impl Sample {
    fn row_bytes(&self) -> f64 {
        self.bytes as f64 / self.rows as f64
    }

    /// Mean bytes of a row that repeat an earlier value.
    fn saved(&self) -> f64 {
        let again = (self.values - self.hashes.len()) as f64 / self.values.max(1) as f64;
        self.row_bytes() * again
    }

    /// Whether a column chunk of `group_rows` rows is smaller with a dictionary, as far as that may grow.
    ///
    /// Among D equally likely values, n draws see D·(1 − e^(−n/D)). If some values are likelier, D comes out too small, and
    /// the dictionary is kept.
    fn pays(&self, group_rows: f64) -> bool {
        if self.hashes.len() == self.values {
            return self.values == 0;
        }
        let (values, all) = (self.values as f64, self.all_values());
        let width = self.bytes as f64 / values;
        let room = PAGE_BYTES / width / all;
        let until_full = if room < 1.0 {
            -all * (1.0 - room).ln()
        } else {
            f64::INFINITY
        };
        let count = until_full.min(group_rows * values / self.rows as f64);
        let distinct = seen(all, count);
        let bits = distinct.log2().ceil().max(1.0);
        distinct * width + count * bits / 8.0 < count * width
    }

    /// Estimates the number of different values in the column from the number of different ones in the sample.
    fn all_values(&self) -> f64 {
        let (distinct, values) = (self.hashes.len() as f64, self.values as f64);
        let (mut low, mut high) = (distinct, values * values);
        while high - low > 0.001 * low {
            let middle = f64::midpoint(low, high);
            if seen(middle, values) < distinct {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }
}

/// Expected number of different values in `draws` draws from `all` values.
fn seen(all: f64, draws: f64) -> f64 {
    -all * (-draws / all).exp_m1()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, StringArray};

    use super::*;

    /// 12 MB row groups of 65,536 rows of numbers below `limit`, scattered, with 92 bytes of text.
    fn pays_below(limit: u64) -> bool {
        let numbers = (0..65_536_u64).map(|row| hash(&row.to_le_bytes()) % limit);
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers.map(|n| n as i64)));
        let text: ArrayRef = Arc::new(StringArray::from_iter_values(
            (0..65_536).map(|row| format!("{row:088}")),
        ));
        let batch = RecordBatch::try_from_iter([("n", column), ("t", text)]).unwrap();
        let pays = dictionaries_pay(&[batch], 12_000_000);
        assert!(!pays[1], "no text repeats");
        pays[0]
    }

    #[test]
    fn what_repeats_gets_a_dictionary() {
        let found = [10, 1_000, 30_000, 60_000].map(pays_below);
        assert_eq!(found, [true; 4]);
    }

    #[test]
    fn what_hardly_repeats_does_not() {
        let found = [200_000, 1_000_000, 1 << 60].map(pays_below);
        assert_eq!(found, [false; 3]);
    }

    #[test]
    fn of_many_columns_those_get_dictionaries_that_save_most() {
        let columns = (0..1000).map(|index| -> (String, ArrayRef) {
            let distinct = if index % 5 == 0 { 10 } else { 100 };
            let values = (0..100).map(|row| row % distinct);
            let is_text = index % 2 == 0;
            let column: ArrayRef = if is_text {
                Arc::new(StringArray::from_iter_values(
                    values.map(|n| format!("{n:09}")),
                ))
            } else {
                Arc::new(Int64Array::from_iter_values(values))
            };
            (index.to_string(), column)
        });
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let all = [true; 1000];
        let found = chosen(std::slice::from_ref(&batch), 12_000_000, &all);
        let repeating: Vec<bool> = (0..1000).map(|index| index % 5 == 0).collect();
        assert_eq!(found, repeating);
        let few: Vec<bool> = (0..1000).map(|index| index < 250).collect();
        assert_eq!(chosen(std::slice::from_ref(&batch), 12_000_000, &few), few);
        assert_eq!(chosen(&[], 12_000_000, &all), [false; 1000]);
        assert_eq!(chosen(&[], 12_000_000, &all[..200]), [true; 200]);
    }

    #[test]
    fn values_that_come_in_turn_repeat() {
        let numbers = (0..65_536).map(|row| row % 10_000);
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
        let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
        assert_eq!(dictionaries_pay(&[batch], 12_000_000), [true]);
    }

    #[test]
    fn batches_are_sampled_together() {
        let batch = |from: i64| {
            let column: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + 3000));
            RecordBatch::try_from_iter([("n", column)]).unwrap()
        };
        let apart: Vec<_> = (0..12).map(|number| batch(3000 * number)).collect();
        let group = 12_000_000;
        assert!(suffice(&apart, group) && !suffice(&apart[2..], group));
        assert_eq!(dictionaries_pay(&apart, 12_000_000), [false]);
        let alike: Vec<_> = (0..12).map(|_| batch(0)).collect();
        assert_eq!(dictionaries_pay(&alike, 12_000_000), [true]);
    }

    #[test]
    fn large_rows_are_not_held_back() {
        let batch = |rows: i64| {
            let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
            RecordBatch::try_from_iter([("n", column)]).unwrap()
        };
        assert!(suffice(&[batch(16), batch(2000)], 32_000));
        assert!(!suffice(&[batch(16)], 32_000) && !suffice(&[], 32_000));
    }

    #[test]
    fn half_a_row_group_of_few_rows_says_enough() {
        let column = |distinct: i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(
                (0..1000).map(|row| row % distinct),
            ))
        };
        let columns = [("a", column(1000)), ("b", column(20))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let pays =
            |row_group_bytes| dictionaries_pay(std::slice::from_ref(&batch), row_group_bytes);
        assert_eq!(pays(30_000), [false, true]);
        assert_eq!(pays(12_000_000), [true, true]);
    }

    #[test]
    fn little_says_nothing() {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..30_000));
        let nulls: ArrayRef = Arc::new(Int64Array::from(vec![None; 40_000]));
        for column in [column, nulls] {
            let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
            assert_eq!(dictionaries_pay(&[batch], 12_000_000), [true]);
        }
    }
}
