//! Every mistake gets one sentence with the file, the value and the remedy.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use common::{named, read_all, source, table_of, write_part, Random};
use exoshuffle_io::{
    open_source, open_split, Compression, IoError, PartWriter, ReadOptions, Split, WriteOptions,
};

fn listing(dir: &Path) -> Result<exoshuffle_io::Source, IoError> {
    open_source(&[dir.display().to_string()], &ReadOptions::default())
}

/// Returns the error of reading all files of a directory to their end.
fn error_of(files: &[(&str, &str)]) -> String {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let options = ReadOptions::default();
    let read = || -> Result<(), IoError> {
        let source = listing(dir.path())?;
        for split in source.splits(1 << 20)? {
            for batch in open_split(&split, &source.schema, &options, None, 100)? {
                batch?;
            }
        }
        Ok(())
    };
    read().expect_err("the input is wrong").to_string()
}

fn assert_parts(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "'{part}' is not in: {message}");
    }
}

#[test]
fn a_csv_value_of_another_type_is_located() {
    let mut text = String::from("id,name\n");
    for i in 0..12_000 {
        text.push_str(&format!("{i},\"two\nlines\"\n"));
    }
    text.push_str("abc,x\n");
    let message = error_of(&[("x.csv", &text)]);
    assert_parts(
        &message,
        &["x.csv", "line 24002", "'id'", "'abc'", "Int64", "schema"],
    );
}

#[test]
fn a_json_value_of_another_type_is_located() {
    let mut text = String::new();
    for i in 0..12_000 {
        text.push_str(&format!("{{\"id\":{i},\"in\":{{\"a\":1}}}}\n"));
    }
    let message = error_of(&[("x.jsonl", &format!("{text}{{\"id\":\"abc\"}}\n"))]);
    assert_parts(&message, &["x.jsonl", "line 12001", "'id'", "abc", "Int64"]);
    let message = error_of(&[(
        "x.jsonl",
        &format!("{text}{{\"id\":1,\"in\":{{\"a\":[]}}}}\n"),
    )]);
    assert_parts(&message, &["x.jsonl", "line 12001", "'in'"]);
}

#[test]
fn malformed_text_is_located() {
    assert_parts(&error_of(&[("x.csv", "a,b\n1,2\n3\n")]), &["x.csv"]);
    let long = "1,2\n".repeat(11_000);
    let message = error_of(&[("x.csv", &format!("a,b\n{long}3\n"))]);
    assert_parts(&message, &["line 11002", "values: 1", "header: 2"]);
    let rows = "{\"a\":1}\n".repeat(11_000);
    assert_parts(
        &error_of(&[("x.jsonl", &format!("{rows}{{\"a\":\n"))]),
        &["x.jsonl", "line 11001"],
    );
}

#[test]
fn files_of_one_input_agree_on_their_columns() {
    let message = error_of(&[("a.csv", "x,y\n1,2\n"), ("b.csv", "x,z\n1,2\n")]);
    assert_parts(&message, &["a.csv", "b.csv", "'y'", "'z'"]);
    let message = error_of(&[("a.csv", "x,y\n1,2\n"), ("b.csv", "x\n1\n")]);
    assert_parts(&message, &["a.csv", "b.csv", "2 columns", "has 1, and 'y'"]);
    assert_parts(&error_of(&[("a.csv", "x,x\n1,2\n")]), &["a.csv", "'x'"]);
    let dir = tempfile::tempdir().unwrap();
    for (part, data_type) in [(0, DataType::Int64), (1, DataType::Utf8)] {
        let schema = Arc::new(Schema::new(vec![Field::new("v", data_type, true)]));
        write_part(
            dir.path(),
            part,
            &table_of(&mut Random(1), 5, schema),
            WriteOptions::new(named("parquet")),
        );
    }
    let message = listing(dir.path()).unwrap_err().to_string();
    assert_parts(
        &message,
        &[
            "'v'",
            "Int64",
            "Utf8",
            "part-00000.parquet",
            "part-00001.parquet",
        ],
    );
}

#[test]
fn nullability_may_differ_between_files() {
    let dir = tempfile::tempdir().unwrap();
    for (part, nullable) in [(0, false), (1, true)] {
        let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Utf8, nullable)]));
        write_part(
            dir.path(),
            part,
            &table_of(&mut Random(4), 50, schema),
            WriteOptions::new(named("parquet")),
        );
    }
    let source = source(dir.path(), &ReadOptions::default());
    assert!(source.schema.field(0).is_nullable());
    assert_eq!(
        read_all(&source, &ReadOptions::default(), 100).num_rows(),
        100
    );
}

#[test]
fn empty_files_are_no_rows_or_corrupt() {
    for (name, text) in [
        ("x.csv", ""),
        ("x.csv", "a,b\n"),
        ("x.jsonl", ""),
        ("x.jsonl", "\n\n"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(name), text).unwrap();
        let source = listing(dir.path()).unwrap();
        assert_eq!(read_all(&source, &ReadOptions::default(), 10).num_rows(), 0);
    }
    for name in ["x.parquet", "x.arrow"] {
        assert_parts(&error_of(&[(name, "")]), &[name, "not a readable"]);
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("a.csv", ""), ("b.csv", "x\n"), ("c.csv", "x\n1\n\n2\n")] {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let source = listing(dir.path()).unwrap();
    assert_eq!(source.schema.field(0).data_type(), &DataType::Int64);
    // The empty line of a single column is a null.
    assert_eq!(read_all(&source, &ReadOptions::default(), 1).num_rows(), 3);
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_name() {
    for (name, text) in [
        ("x.csv", "\u{feff}a\n1\n2\n"),
        ("x.jsonl", "\u{feff}{\"a\":1}\n{\"a\":2}\n"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(name), text).unwrap();
        let source = listing(dir.path()).unwrap();
        assert_eq!(source.schema.field(0).name(), "a");
        assert_eq!(read_all(&source, &ReadOptions::default(), 1).num_rows(), 2);
    }
}

#[test]
fn a_file_that_changed_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.csv");
    std::fs::write(&path, "a\n1\n2\n").unwrap();
    let source = listing(dir.path()).unwrap();
    let split: Split = source.splits(100).unwrap().remove(0);
    std::fs::write(&path, "a\n1\n").unwrap();
    let Err(error) = open_split(&split, &source.schema, &ReadOptions::default(), None, 10) else {
        panic!("the file is another one");
    };
    assert_parts(
        &error.to_string(),
        &["x.csv", "6 bytes", "list the input again"],
    );
}

#[test]
fn a_file_that_shrinks_while_it_is_read_has_changed() {
    for format in [named("parquet"), named("arrow")] {
        let dir = tempfile::tempdir().unwrap();
        let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true)]));
        let files = write_part(
            dir.path(),
            0,
            &table_of(&mut Random(1), 50_000, schema),
            WriteOptions::new(format),
        );
        let source = source(dir.path(), &ReadOptions::default());
        let split = source.splits(1 << 30).unwrap().remove(0);
        let stream =
            open_split(&split, &source.schema, &ReadOptions::default(), None, 100).unwrap();
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(dir.path().join(&files[0].name))
            .unwrap();
        file.set_len(5000).unwrap();
        let error = stream.filter_map(Result::err).next().unwrap();
        assert!(matches!(error, IoError::FileChanged { .. }), "{error}");
    }
}

#[test]
fn records_need_their_size() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x.dat"), [0; 101]).unwrap();
    assert_parts(
        &listing(dir.path()).unwrap_err().to_string(),
        &["record_bytes"],
    );
    let options = ReadOptions {
        record_bytes: Some(100),
        ..ReadOptions::default()
    };
    let error = open_source(&[dir.path().display().to_string()], &options).unwrap_err();
    assert_parts(&error.to_string(), &["x.dat", "101", "100"]);
}

#[test]
fn what_a_format_cannot_hold_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let list = DataType::List(Arc::new(Field::new("item", DataType::Int64, true)));
    let schema = Arc::new(Schema::new(vec![Field::new("tags", list, true)]));
    let table = table_of(
        &mut Random(1),
        0,
        Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, true)])),
    );
    let refused = |schema: &Arc<Schema>, options: WriteOptions| -> String {
        match PartWriter::new(dir.path(), 0, schema.clone(), options).and_then(PartWriter::finish) {
            Ok(_) => panic!("it was written"),
            Err(error) => error.to_string(),
        }
    };
    assert_parts(
        &refused(&schema, WriteOptions::new(named("csv"))),
        &["CSV", "'tags'", "List"],
    );
    let gzip = WriteOptions {
        compression: Compression::Gzip,
        ..WriteOptions::new(named("arrow"))
    };
    assert_parts(
        &refused(&table.schema(), gzip),
        &["gzip", "none, zstd, lz4"],
    );
    let interval = DataType::Interval(arrow_schema::IntervalUnit::MonthDayNano);
    let schema = Arc::new(Schema::new(vec![Field::new("ago", interval, true)]));
    assert_parts(
        &refused(&schema, WriteOptions::new(named("parquet"))),
        &["Parquet", "'ago'", "Interval"],
    );
}

#[test]
fn a_given_schema_must_fit_the_header() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x.csv"), "a,b\n1,007\n").unwrap();
    let paths = [dir.path().display().to_string()];
    let given = |names: [&str; 2]| ReadOptions {
        schema: Some(Arc::new(Schema::new(vec![
            Field::new(names[0], DataType::Int64, false),
            Field::new(names[1], DataType::Utf8, false),
        ]))),
        ..ReadOptions::default()
    };
    let source = open_source(&paths, &given(["a", "b"])).unwrap();
    let rows = read_all(&source, &given(["a", "b"]), 100);
    let columns: Vec<arrow_array::ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![1])),
        Arc::new(StringArray::from(vec!["007"])),
    ];
    assert_eq!(
        rows,
        RecordBatch::try_new(source.schema.clone(), columns).unwrap()
    );
    let error = open_source(&paths, &given(["a", "c"]))
        .unwrap_err()
        .to_string();
    assert_parts(&error, &["the schema given", "'c'", "'b'", "x.csv"]);
}
