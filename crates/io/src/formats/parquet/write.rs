//! Writes Parquet.
//!
//! The encoder takes batches as they are: a string column gives the same file as a view, an offset array or a dictionary.
//! The schema that the user declared is stored beside the data, so that readers restore it.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, IntervalUnit, Schema, SchemaRef};
use arrow_select::take::take_record_batch;
use parquet::arrow::{encode_arrow_schema, ArrowSchemaConverter, ARROW_SCHEMA_META_KEY};
use parquet::basic::{Compression as Codec, GzipLevel, Type, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::SchemaDescriptor;

use super::checked::CheckedWriter;
use super::dictionary::{chosen, suffice};
use super::stored_types::{self, stored_schema};
use super::FORMAT;
use crate::direct::{DirectWriter, PendingFile};
use crate::error::{IoError, Result};
use crate::format::Encoder;
use crate::row_bytes::long_rows;
use crate::views::compacted;
use crate::write::{encode_error, WriteOptions};
use crate::Compression;

/// Rows that are encoded between two checks of the size of the row group.
const CHECK_ROWS: usize = 8192;

/// The options of the encoder, known in advance.
pub(super) struct Plan {
    batch_schema: SchemaRef,
    user_schema: SchemaRef,
    file_schema: SchemaDescriptor,
    options: WriteOptions,
}

impl Plan {
    /// Makes the plan for batches of this schema.
    pub(super) fn new(
        batch_schema: &SchemaRef,
        user_schema: &SchemaRef,
        options: &WriteOptions,
    ) -> Result<Self> {
        // Nullability comes from the user's schema, because a batch may promise less.
        let fields = batch_schema
            .fields()
            .iter()
            .zip(user_schema.fields())
            .map(|(batch, user)| {
                batch
                    .as_ref()
                    .clone()
                    .with_name(user.name())
                    .with_nullable(user.is_nullable())
            });
        Ok(Self {
            batch_schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            file_schema: file_schema(user_schema)?,
            user_schema: Arc::clone(user_schema),
            options: options.clone(),
        })
    }

    /// Whether the first batches decide about dictionaries. They do not where files have a target size, because that is
    /// checked after every few rows.
    fn samples(&self) -> bool {
        let columns = 0..self.user_schema.fields().len();
        self.options.target_file_bytes.is_none()
            && columns
                .into_iter()
                .any(|column| use_dictionary(&self.user_schema, &self.options, column))
    }

    /// The encoder of a file that begins with these batches.
    fn writer(
        &self,
        sink: DirectWriter,
        first: &[RecordBatch],
    ) -> Result<CheckedWriter<DirectWriter>> {
        let path = sink.path().to_path_buf();
        let schema = Arc::clone(&self.batch_schema);
        CheckedWriter::new(sink, schema, &self.file_schema, self.properties(first))
            .map_err(|e| failed(&path, e))
    }

    fn properties(&self, first: &[RecordBatch]) -> WriterProperties {
        let roots = 0..self.user_schema.fields().len();
        let candidates: Vec<bool> = roots
            .map(|root| use_dictionary(&self.user_schema, &self.options, root))
            .collect();
        let chosen = chosen(first, self.options.row_group_bytes, &candidates);
        let mut properties = WriterProperties::builder()
            .set_compression(codec(self.options.compression))
            .set_max_row_group_row_count(None)
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_dictionary_enabled(false)
            .set_key_value_metadata(Some(file_metadata(&self.user_schema)));
        for (leaf, column) in self.file_schema.columns().iter().enumerate() {
            let root = self.file_schema.get_column_root_idx(leaf);
            if chosen.get(root).copied().unwrap_or(false) {
                properties = properties.set_column_dictionary_enabled(column.path().clone(), true);
            }
        }
        properties.build()
    }
}

fn use_dictionary(schema: &Schema, options: &WriteOptions, column: usize) -> bool {
    match &options.dictionary_columns {
        Some(columns) => columns.get(column).copied().unwrap_or(false),
        None => matches!(schema.field(column).data_type(), DataType::Dictionary(..)),
    }
}

/// The bits of a column's value in plain encoding, as the file has its type; 0 if not all values have as many.
pub(super) fn fixed_bits(field: &Field) -> u64 {
    if field.data_type().is_nested() || field.data_type().is_null() {
        return 0;
    }
    let file = stored_schema(&Arc::new(Schema::new(vec![field.clone()])));
    let Ok(columns) = ArrowSchemaConverter::new().convert(&file) else {
        return 0;
    };
    let column = columns.column(0);
    match column.physical_type() {
        Type::BOOLEAN => 1,
        Type::INT32 | Type::FLOAT => 32,
        Type::INT64 | Type::DOUBLE => 64,
        Type::INT96 => 96,
        Type::FIXED_LEN_BYTE_ARRAY => 8 * u64::try_from(column.type_length()).unwrap_or(0),
        Type::BYTE_ARRAY => 0,
    }
}

/// The Parquet schema of the user's types; names the first column that has none.
fn file_schema(schema: &Schema) -> Result<SchemaDescriptor> {
    let convert = |schema: &Schema| ArrowSchemaConverter::new().convert(schema);
    for field in schema.fields() {
        if is_refused(field.data_type()) || convert(&Schema::new(vec![field.clone()])).is_err() {
            let (column, data_type) = (field.name().clone(), field.data_type().to_string());
            return Err(IoError::Unsupported {
                format: FORMAT,
                column,
                data_type,
            });
        }
    }
    convert(schema).map_err(|e| encode_error(Path::new("the output"), FORMAT, &e))
}

/// Refuses columns that the format cannot hold.
pub(super) fn check(schema: &Schema) -> Result<()> {
    file_schema(schema).map(drop)
}

/// Whether the type, or a type within it, is one that the converter maps although the encoder then refuses its values. The
/// converter panics at a union.
fn is_refused(data_type: &DataType) -> bool {
    match data_type {
        DataType::Interval(IntervalUnit::MonthDayNano)
        | DataType::FixedSizeBinary(0)
        | DataType::Union(..) => true,
        DataType::Dictionary(_, values) => is_refused(values),
        DataType::Struct(fields) => fields.iter().any(|field| is_refused(field.data_type())),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => is_refused(item.data_type()),
        _ => false,
    }
}

/// The declared schema, and its metadata once more as entries of the file, for readers without Arrow (and pandas). Sorted,
/// so that the same rows give the same bytes.
fn file_metadata(schema: &Schema) -> Vec<KeyValue> {
    let encoded = encode_arrow_schema(schema);
    let mut entries = vec![KeyValue::new(ARROW_SCHEMA_META_KEY.to_string(), encoded)];
    let own = schema
        .metadata()
        .iter()
        .filter(|(key, _)| *key != ARROW_SCHEMA_META_KEY);
    entries.extend(own.map(|(key, value)| KeyValue::new(key.clone(), value.clone())));
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    entries
}

fn codec(compression: Compression) -> Codec {
    match compression {
        Compression::None => Codec::UNCOMPRESSED,
        Compression::Snappy => Codec::SNAPPY,
        Compression::Zstd => Codec::ZSTD(ZstdLevel::default()),
        Compression::Lz4 => Codec::LZ4_RAW,
        Compression::Gzip => Codec::GZIP(GzipLevel::default()),
    }
}

/// A Parquet file being written.
pub(super) struct ParquetFile {
    plan: Plan,
    stage: Stage,
}

enum Stage {
    /// Batches are held back until they tell which columns get dictionaries.
    Sampling(DirectWriter, Vec<RecordBatch>),
    /// Batches are encoded.
    Encoding(Box<CheckedWriter<DirectWriter>>),
    /// The encoder could not be made.
    Failed,
}

impl ParquetFile {
    /// Creates a file for rows of the user's schema; the first rows have types of their own.
    pub(super) fn create(
        sink: DirectWriter,
        schema: &SchemaRef,
        first: &RecordBatch,
        options: &WriteOptions,
    ) -> Result<Self> {
        let first = stored(sink.path(), first.clone())?;
        let plan = Plan::new(&first.schema(), &stored_schema(schema), options)?;
        let samples = plan.samples();
        let mut file = Self {
            plan,
            stage: Stage::Sampling(sink, Vec::new()),
        };
        if !samples {
            file.writer()?;
        }
        Ok(file)
    }

    /// Returns the encoder; at first makes it from the batches held back, and encodes these.
    fn writer(&mut self) -> Result<&mut CheckedWriter<DirectWriter>> {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Failed) {
            Stage::Sampling(sink, first) => {
                let path = sink.path().to_path_buf();
                let mut writer = self.plan.writer(sink, &first)?;
                for batch in first {
                    encode(&path, &mut writer, batch, self.plan.options.row_group_bytes)?;
                }
                Stage::Encoding(Box::new(writer))
            }
            other => other,
        };
        match &mut self.stage {
            Stage::Encoding(writer) => Ok(writer),
            _ => Err(broken(Path::new("the output"))),
        }
    }
}

impl Encoder for ParquetFile {
    fn write(&mut self, path: &Path, batch: RecordBatch) -> Result<()> {
        let batch = stored(path, batch)?;
        if let Stage::Sampling(_, first) = &mut self.stage {
            first.push(batch);
            return if suffice(first, self.plan.options.row_group_bytes) {
                self.writer().map(|_| ())
            } else {
                Ok(())
            };
        }
        let row_group_bytes = self.plan.options.row_group_bytes;
        encode(path, self.writer()?, batch, row_group_bytes)
    }

    /// Returns 0 while nothing is encoded.
    fn bytes(&self) -> u64 {
        match &self.stage {
            Stage::Encoding(writer) => (writer.bytes_written() + writer.in_progress_size()) as u64,
            _ => 0,
        }
    }

    fn end(mut self: Box<Self>, path: &Path) -> Result<PendingFile> {
        self.writer()?;
        match self.stage {
            Stage::Encoding(writer) => writer.into_inner().map_err(|e| failed(path, e))?.end(),
            _ => Err(broken(path)),
        }
    }
}

fn stored(path: &Path, batch: RecordBatch) -> Result<RecordBatch> {
    stored_types::stored(&batch).map_err(|e| encode_error(path, FORMAT, &e))
}

fn encode(
    path: &Path,
    writer: &mut CheckedWriter<DirectWriter>,
    batch: RecordBatch,
    row_group_bytes: usize,
) -> Result<()> {
    let mut rest = batch;
    let mut start = 0;
    for row in long_rows(&rest, row_group_bytes as u64) {
        let place = row - start;
        encode_short(path, writer, &rest.slice(0, place), row_group_bytes)?;
        let row_alone = rest.slice(place, 1);
        rest = match rest.num_rows() - place - 1 {
            0 => RecordBatch::new_empty(rest.schema()),
            more => {
                copied(&rest.slice(place + 1, more)).map_err(|e| encode_error(path, FORMAT, &e))?
            }
        };
        writer.write_long(row_alone).map_err(|e| failed(path, e))?;
        start = row + 1;
    }
    encode_short(path, writer, &rest, row_group_bytes)
}

/// Returns the same rows in memory of their own: a slice keeps that of all rows.
fn copied(rows: &RecordBatch) -> std::result::Result<RecordBatch, ArrowError> {
    let all = UInt64Array::from_iter_values(0..rows.num_rows() as u64);
    take_record_batch(rows, &all).map(compacted)
}

/// Encodes rows of which none fills a row group.
fn encode_short(
    path: &Path,
    writer: &mut CheckedWriter<DirectWriter>,
    batch: &RecordBatch,
    row_group_bytes: usize,
) -> Result<()> {
    for start in (0..batch.num_rows()).step_by(CHECK_ROWS) {
        let piece = batch.slice(start, CHECK_ROWS.min(batch.num_rows() - start));
        writer.write(&piece).map_err(|e| failed(path, e))?;
        if writer.in_progress_size() >= row_group_bytes {
            writer.flush().map_err(|e| failed(path, e))?;
        }
    }
    Ok(())
}

/// The error of a caller that goes on writing after a failure, which none does.
fn broken(path: &Path) -> IoError {
    encode_error(path, FORMAT, &"writing has failed before")
}

/// A failure of the sink keeps its cause; everything else is the encoder's.
fn failed(path: &Path, error: ParquetError) -> IoError {
    match error {
        ParquetError::External(cause) => match cause.downcast::<std::io::Error>() {
            Ok(cause) => IoError::write(path, *cause),
            Err(other) => encode_error(path, FORMAT, &other),
        },
        other => encode_error(path, FORMAT, &other),
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::TimeUnit;

    use super::*;

    #[test]
    fn values_have_the_bits_of_the_type_in_the_file() {
        let item = Arc::new(Field::new("item", DataType::Int64, false));
        for (data_type, bits) in [
            (DataType::Boolean, 1),
            (DataType::Int8, 32),
            (DataType::Float64, 64),
            // Few digits are stored as integers, and others in as many bytes as they need.
            (DataType::Decimal128(5, 2), 32),
            (DataType::Decimal128(12, 2), 64),
            (DataType::Decimal128(20, 2), 72),
            (DataType::Date64, 32),
            (DataType::Timestamp(TimeUnit::Second, None), 64),
            (DataType::FixedSizeBinary(3), 24),
            (DataType::Utf8, 0),
            (DataType::Null, 0),
            (DataType::List(item), 0),
        ] {
            let field = Field::new("a", data_type.clone(), false);
            assert_eq!(fixed_bits(&field), bits, "{data_type}");
        }
    }
}
