//! Which values of CSV are `""`: an empty string, where an empty value is a null. The parser drops quotes, so they are
//! found beside it, by the same rules.
//!
//! Text that is known to have none costs nothing. Other text without two quotes between delimiters costs a search for
//! them. Where a batch has some, or ends within a record, its bytes are gone through one by one.

use memchr::{memchr, memmem, memrchr2};

use crate::source::Syntax;

/// A value of a batch: the row in the batch and the column in the file.
pub(super) type Place = (usize, usize);

/// Goes along with a parser.
pub(super) struct QuotedEmpty {
    delimiter: u8,
    quote: u8,
    escape: Option<u8>,
    state: State,
    column: usize,
    /// Whether the next bytes may have such values.
    expected: bool,
    found: Vec<Place>,
}

/// The kind of the last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    RecordEnd,
    Delimiter,
    Unquoted,
    /// Within quotes; true if nothing is in them so far.
    Quoted(bool),
    /// Behind an escape within quotes.
    Escaped,
    /// A quote within quotes, which closes the value unless another quote follows; true if nothing is between the two.
    Closing(bool),
}

impl QuotedEmpty {
    /// Starts at the start of a record; `None` if nothing is a quote.
    pub(super) fn new(syntax: Syntax) -> Option<Self> {
        Some(Self {
            delimiter: syntax.delimiter,
            quote: syntax.quote?,
            escape: syntax.escape,
            state: State::RecordEnd,
            column: 0,
            expected: true,
            found: Vec::new(),
        })
    }

    /// Says whether the next bytes may have such values.
    pub(super) fn expect(&mut self, expected: bool) {
        self.expected = expected;
    }

    /// Goes over the bytes that the parser took; no bytes stand for the end of the text. `row` is the row of the first
    /// byte, and `ends_record` tells that the last byte ends a record for sure.
    pub(super) fn add(&mut self, taken: &[u8], row: usize, ends_record: bool) {
        if taken.is_empty() {
            self.end_value(row);
            self.state = State::RecordEnd;
        } else if self.state != State::RecordEnd || !ends_record || self.may_have_some(taken) {
            self.scan(taken, row);
        }
    }

    /// Takes the places in the batch, by row.
    pub(super) fn take(&mut self) -> Vec<Place> {
        std::mem::take(&mut self.found)
    }

    /// Returns whether there are two quotes between delimiters or line ends, even if these are within quotes.
    fn may_have_some(&self, text: &[u8]) -> bool {
        if !self.expected {
            return false;
        }
        let is_edge = |byte: Option<&u8>| {
            byte.is_none_or(|byte| *byte == self.delimiter || matches!(byte, b'\n' | b'\r'))
        };
        memmem::find_iter(text, &[self.quote; 2]).any(|at| {
            let before = at.checked_sub(1).and_then(|before| text.get(before));
            is_edge(before) && is_edge(text.get(at + 2))
        })
    }

    fn scan(&mut self, text: &[u8], mut row: usize) {
        for &byte in &text[self.without_quotes(text)..] {
            self.state = match (self.state, byte) {
                (State::Quoted(empty), byte) if byte == self.quote => State::Closing(empty),
                (State::Quoted(_), byte) if Some(byte) == self.escape => State::Escaped,
                (State::Quoted(_) | State::Escaped, _) => State::Quoted(false),
                (State::Closing(_), byte) if byte == self.quote => State::Quoted(false),
                (State::RecordEnd | State::Delimiter, byte) if byte == self.quote => {
                    State::Quoted(true)
                }
                (_, byte) if byte == self.delimiter => {
                    self.end_value(row);
                    self.column += 1;
                    State::Delimiter
                }
                (State::RecordEnd, b'\n' | b'\r') => State::RecordEnd,
                (_, b'\n' | b'\r') => {
                    self.end_value(row);
                    self.column = 0;
                    row += 1;
                    State::RecordEnd
                }
                _ => State::Unquoted,
            };
        }
    }

    /// Returns how much of a text without quotes can be left out: the records that end in it.
    fn without_quotes(&mut self, text: &[u8]) -> usize {
        let quoted = matches!(
            self.state,
            State::Quoted(_) | State::Escaped | State::Closing(_)
        );
        if quoted || memchr(self.quote, text).is_some() {
            return 0;
        }
        let Some(end) = memrchr2(b'\n', b'\r', text) else {
            return 0;
        };
        (self.state, self.column) = (State::RecordEnd, 0);
        end + 1
    }

    fn end_value(&mut self, row: usize) {
        if self.state == State::Closing(true) {
            self.found.push((row, self.column));
        }
    }
}
