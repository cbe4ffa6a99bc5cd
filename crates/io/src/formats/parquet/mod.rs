//! Apache Parquet.

mod checked;
mod columns;
mod dictionary;
mod footer;
mod page_header;
mod pages;
mod prefetch;
mod read;
mod regions;
mod shared_prefixes;
mod stored_types;
mod uneven;
mod windows;
mod write;

use std::path::PathBuf;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};

use crate::direct::DirectWriter;
use crate::error::Result;
use crate::format::{Encoder, FileFormat, Format, Inspect, Names};
use crate::source::{
    spans_of_groups, BatchStream, Pick, ReadOptions, Request, Sample, SourceFile, Span,
};
use crate::write::WriteOptions;
use crate::Compression;

/// Apache Parquet.
pub(crate) const FORMAT: Format = Format::of(&Parquet);

struct Parquet;

impl FileFormat for Parquet {
    fn names(&self) -> &'static Names {
        &Names {
            name: "parquet",
            aliases: &[],
            endings: &["parquet", "pq"],
            title: "Parquet",
        }
    }

    fn inspect<'a>(&self, _: &'a [PathBuf], _: &'a ReadOptions) -> Result<Inspect<'a>> {
        Ok(Box::new(|_, file| footer::inspect(file)))
    }

    fn cut(&self, file: &SourceFile, _: &ReadOptions, target: u64) -> Result<Vec<Span>> {
        Ok(spans_of_groups(&file.groups, target))
    }

    fn open(&self, request: &Request<'_>, batch_rows: usize) -> Result<BatchStream> {
        read::open(request, batch_rows)
    }

    fn sample(&self, request: &Request<'_>, pick: Pick) -> Result<Sample> {
        read::sample(request, pick)
    }

    fn check(&self, schema: &Schema) -> Result<()> {
        write::check(schema)
    }

    fn compressions(&self) -> &'static [Compression] {
        use Compression::{Gzip, Lz4, None, Snappy, Zstd};
        &[None, Snappy, Zstd, Lz4, Gzip]
    }

    fn create(
        &self,
        sink: DirectWriter,
        schema: &SchemaRef,
        first: &RecordBatch,
        options: &WriteOptions,
    ) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(write::ParquetFile::create(
            sink, schema, first, options,
        )?))
    }
}
