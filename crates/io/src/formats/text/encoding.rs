//! The encodings of CSV: UTF-8, which stays as it is, and encodings of one byte per character, which become UTF-8
//! before they are parsed. Delimiters, quotes and line ends are the same bytes in all of them.

use std::borrow::Cow;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::direct::RangeReader;
use crate::error::{IoError, Result};

/// The encoding of a CSV file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Encoding {
    /// UTF-8.
    #[default]
    Utf8,
    /// ISO 8859-1: each byte is the character of that number.
    Latin1,
    /// Windows code page 1252.
    Windows1252,
}

/// The characters from 0x80 to 0x9F in Windows code page 1252. Those that it leaves undefined are as in ISO 8859-1.
const WINDOWS_1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// How many bytes at the start of a file are looked at.
const LOOKED_AT_BYTES: u64 = 4096;

impl FromStr for Encoding {
    type Err = IoError;

    fn from_str(name: &str) -> Result<Self> {
        let plain = name.to_ascii_lowercase().replace(['_', ' '], "-");
        match plain.as_str() {
            "utf-8" | "utf8" | "utf-8-sig" | "ascii" | "us-ascii" => Ok(Self::Utf8),
            "latin-1" | "latin1" | "l1" | "iso-8859-1" | "iso8859-1" => Ok(Self::Latin1),
            "windows-1252" | "cp1252" | "cp-1252" => Ok(Self::Windows1252),
            _ => Err(IoError::UnknownEncoding {
                name: name.to_owned(),
            }),
        }
    }
}

impl Encoding {
    /// Returns the text as UTF-8, where it is valid.
    pub(super) fn decode(self, text: &[u8]) -> Cow<'_, [u8]> {
        if self == Self::Utf8 || text.is_ascii() {
            return Cow::Borrowed(text);
        }
        let decoded: String = text.iter().map(|&byte| self.character(byte)).collect();
        Cow::Owned(decoded.into_bytes())
    }

    fn character(self, byte: u8) -> char {
        match (self, byte) {
            (Self::Windows1252, 0x80..=0x9F) => WINDOWS_1252[usize::from(byte - 0x80)],
            _ => char::from(byte),
        }
    }

    /// Returns how many bytes of the file became these.
    pub(super) fn encoded_len(self, decoded: &[u8]) -> usize {
        match self {
            Self::Utf8 => decoded.len(),
            _ => decoded.iter().filter(|&byte| byte & 0xC0 != 0x80).count(),
        }
    }
}

/// Refuses a file that begins like UTF-16 or UTF-32: otherwise its bytes would be taken for one odd value.
pub(super) fn refuse(file: &RangeReader) -> Result<()> {
    let start = file.read(0, file.len().min(LOOKED_AT_BYTES) as usize)?;
    let encoding = match start.as_ref() {
        [0xFF, 0xFE, 0, 0, ..] => "UTF-32LE",
        [0, 0, 0xFE, 0xFF, ..] => "UTF-32BE",
        [0xFF, 0xFE, ..] => "UTF-16LE",
        [0xFE, 0xFF, ..] => "UTF-16BE",
        text => match without_mark(text) {
            Some(encoding) => encoding,
            None => return Ok(()),
        },
    };
    Err(IoError::WideText {
        path: file.path().to_path_buf(),
        encoding,
    })
}

/// Recognises UTF-16 without a byte order mark by its zeros: every other byte of text in Latin letters.
fn without_mark(text: &[u8]) -> Option<&'static str> {
    let zeros = |odd: usize| {
        let bytes = text.iter().skip(odd).step_by(2);
        bytes.filter(|&&byte| byte == 0).count()
    };
    let (even, odd) = (zeros(0), zeros(1));
    // A zero may be a character of a value, but not more than a quarter of all bytes.
    if 4 * (even + odd) <= text.len().max(4) {
        return None;
    }
    Some(if odd >= even { "UTF-16LE" } else { "UTF-16BE" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_characters_and_are_counted_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        for (name, expected) in [("latin-1", '\u{80}'), ("cp1252", '€')] {
            let encoding: Encoding = name.parse().unwrap();
            let decoded = encoding.decode(&bytes).into_owned();
            assert_eq!(encoding.encoded_len(&decoded), 256);
            let characters: Vec<char> = String::from_utf8(decoded).unwrap().chars().collect();
            assert_eq!((characters[0x80], characters[0xE9]), (expected, 'é'));
        }
        assert_eq!("ISO_8859-1".parse::<Encoding>().unwrap(), Encoding::Latin1);
        assert!("utf-16".parse::<Encoding>().is_err());
    }

    #[test]
    fn text_of_two_bytes_a_character_is_refused_by_name() {
        let utf16 = |text: &str, big: bool| -> Vec<u8> {
            let units = text.encode_utf16();
            units
                .flat_map(|unit| {
                    if big {
                        unit.to_be_bytes()
                    } else {
                        unit.to_le_bytes()
                    }
                })
                .collect()
        };
        let refused = |bytes: &[u8]| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), bytes).unwrap();
            let read = RangeReader::open(file.path()).unwrap();
            refuse(&read).err().map(|error| error.to_string())
        };
        for (bytes, name) in [
            (utf16("\u{FEFF}a,b\n", false), "UTF-16LE"),
            (utf16("\u{FEFF}a,b\n", true), "UTF-16BE"),
            (utf16("a,b\n1,2\n", false), "UTF-16LE"),
            (utf16("a,b\n1,2\n", true), "UTF-16BE"),
        ] {
            assert!(refused(&bytes).unwrap().contains(name));
        }
        for bytes in [&b""[..], b"a", b"\0", b"a,b\n1,x\0y\n", b"\xEF\xBB\xBFa\n"] {
            assert_eq!(refused(bytes), None, "{bytes:?}");
        }
    }
}
