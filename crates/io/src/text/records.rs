//! The records of a range of a text file, one by one: for whoever looks into each of them, be it to infer types, to find what
//! is wrong with one, or to leave it out.
//!
//! What is no record of CSV is handed out as its first line, with what is wrong; reading goes on behind that line. So a quote
//! that is never closed costs the line that it is in, and not all that follows.

use std::ops::Range;
use std::sync::Arc;

use memchr::{memchr, memchr2};

use super::diagnose::long_row;
use super::scan::{ends_line, Fault, Scan};
use crate::direct::RangeReader;
use crate::error::Result;
use crate::source::{max_row_bytes, Syntax};

/// What is read at first, and later: most files are looked into at their start only.
const FIRST_BLOCK_BYTES: u64 = 64 << 10;
const BLOCK_BYTES: u64 = 1 << 20;

/// What is found between two ends of lines that end a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A record with its line end, if it has one.
    Record(&'a [u8]),
    /// A comment, or a line without anything.
    Nothing(&'a [u8]),
    /// The first line of what is no record.
    Fault(&'a [u8], Fault),
}

impl<'a> Piece<'a> {
    /// The bytes.
    pub(super) fn text(&self) -> &'a [u8] {
        match self {
            Self::Record(text) | Self::Nothing(text) | Self::Fault(text, _) => text,
        }
    }
}

/// What ends records.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// Line ends outside quotes.
    Csv(Syntax),
    /// Every newline.
    Lines,
}

/// Whether there is another piece, or what is wrong with it.
type Found = std::result::Result<bool, Fault>;

pub(super) struct RecordReader {
    file: Arc<RangeReader>,
    rule: Rule,
    scan: Scan,
    /// What was read, from the bytes of the piece that was handed out last on.
    buffer: Vec<u8>,
    /// Where the next piece begins in it, and how far it was scanned.
    at: usize,
    scanned: usize,
    /// Position in the file of the next piece, of what is read next, and of the end.
    position: u64,
    read_to: u64,
    end: u64,
    block_bytes: u64,
}

impl RecordReader {
    /// The records of a range, which begins at one.
    pub(super) fn new(file: Arc<RangeReader>, range: Range<u64>, rule: Rule) -> Self {
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
        }
    }

    /// Position in the file of the next piece.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// The next piece; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Piece<'_>>> {
        let fault = match self.find_end()? {
            Ok(true) => None,
            Ok(false) => return Ok(None),
            Err(fault) => {
                self.back_to_first_line()?;
                Some(fault)
            }
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

    /// Scans to the end of the next piece; false if there is none.
    fn find_end(&mut self) -> Result<Found> {
        loop {
            let text = &self.buffer[self.scanned..];
            let ended = match self.rule {
                Rule::Csv(_) => self.scan.record_end(text),
                Rule::Lines => Ok(memchr(b'\n', text).map(|newline| newline + 1)),
            };
            match ended {
                Ok(Some(length)) => {
                    self.scanned += length;
                    self.take_newline()?;
                    return Ok(Ok(true));
                }
                Ok(None) => self.scanned = self.buffer.len(),
                Err(fault) => return Ok(Err(fault)),
            }
            if self.read_to == self.end {
                let rest = self.scanned > self.at;
                return Ok(self.scan.finish().map(|()| rest));
            }
            if self.buffer.len() - self.at > max_row_bytes() {
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

    /// Looks whether what is too long to be kept is a record; an error if so.
    fn far_end(&mut self) -> Result<Found> {
        while let Rule::Csv(_) = self.rule {
            if self.read_to == self.end {
                match self.scan.finish() {
                    Ok(()) => break,
                    Err(fault) => return Ok(self.reread(fault)),
                }
            }
            let block = self.read_block()?;
            match self.scan.record_end(&block) {
                Ok(Some(_)) => break,
                Ok(None) => {}
                Err(fault) => return Ok(self.reread(fault)),
            }
        }
        Err(long_row(&self.file, self.position))
    }

    /// Forgets what was read beyond the buffer.
    fn reread(&mut self, fault: Fault) -> Found {
        self.read_to = self.position + (self.buffer.len() - self.at) as u64;
        Err(fault)
    }

    /// Makes the first line of the text the next piece.
    fn back_to_first_line(&mut self) -> Result<()> {
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
            if self.buffer.len() - self.at > max_row_bytes() {
                return Err(long_row(&self.file, self.position));
            }
            self.fill()?;
        }
        let length = (self.scanned - self.at) as u64;
        self.scan = scan_at(self.rule, self.position + length);
        Ok(())
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
        self.block_bytes = BLOCK_BYTES;
        Ok(block)
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
        Rule::Lines => text.trim_ascii().is_empty(),
        Rule::Csv(syntax) => text
            .first()
            .is_none_or(|&first| ends_line(first) || Some(first) == syntax.comment),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a text is made of: records as they are, nothing as `-`, faults as `!` and their line.
    fn pieces(text: &[u8], rule: Rule) -> Vec<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let file = Arc::new(RangeReader::open(file.path()).unwrap());
        let range = 0..file.len();
        let mut reader = RecordReader::new(file, range, rule);
        reader.block_bytes = 3;
        let (mut found, mut position) = (Vec::new(), 0);
        while let Some(piece) = {
            assert_eq!(reader.position(), position as u64);
            reader.next().unwrap()
        } {
            position += piece.text().len();
            let shown = |text| String::from_utf8_lossy(text).into_owned();
            found.push(match piece {
                Piece::Record(text) => shown(text),
                Piece::Nothing(_) => "-".to_owned(),
                Piece::Fault(text, _) => format!("!{}", shown(text)),
            });
        }
        assert_eq!(position, text.len());
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
            assert_eq!(pieces(text, csv), expected, "{text:?}");
        }
        assert_eq!(
            pieces(b"{}\n \n\r\n{\"", Rule::Lines),
            ["{}\n", "-", "-", "{\""]
        );
    }
}
