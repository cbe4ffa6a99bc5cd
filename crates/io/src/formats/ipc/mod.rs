//! Arrow IPC files (random access) and streams.

mod dictionaries;
mod index;
mod read;
mod stream;
mod write;
mod write_dictionaries;

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

pub use stream::StreamBatches;

/// Arrow IPC, the file format or the stream format.
pub(crate) const FORMAT: Format = Format::of(&Ipc);

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
