//! Arrow IPC output in the file format.

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions};
use arrow_ipc::CompressionType;
use arrow_schema::{ArrowError, Schema};

use super::{encode_error, WriteOptions};
use crate::direct::{DirectWriter, PendingFile};
use crate::error::{IoError, Result};
use crate::{Compression, Format};

/// An IPC file being written.
pub(super) struct IpcFile {
    writer: FileWriter<DirectWriter>,
}

impl IpcFile {
    pub(super) fn create(
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
            .and_then(|options| {
                FileWriter::try_new_with_options(
                    sink,
                    schema,
                    options.with_dictionary_handling(DictionaryHandling::Delta),
                )
            });
        Ok(Self {
            writer: writer.map_err(|e| failed(&path, e))?,
        })
    }

    pub(super) fn write(&mut self, path: &Path, batch: &RecordBatch) -> Result<()> {
        self.writer.write(batch).map_err(|e| failed(path, e))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.writer.get_ref().bytes()
    }

    pub(super) fn end(mut self, path: &Path) -> Result<PendingFile> {
        self.writer.finish().map_err(|e| failed(path, e))?;
        self.writer.into_inner().map_err(|e| failed(path, e))?.end()
    }
}

fn failed(path: &Path, error: ArrowError) -> IoError {
    match error {
        ArrowError::IoError(_, cause) => IoError::write(path, cause),
        other => encode_error(path, Format::Ipc, &other),
    }
}
