//! Written rows are read back, in every format, in splits of any size, whole or projected.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use common::{
    assert_same, is_text_format, named, nested_types, plain_types, read_all, rich_types, source,
    table, table_of, write, write_options, Random,
};
use exoshuffle_io::{
    open_split, sample_split, Compression, CsvOptions, ReadOptions, Syntax, WriteOptions,
};
use proptest::prelude::*;

fn round_trip(table: &RecordBatch, options: WriteOptions, target_bytes: u64) {
    let dir = tempfile::tempdir().unwrap();
    let files = write(dir.path(), table, options.clone());
    assert_eq!(
        files.iter().map(|file| file.rows).sum::<u64>(),
        table.num_rows() as u64
    );
    for file in &files {
        let content = std::fs::read(dir.path().join(&file.name)).unwrap();
        assert_eq!(
            (content.len() as u64, crc32fast::hash(&content)),
            (file.bytes, file.crc32)
        );
    }
    let given = is_text_format(options.format).then(|| table.schema());
    let read = ReadOptions {
        schema: given,
        ..ReadOptions::default()
    };
    let source = source(dir.path(), &read);
    let mut found = read_all(&source, &read, target_bytes);
    if !["parquet", "arrow"].contains(&options.format.name()) {
        found = RecordBatch::try_new(table.schema(), found.columns().to_vec()).unwrap();
    }
    assert_same(&found, table);
    check_projection(&source, &read, &found, target_bytes);
}

/// Checks that projections in any order, and samples, agree with the whole.
fn check_projection(
    source: &exoshuffle_io::Source,
    read: &ReadOptions,
    whole: &RecordBatch,
    target_bytes: u64,
) {
    let last = whole.num_columns() - 1;
    let exact = !is_text_format(source.format);
    let mut first_row = 0;
    for split in source.splits(target_bytes).unwrap() {
        for columns in [vec![last], vec![last, 0], vec![]] {
            let projected = Arc::new(whole.schema().project(&columns).unwrap());
            let batches = open_split(&split, &source.schema, read, Some(&columns), 77).unwrap();
            let rows: usize = batches.map(|batch| batch.unwrap().num_rows()).sum();
            let expected = whole.slice(first_row, rows).project(&columns).unwrap();
            let batches = open_split(&split, &source.schema, read, Some(&columns), 77).unwrap();
            if !columns.is_empty() {
                let batches: Vec<_> = batches
                    .map(|batch| common::to_schema(&batch.unwrap(), &projected))
                    .collect();
                assert_same(
                    &arrow_select::concat::concat_batches(&projected, &batches).unwrap(),
                    &expected,
                );
            }
        }
        let (sample, rows) =
            sample_split(&split, &source.schema, read, Some(&[last]), 13, 99).unwrap();
        assert_eq!(sample.num_rows(), rows.len());
        assert!(rows.windows(2).all(|pair| pair[0] < pair[1]));
        let batches = open_split(&split, &source.schema, read, Some(&[last]), 1 << 20).unwrap();
        let count: usize = batches.map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!(sample.num_rows(), count.min(13));
        if exact && count > 0 {
            let indices = arrow_array::UInt32Array::from_iter_values(
                rows.iter().map(|&row| (first_row as u64 + row) as u32),
            );
            let expected =
                arrow_select::take::take_record_batch(&whole.project(&[last]).unwrap(), &indices)
                    .unwrap();
            assert_same(&common::to_schema(&sample, &expected.schema()), &expected);
        }
        first_row += count;
    }
    assert_eq!(first_row, whole.num_rows());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, max_shrink_iters: 50, ..ProptestConfig::default() })]

    #[test]
    fn parquet(seed in 1_u64.., rows in 0_usize..3000, codec in 0_usize..5, groups in 10_usize..200_000, target in 1_u64..400_000) {
        let compression = [Compression::None, Compression::Snappy, Compression::Zstd, Compression::Lz4, Compression::Gzip][codec];
        let table = table(&mut Random(seed), rows, &rich_types());
        let options = WriteOptions { row_group_bytes: groups, ..write_options(named("parquet"), compression) };
        round_trip(&table, options, target);
    }

    #[test]
    fn ipc(seed in 1_u64.., rows in 0_usize..3000, codec in 0_usize..3, target in 1_u64..400_000) {
        let compression = [Compression::None, Compression::Zstd, Compression::Lz4][codec];
        let table = table(&mut Random(seed), rows, &rich_types());
        round_trip(&table, write_options(named("arrow"), compression), target);
    }

    #[test]
    fn csv(seed in 1_u64.., rows in 0_usize..3000, delimiter in 0_usize..3, target in 1_u64..100_000) {
        let table = table(&mut Random(seed), rows, &plain_types());
        let options = write_options(named("csv"), Compression::None);
        if delimiter == 0 {
            round_trip(&table, options, target);
        } else {
            let csv_delimiter = [b',', b'\t', b';'][delimiter];
            csv_with(&table, WriteOptions { csv_delimiter, ..options }, target);
        }
    }

    #[test]
    fn json_lines(seed in 1_u64.., rows in 0_usize..2000, target in 1_u64..100_000) {
        let mut types = plain_types();
        types.extend(nested_types());
        let table = table(&mut Random(seed), rows, &types);
        round_trip(&table, write_options(named("jsonl"), Compression::None), target);
    }

    #[test]
    fn dictionary_pages_change_nothing(seed in 1_u64.., rows in 1_usize..3000, target in 1_u64..400_000) {
        let table = table(&mut Random(seed), rows, &rich_types());
        let dictionary_columns = Some(vec![true; table.num_columns()]);
        round_trip(&table, WriteOptions { dictionary_columns, ..WriteOptions::new(named("parquet")) }, target);
    }
}

fn csv_with(table: &RecordBatch, options: WriteOptions, target: u64) {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), table, options.clone());
    let read = ReadOptions {
        csv: CsvOptions {
            syntax: Syntax {
                delimiter: options.csv_delimiter,
                ..Syntax::default()
            },
            ..CsvOptions::default()
        },
        schema: Some(table.schema()),
        ..ReadOptions::default()
    };
    let source = source(dir.path(), &read);
    let found = read_all(&source, &read, target);
    assert_same(
        &RecordBatch::try_new(table.schema(), found.columns().to_vec()).unwrap(),
        table,
    );
}

#[test]
fn records_are_bytes_in_a_column() {
    let mut random = Random(3);
    let schema = Arc::new(Schema::new(vec![Field::new(
        "record",
        DataType::FixedSizeBinary(7),
        false,
    )]));
    for rows in [0, 1, 2000] {
        let table = table_of(&mut random, rows, schema.clone());
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &table, WriteOptions::new(named("records")));
        let read = ReadOptions {
            record_bytes: Some(7),
            ..ReadOptions::default()
        };
        let source = source(dir.path(), &read);
        assert_eq!(source.rows, Some(rows as u64));
        for target in [1, 10, 1000, 1 << 20] {
            assert_same(&read_all(&source, &read, target), &table);
            check_projection(&source, &read, &table, target);
        }
    }
}

#[test]
fn ipc_streams_are_read_with_their_changing_dictionaries() {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let schema = Arc::new(Schema::new(vec![
        Field::new("d", dictionary, true),
        Field::new("n", DataType::Int64, true),
    ]));
    let mut random = Random(11);
    let tables: Vec<RecordBatch> = (0..5)
        .map(|_| table_of(&mut random, 100, schema.clone()))
        .collect();
    let dir = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(dir.path().join("x.arrows")).unwrap();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(file, &schema).unwrap();
    for table in &tables {
        writer.write(table).unwrap();
    }
    writer.finish().unwrap();
    let whole = arrow_select::concat::concat_batches(&schema, &tables).unwrap();
    let read = ReadOptions::default();
    let source = source(dir.path(), &read);
    assert_eq!(source.rows, Some(500));
    for target in [1, 500, 3000, 1 << 20] {
        assert_same(&read_all(&source, &read, target), &whole);
        check_projection(&source, &read, &whole, target);
    }
}

#[test]
fn batches_are_as_long_as_the_columns_that_are_read_allow() {
    let field = |i| Field::new(format!("c{i}"), DataType::Int64, false);
    let schema = Arc::new(Schema::new((0..500).map(field).collect::<Vec<_>>()));
    let dir = tempfile::tempdir().unwrap();
    let table = table_of(&mut Random(5), 10_000, schema);
    write(dir.path(), &table, WriteOptions::new(named("parquet")));
    let read = ReadOptions::default();
    let source = source(dir.path(), &read);
    let split = &source.splits(1 << 30).unwrap()[0];
    let first = |columns: Option<&[usize]>| {
        let mut batches = open_split(split, &source.schema, &read, columns, 8192).unwrap();
        batches.next().unwrap().unwrap().num_rows()
    };
    assert_eq!(first(Some(&[7])), 8192);
    // 4 MiB of 4,000 bytes a row.
    assert!((900..1100).contains(&first(None)), "{}", first(None));
}

#[test]
fn strings_point_into_the_file_buffers() {
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8, false)]));
    let table = table_of(&mut Random(5), 1000, schema);
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &table, WriteOptions::new(named("parquet")));
    let read = ReadOptions::default();
    let source = source(dir.path(), &read);
    let split = &source.splits(1 << 20).unwrap()[0];
    let batch = open_split(split, &source.schema, &read, None, 1000)
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(batch.column(0).data_type(), &DataType::Utf8View);
    assert_eq!(batch.column(0).as_string_view().data_buffers().len(), 1);
    assert_eq!(source.schema.field(0).data_type(), &DataType::Utf8);
}

#[test]
fn views_and_values_are_written_as_what_the_schema_says() {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let declared = Arc::new(Schema::new(vec![
        Field::new("s", DataType::LargeUtf8, true),
        Field::new("d", dictionary, true),
        Field::new("b", DataType::Binary, true),
    ]));
    let table = table_of(&mut Random(8), 500, declared.clone());
    let view = |column: usize, data_type: &DataType| {
        arrow_cast::cast(table.column(column), data_type).unwrap()
    };
    let delivered = RecordBatch::try_from_iter([
        ("s", view(0, &DataType::Utf8View)),
        ("d", view(1, &DataType::Utf8View)),
        ("b", view(2, &DataType::BinaryView)),
    ]);
    for format in [named("parquet"), named("arrow")] {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = exoshuffle_io::PartWriter::new(
            dir.path(),
            3,
            declared.clone(),
            WriteOptions::new(format),
        )
        .unwrap();
        writer.write(delivered.as_ref().unwrap().clone()).unwrap();
        assert_eq!(
            writer.finish().unwrap()[0].name,
            format!("part-00003.{}", format.name())
        );
        let source = source(dir.path(), &ReadOptions::default());
        assert_eq!(source.schema.fields(), declared.fields());
        assert_eq!(source.dictionary_columns(), [false, true, false]);
        assert_same(&read_all(&source, &ReadOptions::default(), 1 << 20), &table);
    }
}

#[test]
fn files_roll_at_their_target_size() {
    let table = table(&mut Random(21), 60_000, &[DataType::Int64, DataType::Utf8]);
    for format in [
        named("parquet"),
        named("arrow"),
        named("csv"),
        named("jsonl"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let options = WriteOptions {
            target_file_bytes: Some(200_000),
            ..WriteOptions::new(format)
        };
        let files = write(dir.path(), &table, options);
        assert!(files.len() > 2);
        assert_eq!(files[1].name, format!("part-00000-00001.{}", format.name()));
        assert!(
            files
                .iter()
                .rev()
                .skip(1)
                .all(|file| (150_000..2_000_000).contains(&file.bytes)),
            "{files:?}"
        );
        // In other formats, a schema is that of columns that folders give.
        let is_text = is_text_format(format);
        let read = ReadOptions {
            schema: is_text.then(|| table.schema()),
            ..ReadOptions::default()
        };
        let found = read_all(&source(dir.path(), &read), &read, 100_000);
        assert_same(
            &RecordBatch::try_new(table.schema(), found.columns().to_vec()).unwrap(),
            &table,
        );
    }
}

#[test]
fn a_partition_without_rows_still_tells_its_columns() {
    let table = table_of(
        &mut Random(2),
        0,
        Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)])),
    );
    for format in [named("parquet"), named("arrow"), named("csv")] {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(
            write(dir.path(), &table, WriteOptions::new(format)).len(),
            1
        );
        let source = source(dir.path(), &ReadOptions::default());
        assert_eq!(
            (source.rows, source.schema.field(0).name().as_str()),
            (Some(0), "a")
        );
        assert!(source.splits(10).unwrap().is_empty());
    }
}

#[test]
fn samples_of_sorted_input_cover_it_evenly() {
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
    let keys = arrow_array::Int64Array::from_iter_values(0..200_000);
    let table = RecordBatch::try_new(schema, vec![Arc::new(keys)]).unwrap();
    for format in [
        named("parquet"),
        named("arrow"),
        named("csv"),
        named("jsonl"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        write(
            dir.path(),
            &table,
            WriteOptions {
                row_group_bytes: 200_000,
                ..WriteOptions::new(format)
            },
        );
        let read = ReadOptions::default();
        let source = source(dir.path(), &read);
        let split = &source.splits(u64::MAX).unwrap()[0];
        let (sample, rows) =
            sample_split(split, &source.schema, &read, Some(&[0]), 400, 1).unwrap();
        let keys = sample
            .column(0)
            .as_primitive::<arrow_array::types::Int64Type>()
            .values();
        for quarter in 0..4 {
            let inside = keys.iter().filter(|&&key| key / 50_000 == quarter).count();
            assert!(
                (80..=120).contains(&inside),
                "{format}: {inside} keys in quarter {quarter}"
            );
        }
        let far = keys
            .iter()
            .zip(&rows)
            .map(|(key, row)| key.abs_diff(*row as i64))
            .max()
            .unwrap();
        assert!(
            far < 12_000,
            "{format}: estimated positions are off by {far}"
        );
    }
}
