//! Sections: slices that say which input they belong to, so that those of several inputs can share a partition (joins).
//!
//! `[tag u8, 7 zero bytes][length u64][that many bytes of rows]`. An empty slice has no header, so a slice is a sequence
//! of sections and stays closed under concatenation: merging needs to know nothing of them. The header is 16 bytes, so
//! rows lie as they would without it.

use std::ops::Range;

use crate::error::{KernelError, Result};

/// Bytes in front of the rows of a section.
pub(crate) const HEADER_BYTES: usize = 16;

/// Writes the header of a section of `bytes` bytes of rows.
pub(crate) fn write_header(tag: u8, bytes: usize, out: &mut [u8]) {
    out[..8].copy_from_slice(&u64::from(tag).to_le_bytes());
    out[8..HEADER_BYTES].copy_from_slice(&(bytes as u64).to_le_bytes());
}

/// Where the rows with this tag lie in a slice, section by section, in order.
///
/// # Errors
/// [`KernelError::CorruptSlice`] for bytes that are no sequence of sections.
pub fn sections(slice: &[u8], tag: u8) -> Result<Vec<Range<usize>>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < slice.len() {
        let corrupt = |reason| KernelError::CorruptSlice {
            offset: at as u64,
            reason,
        };
        let cut = || corrupt("a section is cut off");
        let (own, rest) = slice[at..].split_first_chunk().ok_or_else(cut)?;
        let (bytes, _) = rest.split_first_chunk().ok_or_else(cut)?;
        let own =
            u8::try_from(u64::from_le_bytes(*own)).map_err(|_| corrupt("a section has no tag"))?;
        let start = at + HEADER_BYTES;
        let end = usize::try_from(u64::from_le_bytes(*bytes))
            .ok()
            .and_then(|bytes| start.checked_add(bytes))
            .filter(|&end| end <= slice.len())
            .ok_or_else(cut)?;
        if own == tag {
            found.push(start..end);
        }
        at = end;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(tag: u8, rows: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0xEE; HEADER_BYTES];
        write_header(tag, rows.len(), &mut bytes);
        bytes.extend_from_slice(rows);
        bytes
    }

    #[test]
    fn sections_are_found_by_tag_in_order() {
        let slice = [
            section(1, b"ab"),
            section(0, b"c"),
            section(1, b""),
            section(1, b"d"),
        ]
        .concat();
        let texts = |tag| -> Vec<&[u8]> {
            let found = sections(&slice, tag).unwrap();
            found.into_iter().map(|range| &slice[range]).collect()
        };
        assert_eq!(texts(1), [&b"ab"[..], b"", b"d"]);
        assert_eq!(texts(0), [b"c"]);
        assert!(texts(7).is_empty() && sections(&[], 0).unwrap().is_empty());
    }

    #[test]
    fn what_is_no_section_is_refused() {
        let good = [section(1, b"abc"), section(2, b"defgh")].concat();
        for cut in (1..good.len()).filter(|&cut| cut != 19) {
            assert!(sections(&good[..cut], 1).is_err(), "cut at {cut}");
        }
        for at in 1..8 {
            let mut bad = good.clone();
            bad[at] = 1;
            assert!(sections(&bad, 1).is_err(), "padding at {at}");
        }
        let mut endless = section(1, b"");
        endless[8..16].fill(0xFF);
        assert!(sections(&endless, 1).is_err());
    }
}
