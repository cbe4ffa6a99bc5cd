//! Arrow IPC files (random access) and streams.

mod dictionaries;
mod index;
mod read;
mod stream;
mod write;
mod write_dictionaries;

use std::path::PathBuf;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};

use crate::direct::DirectWriter;
use crate::error::Result;
use crate::format::{fixed_bits, Encoder, FileFormat, Format, Indivisible, Inspect, Names};
use crate::source::{
    spans_of_groups, BatchStream, Limits, Pick, ReadMemory, ReadOptions, Request, RowLimit, Sample,
    SourceFile, Span, MIN_ROW_BYTES,
};
use crate::write::WriteOptions;
use crate::Compression;

pub use stream::StreamBatches;

/// Arrow IPC, the file format or the stream format.
pub(crate) const FORMAT: Format = Format::of(&Ipc);

/// A batch does not tell whether few rows have most of its bytes. If so, writing them takes copies of it: pages of an
/// encoder, as they are and compressed. Four texts of 50 MB, written within 400 MB, peaked at 436, since two tasks had one
/// each; now they take 292.
const BATCH_COPIES: u64 = 4;
/// Memory of a large row in what takes it, in its sizes, where that is not known. It is pages of an encoder, as they are
/// and compressed. With its batch as it was read, texts of 100 MB took 4.4 to 4.7.
const ROW_COPIES: u64 = 4;

struct Ipc;

impl FileFormat for Ipc {
    fn names(&self) -> &'static Names {
        &Names {
            name: "arrow",
            aliases: &["ipc", "feather"],
            endings: &["arrow", "arrows", "ipc", "feather"],
            title: "Arrow IPC",
        }
    }

    fn starts(&self, start: &[u8]) -> bool {
        // A stream begins with the mark before a message.
        start.starts_with(b"ARROW1") || start.starts_with(&[0xff; 4])
    }

    fn indivisible(&self) -> Option<&'static Indivisible> {
        Some(&Indivisible {
            reading: "decoding the largest batch of",
            remedy: "write the file again with smaller batches",
            copies: BATCH_COPIES,
        })
    }

    fn limits(&self, memory: ReadMemory, _: u64) -> Limits {
        let row = RowLimit::of(memory, 1 + memory.row_copies.unwrap_or(ROW_COPIES));
        Limits {
            row: Some(row),
            shared_bytes: Some((row.row_bytes / memory.num_tasks).max(MIN_ROW_BYTES)),
            ..Limits::default()
        }
    }

    fn inspect<'a>(&self, _: &'a [PathBuf], _: &'a ReadOptions) -> Result<Inspect<'a>> {
        Ok(Box::new(|_, file| index::inspect(file)))
    }

    fn cut(&self, file: &SourceFile, _: &ReadOptions, target: u64) -> Result<Vec<Span>> {
        let kept = file.kept.as_deref();
        Ok(spans_of_groups(&file.groups, kept, target))
    }

    fn open(&self, request: &Request<'_>, batch_rows: usize) -> Result<BatchStream> {
        read::open(request, batch_rows)
    }

    fn sample(&self, request: &Request<'_>, pick: Pick) -> Result<Sample> {
        read::sample(request, pick)
    }

    /// Accepts every column.
    fn check(&self, _: &Schema) -> Result<()> {
        Ok(())
    }

    fn least_bits(&self, field: &Field, _: bool) -> u64 {
        fixed_bits(field.data_type())
    }

    fn compressions(&self) -> &'static [Compression] {
        &[Compression::None, Compression::Zstd, Compression::Lz4]
    }

    fn create(
        &self,
        sink: DirectWriter,
        schema: &SchemaRef,
        _: &RecordBatch,
        options: &WriteOptions,
    ) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(write::IpcFile::create(sink, schema, options)?))
    }
}
