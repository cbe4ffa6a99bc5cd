//! Sections: every slice begins with a header from its map, so that a reader can tell whether all rows have come.
//!
//! A section is a header of 40 bytes, little-endian, and the bytes that it announces:
//!
//! ```text
//! [tag u8] [0; 3] [map u32] [partition u32] [check u32] [rows u64] [sum of their hashes u64] [bytes that follow u64]
//! [rows, or a frame of them]
//! ```
//!
//! The tag says which input of a shuffle the rows belong to (the sides of a join), and `map` which map wrote them. The
//! sum is that of `tally.rs`. The check is the lower half of the hash of a header whose check is zero. A map writes a
//! section to every partition, with or without rows, so that a lost slice is missed. Merging concatenates slices and
//! knows nothing of sections, so a slice is a sequence of them.

use std::collections::BTreeSet;
use std::ops::Range;

use arrow_buffer::Buffer;

use crate::checks::check::CheckError;
use crate::checks::tally::Tally;

/// Bytes in front of the rows of a section.
pub(crate) const HEADER_BYTES: usize = 40;
/// Where in a header its check lies.
const CHECK: Range<usize> = 12..16;

/// The map that wrote a section, and the partition it wrote it for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) tag: u8,
    pub(crate) map: u32,
    pub(crate) partition: u32,
}

/// The rows that one map sent to one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    pub(crate) origin: Origin,
    /// The tally that the map counted.
    pub(crate) tally: Tally,
    /// Which slice it lies in.
    pub(crate) slice: usize,
    /// Where in the slice its rows lie.
    pub(crate) range: Range<usize>,
}

/// Writes the header of a section that fills the rest of `slice`.
pub(crate) fn write_header(origin: Origin, tally: Tally, slice: &mut [u8]) {
    let bytes = slice.len() - HEADER_BYTES;
    let header = &mut slice[..HEADER_BYTES];
    header[..4].copy_from_slice(&u32::from(origin.tag).to_le_bytes());
    header[4..8].copy_from_slice(&origin.map.to_le_bytes());
    header[8..12].copy_from_slice(&origin.partition.to_le_bytes());
    header[CHECK].fill(0);
    header[16..24].copy_from_slice(&tally.rows().to_le_bytes());
    header[24..32].copy_from_slice(&tally.sum().to_le_bytes());
    header[32..].copy_from_slice(&(bytes as u64).to_le_bytes());
    let check = header_check(header);
    header[CHECK].copy_from_slice(&check);
}

fn header_check(header: &[u8]) -> [u8; 4] {
    let mut tally = Tally::default();
    tally.add_beside(header);
    (tally.sum() as u32).to_le_bytes()
}

/// Returns where slices start that have a section each of so many bytes of rows, and where the last one ends.
pub(crate) fn slice_offsets(row_bytes: impl Iterator<Item = u64>) -> Vec<u64> {
    let ends = row_bytes.scan(0, |end, bytes| {
        *end += HEADER_BYTES as u64 + bytes;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

/// The slices of one partition, taken apart into sections.
#[derive(Debug)]
pub struct Sections {
    slices: Vec<Buffer>,
    sections: Vec<Section>,
}

impl Sections {
    /// Takes slices apart and checks that they have a section of every map for `partition`, each once and in order. The
    /// maps are those from number `first` on, up to `end`, or as many as there are. Without `first` the sections may
    /// come from any maps, each once and in order.
    ///
    /// # Errors
    /// Which map's section is missing, there twice or elsewhere, or where a slice is no sequence of sections.
    ///
    /// # Cost
    /// Reads headers alone.
    pub fn open(
        slices: Vec<Buffer>,
        partition: u32,
        first: Option<u32>,
        end: Option<u32>,
    ) -> Result<Self, CheckError> {
        let mut sections = Vec::new();
        for (index, slice) in slices.iter().enumerate() {
            parse(index, slice, &mut sections)?;
        }
        let mut origins = sections.iter().map(|section| section.origin);
        if let Some(origin) = origins.find(|origin| origin.partition != partition) {
            return Err(CheckError::Elsewhere {
                map: origin.map,
                partition: origin.partition,
            });
        }
        match first {
            Some(first) => {
                let found = sections.iter().map(|section| section.origin.map);
                let end = end.or_else(|| found.max().map(|last| last.saturating_add(1)));
                let end = end.unwrap_or(first);
                check_order(&sections, first..end)?;
            }
            None => check_ascent(&sections)?,
        }
        Ok(Self { slices, sections })
    }

    /// Returns the number of sections, which is that of the maps.
    pub fn len(&self) -> usize {
        self.sections.len()
    }

    /// Returns whether no map has sent anything.
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    /// Returns the number of the first map that has sent something.
    pub fn first_map(&self) -> Option<u32> {
        self.sections.first().map(|section| section.origin.map)
    }

    /// Returns the tags that there are, ascending.
    pub fn tags(&self) -> Vec<u8> {
        let tags: BTreeSet<u8> = self
            .sections
            .iter()
            .map(|section| section.origin.tag)
            .collect();
        tags.into_iter().collect()
    }

    /// Returns the sections with this tag, in the order of the maps.
    pub fn tagged(&self, tag: u8) -> impl Iterator<Item = &Section> {
        self.sections
            .iter()
            .filter(move |section| section.origin.tag == tag)
    }

    /// Returns the tally that the maps of this tag counted.
    pub fn sent(&self, tag: u8) -> Tally {
        self.tagged(tag)
            .fold(Tally::default(), |sum, section| sum.and(section.tally))
    }

    /// Returns the bytes behind the header of a section.
    pub fn bytes(&self, section: &Section) -> &[u8] {
        &self.slices[section.slice][section.range.clone()]
    }

    /// Returns the same bytes, as a buffer that keeps the slice alive.
    pub fn buffer(&self, section: &Section) -> Buffer {
        self.slices[section.slice].slice_with_length(section.range.start, section.range.len())
    }

    pub(crate) fn slices(&self) -> &[Buffer] {
        &self.slices
    }

    /// Returns why the rows handed on are not those sent, if they are not. The reason is the first section whose bytes
    /// differ from its map's count, or else what happened to rows later. `recount` counts a section again; it returns
    /// nothing for bytes that cannot be counted.
    pub fn compare(
        &self,
        tag: u8,
        handed_on: Tally,
        recount: impl Fn(&Section) -> Option<Tally>,
    ) -> Result<(), CheckError> {
        let sent = self.sent(tag);
        if sent == handed_on {
            return Ok(());
        }
        self.intact(tag, recount)?;
        let (expected, actual) = (sent.rows(), handed_on.rows());
        Err(if expected == actual {
            CheckError::Content { rows: expected }
        } else {
            CheckError::Rows { expected, actual }
        })
    }

    /// Checks that the bytes of all sections of a tag are those that their maps counted; the error names the first one
    /// that differs.
    pub fn intact(
        &self,
        tag: u8,
        recount: impl Fn(&Section) -> Option<Tally>,
    ) -> Result<(), CheckError> {
        let mut sections = self.tagged(tag);
        match sections.find(|section| recount(section) != Some(section.tally)) {
            Some(section) => Err(CheckError::Changed {
                map: section.origin.map,
            }),
            None => Ok(()),
        }
    }
}

/// Appends the sections of a slice.
fn parse(index: usize, slice: &[u8], sections: &mut Vec<Section>) -> Result<(), CheckError> {
    let mut at = 0;
    while at < slice.len() {
        let unreadable = |reason| CheckError::Unreadable {
            slice: index,
            offset: at,
            reason,
        };
        let cut = || unreadable("a section is cut off");
        let mut header: [u8; HEADER_BYTES] = *slice[at..].first_chunk().ok_or_else(cut)?;
        let check = header[CHECK].to_vec();
        header[CHECK].fill(0);
        if header_check(&header)[..] != check {
            return Err(unreadable("the header of a section was changed"));
        }
        let (words, _) = header.as_chunks::<8>();
        let [names, partition, rows, sum, bytes] =
            [0, 1, 2, 3, 4].map(|i| u64::from_le_bytes(words[i]));
        let start = at + HEADER_BYTES;
        let end = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| start.checked_add(bytes))
            .filter(|&end| end <= slice.len())
            .ok_or_else(cut)?;
        sections.push(Section {
            origin: Origin {
                tag: names as u8,
                map: (names >> 32) as u32,
                partition: partition as u32,
            },
            tally: Tally::new(rows, sum),
            slice: index,
            range: start..end,
        });
        at = end;
    }
    Ok(())
}

/// Checks that there is one section of each map, in order; reports the most telling fault first.
fn check_order(sections: &[Section], maps: Range<u32>) -> Result<(), CheckError> {
    let found = || sections.iter().map(|section| section.origin.map);
    if found().eq(maps.clone()) {
        return Ok(());
    }
    let mut seen = BTreeSet::new();
    for map in found() {
        if !maps.contains(&map) {
            return Err(CheckError::Unknown {
                map,
                first: maps.start,
                last: maps.end.saturating_sub(1),
            });
        }
        if !seen.insert(map) {
            return Err(CheckError::Repeated { map });
        }
    }
    let missing = (maps.len() - seen.len()) as u64;
    if let Some(map) = maps.clone().find(|map| !seen.contains(map)) {
        return Err(CheckError::Missing {
            map,
            count: missing,
        });
    }
    check_ascent(sections)
}

/// Checks that sections are in the order of their maps, and that each map is there once.
fn check_ascent(sections: &[Section]) -> Result<(), CheckError> {
    let found = || sections.iter().map(|section| section.origin.map);
    match found()
        .zip(found().skip(1))
        .find(|(before, map)| before >= map)
    {
        Some((before, map)) if before == map => Err(CheckError::Repeated { map }),
        Some((before, map)) => Err(CheckError::Misplaced { map, before }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(tag: u8, map: u32, rows: &[&[u8]]) -> Vec<u8> {
        let mut tally = Tally::default();
        tally.add_rows(rows.iter().copied());
        let mut bytes = [vec![0xEE; HEADER_BYTES], rows.concat()].concat();
        let origin = Origin {
            tag,
            map,
            partition: 3,
        };
        write_header(origin, tally, &mut bytes);
        bytes
    }

    #[test]
    fn headers_are_read_as_they_were_written() {
        let merged = [slice(255, 7, &[b"ab", b"c"]), slice(0, 8, &[])].concat();
        assert_eq!(merged[..12], [255, 0, 0, 0, 7, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(merged[16..24], [2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(merged[32..43], *b"\x03\0\0\0\0\0\0\0abc");
        let last = slice(255, u32::MAX - 1, &[b"d"]);
        let slices = [merged.clone(), Vec::new(), last].map(|slice| Buffer::from(slice.as_slice()));
        let mut sections = Vec::new();
        for (index, slice) in slices.iter().enumerate() {
            parse(index, slice, &mut sections).unwrap();
        }
        let found: Vec<_> = sections
            .iter()
            .map(|s| {
                let Origin { tag, map, .. } = s.origin;
                (tag, map, s.tally.rows(), s.slice, s.range.clone())
            })
            .collect();
        let expected = [
            (255, 7, 2, 0, 40..43),
            (0, 8, 0, 0, 83..83),
            (255, u32::MAX - 1, 1, 2, 40..41),
        ];
        assert_eq!(found, expected);
        let opened = Sections::open(slices[..2].to_vec(), 3, Some(7), Some(9)).unwrap();
        assert_eq!((opened.len(), opened.tags()), (2, vec![0, 255]));
        assert_eq!(opened.sent(255), sections[0].tally);
        assert_eq!(opened.sent(0), Tally::default());
        assert_eq!(opened.bytes(&sections[0]), b"abc");
        assert!(Sections::open(Vec::new(), 3, Some(0), Some(0))
            .unwrap()
            .is_empty());
        let elsewhere = Sections::open(slices[..2].to_vec(), 4, Some(7), Some(9)).unwrap_err();
        let named = CheckError::Elsewhere {
            map: 7,
            partition: 3,
        };
        assert_eq!(elsewhere, named);
    }

    #[test]
    fn cut_and_changed_headers_are_refused() {
        let good = [slice(1, 0, &[b"abc"]), slice(2, 1, &[b"defgh"])].concat();
        let opens = |bytes: &[u8]| {
            Sections::open(vec![Buffer::from(bytes)], 3, Some(0), None).map(|s| s.len())
        };
        assert_eq!(opens(&good), Ok(2));
        let second = HEADER_BYTES + 3;
        for cut in (1..good.len()).filter(|&cut| cut != second) {
            assert!(opens(&good[..cut]).is_err(), "cut at {cut}");
        }
        for at in (0..HEADER_BYTES).chain(second..second + HEADER_BYTES) {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(opens(&bad).is_err(), "bit {bit} of byte {at}");
            }
        }
    }
}
