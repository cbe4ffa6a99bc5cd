//! Finds places in a text file as people count: lines, and characters in a line, from 1.

use std::sync::Arc;

use memchr::{memchr2_iter, memchr_iter};

use crate::direct::{RangeReader, ReadAhead};
use crate::error::Result;

/// The characters that end a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum LineEnd {
    /// CR, LF and CRLF: CSV.
    #[default]
    Any,
    /// LF: JSON lines and plain text, where a CR by itself is a character of its line.
    Newline,
}

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Line, from 1.
    pub(super) line: u64,
    /// Bytes from the start of the line, from 1.
    pub(super) column: u64,
}

/// Returns the place of a position in a file, which is read up to it: this happens on the way to an error.
pub(super) fn at(file: &Arc<RangeReader>, position: u64, end: LineEnd) -> Result<Place> {
    between(file, 0, position, end)
}

/// Does the same, with lines and columns counted from `start` on.
pub(super) fn between(
    file: &Arc<RangeReader>,
    start: u64,
    position: u64,
    end: LineEnd,
) -> Result<Place> {
    let mut lines = Lines::ended_by(end);
    for window in ReadAhead::new(file.clone(), start..position, 1)? {
        lines.add(&window?);
    }
    Ok(Place {
        line: lines.ended + 1,
        column: lines.since + 1,
    })
}

/// Counts lines piece by piece.
#[derive(Debug, Default)]
pub(super) struct Lines {
    ended: u64,
    /// Bytes since the end of the last line.
    since: u64,
    after_cr: bool,
    end: LineEnd,
}

impl Lines {
    pub(super) fn ended_by(end: LineEnd) -> Self {
        Self {
            end,
            ..Self::default()
        }
    }

    /// Returns how many lines ended.
    pub(super) fn ended(&self) -> u64 {
        self.ended
    }

    /// Returns how many lines there are, the last one too if it has not ended.
    pub(super) fn count(&self) -> u64 {
        self.ended + u64::from(self.since > 0)
    }

    pub(super) fn add(&mut self, text: &[u8]) {
        let Some(&last) = text.last() else {
            return;
        };
        let mut start = None;
        // Mostly there is no CR; then nothing around a newline matters.
        let has_cr = || self.after_cr || memchr::memchr(b'\r', text).is_some();
        if self.end == LineEnd::Newline || !has_cr() {
            self.ended += memchr_iter(b'\n', text).count() as u64;
            start = memchr::memrchr(b'\n', text);
        } else {
            for at in memchr2_iter(b'\r', b'\n', text) {
                let before_cr = if at == 0 {
                    self.after_cr
                } else {
                    text[at - 1] == b'\r'
                };
                self.ended += u64::from(!(text[at] == b'\n' && before_cr));
                start = Some(at);
            }
        }
        self.since = match start {
            Some(start) => (text.len() - start - 1) as u64,
            None => self.since + text.len() as u64,
        };
        self.after_cr = last == b'\r';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_however_they_end_and_wherever_the_text_is_cut() {
        for (text, line, column) in [
            (&b""[..], 1, 1),
            (b"ab", 1, 3),
            (b"a\nb\rc\r\nd", 4, 2),
            (b"\r\n\r\n\n\r", 5, 1),
        ] {
            for piece in 1..8 {
                let mut lines = Lines::default();
                text.chunks(piece).for_each(|part| lines.add(part));
                assert_eq!(
                    (lines.ended + 1, lines.since + 1),
                    (line, column),
                    "{text:?}"
                );
            }
        }
    }

    #[test]
    fn a_cr_ends_no_line_where_only_newlines_do() {
        for piece in 1..8 {
            let mut lines = Lines::ended_by(LineEnd::Newline);
            b"a\nb\rc\r\nd"
                .chunks(piece)
                .for_each(|part| lines.add(part));
            assert_eq!((lines.count(), lines.ended(), lines.since), (3, 2, 1));
        }
    }
}
