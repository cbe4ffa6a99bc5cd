//! Tells how large each row of a page is once it is decoded, from the lengths at the beginning of the page.
//!
//! Guarantee: values are not decoded. A page of 1 MB may stand for 1 TB of values.

use parquet::basic::Encoding;
use parquet::column::page::Page;
use parquet::schema::types::ColumnDescriptor;

use super::lengths::Lengths;
use super::levels::Levels;

/// Bytes of a value beside its own.
const OFFSET_BYTES: u64 = 4;

/// The reason why a page does not tell the sizes of rows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// The page is broken; decoding ends here with an error, too.
    Broken,
    /// The page has this many lengths, more than values; the decoder would set memory apart for all of them.
    Lengths(usize),
    /// Levels are stored in a way that no writer has used since 2013.
    Levels,
}

/// Takes the rows of pages that follow each other: whether a row begins, and the bytes that are added to it.
pub(super) trait Rows {
    fn add(&mut self, begins: bool, bytes: u64);
}

/// Bytes of the values of a page.
enum Sizes<'a> {
    Shared(Box<Shared<'a>>),
    /// The same size for each value, as far as is known.
    Same(u64),
}

/// The lengths of values that are stored as the prefix shared with the value before, and a suffix.
struct Shared<'a> {
    prefixes: Lengths<'a>,
    suffixes: Lengths<'a>,
    before: u64,
    /// The most bytes of all suffixes that are to come.
    left: u64,
}

/// Hands on the rows of a page. `mean` is the mean size of a value in the dictionary, if there is one.
pub(super) fn of_page(
    page: &Page,
    column: &ColumnDescriptor,
    mean: u64,
    rows: &mut impl Rows,
) -> Result<(), Unknown> {
    check_levels(page, column)?;
    let parts = parts(page, column).ok_or(Unknown::Broken)?;
    let count = page.num_values();
    let mut sizes = match page.encoding() {
        Encoding::DELTA_BYTE_ARRAY => {
            Sizes::Shared(Box::new(Shared::of(parts.values, count as usize)?))
        }
        Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => Sizes::Same(mean),
        _ => Sizes::Same(page.buffer().len() as u64 / u64::from(count.max(1))),
    };
    let present = column.max_def_level() as u16;
    // Most columns have no lists and no missing values.
    if column.max_rep_level() == 0 && parts.definitions.are_all(present, count) {
        for _ in 0..count {
            let bytes = sizes.next().ok_or(Unknown::Broken)?;
            rows.add(true, bytes.saturating_add(OFFSET_BYTES));
        }
        return Ok(());
    }
    for (starts, level) in { parts.repetitions }
        .zip(parts.definitions)
        .take(count as usize)
    {
        let bytes = if level == present {
            sizes.next().ok_or(Unknown::Broken)?
        } else {
            0
        };
        rows.add(starts == 0, bytes.saturating_add(OFFSET_BYTES));
    }
    Ok(())
}

impl Sizes<'_> {
    fn next(&mut self) -> Option<u64> {
        match self {
            Self::Same(bytes) => Some(*bytes),
            Self::Shared(shared) => shared.next(),
        }
    }
}

impl<'a> Shared<'a> {
    /// Reads the lengths of a page with at most `most` values.
    fn of(values: &'a [u8], most: usize) -> Result<Self, Unknown> {
        let prefixes = Lengths::of(values).ok_or(Unknown::Broken)?;
        let check = |lengths: &Lengths<'_>| match lengths.left() {
            count if count > most => Err(Unknown::Lengths(count)),
            _ => Ok(()),
        };
        check(&prefixes)?;
        let behind = prefixes.behind().ok_or(Unknown::Broken)?;
        let suffixes = Lengths::of(behind).ok_or(Unknown::Broken)?;
        check(&suffixes)?;
        Ok(Self {
            prefixes,
            suffixes,
            before: 0,
            left: behind.len() as u64,
        })
    }

    fn next(&mut self) -> Option<u64> {
        // The decoder takes no more than the value before has, and all of it if the number is below 0.
        let prefix = u64::try_from(self.prefixes.next()?).unwrap_or(u64::MAX);
        let suffix = u64::try_from(self.suffixes.next()?).ok()?;
        self.left = self.left.checked_sub(suffix)?;
        self.before = prefix.min(self.before) + suffix;
        Some(self.before)
    }
}

/// Checks that levels are stored as runs, if a column has several. For a single level, some writers declare packed bits.
fn check_levels(page: &Page, column: &ColumnDescriptor) -> Result<(), Unknown> {
    let Page::DataPage {
        def_level_encoding,
        rep_level_encoding,
        ..
    } = page
    else {
        return Ok(());
    };
    let levels = [
        (column.max_def_level(), *def_level_encoding),
        (column.max_rep_level(), *rep_level_encoding),
    ];
    let are_runs =
        { levels.iter() }.all(|&(most, encoding)| most == 0 || encoding == Encoding::RLE);
    are_runs.then_some(()).ok_or(Unknown::Levels)
}

struct Parts<'a> {
    repetitions: Levels<'a>,
    definitions: Levels<'a>,
    values: &'a [u8],
}

fn parts<'a>(page: &'a Page, column: &ColumnDescriptor) -> Option<Parts<'a>> {
    let (repetitions, definitions) = (column.max_rep_level(), column.max_def_level());
    let bytes: &[u8] = page.buffer();
    let (first, second, values) = match page {
        Page::DataPage { .. } => {
            let (first, bytes) = levels_v1(bytes, repetitions)?;
            let (second, bytes) = levels_v1(bytes, definitions)?;
            (first, second, bytes)
        }
        Page::DataPageV2 {
            def_levels_byte_len,
            rep_levels_byte_len,
            ..
        } => {
            let (first, bytes) = bytes.split_at_checked(*rep_levels_byte_len as usize)?;
            let (second, bytes) = bytes.split_at_checked(*def_levels_byte_len as usize)?;
            (first, second, bytes)
        }
        Page::DictionaryPage { .. } => return None,
    };
    Some(Parts {
        repetitions: Levels::of(repetitions, first),
        definitions: Levels::of(definitions, second),
        values,
    })
}

/// Returns the levels, which follow their size, and the bytes behind them.
fn levels_v1(bytes: &[u8], most: i16) -> Option<(&[u8], &[u8])> {
    if most == 0 {
        return Some((&[], bytes));
    }
    let (size, bytes) = bytes.split_first_chunk()?;
    bytes.split_at_checked(u32::from_le_bytes(*size) as usize)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::schema::parser::parse_message_type;
    use parquet::schema::types::SchemaDescriptor;

    use super::*;

    /// One block: the lengths 2, 2, 2, with the declared count.
    fn twos(count: u8) -> Vec<u8> {
        vec![0x80, 1, 4, count, 4, 0, 0, 0, 0, 0]
    }

    fn sizes(values: &[u8], most: usize) -> Result<Vec<u64>, Unknown> {
        let mut sizes = Shared::of(values, most)?;
        Ok(std::iter::from_fn(|| sizes.next()).collect())
    }

    #[test]
    fn values_share_no_more_than_there_is() {
        let values = [&twos(3)[..], &twos(3), b"abcdef"].concat();
        assert_eq!(sizes(&values, 3), Ok(vec![2, 4, 4]));
        assert_eq!(sizes(&twos(3), 3), Err(Unknown::Broken));
    }

    struct Sum(u64);

    impl Rows for Sum {
        fn add(&mut self, _: bool, bytes: u64) {
            self.0 += bytes;
        }
    }

    /// The rows of a page of three values, in a column with these levels, stored with the declared encoding.
    fn page_bytes(column: &str, levels: &[u8], encoding: Encoding) -> Result<u64, Unknown> {
        let schema = parse_message_type(&format!("message m {{ {column} }}")).unwrap();
        let schema = SchemaDescriptor::new(Arc::new(schema));
        let page = Page::DataPage {
            buf: [levels, &twos(3)[..], &twos(3), b"abcdef"].concat().into(),
            num_values: 3,
            encoding: Encoding::DELTA_BYTE_ARRAY,
            def_level_encoding: encoding,
            rep_level_encoding: encoding,
            statistics: None,
        };
        let mut sum = Sum(0);
        of_page(&page, &schema.column(0), 0, &mut sum).map(|()| sum.0)
    }

    #[test]
    fn levels_in_bits_are_refused_where_there_are_any() {
        let three_ones = [2, 0, 0, 0, 6, 1];
        let optional = "optional binary s;";
        assert_eq!(page_bytes(optional, &three_ones, Encoding::RLE), Ok(22));
        #[expect(deprecated, reason = "what nobody writes any more is what is refused")]
        let bits = Encoding::BIT_PACKED;
        assert_eq!(
            page_bytes(optional, &three_ones, bits),
            Err(Unknown::Levels)
        );
        assert_eq!(page_bytes("required binary s;", &[], bits), Ok(22));
    }

    #[test]
    fn more_lengths_than_values_are_refused() {
        let values = [&twos(100)[..], &twos(100)].concat();
        assert_eq!(sizes(&values, 99), Err(Unknown::Lengths(100)));
        let values = [&twos(2)[..], &twos(100)].concat();
        assert_eq!(sizes(&values, 99), Err(Unknown::Lengths(100)));
    }
}
