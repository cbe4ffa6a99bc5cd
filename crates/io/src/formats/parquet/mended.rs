//! Mends footers that other readers take, and the decoder does not.
//!
//! fastparquet writes an empty list, such as that of the row groups of a table without rows, as one of no type. Some writers
//! put bytes into the metadata of a file that are no UTF-8. Guarantee: only such lists and texts change, each in its place.

const STRUCT: u8 = 12;
/// A list of no elements of no type, and one of no structures.
const NOTHING: u8 = 0;
const NO_STRUCTS: u8 = STRUCT;
/// Takes the place of a byte that is no UTF-8.
const UNKNOWN: u8 = b'?';
/// Levels of structures and lists in a footer: none is so deep.
const MOST_LEVELS: u8 = 16;

/// Fields of the footer that are lists of structures; the pairs of metadata are one of them.
const LISTS: [u64; 4] = [2, 4, 5, 7];
const PAIRS: u64 = 5;

/// Returns the footer as the decoder takes it; `None` if there is nothing to mend, or if it is no footer.
pub(super) fn mended(footer: &[u8]) -> Option<Vec<u8>> {
    let mut walk = Walk {
        bytes: footer.to_vec(),
        at: 0,
        is_mended: false,
    };
    let mut last = 0;
    while let Some((field, kind)) = walk.field(&mut last)? {
        if kind == 9 && LISTS.contains(&field) && walk.bytes.get(walk.at) == Some(&NOTHING) {
            walk.bytes[walk.at] = NO_STRUCTS;
            walk.is_mended = true;
        }
        match (field, kind) {
            (PAIRS, 9) => walk.pairs()?,
            _ => walk.skip(kind, MOST_LEVELS)?,
        }
    }
    walk.is_mended.then_some(walk.bytes)
}

/// Goes through a structure of Thrift in the compact protocol. `None` stands for bytes that are none.
struct Walk {
    bytes: Vec<u8>,
    at: usize,
    is_mended: bool,
}

impl Walk {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(value);
            }
        }
        None
    }

    fn pass(&mut self, bytes: u64) -> Option<()> {
        let end = self.at.checked_add(usize::try_from(bytes).ok()?)?;
        self.at = Some(end).filter(|&end| end <= self.bytes.len())?;
        Some(())
    }

    /// Number and type of the next field of a structure; the inner `None` is its end.
    fn field(&mut self, last: &mut u64) -> Option<Option<(u64, u8)>> {
        let first = self.byte()?;
        let (step, kind) = (u64::from(first >> 4), first & 15);
        if kind == 0 {
            return Some(None);
        }
        *last = if step == 0 {
            self.varint()? >> 1
        } else {
            *last + step
        };
        Some(Some((*last, kind)))
    }

    /// Number and type of the elements of a list.
    fn list(&mut self) -> Option<(u64, u8)> {
        let first = self.byte()?;
        let count = match first >> 4 {
            15 => self.varint()?,
            count => u64::from(count),
        };
        Some((count, first & 15))
    }

    /// Goes through the pairs of metadata.
    fn pairs(&mut self) -> Option<()> {
        let (count, kind) = self.list()?;
        for _ in 0..count {
            let mut last = 0;
            while let Some((_, kind)) = self.field(&mut last)? {
                match kind {
                    8 => self.text()?,
                    _ => self.skip(kind, MOST_LEVELS)?,
                }
            }
        }
        (count == 0 || kind == STRUCT).then_some(())
    }

    fn text(&mut self) -> Option<()> {
        let length = self.varint()?;
        let mut start = self.at;
        self.pass(length)?;
        while let Err(error) = std::str::from_utf8(&self.bytes[start..self.at]) {
            start += error.valid_up_to();
            self.bytes[start] = UNKNOWN;
            self.is_mended = true;
        }
        Some(())
    }

    fn skip(&mut self, kind: u8, levels: u8) -> Option<()> {
        let levels = levels.checked_sub(1)?;
        match kind {
            1 | 2 => Some(()),
            3 => self.pass(1),
            4..=6 => self.varint().map(drop),
            7 => self.pass(8),
            8 => {
                let length = self.varint()?;
                self.pass(length)
            }
            9 | 10 => {
                let (count, kind) = self.list()?;
                for _ in 0..count {
                    match kind {
                        // In a list, these have a byte each.
                        1 | 2 => self.pass(1)?,
                        _ => self.skip(kind, levels)?,
                    }
                }
                Some(())
            }
            STRUCT => {
                let mut last = 0;
                while let Some((_, kind)) = self.field(&mut last)? {
                    self.skip(kind, levels)?;
                }
                Some(())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version 1, a schema of one element (a name of one byte), no rows, these row groups, and this pair.
    fn footer(groups: &[u8], key: &[u8]) -> Vec<u8> {
        let mut made = vec![0x15, 2, 0x19, 0x1c, 0x48, 1, b's', 0, 0x16, 0, 0x19];
        made.extend(groups);
        made.extend([0x19, 0x1c, 0x18, key.len() as u8]);
        made.extend(key);
        made.extend([0, 0]);
        made
    }

    #[test]
    fn lists_of_nothing_are_lists_of_no_structures() {
        let wanted = footer(&[0x0c], b"key");
        assert_eq!(mended(&footer(&[0], b"key")), Some(wanted.clone()));
        assert_eq!(mended(&wanted), None);
    }

    #[test]
    fn texts_become_utf_8_in_their_place() {
        let wanted = footer(&[0x0c], "k?\u{e9}?".as_bytes());
        let given = footer(&[0x0c], b"k\xff\xc3\xa9\xe9");
        assert_eq!(mended(&given), Some(wanted));
    }

    #[test]
    fn what_is_no_footer_is_left_alone() {
        let whole = footer(&[0], b"k\xff");
        assert!(mended(&whole).is_some());
        for length in 0..whole.len() {
            assert_eq!(mended(&whole[..length]), None);
        }
        let deep = [0x1c; 100];
        assert_eq!(mended(&deep), None);
        let endless = [0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert_eq!(mended(&endless), None);
    }
}
