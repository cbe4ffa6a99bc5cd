//! The values of a single CSV record, by the parser that batches are decoded with.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::encoding::Encoding;
use crate::source::Syntax;

/// Takes records apart.
pub(super) struct Fields {
    parser: Reader,
    encoding: Encoding,
    values: Vec<u8>,
    ends: Vec<usize>,
    len: usize,
}

impl Fields {
    pub(super) fn new(syntax: Syntax, encoding: Encoding) -> Self {
        let mut parser = ReaderBuilder::new()
            .delimiter(syntax.delimiter)
            .quoting(syntax.quote.is_some())
            .quote(syntax.quote.unwrap_or(b'"'))
            .escape(syntax.escape)
            .build();
        // The parser would leave out the bytes of a byte order mark at the start, so an empty line goes first.
        parser.read_record(b"\n", &mut [0], &mut [0]);
        Self {
            parser,
            encoding,
            values: vec![0; 1024],
            ends: vec![0; 64],
            len: 0,
        }
    }

    /// Takes a record apart, which has at least one value.
    pub(super) fn split(&mut self, record: &[u8]) {
        let record = self.encoding.decode(record);
        let (mut text, mut written) = (record.as_ref(), 0);
        self.len = 0;
        loop {
            let (result, read, wrote, ended) = self.parser.read_record(
                text,
                &mut self.values[written..],
                &mut self.ends[self.len..],
            );
            text = &text[read..];
            written += wrote;
            self.len += ended;
            match result {
                ReadRecordResult::OutputFull => self.values.resize(2 * self.values.len(), 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(2 * self.ends.len(), 0),
                // Without a line end, the empty text that comes next ends the record.
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::Record | ReadRecordResult::End => return,
            }
        }
    }

    /// Returns how many values the record has.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns whether all values are UTF-8.
    pub(super) fn are_utf8(&self) -> bool {
        self.iter().all(|value| std::str::from_utf8(value).is_ok())
    }

    /// Returns the values.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len).map(|i| {
            let start = if i == 0 { 0 } else { self.ends[i - 1] };
            &self.values[start..self.ends[i]]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_taken_apart() {
        let mut fields = Fields::new(Syntax::default(), Encoding::Utf8);
        let long = "x".repeat(5000);
        let many = vec!["1"; 500];
        for (record, expected) in [
            ("\u{FEFF}a,b\n".to_owned(), vec!["\u{FEFF}a", "b"]),
            ("\"a\"\"\n\",\r\n".to_owned(), vec!["a\"\n", ""]),
            (format!("{long},{long}"), vec![&long, &long]),
            (many.join(","), many),
        ] {
            fields.split(record.as_bytes());
            let found: Vec<_> = fields
                .iter()
                .map(|v| std::str::from_utf8(v).unwrap())
                .collect();
            assert_eq!(found, expected);
            assert_eq!(fields.len(), expected.len());
        }
    }
}
