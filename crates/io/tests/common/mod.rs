//! Random tables, and the way to write and read them back whole.
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray, StructArray,
};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use exoshuffle_io::{
    open_source, open_split, Compression, Format, PartFile, PartWriter, ReadOptions, Source,
    WriteOptions,
};

/// A small deterministic generator (xorshift*).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }

    /// Returns text with everything that makes text formats hard, never empty.
    pub fn text(&mut self) -> String {
        const PIECES: [&str; 12] = [
            "a",
            "Z",
            ",",
            "\"",
            "\n",
            "\r\n",
            "é",
            "日本",
            " ",
            "long enough not to be inlined",
            "\\",
            "7",
        ];
        let pieces = 1 + self.below(6);
        let text: String = (0..pieces)
            .map(|_| PIECES[self.below(12) as usize])
            .collect();
        format!("x{text}")
    }
}

/// Returns types that every table format holds.
pub fn plain_types() -> Vec<DataType> {
    use DataType::{Boolean, Date32, Float64, Int64, Timestamp, Utf8};
    vec![
        Int64,
        Float64,
        Utf8,
        Boolean,
        Date32,
        Timestamp(TimeUnit::Microsecond, None),
    ]
}

/// Returns types that Parquet and IPC hold besides.
pub fn rich_types() -> Vec<DataType> {
    use DataType::{
        Binary, BinaryView, Decimal128, Dictionary, FixedSizeBinary, Float32, Int16, Int32, Int64,
        Int8, LargeBinary, LargeUtf8, UInt32, UInt64, Utf8, Utf8View,
    };
    let mut types = plain_types();
    types.extend([
        Int8,
        Int16,
        Int32,
        UInt32,
        UInt64,
        Float32,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        BinaryView,
    ]);
    types.extend([
        Decimal128(20, 3),
        FixedSizeBinary(5),
        DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
    ]);
    types.extend([
        Dictionary(Box::new(Int32), Box::new(Utf8)),
        Dictionary(Box::new(Int8), Box::new(Int64)),
    ]);
    types.extend(nested_types());
    types
}

pub fn nested_types() -> Vec<DataType> {
    let list = DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)));
    let fields = vec![
        Field::new("n", DataType::Int32, true),
        Field::new("t", DataType::Utf8, true),
    ];
    vec![list, DataType::Struct(fields.into())]
}

/// Returns a table of random columns of the given types.
pub fn table(random: &mut Random, rows: usize, types: &[DataType]) -> RecordBatch {
    let columns = 1 + random.below(6);
    let fields: Vec<Field> = (0..columns)
        .map(|i| {
            let data_type = types[random.below(types.len() as u64) as usize].clone();
            Field::new(format!("c{i}"), data_type, random.below(3) > 0)
        })
        .collect();
    table_of(random, rows, Arc::new(Schema::new(fields)))
}

/// Returns random rows of a schema.
pub fn table_of(random: &mut Random, rows: usize, schema: SchemaRef) -> RecordBatch {
    let columns = schema
        .fields()
        .iter()
        .map(|field| column(random, rows, field))
        .collect();
    RecordBatch::try_new(schema, columns).unwrap()
}

fn column(random: &mut Random, rows: usize, field: &Field) -> ArrayRef {
    let null = |random: &mut Random| field.is_nullable() && random.below(4) == 0;
    match field.data_type() {
        DataType::Boolean => {
            let values = (0..rows).map(|_| (!null(random)).then(|| random.below(2) == 1));
            Arc::new(values.collect::<BooleanArray>())
        }
        DataType::List(_) => {
            let mut builder = ListBuilder::new(StringBuilder::new());
            for _ in 0..rows {
                for _ in 0..random.below(4) {
                    let item = (random.below(4) > 0).then(|| random.text());
                    builder.values().append_option(item);
                }
                builder.append(!null(random));
            }
            Arc::new(builder.finish())
        }
        DataType::Struct(fields) => {
            let children = fields
                .iter()
                .map(|child| column(random, rows, child))
                .collect();
            let valid: Vec<bool> = (0..rows).map(|_| !null(random)).collect();
            let nulls = field.is_nullable().then(|| valid.into());
            Arc::new(StructArray::new(fields.clone(), children, nulls))
        }
        // Few distinct values, and not more than the smallest key type can count.
        DataType::Dictionary(_, values) if **values == DataType::Int64 => {
            let values: Int64Array = (0..rows)
                .map(|_| (!null(random)).then(|| random.below(50) as i64))
                .collect();
            cast(&values, field.data_type()).unwrap()
        }
        DataType::FixedSizeBinary(width) => {
            let width = *width as usize;
            let values = (0..rows)
                .map(|_| (!null(random)).then(|| random.next().to_le_bytes()[..width].to_vec()));
            let array = arrow_array::FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                values,
                width as i32,
            );
            Arc::new(array.unwrap())
        }
        data_type if is_text(data_type) => {
            let values: StringArray = (0..rows)
                .map(|_| (!null(random)).then(|| random.text()))
                .collect();
            cast(&values, data_type).unwrap()
        }
        DataType::Date32 => {
            let values: Int32Array = (0..rows)
                .map(|_| (!null(random)).then(|| random.below(30_000) as i32))
                .collect();
            cast(&values, &DataType::Date32).unwrap()
        }
        data_type => {
            let values: Int64Array = (0..rows)
                .map(|_| (!null(random)).then(|| random.below(120) as i64))
                .collect();
            cast(&values, data_type).unwrap()
        }
    }
}

fn is_text(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, Dictionary, LargeBinary, LargeUtf8, Utf8, Utf8View};
    match data_type {
        Dictionary(_, values) => is_text(values),
        other => matches!(
            other,
            Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView
        ),
    }
}

pub fn write_options(format: Format, compression: Compression) -> WriteOptions {
    WriteOptions {
        compression,
        ..WriteOptions::new(format)
    }
}

/// Writes a table as partition 0.
pub fn write(dir: &Path, table: &RecordBatch, options: WriteOptions) -> Vec<PartFile> {
    write_part(dir, 0, table, options)
}

pub fn write_part(
    dir: &Path,
    partition: usize,
    table: &RecordBatch,
    options: WriteOptions,
) -> Vec<PartFile> {
    let mut writer = PartWriter::new(dir, partition, table.schema(), options).unwrap();
    let (mut start, mut step) = (0, 1);
    while start < table.num_rows() {
        let rows = step.min(table.num_rows() - start);
        writer.write(table.slice(start, rows)).unwrap();
        (start, step) = (start + rows, step * 3);
    }
    writer.finish().unwrap()
}

/// Lists a directory.
pub fn source(dir: &Path, options: &ReadOptions) -> Source {
    open_source(&[dir.display().to_string()], options).unwrap()
}

/// Reads every split of a source and casts to its schema.
pub fn read_all(source: &Source, options: &ReadOptions, target_bytes: u64) -> RecordBatch {
    let mut batches = Vec::new();
    for split in source.splits(target_bytes).unwrap() {
        let mut rows = 0;
        for batch in open_split(&split, &source.schema, options, None, 1000).unwrap() {
            let batch = batch.unwrap();
            assert!(batch.num_rows() <= 1000);
            rows += batch.num_rows() as u64;
            batches.push(to_schema(&batch, &source.schema));
        }
        assert_eq!(split.rows.unwrap_or(rows), rows);
    }
    arrow_select::concat::concat_batches(&source.schema, &batches).unwrap()
}

/// Casts the batches of a reader to the types of the schema.
pub fn to_schema(batch: &RecordBatch, schema: &SchemaRef) -> RecordBatch {
    for (found, declared) in batch.schema().fields().iter().zip(schema.fields()) {
        assert_eq!(
            (found.name(), found.is_nullable()),
            (declared.name(), declared.is_nullable())
        );
    }
    let pairs = batch.columns().iter().zip(schema.fields());
    let columns = pairs
        .map(|(array, field)| cast(array, field.data_type()).unwrap())
        .collect();
    RecordBatch::try_new(schema.clone(), columns).unwrap()
}

/// Fails with the first difference; dictionaries are compared by value.
pub fn assert_same(found: &RecordBatch, expected: &RecordBatch) {
    assert_eq!(found.num_rows(), expected.num_rows());
    assert_eq!(found.schema().fields(), expected.schema().fields());
    for (i, field) in expected.schema().fields().iter().enumerate() {
        let plain = |array: &ArrayRef| match array.data_type() {
            DataType::Dictionary(_, values) => cast(array, values).unwrap(),
            _ => array.clone(),
        };
        assert_eq!(
            &plain(found.column(i)),
            &plain(expected.column(i)),
            "column {field}"
        );
    }
}

/// Returns the format of this name.
pub fn named(name: &str) -> Format {
    name.parse().unwrap()
}

/// Returns whether types of columns are not in the file.
pub fn is_text_format(format: Format) -> bool {
    ["csv", "jsonl"].contains(&format.name())
}
