//! Parquet whose rows are far larger than its footer tells: rows that no plan looked at are looked at before they are decoded.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, Int64Array, RecordBatch, StringArray};
use exoshuffle_io::{
    open_source, open_split, IoError, ReadMemory, ReadOptions, Result, RowLimit, Split,
};
use parquet::arrow::ArrowWriter;
use parquet::basic::Encoding;
use parquet::file::properties::WriterProperties;

const NUM_SHORT: usize = 100_000;
const NUM_LONG: usize = 50;
/// The memory limit of a program, and the memory that is no budget.
const LIMIT_BYTES: u64 = 300_000_000;
const KEPT_BYTES: u64 = 100_000_000;

/// Short texts, and long ones behind them that share all of their bytes with the one before.
fn write(path: &Path) {
    let long = "x".repeat(1_000_000);
    let short = (0..NUM_SHORT).map(|number| format!("a{number}"));
    let texts: StringArray = short.chain(vec![long; NUM_LONG]).map(Some).collect();
    let numbers: Int64Array = (0..texts.len() as i64).map(Some).collect();
    let columns = [("n", Arc::new(numbers) as _), ("s", Arc::new(texts) as _)];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_column_encoding("s".into(), Encoding::DELTA_BYTE_ARRAY)
        .build();
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// The number of rows of a split, which is changed as in an input of more than 1 GB. The plan of such an input does not
/// look at all pages.
fn read(change: impl Fn(Split) -> Split) -> Result<usize> {
    read_within(LIMIT_BYTES, change)
}

fn read_within(limit_bytes: u64, change: impl Fn(Split) -> Split) -> Result<usize> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.parquet");
    write(&path);
    let memory = ReadMemory {
        limit_bytes,
        budget_bytes: limit_bytes - KEPT_BYTES,
        num_tasks: 2,
        row_copies: None,
    };
    let options = ReadOptions {
        max_page: Some(RowLimit::of(memory, 8)),
        ..ReadOptions::default()
    };
    let source = open_source(&[path.display().to_string()], &options)?;
    let split = Split {
        hides_sizes: true,
        bytes: 2_000_000,
        ..source.splits(u64::MAX)?.remove(0)
    };
    let batches = open_split(&change(split), &source.schema, &options, None, 8192)?;
    batches.map(|batch| Ok(batch?.num_rows())).sum()
}

#[test]
fn long_rows_are_refused_before_they_are_decoded() {
    let error = read(|split| split).unwrap_err();
    let IoError::LargeRows { enough_bytes, .. } = error else {
        panic!("{error}");
    };
    let message = error.to_string();
    assert!(message.contains("rows 0 to 100050 have 5"), "{message}");
    assert!(message.contains(" 2 MB were"), "{message}");
    assert!(message.contains("raise memory_limit to "), "{message}");
    let rows = read_within(enough_bytes, |split| split).unwrap();
    assert_eq!(rows, NUM_SHORT + NUM_LONG);
}

#[test]
fn short_rows_of_the_same_group_are_read() {
    let half = NUM_SHORT as u64 / 2;
    let rows = read(|split| Split {
        end: half,
        rows: Some(half),
        ..split
    });
    assert_eq!(rows.unwrap() as u64, half);
}
