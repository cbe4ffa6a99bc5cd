//! Where the lines of a text file begin, found by looking for newlines alone.

use memchr::{memchr, memchr2, memchr2_iter};

use super::scan::ends_line;
use super::Notation;
use crate::direct::RangeReader;
use crate::error::{IoError, Result};

/// How much is read to find the next newline.
const PROBE_BYTES: u64 = 64 << 10;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Returns where the text begins: after a byte order mark, and so many lines.
pub(super) fn text_start(file: &RangeReader, skip_rows: u64) -> Result<u64> {
    let mark = file.read(0, file.len().min(3) as usize)?;
    let start = match mark.as_ref() {
        BYTE_ORDER_MARK => 3,
        _ => 0,
    };
    match skip_rows {
        0 => Ok(start),
        _ => behind_lines(file, start, skip_rows),
    }
}

/// Returns where the text behind so many lines starts; a file that is not empty must have enough lines.
fn behind_lines(file: &RangeReader, start: u64, count: u64) -> Result<u64> {
    let (mut at, mut left, mut last) = (start, count, b'\n');
    while at < file.len() {
        let bytes = file.read(at, (file.len() - at).min(PROBE_BYTES) as usize)?;
        for end in memchr2_iter(b'\n', b'\r', &bytes) {
            let before = end.checked_sub(1).map_or(last, |before| bytes[before]);
            // The second half of CRLF ends no other line.
            left -= u64::from(bytes[end] == b'\r' || before != b'\r');
            if left == 0 {
                return behind_line_end(file, at + end as u64 + 1);
            }
        }
        last = bytes.last().copied().unwrap_or(last);
        at += bytes.len() as u64;
    }
    left -= u64::from(!ends_line(last));
    match count - left {
        lines if left > 0 && lines > 0 => Err(IoError::SkipsTooMany {
            path: file.path().to_path_buf(),
            skip_rows: count,
            lines,
        }),
        _ => Ok(file.len()),
    }
}

/// Returns the position, or the next one if it is within CRLF. If lines were cut behind CR, the rest would be an empty
/// line.
pub(super) fn behind_line_end(file: &RangeReader, position: u64) -> Result<u64> {
    let is_within =
        position > 0 && position < file.len() && file.read(position - 1, 2)?.as_ref() == b"\r\n";
    Ok(position + u64::from(is_within))
}

/// Returns the start of the first line that begins after `position`.
pub(super) fn line_after(file: &RangeReader, position: u64, notation: Notation) -> Result<u64> {
    let mut at = position;
    while at < file.len() {
        let bytes = file.read(at, (file.len() - at).min(PROBE_BYTES) as usize)?;
        let end = match notation {
            Notation::Csv => memchr2(b'\n', b'\r', &bytes),
            _ => memchr(b'\n', &bytes),
        };
        match end.map(|end| at + end as u64 + 1) {
            Some(end) if notation == Notation::Csv => return behind_line_end(file, end),
            Some(end) => return Ok(end),
            None => {}
        }
        at += bytes.len() as u64;
    }
    Ok(file.len())
}
