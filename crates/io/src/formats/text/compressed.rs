//! Refuses compressed text by name: otherwise its bytes would be taken for one odd value, or for invalid UTF-8.

use crate::direct::RangeReader;
use crate::error::{IoError, Result};

/// The first bytes of compressed files.
const MAGIC: [(&[u8], &str); 6] = [
    (b"\x1F\x8B", "gzip"),
    (b"\x28\xB5\x2F\xFD", "zstd"),
    (b"\x04\x22\x4D\x18", "lz4"),
    (b"\xFD7zXZ\0", "xz"),
    (b"PK\x03\x04", "zip"),
    (b"BZh91AY&SY", "bzip2"),
];

/// Refuses a file that begins like a compressed one.
pub(super) fn refuse(file: &RangeReader) -> Result<()> {
    let start = file.read(0, file.len().min(10) as usize)?;
    match MAGIC.iter().find(|(magic, _)| start.starts_with(magic)) {
        Some((_, compression)) => Err(IoError::CompressedText {
            path: file.path().to_path_buf(),
            compression,
        }),
        None => Ok(()),
    }
}
