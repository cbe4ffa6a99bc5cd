//! Arrow IPC output, in the file format or as a stream.

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions, StreamWriter};
use arrow_ipc::CompressionType;
use arrow_schema::{ArrowError, SchemaRef};

use super::write_dictionaries::Dictionaries;
use super::FORMAT;
use crate::direct::{DirectWriter, PendingFile};
use crate::error::{IoError, Result};
use crate::format::Encoder;
use crate::views::compacted;
use crate::write::{encode_error, to_schema, IpcLayout, WriteOptions};
use crate::Compression;

/// An IPC file being written.
pub(super) struct IpcFile {
    schema: SchemaRef,
    writer: Writer,
}

enum Writer {
    File(Box<FileWriter<DirectWriter>>, Dictionaries),
    Stream(Box<StreamWriter<DirectWriter>>),
}

impl IpcFile {
    pub(super) fn create(
        sink: DirectWriter,
        schema: &SchemaRef,
        options: &WriteOptions,
    ) -> Result<Self> {
        let path = sink.path().to_path_buf();
        let compression = match options.compression {
            Compression::Zstd => Some(CompressionType::ZSTD),
            Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
            _ => None,
        };
        // The file format forbids replacing a dictionary, but later batches may extend it.
        let writer = IpcWriteOptions::default()
            .try_with_compression(compression)
            .map(|options| options.with_dictionary_handling(DictionaryHandling::Delta))
            .and_then(|ipc| match options.ipc_layout {
                IpcLayout::File => FileWriter::try_new_with_options(sink, schema, ipc)
                    .map(|writer| Writer::File(Box::new(writer), Dictionaries::new(schema))),
                IpcLayout::Stream => StreamWriter::try_new_with_options(sink, schema, ipc)
                    .map(|writer| Writer::Stream(Box::new(writer))),
            });
        Ok(Self {
            schema: schema.clone(),
            writer: writer.map_err(|e| failed(&path, e))?,
        })
    }
}

impl Encoder for IpcFile {
    fn write(&mut self, path: &Path, batch: RecordBatch) -> Result<()> {
        // All buffers of views are written, also those of a whole partition.
        let batch = compacted(to_schema(batch, &self.schema, (path, FORMAT))?);
        let written = match &mut self.writer {
            Writer::File(writer, dictionaries) => dictionaries
                .adopt(&batch)
                .and_then(|batch| writer.write(&batch)),
            Writer::Stream(writer) => writer.write(&batch),
        };
        written.map_err(|e| failed(path, e))
    }

    fn bytes(&self) -> u64 {
        match &self.writer {
            Writer::File(writer, _) => writer.get_ref().bytes(),
            Writer::Stream(writer) => writer.get_ref().bytes(),
        }
    }

    /// Ends the file; taking the sink out finishes it.
    fn end(self: Box<Self>, path: &Path) -> Result<PendingFile> {
        let sink = match self.writer {
            Writer::File(writer, _) => writer.into_inner(),
            Writer::Stream(writer) => writer.into_inner(),
        };
        sink.map_err(|e| failed(path, e))?.end()
    }
}

fn failed(path: &Path, error: ArrowError) -> IoError {
    match error {
        ArrowError::IoError(_, cause) => IoError::write(path, cause),
        other => encode_error(path, FORMAT, &other),
    }
}
