//! Reads numbers of DELTA_BINARY_PACKED where they lie: lengths at the beginning of a page, without the values behind them.
//!
//! Guarantee: these are the numbers that the decoder finds; its own reader is not public. Nothing is allocated.

/// Numbers are packed in multiples of this many.
const UNIT: usize = 32;
/// No number is wider.
const MOST_BITS: u8 = 32;

/// The numbers that bytes begin with, in their order. They end early where the bytes are invalid.
#[derive(Debug, Clone, Default)]
pub(super) struct Lengths<'a> {
    /// The bytes that were not read yet, behind the current part.
    rest: &'a [u8],
    /// How many numbers are to come.
    left: usize,
    /// The number before, or the first one.
    last: i32,
    is_first: bool,
    /// The number of parts of a block, and of numbers in each part.
    parts: usize,
    part_numbers: usize,
    /// The smallest step and the widths of this block.
    least_step: i32,
    widths: &'a [u8],
    /// The numbers of this part.
    packed: Packed<'a>,
}

/// Numbers of a few bits each.
#[derive(Debug, Clone, Copy, Default)]
struct Packed<'a> {
    bytes: &'a [u8],
    bit: usize,
    width: u8,
    left: usize,
}

impl<'a> Lengths<'a> {
    /// Reads the header; `None` if the bytes do not begin with such numbers.
    pub(super) fn of(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        let block = usize::try_from(varint(&mut rest)?).ok()?;
        let parts = usize::try_from(varint(&mut rest)?).ok()?;
        let left = usize::try_from(varint(&mut rest)?).ok()?;
        let last = i32::try_from(signed(&mut rest)?).ok()?;
        let part_numbers = block.checked_div(parts)?;
        let is_even = part_numbers * parts == block && part_numbers.is_multiple_of(UNIT);
        (is_even && part_numbers > 0).then_some(Self {
            rest,
            left,
            last,
            is_first: true,
            parts,
            part_numbers,
            ..Self::default()
        })
    }

    /// How many numbers are to come.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// The bytes behind the numbers, if none of these was read yet.
    pub(super) fn behind(&self) -> Option<&'a [u8]> {
        let mut blocks = self.clone();
        blocks.left = blocks.left.saturating_sub(1);
        while blocks.left > 0 {
            blocks.block()?;
            for &width in blocks.widths {
                if blocks.left > 0 {
                    let bytes = blocks.part_bytes(width)?;
                    blocks.rest = blocks.rest.get(bytes..)?;
                    blocks.left = blocks.left.saturating_sub(blocks.part_numbers);
                }
            }
        }
        Some(blocks.rest)
    }

    /// Goes on to the next block.
    fn block(&mut self) -> Option<()> {
        self.least_step = i32::try_from(signed(&mut self.rest)?).ok()?;
        self.widths = self.rest.get(..self.parts)?;
        self.rest = &self.rest[self.parts..];
        Some(())
    }

    /// Goes on to the next part with numbers.
    fn part(&mut self) -> Option<()> {
        if self.widths.is_empty() {
            self.block()?;
        }
        let (&width, widths) = self.widths.split_first()?;
        let bytes = self.part_bytes(width)?;
        // The last part may end with its last number.
        let (bytes, rest) = self.rest.split_at(bytes.min(self.rest.len()));
        (self.widths, self.rest) = (widths, rest);
        self.packed = Packed {
            bytes,
            bit: 0,
            width,
            left: self.part_numbers,
        };
        Some(())
    }

    fn part_bytes(&self, width: u8) -> Option<usize> {
        let bits = self.part_numbers.checked_mul(usize::from(width))?;
        (width <= MOST_BITS).then_some(bits / 8)
    }
}

impl Iterator for Lengths<'_> {
    type Item = i32;

    fn next(&mut self) -> Option<i32> {
        self.left.checked_sub(1)?;
        if self.is_first {
            self.is_first = false;
        } else {
            if self.packed.left == 0 {
                self.part()?;
            }
            let step = self.packed.next()?;
            let step = (step as i32).wrapping_add(self.least_step);
            self.last = self.last.wrapping_add(step);
        }
        self.left -= 1;
        Some(self.last)
    }
}

impl Packed<'_> {
    fn next(&mut self) -> Option<u32> {
        if self.width == 0 {
            self.left -= 1;
            return Some(0);
        }
        let (start, end) = (self.bit / 8, self.bit + usize::from(self.width));
        let word = match self.bytes.get(start..start + 8) {
            Some(word) => u64::from_le_bytes(word.try_into().ok()?),
            None if end.div_ceil(8) <= self.bytes.len() => {
                let bytes = self.bytes[start..].iter().rev();
                bytes.fold(0, |word, &byte| word << 8 | u64::from(byte))
            }
            None => return None,
        };
        let number = word >> (self.bit % 8) & ((1 << self.width) - 1);
        (self.bit, self.left) = (end, self.left - 1);
        Some(number as u32)
    }
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, behind) = rest.split_first()?;
        *rest = behind;
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Some(value);
        }
    }
    None
}

/// Decodes a zigzag number: 0, -1, 1, -2 …
fn signed(rest: &mut &[u8]) -> Option<i64> {
    let value = varint(rest)?;
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of 128 numbers in 4 parts; each step is as wide as asked for.
    fn packed(numbers: &[i32], width: u8) -> Vec<u8> {
        let mut bytes = vec![0x80, 1, 4];
        unsigned(numbers.len() as u64, &mut bytes);
        zigzag(numbers.first().copied().unwrap_or(0), &mut bytes);
        let steps: Vec<i32> = { numbers.windows(2) }
            .map(|pair| pair[1].wrapping_sub(pair[0]))
            .collect();
        for block in steps.chunks(128) {
            let least = *block.iter().min().unwrap();
            zigzag(least, &mut bytes);
            bytes.extend([width; 4]);
            for part in block.chunks(32) {
                let mut bits = vec![0_u8; 4 * usize::from(width)];
                for (place, step) in part.iter().enumerate() {
                    let step = step.wrapping_sub(least) as u32;
                    for bit in (0..usize::from(width)).filter(|bit| step >> bit & 1 == 1) {
                        let at = place * usize::from(width) + bit;
                        bits[at / 8] |= 1 << (at % 8);
                    }
                }
                bytes.extend(bits);
            }
        }
        bytes
    }

    fn unsigned(mut value: u64, bytes: &mut Vec<u8>) {
        while value >= 128 {
            bytes.push(value as u8 | 128);
            value >>= 7;
        }
        bytes.push(value as u8);
    }

    fn zigzag(value: i32, bytes: &mut Vec<u8>) {
        let value = i64::from(value);
        unsigned(((value << 1) ^ (value >> 63)) as u64, bytes);
    }

    #[test]
    fn numbers_are_those_that_were_packed() {
        for (count, width) in [
            (0, 0),
            (1, 7),
            (2, 5),
            (33, 9),
            (128, 32),
            (129, 13),
            (1000, 20),
        ] {
            let numbers: Vec<i32> = (0..count).map(|i| i * 7 % 31 * (i % 3)).collect();
            let width = if count > 2 { width } else { 9 };
            let bytes = [&packed(&numbers, width)[..], b"behind"].concat();
            let found = Lengths::of(&bytes).unwrap();
            assert_eq!(found.behind(), Some(&b"behind"[..]), "{count}");
            assert_eq!(found.left(), numbers.len());
            assert_eq!(found.collect::<Vec<_>>(), numbers);
        }
    }

    #[test]
    fn equal_steps_take_no_bits() {
        let numbers: Vec<i32> = (0..300).map(|i| 5 * i).collect();
        let bytes = packed(&numbers, 0);
        assert_eq!(Lengths::of(&bytes).unwrap().collect::<Vec<_>>(), numbers);
    }

    #[test]
    fn the_last_part_may_end_with_its_last_number() {
        let numbers: Vec<i32> = (0..40).map(|i| i * i).collect();
        let mut bytes = packed(&numbers, 16);
        // 7 of the 32 numbers of the second part.
        bytes.truncate(bytes.len() - 25 * 2);
        assert_eq!(Lengths::of(&bytes).unwrap().collect::<Vec<_>>(), numbers);
    }

    #[test]
    fn what_is_cut_or_nonsense_ends_early() {
        let numbers: Vec<i32> = (0..500).map(|i| i % 17).collect();
        let bytes = packed(&numbers, 6);
        for end in 0..bytes.len() {
            let mut found = Lengths::of(&bytes[..end]).unwrap_or_default();
            let read = found.by_ref().count();
            assert!(read < 500 || found.left() == 0, "{end}");
        }
        // No parts; parts of 16 numbers; numbers of 33 bits; more numbers than there are.
        assert!(Lengths::of(&[0x80, 1, 0, 1, 0]).is_none());
        assert!(Lengths::of(&[0x80, 1, 8, 1, 0]).is_none());
        let wide = [0x80, 1, 4, 9, 0, 0, 33, 33, 33, 33, 0, 0];
        assert_eq!(Lengths::of(&wide).unwrap().count(), 1);
        assert!(Lengths::of(&wide).unwrap().behind().is_none());
        let many = [0xff; 64];
        assert!(Lengths::of(&many).is_none());
    }
}
