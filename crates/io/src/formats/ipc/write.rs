//! Arrow IPC output, in the file format or as a stream.

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions, StreamWriter};
use arrow_ipc::CompressionType;
use arrow_schema::{ArrowError, Schema};

use super::write_dictionaries::Dictionaries;
use crate::direct::{DirectWriter, PendingFile};
use crate::error::{IoError, Result};
use crate::write::{encode_error, IpcLayout, WriteOptions};
use crate::{Compression, Format};

/// An IPC file being written.
pub(crate) enum IpcFile {
    File(FileWriter<DirectWriter>, Dictionaries),
    Stream(StreamWriter<DirectWriter>),
}

impl IpcFile {
    pub(crate) fn create(
        sink: DirectWriter,
        schema: &Schema,
        options: &WriteOptions,
    ) -> Result<Self> {
        let path = sink.path().to_path_buf();
        let compression = match options.compression {
            Compression::Zstd => Some(CompressionType::ZSTD),
            Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
            _ => None,
        };
        // The file format forbids to replace a dictionary, but later batches may extend it.
        let writer = IpcWriteOptions::default()
            .try_with_compression(compression)
            .map(|options| options.with_dictionary_handling(DictionaryHandling::Delta))
            .and_then(|ipc| match options.ipc_layout {
                IpcLayout::File => FileWriter::try_new_with_options(sink, schema, ipc)
                    .map(|writer| Self::File(writer, Dictionaries::new(schema))),
                IpcLayout::Stream => {
                    StreamWriter::try_new_with_options(sink, schema, ipc).map(Self::Stream)
                }
            });
        writer.map_err(|e| failed(&path, e))
    }

    pub(crate) fn write(&mut self, path: &Path, batch: &RecordBatch) -> Result<()> {
        let written = match self {
            Self::File(writer, dictionaries) => dictionaries
                .adopt(batch)
                .and_then(|batch| writer.write(&batch)),
            Self::Stream(writer) => writer.write(batch),
        };
        written.map_err(|e| failed(path, e))
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::File(writer, _) => writer.get_ref().bytes(),
            Self::Stream(writer) => writer.get_ref().bytes(),
        }
    }

    /// Taking the sink out finishes the file.
    pub(crate) fn end(self, path: &Path) -> Result<PendingFile> {
        let sink = match self {
            Self::File(writer, _) => writer.into_inner(),
            Self::Stream(writer) => writer.into_inner(),
        };
        sink.map_err(|e| failed(path, e))?.end()
    }
}

fn failed(path: &Path, error: ArrowError) -> IoError {
    match error {
        ArrowError::IoError(_, cause) => IoError::write(path, cause),
        other => encode_error(path, Format::Ipc, &other),
    }
}
