//! Where text files are cut, so that every part begins at a record.
//!
//! In JSON lines every newline ends a record. In CSV a line end within quotes does not, and whether a position is
//! within quotes depends on everything before it. So the file is scanned from its start, stopping at quotes only.

use std::ops::Range;
use std::sync::Arc;

use super::diagnose::{fault_error, header_error};
use super::line_starts::{line_after, text_start};
use super::records::{Piece, RecordReader, Rule};
use super::scan::Scan;
use super::Notation;
use crate::direct::{RangeReader, ReadAhead};
use crate::error::Result;
use crate::source::{BadRows, Header, ReadOptions, Syntax};

/// The most bytes of a record that a search for its end keeps. A line of 100 MB took 140 MB while a file was cut.
const KEPT_BYTES: usize = 4 << 20;

/// Cuts the records of a file (without the header of CSV, if it has one) into byte ranges of about `target` bytes.
pub(super) fn ranges(
    file: &Arc<RangeReader>,
    notation: Notation,
    options: &ReadOptions,
    target: u64,
) -> Result<Vec<Range<u64>>> {
    let start = records_start(file, notation, options)?;
    let end = file.len();
    if start >= end {
        return Ok(Vec::new());
    }
    let cuts = even_cuts(start..end, target);
    let is_one = cuts.len() == 0;
    let syntax = options.csv.syntax_of(file.path());
    let is_plain = options.bad_rows == BadRows::Raise && syntax.comment.is_none();
    let cuts = match notation {
        _ if is_one => Vec::new(),
        Notation::Csv if is_plain => csv_records_after(file, start, cuts, syntax)?,
        Notation::Csv => pieces_after(file, start, cuts, options)?,
        _ => cuts
            .map(|cut| line_after(file, cut, notation))
            .collect::<Result<_>>()?,
    };
    Ok(between(start..end, cuts))
}

/// Cuts a range into pieces of about `target` bytes, each but the first beginning where `line_after` says.
pub(crate) fn even_ranges(
    range: Range<u64>,
    target: u64,
    line_after: impl Fn(u64) -> Result<u64>,
) -> Result<Vec<Range<u64>>> {
    let cuts: Result<Vec<u64>> = even_cuts(range.clone(), target).map(line_after).collect();
    Ok(between(range, cuts?))
}

/// Returns positions within a range, at regular distances.
fn even_cuts(range: Range<u64>, target: u64) -> impl ExactSizeIterator<Item = u64> {
    let bytes = range.end.saturating_sub(range.start);
    let pieces = usize::try_from(bytes.div_ceil(target)).unwrap_or(usize::MAX);
    let cut = move |piece: usize| u128::from(bytes) * piece as u128 / pieces as u128;
    (1..pieces.max(1)).map(move |piece| range.start + cut(piece) as u64)
}

/// Returns the ranges between ascending cuts, without empty ones.
fn between(range: Range<u64>, cuts: Vec<u64>) -> Vec<Range<u64>> {
    let mut ranges = Vec::with_capacity(cuts.len() + 1);
    let mut from = range.start;
    for cut in cuts.into_iter().chain([range.end]) {
        if cut > from {
            ranges.push(from..cut);
            from = cut;
        }
    }
    ranges
}

/// Returns where the records of a file begin.
pub(super) fn records_start(
    file: &Arc<RangeReader>,
    notation: Notation,
    options: &ReadOptions,
) -> Result<u64> {
    if notation != Notation::Csv {
        return text_start(file, 0);
    }
    let start = text_start(file, options.csv.skip_rows)?;
    if options.csv.header != Header::Line {
        return Ok(start);
    }
    let rule = Rule::Csv(options.csv.syntax_of(file.path()));
    let mut reader = RecordReader::new(file.clone(), start..file.len(), rule, KEPT_BYTES);
    while let Some(piece) = reader.next()? {
        match piece {
            Piece::Nothing(_) => {}
            Piece::Record(_) | Piece::Long => return Ok(reader.position()),
            Piece::Fault(_, fault) => return Err(header_error(file, fault)?),
        }
    }
    Ok(file.len())
}

/// Returns for each of the ascending `cuts` the start of the first record that begins after it. `start` begins a
/// record.
fn csv_records_after(
    file: &Arc<RangeReader>,
    start: u64,
    cuts: impl Iterator<Item = u64>,
    syntax: Syntax,
) -> Result<Vec<u64>> {
    let mut cuts = cuts.peekable();
    let mut found = Vec::new();
    let mut scan = Scan::new(syntax, start);
    let mut position = start;
    for window in ReadAhead::new(file.clone(), start..file.len(), 1)? {
        let window = window?;
        let mut rest = &window[..];
        while let Some(&cut) = cuts.peek() {
            let before = (cut.saturating_sub(position) as usize).min(rest.len());
            let end = scan
                .skip(&rest[..before])
                .and_then(|()| scan.record_end(&rest[before..]));
            let Some(end) = end.or_else(|fault| Err(fault_error(file, fault)?))? else {
                break;
            };
            position += (before + end) as u64;
            rest = &rest[before + end..];
            while cuts.next_if(|&cut| cut < position).is_some() {
                found.push(position);
            }
        }
        if cuts.peek().is_none() {
            return Ok(found);
        }
        position += rest.len() as u64;
    }
    match scan.finish() {
        Ok(()) => Ok(found),
        Err(fault) => Err(fault_error(file, fault)?),
    }
}

/// Does the same where lines may be comments or unreadable.
fn pieces_after(
    file: &Arc<RangeReader>,
    start: u64,
    cuts: impl Iterator<Item = u64>,
    options: &ReadOptions,
) -> Result<Vec<u64>> {
    let mut cuts = cuts.peekable();
    let mut found = Vec::new();
    let rule = Rule::Csv(options.csv.syntax_of(file.path()));
    let mut reader = RecordReader::new(file.clone(), start..file.len(), rule, KEPT_BYTES);
    while cuts.peek().is_some() {
        match reader.next()? {
            None => break,
            Some(Piece::Fault(_, fault)) if options.bad_rows == BadRows::Raise => {
                return Err(fault_error(file, fault)?);
            }
            Some(_) => {}
        }
        let position = reader.position();
        while cuts.next_if(|&cut| cut < position).is_some() {
            found.push(position);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::CsvOptions;

    /// Returns where records end, one byte at a time.
    fn naive_ends(text: &[u8], delimiter: u8) -> Vec<usize> {
        let (mut ends, mut quoted, mut i) = (Vec::new(), false, 0);
        while i < text.len() {
            match text[i] {
                b'"' if quoted && text.get(i + 1) == Some(&b'"') => i += 1,
                b'"' if quoted => quoted = false,
                b'"' => quoted = i == 0 || [delimiter, b'\n', b'\r'].contains(&text[i - 1]),
                b'\n' | b'\r' if !quoted => ends.push(i + 1),
                _ => {}
            }
            i += 1;
        }
        ends
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
            let ranges = ranges(&reader, Notation::Csv, &ReadOptions::default(), target).unwrap();
            assert_eq!(ranges.first().unwrap().start as usize, first);
            assert_eq!(ranges.last().unwrap().end as usize, text.len());
            for pair in ranges.windows(2) {
                assert_eq!(pair[0].end, pair[1].start);
                assert!(ends.contains(&(pair[1].start as usize - first)));
            }
        }
        for target in 1..40 {
            let ranges = ranges(
                &reader,
                Notation::JsonLines,
                &ReadOptions::default(),
                target,
            )
            .unwrap();
            assert!(ranges
                .iter()
                .skip(1)
                .all(|range| text[range.start as usize - 1] == b'\n'));
        }
    }

    #[test]
    fn a_file_with_a_long_record_is_cut_alike_where_bad_rows_are_left_out() {
        let long = "x".repeat(KEPT_BYTES + (2 << 20));
        let (_file, reader) = file(format!("h\n1\n{long}\n2\n3\n").as_bytes());
        let skip = ReadOptions {
            bad_rows: BadRows::Skip,
            ..ReadOptions::default()
        };
        let [raised, skipped] = [ReadOptions::default(), skip]
            .map(|options| ranges(&reader, Notation::Csv, &options, 1 << 20).unwrap());
        assert_eq!(skipped, raised);
        assert_eq!(raised.len(), 2);
    }

    #[test]
    fn files_without_records_have_no_ranges() {
        for text in [&b""[..], b"h1,h2", b"h1,h2\n", b"\n\nh\n"] {
            assert!(
                ranges(&file(text).1, Notation::Csv, &ReadOptions::default(), 10)
                    .unwrap()
                    .is_empty()
            );
        }
        assert!(ranges(
            &file(b"").1,
            Notation::JsonLines,
            &ReadOptions::default(),
            10
        )
        .unwrap()
        .is_empty());
    }

    #[test]
    fn without_a_header_every_record_is_in_a_range() {
        let options = ReadOptions {
            csv: CsvOptions {
                header: Header::Missing(Vec::new()),
                ..CsvOptions::default()
            },
            ..ReadOptions::default()
        };
        let text = b"\xEF\xBB\xBF1,a\n2,b\n3,c\n";
        for target in 1..20 {
            let ranges = ranges(&file(text).1, Notation::Csv, &options, target).unwrap();
            assert_eq!(
                (ranges[0].start, ranges[ranges.len() - 1].end),
                (3, text.len() as u64)
            );
        }
    }
}
