//! The rule where records of CSV end. Splits, readers and inference go by it, and the parser behind it has the same
//! rule.
//!
//! A quote opens a value only at its start. Within it a doubled quote stands for itself, and so does any character
//! behind an escape. CR, LF and CRLF end a record. Two things that the parser would accept are faults here: a quote that
//! is never closed, and text behind a quote that closes a value. The scan costs a search for quotes. Reading 55 MB
//! without any took 0.99 of the CPU time that it took unchecked. With two of six columns in quotes it took 1.06 (medians
//! of seven pairs).

use memchr::{memchr, memchr2, memchr3};

use super::positions::Positions;
use crate::source::Syntax;

/// Why text is no CSV; positions are those of bytes in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The quote at `opened` closes, and the text at `at` is behind the closing one.
    BehindQuote { opened: u64, at: u64 },
    /// The quote at `opened` does not close before the end of the text.
    NeverClosed { opened: u64 },
}

impl Fault {
    /// Returns the position of the quote that opens.
    pub(super) fn opened(self) -> u64 {
        match self {
            Self::BehindQuote { opened, .. } | Self::NeverClosed { opened } => opened,
        }
    }
}

/// Scans text piece by piece.
pub(super) struct Scan {
    syntax: Syntax,
    state: State,
    /// The last byte before the next text.
    last: u8,
    /// Position in the file of the next text.
    position: u64,
    /// Where the value within quotes opened.
    opened: u64,
    /// Whether there may have been values that are two quotes.
    empty: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unquoted,
    Quoted,
    /// Behind an escape within quotes.
    Escaped,
    /// Behind a quote within quotes: it closes the value unless another follows.
    Closing,
    Comment,
}

pub(super) fn ends_line(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

impl Scan {
    /// Starts at the start of a record, at this position of the file.
    pub(super) fn new(syntax: Syntax, position: u64) -> Self {
        Self {
            syntax,
            state: State::Unquoted,
            last: b'\n',
            position,
            opened: position,
            empty: false,
        }
    }

    /// Scans all of `text`.
    pub(super) fn skip(&mut self, text: &[u8]) -> Result<(), Fault> {
        match self.syntax {
            Syntax {
                quote: Some(quote),
                escape: None,
                comment: None,
                ..
            } => self.skip_quotes(text, quote),
            _ => self.advance(text, false).map(drop),
        }
    }

    /// Returns whether the text since the last call may have values that are empty in quotes.
    pub(super) fn take_empty(&mut self) -> bool {
        std::mem::take(&mut self.empty)
    }

    /// Does the same where only quotes matter.
    fn skip_quotes(&mut self, text: &[u8], quote: u8) -> Result<(), Fault> {
        let mut quotes = Positions::new(quote, text);
        if self.state == State::Closing && !text.is_empty() && self.closing(text[0], 0)? == 1 {
            quotes.next();
        }
        while let Some(at) = quotes.next() {
            if self.state == State::Unquoted {
                self.open(text, at);
                continue;
            }
            match text.get(at + 1) {
                None => self.state = State::Closing,
                Some(&next) if next == quote => {
                    quotes.next();
                }
                Some(&next) => {
                    self.empty |= self.position + at as u64 == self.opened + 1;
                    self.closing(next, at + 1)?;
                }
            }
        }
        self.consume(text);
        Ok(())
    }

    /// Takes a quote outside quotes, which opens a value if it is at its start.
    fn open(&mut self, text: &[u8], at: usize) {
        let before = if at == 0 { self.last } else { text[at - 1] };
        if before == self.syntax.delimiter || ends_line(before) {
            self.state = State::Quoted;
            self.opened = self.position + at as u64;
        }
    }

    /// Scans `text` to the end of a line that ends a record, a comment or an empty line. Returns how many bytes that
    /// were, or `None` if there is no such end in it.
    pub(super) fn record_end(&mut self, text: &[u8]) -> Result<Option<usize>, Fault> {
        self.advance(text, true)
    }

    /// Ends the text.
    pub(super) fn finish(&self) -> Result<(), Fault> {
        match self.state {
            State::Quoted | State::Escaped => Err(Fault::NeverClosed {
                opened: self.opened,
            }),
            _ => Ok(()),
        }
    }

    fn advance(&mut self, text: &[u8], to_record_end: bool) -> Result<Option<usize>, Fault> {
        self.empty = true;
        let mut at = 0;
        while at < text.len() {
            match self.state {
                State::Quoted => at = self.quoted(text, at),
                State::Escaped => {
                    at += 1;
                    self.state = State::Quoted;
                }
                State::Closing => at = self.closing(text[at], at)?,
                State::Comment => {
                    let end = memchr2(b'\n', b'\r', &text[at..]);
                    at = end.map_or(text.len(), |end| at + end);
                    if at < text.len() {
                        self.state = State::Unquoted;
                        at += 1;
                        if to_record_end {
                            return Ok(Some(self.consume(&text[..at])));
                        }
                    }
                }
                State::Unquoted => {
                    let (next, ended) = self.unquoted(text, at, to_record_end);
                    at = next;
                    if ended && to_record_end {
                        return Ok(Some(self.consume(&text[..at])));
                    }
                }
            }
        }
        self.consume(text);
        Ok(None)
    }

    fn consume(&mut self, text: &[u8]) -> usize {
        self.last = text.last().copied().unwrap_or(self.last);
        self.position += text.len() as u64;
        text.len()
    }

    fn quoted(&mut self, text: &[u8], at: usize) -> usize {
        let Some(quote) = self.syntax.quote else {
            return text.len();
        };
        let stop = match self.syntax.escape {
            Some(escape) => memchr2(quote, escape, &text[at..]),
            None => memchr(quote, &text[at..]),
        };
        let Some(stop) = stop.map(|stop| at + stop) else {
            return text.len();
        };
        let is_quote = text[stop] == quote;
        self.state = if is_quote {
            State::Closing
        } else {
            State::Escaped
        };
        stop + 1
    }

    fn closing(&mut self, byte: u8, at: usize) -> Result<usize, Fault> {
        if Some(byte) == self.syntax.quote {
            self.state = State::Quoted;
            return Ok(at + 1);
        }
        if byte == self.syntax.delimiter || ends_line(byte) {
            self.state = State::Unquoted;
            return Ok(at);
        }
        Err(Fault::BehindQuote {
            opened: self.opened,
            at: self.position + at as u64,
        })
    }

    /// Goes on to the next quote, or the next line end where such matter. Returns whether it is a line end.
    fn unquoted(&mut self, text: &[u8], at: usize, to_record_end: bool) -> (usize, bool) {
        let before = if at == 0 { self.last } else { text[at - 1] };
        if Some(text[at]) == self.syntax.comment && ends_line(before) {
            self.state = State::Comment;
            return (at, false);
        }
        let lines_matter = to_record_end || self.syntax.comment.is_some();
        let rest = &text[at..];
        let stop = match self.syntax.quote {
            Some(quote) if lines_matter => memchr3(quote, b'\n', b'\r', rest),
            Some(quote) => memchr(quote, rest),
            None if lines_matter => memchr2(b'\n', b'\r', rest),
            None => None,
        };
        let Some(stop) = stop.map(|stop| at + stop) else {
            return (text.len(), false);
        };
        if ends_line(text[stop]) {
            return (stop + 1, true);
        }
        self.open(text, stop);
        (stop + 1, false)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn syntaxes() -> impl Strategy<Value = Syntax> {
        let quote = prop_oneof![Just(Some(b'"')), Just(Some(b'\'')), Just(None)];
        let escape = prop_oneof![Just(None), Just(Some(b'\\'))];
        let comment = prop_oneof![Just(None), Just(Some(b'#'))];
        (quote, escape, comment).prop_map(|(quote, escape, comment)| Syntax {
            delimiter: b',',
            quote,
            escape: escape.filter(|_| quote.is_some()),
            comment,
        })
    }

    /// Applies the same rule one byte at a time: returns where lines end outside quotes, or where it fails.
    fn naive(text: &[u8], syntax: Syntax) -> (Vec<usize>, Option<Fault>) {
        let (mut ends, mut opened, mut i) = (Vec::new(), None, 0);
        let mut comment = false;
        while i < text.len() {
            let byte = text[i];
            let at_start = i == 0 || ends_line(text[i - 1]);
            if let Some(from) = opened {
                if Some(byte) == syntax.quote {
                    match text.get(i + 1) {
                        next if next == syntax.quote.as_ref() => i += 1,
                        Some(&next) if next != b',' && !ends_line(next) => {
                            let (opened, at) = (from, i as u64 + 1);
                            return (ends, Some(Fault::BehindQuote { opened, at }));
                        }
                        _ => opened = None,
                    }
                } else if Some(byte) == syntax.escape {
                    i += 1;
                }
            } else if ends_line(byte) {
                comment = false;
                ends.push(i + 1);
            } else if at_start && Some(byte) == syntax.comment {
                comment = true;
            } else if !comment && Some(byte) == syntax.quote && (at_start || text[i - 1] == b',') {
                opened = Some(i as u64);
            }
            i += 1;
        }
        (ends, opened.map(|opened| Fault::NeverClosed { opened }))
    }

    proptest! {
        #[test]
        fn records_end_where_they_do_byte_by_byte_however_the_text_is_cut(
            text in "[a,\"'\\\\#\r\n]{0,40}",
            syntax in syntaxes(),
            piece in 1_usize..45,
        ) {
            let text = text.as_bytes();
            let expected = naive(text, syntax);
            let (mut by_record, mut whole) = (Scan::new(syntax, 0), Scan::new(syntax, 0));
            let (mut ends, mut fault, mut fault_of_whole) = (Vec::new(), None, None);
            let mut base = 0;
            for part in text.chunks(piece) {
                let mut rest = part;
                while fault.is_none() {
                    match by_record.record_end(rest) {
                        Ok(Some(end)) => {
                            rest = &rest[end..];
                            ends.push(base + part.len() - rest.len());
                        }
                        Ok(None) => break,
                        Err(found) => fault = Some(found),
                    }
                }
                if fault_of_whole.is_none() {
                    fault_of_whole = whole.skip(part).err();
                }
                base += part.len();
            }
            fault = fault.or_else(|| by_record.finish().err());
            fault_of_whole = fault_of_whole.or_else(|| whole.finish().err());
            prop_assert_eq!(fault_of_whole, fault);
            prop_assert_eq!((ends, fault), expected);
        }
    }
}
