//! Where records of text files end.
//!
//! In JSON lines every newline ends a record. In CSV a newline within quotes does not, and whether a position is
//! within quotes depends on everything before it; so the file is scanned from its start, stopping at quotes only.

use std::ops::Range;
use std::sync::Arc;

use memchr::{memchr, memchr2};

use crate::direct::{RangeReader, ReadAhead};
use crate::error::Result;
use crate::source::{Header, ReadOptions};
use crate::Format;

/// How much is read to find the next newline of JSON lines.
const PROBE_BYTES: u64 = 64 << 10;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Cuts the records of a file (without the header of CSV, if it has one) into byte ranges of about `target` bytes.
pub(crate) fn ranges(
    file: &Arc<RangeReader>,
    format: Format,
    options: &ReadOptions,
    target: u64,
) -> Result<Vec<Range<u64>>> {
    let start = records_start(file, format, options)?;
    let end = file.len();
    if start >= end {
        return Ok(Vec::new());
    }
    let pieces = (end - start).div_ceil(target);
    let cuts = (1..pieces)
        .map(|i| start + (u128::from(end - start) * u128::from(i) / u128::from(pieces)) as u64);
    let cuts = match format {
        _ if pieces == 1 => Vec::new(),
        Format::Csv => csv_records_after(file, start, cuts, options.csv_delimiter)?,
        _ => cuts
            .map(|cut| line_after(file, cut))
            .collect::<Result<_>>()?,
    };
    let mut ranges = Vec::with_capacity(cuts.len() + 1);
    let mut from = start;
    for cut in cuts.into_iter().chain([end]) {
        if cut > from {
            ranges.push(from..cut);
            from = cut;
        }
    }
    Ok(ranges)
}

/// Where the records of a file begin.
pub(super) fn records_start(
    file: &Arc<RangeReader>,
    format: Format,
    options: &ReadOptions,
) -> Result<u64> {
    match (format, &options.csv_header) {
        (Format::Csv, Header::Line) => header_end(file, options.csv_delimiter),
        _ => text_start(file),
    }
}

/// Where the text begins, after a byte order mark.
fn text_start(file: &RangeReader) -> Result<u64> {
    let start = file.read(0, file.len().min(3) as usize)?;
    Ok(if start.as_ref() == BYTE_ORDER_MARK {
        3
    } else {
        0
    })
}

/// Where the records of a CSV file with a header begin.
fn header_end(file: &Arc<RangeReader>, delimiter: u8) -> Result<u64> {
    let mut start = text_start(file)?;
    // The parser skips empty lines, before the header too.
    while start < file.len() && matches!(file.read(start, 1)?[0], b'\r' | b'\n') {
        start += 1;
    }
    let mut scan = QuoteScan::new(delimiter);
    while start < file.len() {
        let probe = file.read(start, (file.len() - start).min(PROBE_BYTES) as usize)?;
        if let Some(end) = scan.record_end(&probe) {
            return Ok(start + end as u64);
        }
        start += probe.len() as u64;
    }
    Ok(file.len())
}

/// Start of the first line that begins after `position`.
pub(super) fn line_after(file: &RangeReader, position: u64) -> Result<u64> {
    let mut at = position;
    while at < file.len() {
        let bytes = file.read(at, (file.len() - at).min(PROBE_BYTES) as usize)?;
        if let Some(newline) = memchr(b'\n', &bytes) {
            return Ok(at + newline as u64 + 1);
        }
        at += bytes.len() as u64;
    }
    Ok(file.len())
}

/// For each of the ascending `cuts`: the start of the first record that begins after it. `start` begins a record.
fn csv_records_after(
    file: &Arc<RangeReader>,
    start: u64,
    cuts: impl Iterator<Item = u64>,
    delimiter: u8,
) -> Result<Vec<u64>> {
    let mut cuts = cuts.peekable();
    let mut found = Vec::new();
    let mut scan = QuoteScan::new(delimiter);
    let mut position = start;
    let mut windows = ReadAhead::new(file.clone(), start..file.len(), 1)?;
    while cuts.peek().is_some() {
        let Some(window) = windows.next().transpose()? else {
            break;
        };
        let mut rest = &window[..];
        while let Some(&cut) = cuts.peek() {
            let (before, after) =
                rest.split_at((cut.saturating_sub(position) as usize).min(rest.len()));
            scan.skip(before);
            position += before.len() as u64;
            rest = after;
            let Some(end) = scan.record_end(rest) else {
                break;
            };
            position += end as u64;
            rest = &rest[end..];
            while cuts.next_if(|&cut| cut < position).is_some() {
                found.push(position);
            }
        }
        // Whatever remains was looked at, unless there are no cuts left.
        position += rest.len() as u64;
    }
    Ok(found)
}

/// Tracks whether the text is within quotes. A quote opens a value only at its start; within one, a doubled quote
/// stands for itself.
pub(super) struct QuoteScan {
    delimiter: u8,
    quoted: bool,
    /// The last byte was a quote within quotes: it closes the value unless another quote follows.
    closing: bool,
    last: u8,
}

impl QuoteScan {
    /// Starts at the start of a record.
    pub(super) fn new(delimiter: u8) -> Self {
        Self {
            delimiter,
            quoted: false,
            closing: false,
            last: b'\n',
        }
    }

    /// Goes over all of `text`.
    fn skip(&mut self, text: &[u8]) {
        self.advance(text, false);
    }

    /// Goes over `text` to the end of a record and returns how many bytes that were; `None` if no record ends in it.
    pub(super) fn record_end(&mut self, text: &[u8]) -> Option<usize> {
        self.advance(text, true)
    }

    fn advance(&mut self, text: &[u8], to_record_end: bool) -> Option<usize> {
        let mut at = 0;
        if std::mem::take(&mut self.closing) {
            match text.first() {
                Some(b'"') => at = 1,
                Some(_) => self.quoted = false,
                None => self.closing = true,
            }
        }
        while at < text.len() {
            let rest = &text[at..];
            let stop = if self.quoted || !to_record_end {
                memchr(b'"', rest)
            } else {
                memchr2(b'"', b'\n', rest)
            };
            let Some(stop) = stop.map(|stop| at + stop) else {
                break;
            };
            at = stop + 1;
            if text[stop] == b'\n' {
                self.last = b'\n';
                return Some(at);
            }
            if self.quoted {
                match text.get(at) {
                    Some(b'"') => at += 1,
                    Some(_) => self.quoted = false,
                    None => self.closing = true,
                }
            } else {
                let before = if stop == 0 { self.last } else { text[stop - 1] };
                self.quoted = before == self.delimiter || matches!(before, b'\n' | b'\r');
            }
        }
        self.last = text.last().copied().unwrap_or(self.last);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same rule, one byte at a time.
    fn naive_ends(text: &[u8], delimiter: u8) -> Vec<usize> {
        let (mut ends, mut quoted, mut i) = (Vec::new(), false, 0);
        while i < text.len() {
            match text[i] {
                b'"' if quoted && text.get(i + 1) == Some(&b'"') => i += 1,
                b'"' if quoted => quoted = false,
                b'"' => quoted = i == 0 || [delimiter, b'\n', b'\r'].contains(&text[i - 1]),
                b'\n' if !quoted => ends.push(i + 1),
                _ => {}
            }
            i += 1;
        }
        ends
    }

    #[test]
    fn quoted_newlines_end_no_record_wherever_the_text_is_cut() {
        let text = b"a,\"x\ny\"\n5\" pipe,\"say \"\"hi\"\"\n\"\n\"\",\"\"\"\"\r\nlast,\"open\n";
        for piece in 1..text.len() {
            let mut scan = QuoteScan::new(b',');
            let (mut ends, mut base) = (Vec::new(), 0);
            for part in text.chunks(piece) {
                let mut rest = part;
                while let Some(end) = scan.record_end(rest) {
                    rest = &rest[end..];
                    ends.push(base + part.len() - rest.len());
                }
                base += part.len();
            }
            assert_eq!(ends, naive_ends(text, b','), "pieces of {piece}");
        }
    }

    fn file(text: &[u8]) -> (tempfile::NamedTempFile, Arc<RangeReader>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let reader = Arc::new(RangeReader::open(file.path()).unwrap());
        (file, reader)
    }

    #[test]
    fn ranges_begin_at_records_and_cover_the_file() {
        let text = b"\xEF\xBB\xBFh1,h2\n1,\"a\nb\"\n2,\"\n\n\n\"\n3,c\n4,d";
        let (_file, reader) = file(text);
        let first = 3 + b"h1,h2\n".len();
        let ends = naive_ends(&text[first..], b',');
        for target in 1..40 {
            let ranges = ranges(&reader, Format::Csv, &ReadOptions::default(), target).unwrap();
            assert_eq!(ranges.first().unwrap().start as usize, first);
            assert_eq!(ranges.last().unwrap().end as usize, text.len());
            for pair in ranges.windows(2) {
                assert_eq!(pair[0].end, pair[1].start);
                assert!(ends.contains(&(pair[1].start as usize - first)));
            }
        }
        for target in 1..40 {
            let ranges =
                ranges(&reader, Format::JsonLines, &ReadOptions::default(), target).unwrap();
            assert!(ranges
                .iter()
                .skip(1)
                .all(|range| text[range.start as usize - 1] == b'\n'));
        }
    }

    #[test]
    fn files_without_records_have_no_ranges() {
        for text in [&b""[..], b"h1,h2", b"h1,h2\n", b"\n\nh\n"] {
            assert!(
                ranges(&file(text).1, Format::Csv, &ReadOptions::default(), 10)
                    .unwrap()
                    .is_empty()
            );
        }
        assert!(
            ranges(&file(b"").1, Format::JsonLines, &ReadOptions::default(), 10)
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn without_a_header_every_record_is_in_a_range() {
        let options = ReadOptions {
            csv_header: Header::Missing(Vec::new()),
            ..ReadOptions::default()
        };
        let text = b"\xEF\xBB\xBF1,a\n2,b\n3,c\n";
        for target in 1..20 {
            let ranges = ranges(&file(text).1, Format::Csv, &options, target).unwrap();
            assert_eq!(
                (ranges[0].start, ranges[ranges.len() - 1].end),
                (3, text.len() as u64)
            );
        }
    }
}
