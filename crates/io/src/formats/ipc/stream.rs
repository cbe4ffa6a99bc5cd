//! Arrow IPC streams in memory.

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::ArrowError;

/// The end of a stream; bytes behind it are not part of it.
const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// The batches of an Arrow IPC stream; their arrays are parts of its buffer.
pub struct StreamBatches {
    decoder: StreamDecoder,
    rest: Buffer,
}

impl StreamBatches {
    /// Begins at the start of a buffer.
    pub fn new(stream: Buffer) -> Self {
        Self {
            decoder: StreamDecoder::new(),
            rest: stream,
        }
    }
}

impl Iterator for StreamBatches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // The end stands behind a batch. The decoder takes any bytes behind the end for an error.
        if self.rest.starts_with(&END_OF_STREAM) {
            return None;
        }
        match self.decoder.decode(&mut self.rest) {
            Ok(Some(batch)) => Some(Ok(batch)),
            Ok(None) => self.decoder.finish().err().map(Err),
            Err(error) => Some(Err(error)),
        }
    }
}
