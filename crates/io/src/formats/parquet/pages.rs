//! Tells how much memory decoding a column takes, from the sizes in the headers of its pages.
//!
//! The footer tells only the size of a whole column chunk. A page is decoded in one piece, and writers differ in the size of
//! pages. Most stop at 1 MiB; DuckDB makes one page of a chunk. A page of 800 MB may lie in a file of 75 kB.

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, Type};
use parquet::file::metadata::ColumnChunkMetaData;

use super::page_header::{parse, PageSize, Unread};
use super::uneven::PageRuns;
use crate::direct::RangeReader;

/// A chunk of at most this size is not inspected: its pages cannot be larger.
const SMALL_BYTES: u64 = 1 << 20;
/// If decoding a chunk takes at most this much, the chunk is not inspected for a more exact number.
const LITTLE_BYTES: u64 = 4 << 20;
/// Values that writers write together: 1,024 in pyarrow, and a page may have some already.
const BATCH_VALUES: u64 = 2 << 10;
/// Bytes that are read of a page to find its sizes; statistics make headers longer.
const HEADER_BYTES: u64 = 64;
/// Bytes that are read to find the headers of several pages, if pages are smaller.
const HEADERS_BYTES: u64 = 64 << 10;
/// At most so many bytes are a header by itself.
const FEW_BYTES: u64 = 4 << 10;
/// No header is longer: statistics have at most two values of a column.
const LONGEST_HEADER_BYTES: u64 = 64 << 20;

/// Memory of a column chunk while it is decoded, beside the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decoding {
    /// Between batches: its dictionary and a page.
    pub(super) held_bytes: u64,
    /// At the peak: the stored bytes of the page too, and the page behind it.
    pub(super) peak_bytes: u64,
    /// The most bytes that a value can have: those of the largest page, or of the dictionary.
    pub(super) value_bytes: u64,
}

/// Returns the memory for decoding a column chunk, from the headers of all its pages. Also returns the places of large
/// values, unless they are in a dictionary. Cost: a read for each page of 64 KiB or more in the file.
pub(super) fn decoding(file: &RangeReader, column: &ColumnChunkMetaData) -> (Decoding, PageRuns) {
    let whole = column.uncompressed_size().max(0) as u64;
    let mut runs = PageRuns::of(whole);
    if whole <= SMALL_BYTES {
        return (Decoding::of_all(whole), runs);
    }
    let is_stored_as_is = column.compression() == Compression::UNCOMPRESSED;
    let [mut dictionary, mut largest, mut together, mut before, mut value] = [0_u64; 5];
    for page in pages(file, column) {
        value = value.max(page.bytes);
        if page.is_dictionary {
            // The values of a dictionary are copied out of its page.
            dictionary = dictionary.saturating_add(2 * page.bytes);
            continue;
        }
        let stored = if is_stored_as_is {
            0
        } else {
            page.stored_bytes
        };
        largest = largest.max(page.bytes);
        together = together.max(before + stored + page.bytes);
        before = page.bytes;
        runs.push(page.values, page.bytes);
    }
    if dictionary > 0 {
        runs = PageRuns::default();
    }
    if largest == 0 {
        return (Decoding::of_all(dictionary.max(whole)), runs);
    }
    let decoding = Decoding {
        held_bytes: dictionary.saturating_add(largest),
        peak_bytes: dictionary.saturating_add(together),
        value_bytes: value,
    };
    (decoding, runs)
}

/// Returns the most memory that decoding a column chunk takes, whatever the sizes of its pages.
pub(super) fn most_bytes(file: &RangeReader, column: &ColumnChunkMetaData) -> u64 {
    let whole = column.uncompressed_size().max(0) as u64;
    let all = whole.saturating_add(column.byte_range().1);
    let largest_dictionary = all.saturating_add(whole);
    if largest_dictionary <= LITTLE_BYTES {
        return largest_dictionary;
    }
    // Values of a dictionary are copied out of its page.
    all.saturating_add(dictionary(file, column).map_or(0, |(_, bytes)| bytes))
}

/// Estimates from its first pages the memory that is held between batches while a column chunk is decoded. It is for
/// chunks that are too small to inspect all pages.
pub(super) fn held_estimate(file: &RangeReader, column: &ColumnChunkMetaData) -> u64 {
    let whole = column.uncompressed_size().max(0) as u64;
    if whole <= SMALL_BYTES {
        return whole;
    }
    let (mut dictionary, mut first) = (0_u64, None);
    for page in pages(file, column).take(2) {
        if page.is_dictionary {
            dictionary = dictionary.saturating_add(2 * page.bytes);
        } else {
            first = first.or(Some(page));
        }
    }
    let Some(first) = first else {
        return dictionary.max(whole);
    };
    let values = column.num_values().max(1) as u64;
    let larger = if dictionary > 0 {
        // Behind a full dictionary, values are written out; a page ends at 1 MiB, but holds at least a batch of values.
        (whole / values)
            .saturating_mul(BATCH_VALUES)
            .max(SMALL_BYTES)
    } else {
        // All bytes beyond those of pages like the first one may be in one page.
        let alike = u128::from(first.bytes) * u128::from(values) / u128::from(first.values.max(1));
        whole.saturating_sub(u64::try_from(alike).unwrap_or(u64::MAX))
    };
    let is_uneven =
        larger > SMALL_BYTES || whole / values > 2 * (first.bytes / first.values.max(1));
    let page = if is_uneven {
        first.bytes.max(larger)
    } else {
        first.bytes
    };
    dictionary.saturating_add(page.min(whole))
}

impl Decoding {
    fn of_all(bytes: u64) -> Self {
        Self {
            held_bytes: bytes,
            peak_bytes: bytes,
            value_bytes: bytes,
        }
    }
}

/// The limits of the sizes that pages in a range of the file may declare.
#[derive(Debug, Clone, Copy)]
pub(super) struct Declared {
    pub(super) start: u64,
    pub(super) end: u64,
    /// No page has more bytes.
    most_bytes: u64,
    /// The most bytes that a byte in the file can stand for.
    ratio: u64,
    /// Whether values may share prefixes with the value before.
    may_share: bool,
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
            // Values of fixed size cannot hide their size.
            may_share: column.column_type() != Type::BYTE_ARRAY || shares(column),
        }
    }

    /// Returns the page that begins with these bytes, or the reason why it is none: its header is invalid, or declares
    /// impossible sizes. The decoder would set the memory apart before it checks. `more` returns the given number of bytes
    /// from the same position on, or all there are.
    pub(super) fn checked<E>(
        &self,
        header: &[u8],
        more: impl Fn(u64) -> Result<Bytes, E>,
    ) -> Result<Result<PageSize, String>, E> {
        let mut page = parse(header);
        let mut bytes = header.len() as u64;
        while page == Err(Unread::Short) && bytes < LONGEST_HEADER_BYTES {
            let longer = more(bytes.saturating_mul(16).max(HEADER_BYTES))?;
            if longer.len() as u64 <= bytes {
                break;
            }
            bytes = longer.len() as u64;
            page = parse(&longer);
        }
        Ok(match page {
            Ok(page) => match self.refused(page) {
                Some(reason) => Err(reason),
                None => Ok(page),
            },
            Err(_) => Err("the header of a page cannot be read".to_owned()),
        })
    }

    /// Returns the reason why no page can declare these sizes, or hides some.
    pub(super) fn refused(&self, page: PageSize) -> Option<String> {
        self.too_large(page).or_else(|| self.hidden(page))
    }

    fn too_large(&self, page: PageSize) -> Option<String> {
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

impl Declared {
    /// Refuses values that share prefixes without notice: nobody has measured them, and a page of 1 MB may stand for 1 TB.
    fn hidden(&self, page: PageSize) -> Option<String> {
        const DELTA_BYTE_ARRAY: u64 = 7;
        let is_hidden = page.encoding == DELTA_BYTE_ARRAY && !self.may_share;
        is_hidden.then(|| {
            "a page is encoded as DELTA_BYTE_ARRAY, which the footer does not list".to_owned()
        })
    }
}

/// The most bytes that a codec makes of one byte: by its shortest token for the longest run, rounded up.
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
    let page = pages(file, column).next()?;
    page.is_dictionary.then_some((page.values, page.bytes))
}

/// The pages of a chunk: its dictionary, if it has one, and then the data pages in their order. They end early where no page
/// follows; reading ends there, too.
pub(super) fn pages<'a>(file: &'a RangeReader, column: &ColumnChunkMetaData) -> Pages<'a> {
    let position = |at: i64| u64::try_from(at).ok();
    let (start, stored) = column.byte_range();
    let data = position(column.data_page_offset());
    let dictionary = column.dictionary_page_offset().and_then(position);
    // Some writers declare 0 if there is no dictionary.
    let dictionary = dictionary.filter(|&at| at > 0);
    Pages {
        file,
        position: dictionary.or(data).unwrap_or(start),
        // Some writers leave a gap behind the dictionary.
        data: data.filter(|_| dictionary.is_some()),
        end: start.saturating_add(stored).min(file.len()),
        is_small: false,
        window: (0, Bytes::new()),
    }
}

pub(super) struct Pages<'a> {
    file: &'a RangeReader,
    /// Where the next page begins.
    pub(super) position: u64,
    /// The beginning of the first data page, while the dictionary is the next page.
    data: Option<u64>,
    end: u64,
    /// Whether the page before was small.
    is_small: bool,
    /// The bytes that were read last, and their position.
    window: (u64, Bytes),
}

impl Pages<'_> {
    /// Goes on behind a page that ends at a position, and is none of a dictionary with a gap behind it.
    pub(super) fn go_on(&mut self, position: u64, page: PageSize) {
        self.position = position;
        self.data = None;
        self.is_small = page.stored_bytes < HEADERS_BYTES;
    }

    /// Returns `wanted` bytes from the position on, or those up to the end.
    fn bytes(&mut self, wanted: u64) -> Option<Bytes> {
        let wanted = self.end.checked_sub(self.position)?.min(wanted);
        let (start, window) = &self.window;
        let within = self.position.checked_sub(*start)?;
        if within + wanted <= window.len() as u64 {
            return Some(window.slice(within as usize..(within + wanted) as usize));
        }
        let least = if self.is_small { HEADERS_BYTES } else { 0 };
        let bytes = wanted.max(least.min(self.end - self.position));
        let window = if bytes <= FEW_BYTES {
            self.file.read_few(self.position, bytes as usize)
        } else {
            self.file.read(self.position, bytes as usize)
        };
        let window = window.ok()?;
        self.window = (self.position, window.clone());
        Some(window.slice(..wanted as usize))
    }

    fn page(&mut self) -> Option<PageSize> {
        let mut wanted = HEADER_BYTES;
        loop {
            let bytes = self.bytes(wanted).filter(|bytes| !bytes.is_empty())?;
            match parse(&bytes) {
                Ok(page) => return Some(page),
                Err(Unread::Short) if bytes.len() as u64 == wanted => {
                    wanted = wanted.saturating_mul(16);
                }
                Err(_) => return None,
            }
            if wanted > LONGEST_HEADER_BYTES {
                return None;
            }
        }
    }
}

impl Iterator for Pages<'_> {
    type Item = PageSize;

    fn next(&mut self) -> Option<PageSize> {
        let page = self.page()?;
        self.is_small = page.stored_bytes < HEADERS_BYTES;
        let behind = self.position.saturating_add(page.whole_bytes());
        self.position = self.data.take().unwrap_or(behind);
        Some(page)
    }
}
/// Whether the values of a column chunk may share prefixes (`DELTA_BYTE_ARRAY`) and differ in size. Values of fixed size
/// take it where they are missing, too.
pub(super) fn shares(column: &ColumnChunkMetaData) -> bool {
    column.column_type() == Type::BYTE_ARRAY && { column.encodings() }
        .any(|encoding| encoding == Encoding::DELTA_BYTE_ARRAY)
}
