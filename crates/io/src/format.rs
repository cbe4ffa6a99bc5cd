//! The names of file formats and compressions.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::IoError;

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC, the file format or the stream format.
    Ipc,
    /// Comma-separated values with a header line.
    Csv,
    /// One JSON object per line.
    JsonLines,
    /// Fixed-length records back to back.
    Records,
}

impl Format {
    /// The names that `FromStr` accepts, as error messages list them.
    pub const NAMES: &'static str = "parquet, arrow, csv, jsonl, records";

    /// The format that a file name suggests.
    pub fn from_extension(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "parquet" | "pq" => Some(Self::Parquet),
            "arrow" | "arrows" | "ipc" | "feather" => Some(Self::Ipc),
            "csv" | "tsv" => Some(Self::Csv),
            "jsonl" | "ndjson" | "json" => Some(Self::JsonLines),
            "records" | "dat" | "bin" => Some(Self::Records),
            _ => None,
        }
    }

    /// Whether types of columns are not in the file.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Self::Csv | Self::JsonLines)
    }

    /// The extension of files this crate writes.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Ipc => "arrow",
            Self::Csv => "csv",
            Self::JsonLines => "jsonl",
            Self::Records => "records",
        }
    }
}

impl FromStr for Format {
    type Err = IoError;

    fn from_str(name: &str) -> Result<Self, IoError> {
        match name.to_ascii_lowercase().as_str() {
            "parquet" => Ok(Self::Parquet),
            "arrow" | "ipc" | "feather" => Ok(Self::Ipc),
            "csv" => Ok(Self::Csv),
            "jsonl" | "json" | "ndjson" | "jsonlines" => Ok(Self::JsonLines),
            "records" => Ok(Self::Records),
            _ => Err(IoError::UnknownFormat {
                name: name.to_string(),
            }),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Parquet => "Parquet",
            Self::Ipc => "Arrow IPC",
            Self::Csv => "CSV",
            Self::JsonLines => "JSON lines",
            Self::Records => "fixed-length records",
        })
    }
}

/// How column data is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// Snappy.
    Snappy,
    /// Zstandard, level 1.
    Zstd,
    /// LZ4.
    Lz4,
    /// gzip.
    Gzip,
}

impl Compression {
    /// The names that `FromStr` accepts, as error messages list them.
    pub const NAMES: &'static str = "none, snappy, zstd, lz4, gzip";
}

impl FromStr for Compression {
    type Err = IoError;

    fn from_str(name: &str) -> Result<Self, IoError> {
        match name.to_ascii_lowercase().as_str() {
            "none" | "uncompressed" => Ok(Self::None),
            "snappy" => Ok(Self::Snappy),
            "zstd" => Ok(Self::Zstd),
            "lz4" => Ok(Self::Lz4),
            "gzip" => Ok(Self::Gzip),
            _ => Err(IoError::UnknownCompression {
                name: name.to_string(),
            }),
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Snappy => "snappy",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
            Self::Gzip => "gzip",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_parses() {
        for name in Format::NAMES.split(", ") {
            assert_eq!(name.parse::<Format>().unwrap().extension(), name);
        }
        for name in Compression::NAMES.split(", ") {
            assert_eq!(name.parse::<Compression>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn unknown_names_list_the_known() {
        let error = "orc".parse::<Format>().unwrap_err().to_string();
        assert!(
            error.contains("orc") && error.contains("parquet"),
            "{error}"
        );
        assert!("lzo"
            .parse::<Compression>()
            .unwrap_err()
            .to_string()
            .contains("zstd"));
    }
}
