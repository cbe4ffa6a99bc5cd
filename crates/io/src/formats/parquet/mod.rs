//! The format Apache Parquet.

mod bloom;
mod checked;
mod chunk;
mod columns;
mod dictionary;
mod footer;
mod lengths;
mod levels;
mod page_header;
mod pages;
mod prefetch;
mod read;
mod regions;
mod row_sizes;
mod shared_prefixes;
mod spread;
mod stored_types;
mod uneven;
mod windows;
mod write;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema, SchemaRef};

use crate::direct::{place, DirectWriter, RangeReader};
use crate::error::Result;
use crate::format::{Encoder, FileFormat, Format, Inspect, Names};
use crate::source::{
    spans_of_groups, BatchStream, Detail, Pick, ReadOptions, Request, RowRange, Sample, SourceFile,
    Span, Spread,
};
use crate::storage;
use crate::write::WriteOptions;
use crate::Compression;

/// The format Apache Parquet.
pub(crate) const FORMAT: Format = Format::of(&Parquet);

/// For larger inputs, not all pages that tell the sizes of values are inspected: that takes a second per GB, before
/// anything runs. Their tasks inspect their own pages.
const LOOKED_BYTES: u64 = 1 << 30;

struct Parquet;

/// Bytes of files on disk. A file that is gone is an error when it is opened.
fn size_of(files: &[PathBuf]) -> u64 {
    let places = files.iter().map(|path| place(path));
    let found = places.filter_map(|place| storage::of(place).metadata(place).ok());
    found.map(|found| found.stamp.bytes).sum()
}

impl FileFormat for Parquet {
    fn names(&self) -> &'static Names {
        &Names {
            name: "parquet",
            aliases: &[],
            endings: &["parquet", "pq"],
            title: "Parquet",
        }
    }

    fn starts(&self, start: &[u8]) -> bool {
        start.starts_with(b"PAR1")
    }

    fn inspect<'a>(&self, files: &'a [PathBuf], _: &'a ReadOptions) -> Result<Inspect<'a>> {
        let one_of = OnceLock::new();
        Ok(Box::new(move |_, file| {
            let one_of = || *one_of.get_or_init(|| size_of(files).div_ceil(LOOKED_BYTES).max(1));
            footer::inspect(file, one_of, files.len() == 1)
        }))
    }

    fn cut(&self, file: &SourceFile, _: &ReadOptions, target: u64) -> Result<Vec<Span>> {
        let kept = file.kept.as_deref();
        Ok(spans_of_groups(&file.groups, kept, target))
    }

    fn open(&self, request: &Request<'_>, batch_rows: usize) -> Result<BatchStream> {
        read::open(request, batch_rows)
    }

    fn spreads(
        &self,
        file: &Arc<RangeReader>,
        columns: &[&Field],
        kept: Option<&[RowRange]>,
        detail: Detail,
    ) -> Result<Vec<Spread>> {
        spread::spreads(file, columns, kept, detail)
    }

    fn may_hold(
        &self,
        file: &Arc<RangeReader>,
        column: &Field,
        values: &ArrayRef,
        kept: Option<&[RowRange]>,
    ) -> Result<Vec<bool>> {
        bloom::may_hold(file, column, values, kept)
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
