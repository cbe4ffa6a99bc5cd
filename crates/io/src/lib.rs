//! Streams of tables and records to and from files.
//!
//! [`open_source`] lists and inspects the input, and [`Source::splits`] cuts it into self-contained [`Split`]s.
//! [`open_split`] streams the batches of a split, and [`sample_splits`] samples a few rows of several. [`PartWriter`] writes
//! one partition of the output. Everything goes through [`direct`], which spares the page cache and recycles its buffers.

mod compressed;
mod compression;
pub mod direct;
mod error;
mod format;
mod formats;
mod guard;
mod long_rows;
mod row_bytes;
mod source;
mod storage;
mod told;
mod travel;
mod turns;
mod views;
mod write;

pub use compressed::{codec_of, decompress, list_compressed, Bounds, Codec, ListedFile};
pub use compression::Compression;
pub use direct::{located, place, shown, BufferPool, ChunkWriter};
pub use error::{ColumnOrigin, IoError, Result};
pub use format::{Format, Indivisible};
pub use formats::ipc::StreamBatches;
pub use formats::records::schema as record_schema;
pub use formats::text::Encoding;
pub use source::{
    bad_rows, estimated_rows, open_source, open_split, open_splits, pattern_finds, sample_split,
    sample_splits, together, union_schema, BadRows, BatchStream, CsvOptions, Detail, GivenOptions,
    Header, LargePages, PartitionValue, ReadMemory, ReadOptions, RowLimit, RowRange, Sample,
    Source, SourceFile, Split, Syntax,
};
pub use storage::{Below, Disk, FileStamp, Kind, Lock, StoredPath};
pub use told::told;
pub use views::compacted;
pub use write::{
    check_writable, IpcLayout, PartFile, PartWriter, PartitionBy, PartitionedWriter, PendingParts,
    WriteOptions, ROLL_ROWS,
};
