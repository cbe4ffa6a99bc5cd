//! What decoding a column takes of memory, from what the headers of its pages declare.
//!
//! The footer tells the size of a whole column chunk only. A page is decoded in one piece, and writers differ in how large
//! they make them: most stop at 1 MiB, DuckDB makes one of a chunk, and a page of 800 MB may lie in a file of 75 kB.

use parquet::basic::Compression;
use parquet::file::metadata::ColumnChunkMetaData;

use crate::direct::RangeReader;

/// A chunk that has no more in all is not looked into: its pages cannot be larger.
const SMALL_BYTES: u64 = 1 << 20;
/// What is read of a page to find its sizes, which are the first things in it.
const HEADER_BYTES: u64 = 64;

/// What the header of a page begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageSize {
    /// Of the page in memory.
    pub(super) bytes: u64,
    /// Of the page in the file.
    pub(super) stored_bytes: u64,
    /// Values of a dictionary, if it is one.
    pub(super) dictionary_values: Option<u64>,
}

/// What of a column chunk is in memory while it is decoded, beside the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decoding {
    /// Between batches: its dictionary and a page.
    pub(super) held_bytes: u64,
    /// At most: the page as it is stored too, and the one behind it.
    pub(super) peak_bytes: u64,
}

/// What decoding a column chunk takes.
pub(super) fn decoding(file: &RangeReader, column: &ColumnChunkMetaData) -> Decoding {
    let whole = column.uncompressed_size().max(0) as u64;
    let all = |bytes| Decoding {
        held_bytes: bytes,
        peak_bytes: bytes,
    };
    if whole <= SMALL_BYTES {
        return all(whole);
    }
    let sizes: Vec<PageSize> = { starts(column) }
        .into_iter()
        .flatten()
        .filter_map(|start| page_at(file, start))
        .collect();
    let dictionary = sizes.iter().filter(|page| page.dictionary_values.is_some());
    // Values of a dictionary are copied out of its page.
    let dictionary: u64 = dictionary.map(|page| 2 * page.bytes).sum();
    let data = sizes.iter().find(|page| page.dictionary_values.is_none());
    let Some(data) = data else {
        return all(dictionary.max(whole));
    };
    let is_stored_as_is = column.compression() == Compression::UNCOMPRESSED;
    let stored = if is_stored_as_is {
        0
    } else {
        data.stored_bytes
    };
    let held_bytes = dictionary + data.bytes;
    Decoding {
        held_bytes,
        peak_bytes: held_bytes + stored + data.bytes.min(whole.saturating_sub(data.bytes)),
    }
}

/// What the pages of a range of the file may declare.
#[derive(Debug, Clone, Copy)]
pub(super) struct Declared {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Bytes that no page has.
    most_bytes: u64,
    /// The most bytes that a byte in the file can stand for.
    ratio: u64,
}

impl Declared {
    pub(super) fn of(column: &ColumnChunkMetaData) -> Self {
        let (start, stored) = column.byte_range();
        let whole = column.uncompressed_size().max(0) as u64;
        Self {
            start,
            end: start + stored,
            // Some writers leave headers or levels out of the sum.
            most_bytes: whole.saturating_mul(2).max(SMALL_BYTES),
            ratio: ratio(column.compression()),
        }
    }

    /// Why a page cannot be what its header declares. The decoder would set the memory apart first, and look then.
    pub(super) fn refused(&self, page: PageSize) -> Option<String> {
        let held = page
            .stored_bytes
            .saturating_mul(self.ratio)
            .saturating_add(SMALL_BYTES);
        let most = held.min(self.most_bytes);
        (page.bytes > most).then(|| {
            format!(
                "a page claims to have {} bytes in memory, and its {} bytes in the file can hold {most} at most",
                page.bytes, page.stored_bytes
            )
        })
    }
}

/// The most that a codec makes of a byte: what its shortest token for the longest run comes to, rounded up.
fn ratio(codec: Compression) -> u64 {
    match codec {
        Compression::UNCOMPRESSED => 1,
        Compression::SNAPPY => 32,
        Compression::LZ4 | Compression::LZ4_RAW => 256,
        Compression::GZIP(_) => 1_100,
        // A block of 128 KiB of one byte takes 4.
        Compression::ZSTD(_) => 40_000,
        _ => u64::MAX,
    }
}

/// Values and bytes of a chunk's dictionary, if it has one.
pub(super) fn dictionary(file: &RangeReader, column: &ColumnChunkMetaData) -> Option<(u64, u64)> {
    let page = page_at(file, starts(column)[0]?)?;
    Some((page.dictionary_values?, page.bytes))
}

/// Where the dictionary, or the first page, and the first page of data begin, if that is another.
fn starts(column: &ColumnChunkMetaData) -> [Option<u64>; 2] {
    let position = |at: i64| u64::try_from(at).ok();
    let data = position(column.data_page_offset());
    match column.dictionary_page_offset().and_then(position) {
        Some(dictionary) => [Some(dictionary), data],
        None => [data, None],
    }
}

fn page_at(file: &RangeReader, start: u64) -> Option<PageSize> {
    let bytes = file.len().checked_sub(start)?.min(HEADER_BYTES);
    parse(&file.read(start, bytes as usize).ok()?)
}

/// The sizes in a page header; `None` where there is no such header.
///
/// It is a Thrift structure in the compact protocol, whose fields come in order: kind, size, size in the file, checksum,
/// and behind them what belongs to the kind, which of a dictionary begins with the number of its values.
pub(super) fn parse(header: &[u8]) -> Option<PageSize> {
    const DICTIONARY: u64 = 2;
    let mut fields = Fields {
        rest: header,
        last: 0,
    };
    let [kind, bytes, stored_bytes] = [fields.number(1)?, fields.number(2)?, fields.number(3)?];
    let dictionary_values = (kind == DICTIONARY).then(|| fields.of_dictionary());
    Some(PageSize {
        bytes,
        stored_bytes,
        dictionary_values: dictionary_values.map(Option::unwrap_or_default),
    })
}

struct Fields<'a> {
    rest: &'a [u8],
    last: u8,
}

impl Fields<'_> {
    const NUMBER: u8 = 5;
    const STRUCT: u8 = 12;

    /// Number and type of the next field.
    fn next(&mut self) -> Option<(u8, u8)> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        let step = first >> 4;
        if step == 0 || first & 15 == 0 {
            return None;
        }
        self.last += step;
        Some((self.last, first & 15))
    }

    /// The field of that number, which has to be the next: a number that is not negative.
    fn number(&mut self, field: u8) -> Option<u64> {
        (self.next()? == (field, Self::NUMBER)).then_some(())?;
        self.varint()
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..35).step_by(7) {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                // Numbers take turns: 0, -1, 1, -2 …
                return (value & 1 == 0).then_some(value >> 1);
            }
        }
        None
    }

    /// The number of values, behind a checksum if there is one.
    fn of_dictionary(&mut self) -> Option<u64> {
        const CHECKSUM: u8 = 4;
        let mut field = self.next()?;
        if field == (CHECKSUM, Self::NUMBER) {
            while self.rest.split_first().map(|(byte, _)| *byte)? >= 128 {
                self.rest = &self.rest[1..];
            }
            self.rest = &self.rest[1..];
            field = self.next()?;
        }
        (field.1 == Self::STRUCT).then_some(())?;
        self.last = 0;
        self.number(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_from_a_header() {
        // Kind 2, 300 bytes, 20 in the file, a checksum of two bytes, and 7 values.
        let header = [
            0x15, 4, 0x15, 0xd8, 4, 0x15, 40, 0x15, 0x81, 1, 0x3c, 0x15, 14, 0,
        ];
        let page = PageSize {
            bytes: 300,
            stored_bytes: 20,
            dictionary_values: Some(7),
        };
        assert_eq!(parse(&header), Some(page));
        let data = parse(&[0x15, 0, 0x15, 0xd8, 4, 0x15, 40, 0]).unwrap();
        assert_eq!((data.bytes, data.dictionary_values), (300, None));
    }

    #[test]
    fn what_is_no_header_has_no_sizes() {
        for bytes in [
            &[][..],
            &[0x15],
            &[0x15, 0],
            &[0; 20],
            &[0xff; 40],
            b"PAR1PAR1PAR1",
        ] {
            assert_eq!(parse(bytes), None, "{bytes:?}");
        }
        // A negative size.
        assert_eq!(parse(&[0x15, 0, 0x15, 3, 0x15, 40, 0]), None);
    }
}
