//! The names of compressions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::IoError;

/// The compression of column data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
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
    fn every_listed_name_parses_and_others_are_told_them() {
        for name in Compression::NAMES.split(", ") {
            assert_eq!(name.parse::<Compression>().unwrap().to_string(), name);
        }
        let error = "lzo".parse::<Compression>().unwrap_err().to_string();
        assert!(error.contains("zstd"), "{error}");
    }
}
