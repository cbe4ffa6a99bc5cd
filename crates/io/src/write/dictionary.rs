//! Whether a dictionary makes a column of a Parquet file smaller, told from a sample of the first batch.
//!
//! The encoder looks every value up until its dictionary exceeds a megabyte, and then writes both the dictionary and plain
//! values: of TPC-H's lineitem and orders, joined, that took a quarter of the time of a reduce, for columns that became
//! larger by it. Guarantee: a dictionary is left out only where a large sample says that values hardly repeat; in small
//! batches it never is, since values may repeat behind them.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hasher};

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

/// Rows that are looked at, evenly spread: 1 ms per column and file.
const SAMPLE_ROWS: usize = 16_384;
/// Batches with fewer rows say too little about the rest of the file.
const MIN_BATCH_ROWS: usize = 2 * SAMPLE_ROWS;
/// Where the encoder gives up: parquet's default size of a dictionary page.
const PAGE_BYTES: f64 = 1_048_576.0;

/// What the sampled values of a column are like.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample {
    /// Rows that were looked at.
    rows: f64,
    /// Those that are not null.
    values: f64,
    /// Different ones among them.
    distinct: f64,
    /// Bytes of all values, encoded plainly.
    bytes: f64,
}

/// For each column of a batch, whether a dictionary is worth building in row groups of so many bytes.
pub(super) fn dictionaries_pay(batch: &RecordBatch, row_group_bytes: usize) -> Vec<bool> {
    if batch.num_rows() < MIN_BATCH_ROWS {
        return vec![true; batch.num_columns()];
    }
    let samples: Vec<_> = batch.columns().iter().map(|c| sample(c)).collect();
    let row_bytes: f64 = samples.iter().flatten().map(|s| s.bytes / s.rows).sum();
    let group_rows = row_group_bytes as f64 / row_bytes.max(1.0);
    let pays = |sample: &Option<Sample>| sample.is_none_or(|sample| pays(sample, group_rows));
    samples.iter().map(pays).collect()
}

/// Of types other than flat ones nothing is known.
fn sample(column: &dyn Array) -> Option<Sample> {
    let value_of = values_of(column)?;
    let mut distinct = HashSet::with_capacity(SAMPLE_ROWS);
    let (mut values, mut bytes) = (0, 0);
    for row in (0..SAMPLE_ROWS).map(|number| number * column.len() / SAMPLE_ROWS) {
        if column.is_valid(row) {
            let (hash, length) = value_of(row);
            distinct.insert(hash);
            values += 1;
            bytes += length;
        }
    }
    Some(Sample {
        rows: SAMPLE_ROWS as f64,
        values: f64::from(values),
        distinct: distinct.len() as f64,
        bytes: bytes as f64,
    })
}

/// Of a row: the hash of its value, and how many bytes it takes, encoded plainly.
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

/// The same in every process, so that the same rows give the same file.
fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Whether a column chunk of so many rows is smaller with a dictionary, as far as that may grow.
///
/// Of D different values, each as likely, n draws see D·(1 − e^(−n/D)). Where some are likelier, D comes out too small, and
/// the dictionary is kept.
fn pays(sample: Sample, group_rows: f64) -> bool {
    if sample.distinct >= sample.values {
        return sample.values == 0.0;
    }
    let all = all_values(sample);
    let width = sample.bytes / sample.values;
    let room = PAGE_BYTES / width / all;
    let until_full = if room < 1.0 {
        -all * (1.0 - room).ln()
    } else {
        f64::INFINITY
    };
    let count = until_full.min(group_rows * sample.values / sample.rows);
    let distinct = seen(all, count);
    let bits = distinct.log2().ceil().max(1.0);
    distinct * width + count * bits / 8.0 < count * width
}

/// How many values there are, if so many different ones are among those sampled.
fn all_values(sample: Sample) -> f64 {
    let (mut low, mut high) = (sample.distinct, sample.values * sample.values);
    while high - low > 0.001 * low {
        let middle = f64::midpoint(low, high);
        if seen(middle, sample.values) < sample.distinct {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Different values among so many draws of `all`.
fn seen(all: f64, draws: f64) -> f64 {
    -all * (-draws / all).exp_m1()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    /// 12 MB row groups of 65,536 rows of numbers below `limit`, scattered, with 92 bytes of text.
    fn pays_below(limit: u64) -> bool {
        let numbers = (0..65_536_u64).map(|row| hash(&row.to_le_bytes()) % limit);
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers.map(|n| n as i64)));
        let text: ArrayRef = Arc::new(StringArray::from_iter_values(
            (0..65_536).map(|row| format!("{row:088}")),
        ));
        let batch = RecordBatch::try_from_iter([("n", column), ("t", text)]).unwrap();
        let pays = dictionaries_pay(&batch, 12_000_000);
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
    fn values_that_come_in_turn_repeat() {
        let numbers = (0..65_536).map(|row| row % 10_000);
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
        let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
        assert_eq!(dictionaries_pay(&batch, 12_000_000), [true]);
    }

    #[test]
    fn little_says_nothing() {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..30_000));
        let nulls: ArrayRef = Arc::new(Int64Array::from(vec![None; 40_000]));
        for column in [column, nulls] {
            let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
            assert_eq!(dictionaries_pay(&batch, 12_000_000), [true]);
        }
    }
}
