//! Parquet output.
//!
//! The encoder takes batches as they are: whether a string column is a view, an offset array or a dictionary makes no
//! difference to the file. What the user declared is stored beside the data, so that readers restore it.

use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, IntervalUnit, Schema, SchemaRef};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{
    encode_arrow_schema, ArrowSchemaConverter, ArrowWriter, ARROW_SCHEMA_META_KEY,
};
use parquet::basic::{Compression as Codec, GzipLevel, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::SchemaDescriptor;

use super::dictionary::dictionaries_pay;
use super::{encode_error, WriteOptions};
use crate::direct::{DirectWriter, PendingFile};
use crate::error::{IoError, Result};
use crate::{Compression, Format};

/// Rows encoded between two looks at the size of the row group.
const CHECK_ROWS: usize = 8192;

/// Everything the encoder is told in advance.
pub(super) struct Plan {
    batch_schema: SchemaRef,
    file_schema: SchemaDescriptor,
    properties: WriterProperties,
    row_group_bytes: usize,
}

impl Plan {
    /// For a file that begins with this batch.
    pub(super) fn new(
        first: &RecordBatch,
        user_schema: &SchemaRef,
        options: &WriteOptions,
    ) -> Result<Self> {
        let file_schema = file_schema(user_schema)?;
        let pays = dictionaries_pay(first, options.row_group_bytes);
        let mut properties = WriterProperties::builder()
            .set_compression(codec(options.compression))
            .set_max_row_group_row_count(None)
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_dictionary_enabled(false)
            .set_key_value_metadata(Some(file_metadata(user_schema)));
        for (leaf, column) in file_schema.columns().iter().enumerate() {
            let root = file_schema.get_column_root_idx(leaf);
            if use_dictionary(user_schema, options, root) && pays[root] {
                properties = properties.set_column_dictionary_enabled(column.path().clone(), true);
            }
        }
        // Nullability is the user's: a batch may promise less.
        let fields = first
            .schema_ref()
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
        let batch_schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(Self {
            batch_schema,
            file_schema,
            properties: properties.build(),
            row_group_bytes: options.row_group_bytes,
        })
    }
}

fn use_dictionary(schema: &Schema, options: &WriteOptions, column: usize) -> bool {
    match &options.dictionary_columns {
        Some(columns) => columns.get(column).copied().unwrap_or(false),
        None => matches!(schema.field(column).data_type(), DataType::Dictionary(..)),
    }
}

/// The Parquet schema of the user's types; names the first column that has none.
fn file_schema(schema: &Schema) -> Result<SchemaDescriptor> {
    let convert = |schema: &Schema| ArrowSchemaConverter::new().convert(schema);
    // The converter maps this type although the encoder then refuses its values.
    let refused =
        |data_type: &DataType| *data_type == DataType::Interval(IntervalUnit::MonthDayNano);
    for field in schema.fields() {
        if refused(field.data_type()) || convert(&Schema::new(vec![field.clone()])).is_err() {
            let (column, data_type) = (field.name().clone(), field.data_type().to_string());
            return Err(IoError::Unsupported {
                format: Format::Parquet,
                column,
                data_type,
            });
        }
    }
    convert(schema).map_err(|e| encode_error(Path::new("the output"), Format::Parquet, &e))
}

/// The declared schema, and its metadata once more as entries of the file, where readers without Arrow look (and
/// pandas). Sorted, because the same rows shall give the same bytes.
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
    writer: ArrowWriter<DirectWriter>,
    row_group_bytes: usize,
}

impl ParquetFile {
    pub(super) fn create(sink: DirectWriter, plan: Plan) -> Result<Self> {
        let path = sink.path().to_path_buf();
        let options = ArrowWriterOptions::new()
            .with_properties(plan.properties)
            .with_skip_arrow_metadata(true)
            .with_parquet_schema(plan.file_schema);
        let writer = ArrowWriter::try_new_with_options(sink, plan.batch_schema, options);
        Ok(Self {
            writer: writer.map_err(|e| failed(&path, e))?,
            row_group_bytes: plan.row_group_bytes,
        })
    }

    pub(super) fn write(&mut self, path: &Path, batch: &RecordBatch) -> Result<()> {
        for start in (0..batch.num_rows()).step_by(CHECK_ROWS) {
            let piece = batch.slice(start, CHECK_ROWS.min(batch.num_rows() - start));
            self.writer.write(&piece).map_err(|e| failed(path, e))?;
            if self.writer.in_progress_size() >= self.row_group_bytes {
                self.writer.flush().map_err(|e| failed(path, e))?;
            }
        }
        Ok(())
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.writer.bytes_written() + self.writer.in_progress_size()) as u64
    }

    pub(super) fn end(self, path: &Path) -> Result<PendingFile> {
        self.writer.into_inner().map_err(|e| failed(path, e))?.end()
    }
}

/// A failure of the sink keeps its cause; everything else is the encoder's.
fn failed(path: &Path, error: ParquetError) -> IoError {
    match error {
        ParquetError::External(cause) => match cause.downcast::<std::io::Error>() {
            Ok(cause) => IoError::write(path, *cause),
            Err(other) => encode_error(path, Format::Parquet, &other),
        },
        other => encode_error(path, Format::Parquet, &other),
    }
}
