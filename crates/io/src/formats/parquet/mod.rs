//! The format Apache Parquet.

mod batches;
mod bloom;
mod checked;
mod chunk;
mod columns;
mod dictionary;
mod footer;
mod idle_dictionaries;
mod kept_headers;
mod lengths;
mod levels;
mod located;
mod mended;
mod others;
mod page_header;
mod page_limits;
mod pages;
mod prefetch;
mod read;
mod regions;
mod row_groups;
mod row_sizes;
mod shared_prefixes;
mod spread;
mod stored;
mod stored_types;
mod types;
mod uneven;
mod windows;
mod write;
mod zones;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema, SchemaRef};

use crate::direct::{place, DirectWriter, RangeReader};
use crate::error::Result;
use crate::format::{Encoder, FileFormat, Format, Indivisible, Inspect, Names};
use crate::source::{
    spans_of_groups, BatchStream, Detail, Limits, Pick, ReadMemory, ReadOptions, Request, RowLimit,
    RowRange, Sample, SourceFile, Span, Spread, Stored,
};
use crate::storage;
use crate::write::WriteOptions;
use crate::Compression;

/// The format Apache Parquet.
pub(crate) const FORMAT: Format = Format::of(&Parquet);

/// For larger inputs, not all pages that tell the sizes of values are inspected: that takes a second per GB, before
/// anything runs. Their tasks inspect their own pages.
const LOOKED_BYTES: u64 = 1 << 30;

/// Memory of a page while it is decoded, in its sizes: as it is stored, decompressed, and the rows that refer to it.
const PAGE_COPIES: u64 = 4;
/// Every page up to this size is decoded. The plan counts larger pages if they are the first of their column.
const MIN_PAGE_BYTES: u64 = 25_000_000;

/// Memory of a large row while it is written, in its sizes. It has the encoder's values, the page, and the compressed page.
/// A line of 100 MB of random text took 2.9 sizes with zstd, and 3.3 with snappy, which asks for more room than it fills.
const WRITTEN_COPIES: u64 = 3;
/// Memory of a large row that the decoder holds meanwhile: the page or dictionary that it came from. A text of 100 MB among
/// 20,000 short ones, written within 430 MB, peaked at 450 to 492 without that.
const HELD_COPIES: u64 = 1;
/// Memory of a large row in what takes it, in its sizes, where that is not known.
const ROW_COPIES: u64 = 4;

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

    fn written_copies(&self) -> u64 {
        WRITTEN_COPIES
    }

    fn packs_values(&self) -> bool {
        true
    }

    fn skips_rows(&self) -> bool {
        true
    }

    fn indivisible(&self) -> Option<&'static Indivisible> {
        Some(&Indivisible {
            reading: "decoding the footer and the largest page of",
            remedy: "write the file again with smaller pages, and row groups of about 100 MB",
            copies: 1,
        })
    }

    fn limits(&self, memory: ReadMemory, working_bytes: u64) -> Limits {
        let page = RowLimit::of(memory, PAGE_COPIES * memory.num_tasks);
        Limits {
            row: Some(RowLimit::of(
                memory,
                HELD_COPIES + memory.row_copies.unwrap_or(ROW_COPIES),
            )),
            page: Some(page.at_least(working_bytes.max(MIN_PAGE_BYTES))),
            ..Limits::shared(memory)
        }
    }

    fn inspect<'a>(&self, files: &'a [PathBuf], options: &'a ReadOptions) -> Result<Inspect<'a>> {
        let one_of = OnceLock::new();
        Ok(Box::new(move |_, file| {
            let one_of = || *one_of.get_or_init(|| size_of(files).div_ceil(LOOKED_BYTES).max(1));
            footer::inspect(file, one_of, files.len() == 1, options.max_footer)
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

    fn are_open(
        &self,
        file: &Arc<RangeReader>,
        columns: &[&Field],
        group_bytes: u64,
    ) -> Result<bool> {
        others::are_open(file, columns, group_bytes)
    }

    fn stored(&self, file: &Arc<RangeReader>) -> Result<Vec<Stored>> {
        stored::stored(file)
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

    fn usual_compression(&self) -> Compression {
        Compression::Zstd
    }

    fn least_bits(&self, field: &Field, has_dictionary: bool) -> u64 {
        if has_dictionary || field.is_nullable() {
            return 0;
        }
        write::fixed_bits(field)
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
