//! Files in folders `key=value`, whose place somebody else takes away.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use exoshuffle_io::{PartitionBy, PartitionedWriter, WriteOptions};

fn rows_of(key: i64) -> RecordBatch {
    let column = |value| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
    RecordBatch::try_from_iter([("key", column(key)), ("value", column(7))]).unwrap()
}

/// The slower of two copies still writes when the output is done; then its folder is gone.
#[test]
fn who_comes_late_does_not_make_the_directory_anew() {
    let dir = tempfile::tempdir().unwrap();
    let directory = dir.path().join("attempts").join("one");
    std::fs::create_dir_all(&directory).unwrap();
    let by = PartitionBy {
        columns: vec!["key".to_owned()],
        max_folders: 10,
    };
    let options = WriteOptions::new("parquet".parse().unwrap());
    let schema = rows_of(0).schema();
    let mut writer = PartitionedWriter::new(&directory, 0, &schema, options, by).unwrap();
    writer.write(&rows_of(1)).unwrap();
    assert!(directory.join("key=1").is_dir());

    std::fs::rename(dir.path().join("attempts"), dir.path().join("over")).unwrap();
    let late = writer.write(&rows_of(2)).and_then(|()| writer.end());
    assert!(late.is_err(), "it was written");
    assert!(!dir.path().join("attempts").exists());
}
