//! The records of a range of a text file, one by one. For code that looks into each of them to infer types, to find
//! what is wrong with one, or to leave it out.
//!
//! Text that is no record of CSV is handed out as its first line, with the fault; reading goes on behind that line. So
//! a quote that is never closed costs only its own line, and not all lines that follow.

use std::ops::Range;
use std::sync::Arc;

use memchr::{memchr, memchr2};

use super::line_starts::{behind_line_end, line_after};
use super::lines::LineEnd;
use super::scan::{ends_line, Fault, Scan};
use super::Notation;
use crate::direct::RangeReader;
use crate::error::Result;
use crate::source::Syntax;

/// Bytes that are read at first, and later: most files are looked into at their start only.
const FIRST_BLOCK_BYTES: u64 = 64 << 10;
const BLOCK_BYTES: u64 = 1 << 20;

/// The text between two ends of lines that end a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A record with its line end, if it has one.
    Record(&'a [u8]),
    /// A comment, or an empty line.
    Nothing(&'a [u8]),
    /// The first line of text that is no record.
    Fault(&'a [u8], Fault),
    /// A record that is too long to be kept.
    Long,
}

impl<'a> Piece<'a> {
    /// Returns the bytes.
    pub(super) fn text(&self) -> &'a [u8] {
        match self {
            Self::Record(text) | Self::Nothing(text) | Self::Fault(text, _) => text,
            Self::Long => &[],
        }
    }

    /// Returns the fault, if the text is no record.
    pub(super) fn fault(&self) -> Option<Fault> {
        match self {
            Self::Fault(_, fault) => Some(*fault),
            _ => None,
        }
    }
}

/// The rule that ends records.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rule {
    /// Line ends outside quotes.
    Csv(Syntax),
    /// Every newline.
    Lines,
}

impl Rule {
    /// Returns what ends a line.
    pub(super) fn line_end(self) -> LineEnd {
        match self {
            Self::Csv(_) => LineEnd::Any,
            Self::Lines => LineEnd::Newline,
        }
    }
}

/// The kind of the next piece.
enum Found {
    Piece,
    Fault(Fault),
    /// A record that was left behind.
    Long,
    End,
}

pub(super) struct RecordReader {
    file: Arc<RangeReader>,
    rule: Rule,
    scan: Scan,
    /// The bytes that were read, from the piece that was handed out last on.
    buffer: Vec<u8>,
    /// Where the next piece begins in the buffer, and how far it was scanned.
    at: usize,
    scanned: usize,
    /// Position in the file of the next piece, of the next read, and of the end.
    position: u64,
    read_to: u64,
    end: u64,
    /// Bytes of the next read, and of those after it.
    block_bytes: u64,
    later_block_bytes: u64,
    max_row_bytes: usize,
}

impl RecordReader {
    /// Reads the records of a range, which begins at a record.
    pub(super) fn new(
        file: Arc<RangeReader>,
        range: Range<u64>,
        rule: Rule,
        max_row_bytes: usize,
    ) -> Self {
        Self {
            scan: scan_at(rule, range.start),
            file,
            rule,
            buffer: Vec::new(),
            at: 0,
            scanned: 0,
            position: range.start,
            read_to: range.start,
            end: range.end,
            block_bytes: FIRST_BLOCK_BYTES,
            later_block_bytes: BLOCK_BYTES,
            max_row_bytes,
        }
    }

    /// Returns the position in the file of the next piece.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the next piece; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Piece<'_>>> {
        let fault = match self.find_end()? {
            Found::Piece => None,
            Found::End => return Ok(None),
            Found::Long => return Ok(Some(Piece::Long)),
            Found::Fault(fault) if self.back_to_first_line()? => Some(fault),
            Found::Fault(_) => return Ok(Some(Piece::Long)),
        };
        let text = self.at..self.scanned;
        self.at = self.scanned;
        self.position += text.len() as u64;
        let text = &self.buffer[text];
        Ok(Some(match fault {
            Some(fault) => Piece::Fault(text, fault),
            None if is_nothing(text, self.rule) => Piece::Nothing(text),
            None => Piece::Record(text),
        }))
    }

    /// Scans to the end of the next piece.
    fn find_end(&mut self) -> Result<Found> {
        loop {
            let text = &self.buffer[self.scanned..];
            match end_of_record(self.rule, &mut self.scan, text) {
                Ok(Some(length)) => {
                    self.scanned += length;
                    self.take_newline()?;
                    return Ok(Found::Piece);
                }
                Ok(None) => self.scanned = self.buffer.len(),
                Err(fault) => return Ok(Found::Fault(fault)),
            }
            if self.read_to == self.end {
                return Ok(match self.scan.finish() {
                    Err(fault) => Found::Fault(fault),
                    Ok(()) if self.scanned > self.at => Found::Piece,
                    Ok(()) => Found::End,
                });
            }
            if self.buffer.len() - self.at > self.max_row_bytes {
                return self.far_end();
            }
            self.fill()?;
        }
    }

    /// Takes the second half of CRLF, too.
    fn take_newline(&mut self) -> Result<()> {
        if self.buffer[self.scanned - 1] != b'\r' || matches!(self.rule, Rule::Lines) {
            return Ok(());
        }
        if self.scanned == self.buffer.len() && self.read_to < self.end {
            self.fill()?;
        }
        if self.buffer.get(self.scanned) == Some(&b'\n') {
            self.scanned += 1;
            self.scan = scan_at(self.rule, self.position + (self.scanned - self.at) as u64);
        }
        Ok(())
    }

    /// Goes on to the end of a record that is too long to be kept. Text that is no record is read again from its first
    /// line.
    fn far_end(&mut self) -> Result<Found> {
        let kept = self.read_to;
        let mut start = self.read_to;
        let fault = loop {
            if self.read_to == self.end {
                start = self.end;
                break self.scan.finish().err();
            }
            let block = self.read_block()?;
            match end_of_record(self.rule, &mut self.scan, &block) {
                Ok(Some(length)) => {
                    start = match self.rule {
                        Rule::Csv(_) => behind_line_end(&self.file, start + length as u64)?,
                        Rule::Lines => start + length as u64,
                    };
                    break None;
                }
                Ok(None) => start = self.read_to,
                Err(fault) => break Some(fault),
            }
        };
        if let Some(fault) = fault {
            self.read_to = kept;
            return Ok(Found::Fault(fault));
        }
        self.go_on_at(start);
        Ok(Found::Long)
    }

    /// Forgets the bytes that were read.
    fn go_on_at(&mut self, position: u64) {
        self.buffer.clear();
        (self.at, self.scanned) = (0, 0);
        (self.position, self.read_to) = (position, position);
        self.scan = scan_at(self.rule, position);
    }

    /// Makes the first line of the text the next piece; returns false if it is too long and was left behind.
    fn back_to_first_line(&mut self) -> Result<bool> {
        self.scanned = self.at;
        loop {
            let text = &self.buffer[self.scanned..];
            if let Some(end) = memchr2(b'\n', b'\r', text) {
                self.scanned += end + 1;
                self.take_newline()?;
                break;
            }
            self.scanned = self.buffer.len();
            if self.read_to == self.end {
                break;
            }
            if self.buffer.len() - self.at > self.max_row_bytes {
                let next = line_after(&self.file, self.read_to, Notation::Csv)?;
                self.go_on_at(next.min(self.end));
                return Ok(false);
            }
            self.fill()?;
        }
        let length = (self.scanned - self.at) as u64;
        self.scan = scan_at(self.rule, self.position + length);
        Ok(true)
    }

    /// Gives the memory of pieces that were returned back.
    pub(super) fn shrink(&mut self) {
        self.buffer = self.buffer[self.at..].to_vec();
        self.scanned -= self.at;
        self.at = 0;
    }

    fn fill(&mut self) -> Result<()> {
        self.buffer.drain(..self.at);
        self.scanned -= self.at;
        self.at = 0;
        let block = self.read_block()?;
        self.buffer.extend_from_slice(&block);
        Ok(())
    }

    fn read_block(&mut self) -> Result<bytes::Bytes> {
        let length = (self.end - self.read_to).min(self.block_bytes);
        let block = self.file.read(self.read_to, length as usize)?;
        self.read_to += length;
        self.block_bytes = self.later_block_bytes;
        Ok(block)
    }
}

fn end_of_record(
    rule: Rule,
    scan: &mut Scan,
    text: &[u8],
) -> std::result::Result<Option<usize>, Fault> {
    match rule {
        Rule::Csv(_) => scan.record_end(text),
        Rule::Lines => Ok(memchr(b'\n', text).map(|newline| newline + 1)),
    }
}

fn scan_at(rule: Rule, position: u64) -> Scan {
    let syntax = match rule {
        Rule::Csv(syntax) => syntax,
        Rule::Lines => Syntax::default(),
    };
    Scan::new(syntax, position)
}

fn is_nothing(text: &[u8], rule: Rule) -> bool {
    match rule {
        Rule::Lines => text.iter().all(|byte| b" \t\r\n".contains(byte)),
        Rule::Csv(syntax) => text
            .first()
            .is_none_or(|&first| ends_line(first) || Some(first) == syntax.comment),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists the pieces of a text: records as they are, comments and empty lines as `-`, faults as `!` and their line.
    fn pieces(text: &[u8], rule: Rule, max_row_bytes: usize) -> Vec<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let file = Arc::new(RangeReader::open(file.path()).unwrap());
        let range = 0..file.len();
        let mut reader = RecordReader::new(file, range, rule, max_row_bytes);
        (reader.block_bytes, reader.later_block_bytes) = (3, 3);
        let mut found = Vec::new();
        while let Some(piece) = reader.next().unwrap() {
            let shown = |text| String::from_utf8_lossy(text).into_owned();
            found.push(match piece {
                Piece::Record(text) => shown(text),
                Piece::Nothing(_) => "-".to_owned(),
                Piece::Fault(text, _) => format!("!{}", shown(text)),
                Piece::Long => "...".to_owned(),
            });
        }
        assert_eq!(reader.position(), text.len() as u64);
        found
    }

    #[test]
    fn what_is_no_record_costs_a_line() {
        let csv = Rule::Csv(Syntax {
            comment: Some(b'#'),
            ..Syntax::default()
        });
        for (text, expected) in [
            (&b""[..], &[][..]),
            (b"a\rb\r\nc", &["a\r", "b\r\n", "c"]),
            (b"\"a\nb\"\n#\"\n2", &["\"a\nb\"\n", "-", "2"]),
            (
                b"1,\"x,1\n2,\"y,2\n3,z\n",
                &["!1,\"x,1\n", "!2,\"y,2\n", "3,z\n"],
            ),
            (
                b"1,a\n2,\"oops\n3,b\n4,c",
                &["1,a\n", "!2,\"oops\n", "3,b\n", "4,c"],
            ),
            (b"\"x\"y\n\"\"\n", &["!\"x\"y\n", "\"\"\n"]),
            (b"\"x\"y", &["!\"x\"y"]),
        ] {
            assert_eq!(pieces(text, csv, 100), expected, "{text:?}");
        }
        assert_eq!(
            pieces(b"{}\n \n\r\n{\"", Rule::Lines, 100),
            ["{}\n", "-", "-", "{\""]
        );
    }

    #[test]
    fn what_is_too_long_is_left_behind() {
        let csv = Rule::Csv(Syntax::default());
        for (text, expected) in [
            (&b"1\nabcdefghijklmno\n2\n"[..], &["1\n", "...", "2\n"][..]),
            (b"\"1\n2\n3\n4\n5\n6\n7\"\n8", &["...", "8"]),
            (
                b"\"1\n2\n3\n4\n5\n6\n7\n",
                &["!\"1\n", "2\n", "3\n", "4\n", "5\n", "6\n", "7\n"],
            ),
            (b"\"abcdefghijklmno\n1\"2\n3\n", &["...", "1\"2\n", "3\n"]),
            (b"1\nabcdefghijklmno", &["1\n", "..."]),
            (b"abcdefghijklmno\r\n2\n", &["...", "2\n"]),
        ] {
            assert_eq!(pieces(text, csv, 6), expected, "{text:?}");
        }
        let json = b"{}\n{1234567890}\n{}";
        assert_eq!(pieces(json, Rule::Lines, 6), ["{}\n", "...", "{}"]);
    }
}
