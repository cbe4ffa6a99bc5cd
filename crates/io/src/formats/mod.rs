//! The formats of files, a folder each, and their registry.

pub(crate) mod ipc;
pub(crate) mod lines;
pub(crate) mod parquet;
pub(crate) mod records;
pub(crate) mod text;
pub(crate) mod whole;

use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};

use crate::error::{IoError, Result};
use crate::format::Format;

/// All formats, as error messages list them.
static ALL: [Format; 7] = [
    parquet::FORMAT,
    ipc::FORMAT,
    text::CSV,
    text::JSON_LINES,
    records::FORMAT,
    lines::FORMAT,
    whole::FORMAT,
];

impl Format {
    /// Returns all formats.
    pub fn all() -> &'static [Self] {
        &ALL
    }

    /// Returns the names that `FromStr` accepts, as error messages list them.
    pub fn all_names() -> String {
        ALL.map(|format| format.name()).join(", ")
    }

    /// Returns the format that a file name suggests.
    pub fn from_extension(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        { ALL.into_iter() }
            .find(|format| format.driver().names().endings.contains(&ending.as_str()))
    }
}

impl Format {
    /// The format of a file of which nothing but its start is known: what no format claims is CSV.
    pub fn of_start(start: &[u8]) -> Self {
        { ALL.into_iter() }
            .find(|format| format.driver().starts(start))
            .unwrap_or(text::CSV)
    }
}

impl FromStr for Format {
    type Err = IoError;

    fn from_str(name: &str) -> Result<Self> {
        let wanted = name.to_ascii_lowercase();
        let is_called = |format: &Self| {
            let names = format.driver().names();
            names.name == wanted || names.aliases.contains(&wanted.as_str())
        };
        { ALL.into_iter() }
            .find(is_called)
            .ok_or_else(|| IoError::UnknownFormat {
                name: name.to_string(),
            })
    }
}

impl<'de> Deserialize<'de> for Format {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Names;

    #[test]
    fn every_name_and_ending_is_of_one_format() {
        for format in ALL {
            let Names {
                name,
                aliases,
                endings,
                ..
            } = *format.driver().names();
            for known in aliases.iter().chain([&name]) {
                assert_eq!(known.parse::<Format>().unwrap(), format);
            }
            for ending in endings {
                let path = Path::new("x").with_extension(ending);
                assert_eq!(Format::from_extension(&path), Some(format));
            }
        }
    }

    #[test]
    fn the_start_of_a_file_tells_its_format() {
        for (start, format) in [
            (&b"PAR1\x15"[..], parquet::FORMAT),
            (b"ARROW1\0\0", ipc::FORMAT),
            (b"\xff\xff\xff\xff\x90", ipc::FORMAT),
            (b"\xef\xbb\xbf \r\n{\"a\": 1}", text::JSON_LINES),
            (b"a,b\n", text::CSV),
            (b"", text::CSV),
        ] {
            assert_eq!(Format::of_start(start), format, "{start:?}");
        }
    }

    #[test]
    fn unknown_names_list_the_known() {
        let error = "orc".parse::<Format>().unwrap_err().to_string();
        assert!(
            error.contains("orc") && error.contains("parquet"),
            "{error}"
        );
    }
}
