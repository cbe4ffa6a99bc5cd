//! Parses the header of a page: a Thrift structure in the compact protocol.
//!
//! Guarantee: the sizes found here are those for which the decoder sets memory apart. The decoder takes fields in any order
//! and form, whatever their declared type, and the last one of several. Writers write each field once, in order, in the
//! short form and with its type; any other header is refused.

const BOOLEANS: [u8; 2] = [1, 2];
const NUMBER: u8 = 5;
const STRUCT: u8 = 12;

/// Levels of structures in a header: none is so deep.
const MOST_LEVELS: u8 = 8;

/// The sizes in the header of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageSize {
    /// Bytes of the page in memory.
    pub(super) bytes: u64,
    /// Bytes of the page in the file, behind its header.
    pub(super) stored_bytes: u64,
    /// Bytes of the header.
    pub(super) header_bytes: u64,
    /// Number of values in the page.
    pub(super) values: u64,
    /// The encoding of the values, by its number in the format; dictionaries have one, too.
    pub(super) encoding: u64,
    pub(super) is_dictionary: bool,
    /// The CRC-32 of the bytes behind the header, if the writer made one.
    pub(super) checksum: Option<u32>,
}

impl PageSize {
    /// Bytes of the page in the file, with its header.
    pub(super) fn whole_bytes(self) -> u64 {
        self.header_bytes + self.stored_bytes
    }
}

/// The reason why there are no sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    /// The header goes on behind these bytes.
    Short,
    /// No writer writes such a header.
    Invalid,
}

type Result<T> = std::result::Result<T, Unread>;

/// Parses the header that these bytes begin with.
pub(super) fn parse(header: &[u8]) -> Result<PageSize> {
    const DICTIONARY: u64 = 2;
    let mut thrift = Thrift { rest: header };
    let [mut kind, mut bytes, mut stored_bytes] = [None; 3];
    let mut checksum = None;
    // The kind that values are of: each has a field of its own.
    let mut of_values = None;
    let (mut values, mut encoding) = (0, 0);
    let mut last = 0;
    while let Some((field, kind_of_field)) = thrift.field(&mut last)? {
        match field {
            1..=4 if kind_of_field != NUMBER => return Err(Unread::Invalid),
            1 => kind = Some(thrift.size()?),
            2 => bytes = Some(thrift.size()?),
            3 => stored_bytes = Some(thrift.size()?),
            4 => checksum = Some(thrift.checksum()?),
            5 | 7 | 8 if kind_of_field == STRUCT && of_values.is_none() => {
                of_values = Some(field - 5);
                (values, encoding) = thrift.values(field)?;
            }
            5 | 7 | 8 => return Err(Unread::Invalid),
            _ => thrift.skip(kind_of_field, MOST_LEVELS)?,
        }
    }
    if of_values.is_some_and(|of| kind != Some(u64::from(of))) {
        return Err(Unread::Invalid);
    }
    match (kind, bytes, stored_bytes) {
        (Some(kind), Some(bytes), Some(stored_bytes)) => Ok(PageSize {
            bytes,
            stored_bytes,
            header_bytes: (header.len() - thrift.rest.len()) as u64,
            values,
            encoding,
            is_dictionary: kind == DICTIONARY,
            checksum,
        }),
        _ => Err(Unread::Invalid),
    }
}

struct Thrift<'a> {
    rest: &'a [u8],
}

impl Thrift<'_> {
    fn byte(&mut self) -> Result<u8> {
        let (&byte, rest) = self.rest.split_first().ok_or(Unread::Short)?;
        self.rest = rest;
        Ok(byte)
    }

    /// Number and type of the next field of a structure; `None` at its end.
    fn field(&mut self, last: &mut u8) -> Result<Option<(u8, u8)>> {
        let first = self.byte()?;
        if first == 0 {
            return Ok(None);
        }
        let (step, kind) = (first >> 4, first & 15);
        if step == 0 || kind == 0 {
            return Err(Unread::Invalid);
        }
        *last = last.checked_add(step).ok_or(Unread::Invalid)?;
        Ok(Some((*last, kind)))
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(value);
            }
        }
        Err(Unread::Invalid)
    }

    /// A number of 31 bits.
    fn size(&mut self) -> Result<u64> {
        let value = self.varint()?;
        // Numbers are in zigzag order: 0, -1, 1, -2 …
        let is_valid = value & 1 == 0 && value >> 32 == 0;
        is_valid.then_some(value >> 1).ok_or(Unread::Invalid)
    }

    /// A number of 32 bits whose sign means nothing.
    fn checksum(&mut self) -> Result<u32> {
        let value = u32::try_from(self.varint()?).map_err(|_| Unread::Invalid)?;
        Ok(value >> 1 ^ (value & 1).wrapping_neg())
    }

    /// Reads the structure for the kind of the page: returns the number of values, which it begins with, and their
    /// encoding. Goes to the end of the structure.
    fn values(&mut self, kind_of_page: u8) -> Result<(u64, u64)> {
        // Fields behind these are statistics, or unknown to the decoder.
        let (numbers, boolean, encoded) = match kind_of_page {
            5 => (4, None, 2),
            7 => (2, Some(3), 2),
            _ => (6, Some(7), 4),
        };
        let (mut values, mut encoding, mut last) = (None, None, 0);
        while let Some((field, kind)) = self.field(&mut last)? {
            if field <= numbers && kind != NUMBER
                || boolean == Some(field) && !BOOLEANS.contains(&kind)
            {
                return Err(Unread::Invalid);
            }
            match field {
                1 => values = Some(self.size()?),
                field if field == encoded => encoding = Some(self.size()?),
                _ => self.skip(kind, MOST_LEVELS)?,
            }
        }
        values.zip(encoding).ok_or(Unread::Invalid)
    }

    fn skip_bytes(&mut self, bytes: u64) -> Result<()> {
        let bytes = usize::try_from(bytes).map_err(|_| Unread::Invalid)?;
        self.rest = self.rest.get(bytes..).ok_or(Unread::Short)?;
        Ok(())
    }

    /// Skips the value of a field of this type: headers have only numbers, bytes and structures of these.
    fn skip(&mut self, kind: u8, levels: u8) -> Result<()> {
        match kind {
            1 | 2 => Ok(()),
            3 => self.skip_bytes(1),
            4..=6 => self.varint().map(drop),
            7 => self.skip_bytes(8),
            8 => {
                let bytes = self.varint()?;
                self.skip_bytes(bytes)
            }
            STRUCT if levels > 0 => {
                let mut last = 0;
                while let Some((_, kind)) = self.field(&mut last)? {
                    self.skip(kind, levels - 1)?;
                }
                Ok(())
            }
            _ => Err(Unread::Invalid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind 0, 300 bytes, 20 in the file, and 7 values of plain encoding with statistics: a text of 3 bytes.
    const DATA: [u8; 26] = [
        0x15, 0, 0x15, 0xd8, 4, 0x15, 40, 0x2c, 0x15, 14, 0x15, 0, 0x15, 6, 0x15, 6, 0x1c, 0x18, 3,
        b'a', b'b', b'c', 0, 0, 0, 99,
    ];

    #[test]
    fn sizes_are_read_from_a_header() {
        // Kind 2, 300 bytes, 20 in the file, a checksum of two bytes, and 7 values.
        let header = [
            0x15, 4, 0x15, 0xd8, 4, 0x15, 40, 0x15, 0x81, 1, 0x3c, 0x15, 14, 0x15, 4, 0, 0,
        ];
        let page = PageSize {
            bytes: 300,
            stored_bytes: 20,
            header_bytes: 17,
            values: 7,
            encoding: 2,
            is_dictionary: true,
            checksum: Some(0xffff_ffbf),
        };
        assert_eq!(parse(&header), Ok(page));
        let data = PageSize {
            header_bytes: 25,
            encoding: 0,
            is_dictionary: false,
            checksum: None,
            ..page
        };
        assert_eq!(parse(&DATA), Ok(data));
    }

    #[test]
    fn a_header_may_be_longer_than_what_is_there() {
        for bytes in 0..25 {
            assert_eq!(parse(&DATA[..bytes]), Err(Unread::Short), "{bytes}");
        }
    }

    #[test]
    fn what_is_no_header_has_no_sizes() {
        for bytes in [&[0; 20][..], &[0xff; 40], b"PAR1PAR1PAR1"] {
            assert_eq!(parse(bytes), Err(Unread::Invalid), "{bytes:?}");
        }
        // A negative size.
        assert_eq!(
            parse(&[0x15, 0, 0x15, 3, 0x15, 40, 0]),
            Err(Unread::Invalid)
        );
    }

    #[test]
    fn what_the_decoder_would_read_otherwise_is_refused() {
        let behind = |tail: &[u8]| [&DATA[..24], tail].concat();
        assert!(parse(&behind(&[0])).is_ok());
        for tail in [
            // Field 2 again, in the long form: 2^30 bytes.
            &[0x05, 4, 0x80, 0x80, 0x80, 0x80, 8, 0][..],
            // A field with a type that is not its own.
            &[0x06, 4, 0x80, 0x80, 0x80, 0x80, 8, 0],
        ] {
            assert_eq!(parse(&behind(tail)), Err(Unread::Invalid), "{tail:?}");
        }
        // The number of values is declared as bytes, but is read as a number. One parser takes the rest for a header,
        // the other for bytes.
        let mut hidden = DATA;
        hidden[8] = 0x18;
        assert_eq!(parse(&hidden), Err(Unread::Invalid));
        // Values of another kind of page, and those of two kinds.
        let mut other = DATA;
        other[1] = 4;
        assert_eq!(parse(&other), Err(Unread::Invalid));
        let twice = behind(&[0x2c, 0x15, 14, 0x15, 0, 0, 0]);
        assert_eq!(parse(&twice), Err(Unread::Invalid));
        // The size comes first in the long form.
        let long = [0x05, 4, 0xd8, 4, 0x05, 2, 0, 0x05, 6, 40, 0];
        assert_eq!(parse(&long), Err(Unread::Invalid));
    }
}
