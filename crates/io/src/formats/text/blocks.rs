//! Text in blocks of 64 bytes, as masks: bit `i` stands for byte `i`. So a fact about each byte, or about its
//! neighbours, is found for 64 bytes at once.

use wide::u8x16;

pub(super) const BLOCK_BYTES: usize = 64;

/// The bytes of a block, with operations on all of them at once.
pub(super) trait Bytes: Copy {
    fn load(bytes: &[u8; BLOCK_BYTES]) -> Self;
    fn splat(byte: u8) -> Self;
    /// Sets all bits of the bytes that are equal, and none of the others.
    fn equal(self, other: Self) -> Self;
    fn smaller(self, other: Self) -> Self;
    /// Subtracts, and wraps around.
    fn minus(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    /// Returns the highest bit of each byte.
    fn mask(self) -> u64;
}

/// The bytes of a block on any processor.
#[derive(Clone, Copy)]
pub(super) struct Portable([u8x16; 4]);

impl Portable {
    #[inline(always)]
    fn zip(self, other: Self, combine: impl Fn(u8x16, u8x16) -> u8x16) -> Self {
        Self([0, 1, 2, 3].map(|quarter| combine(self.0[quarter], other.0[quarter])))
    }
}

impl Bytes for Portable {
    #[inline(always)]
    fn load(bytes: &[u8; BLOCK_BYTES]) -> Self {
        let (quarters, _) = bytes.as_chunks();
        Self([0, 1, 2, 3].map(|quarter| u8x16::new(quarters[quarter])))
    }

    #[inline(always)]
    fn splat(byte: u8) -> Self {
        Self([u8x16::splat(byte); 4])
    }

    #[inline(always)]
    fn equal(self, other: Self) -> Self {
        self.zip(other, u8x16::simd_eq)
    }

    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        self.zip(other, u8x16::min)
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    #[inline(always)]
    fn mask(self) -> u64 {
        let masks = self.0.map(|quarter| u64::from(quarter.to_bitmask()));
        masks[0] | masks[1] << 16 | masks[2] << 32 | masks[3] << 48
    }
}

pub(super) struct Block<B> {
    bytes: B,
    /// Where the text begins in the block: a text shorter than a block has blanks before it.
    pub(super) first: u32,
}

impl<B: Bytes> Block<B> {
    #[inline(always)]
    pub(super) fn whole(bytes: &[u8; BLOCK_BYTES]) -> Self {
        Self {
            bytes: B::load(bytes),
            first: 0,
        }
    }

    /// Makes a block of less text.
    #[inline(always)]
    pub(super) fn part(bytes: &[u8]) -> Self {
        let first = BLOCK_BYTES - bytes.len();
        let mut padded = [b' '; BLOCK_BYTES];
        padded[first..].copy_from_slice(bytes);
        Self {
            bytes: B::load(&padded),
            first: first as u32,
        }
    }

    /// Finds the bytes that equal this one.
    #[inline(always)]
    pub(super) fn equal(&self, byte: u8) -> u64 {
        self.bytes.equal(B::splat(byte)).mask()
    }

    /// Finds the bytes that equal one of these.
    #[inline(always)]
    pub(super) fn one_of<const N: usize>(&self, bytes: [u8; N]) -> u64 {
        let mut found = B::splat(0);
        for byte in bytes {
            found = found.or(self.bytes.equal(B::splat(byte)));
        }
        found.mask()
    }

    /// Finds the control characters of ASCII but for the last.
    #[inline(always)]
    pub(super) fn controls(&self) -> u64 {
        at_most(self.bytes, b' ' - 1)
    }

    #[inline(always)]
    pub(super) fn digits(&self) -> u64 {
        at_most(self.bytes.minus(B::splat(b'0')), 9)
    }
}

/// Finds the bytes that are at most this one.
#[inline(always)]
fn at_most<B: Bytes>(bytes: B, most: u8) -> u64 {
    bytes.smaller(B::splat(most)).equal(bytes).mask()
}

/// Carries a fact about the first bytes of the next block over from the blocks before.
#[derive(Debug, Default)]
pub(super) struct Carry(u64);

impl Carry {
    pub(super) const SET: Self = Self(1);

    pub(super) fn is_set(&self) -> bool {
        self.0 != 0
    }

    /// Finds the bytes that stand right behind those of a mask.
    #[inline(always)]
    pub(super) fn behind(&mut self, mask: u64, first: u32) -> u64 {
        let behind = mask << 1 | self.0 << first;
        self.0 = mask >> 63;
        behind
    }

    /// Finds the first bytes behind those of a mask that are not in `between`. `between` has no byte of the mask.
    #[inline(always)]
    pub(super) fn next(&mut self, mask: u64, between: u64, first: u32) -> u64 {
        // An addition carries through a run of bits to the bit behind it.
        let (next, overflows) = self.behind(mask, first).overflowing_add(between);
        self.0 |= u64::from(overflows);
        next & !between
    }

    /// Finds the bytes behind an escape; escapes may be escaped.
    #[inline(always)]
    pub(super) fn escaped(&mut self, escapes: u64, first: u32) -> u64 {
        let mut escaped = self.0 << first;
        self.0 = 0;
        let mut left = escapes & !escaped;
        while left != 0 {
            let escape = left & left.wrapping_neg();
            escaped |= escape << 1;
            self.0 = escape >> 63;
            left &= !(escape | escape << 1);
        }
        escaped
    }

    /// Finds the bytes from each opening quote to before the closing one.
    #[inline(always)]
    pub(super) fn within(&mut self, quotes: u64) -> u64 {
        let mut within = quotes;
        for distance in [1, 2, 4, 8, 16, 32] {
            within ^= within << distance;
        }
        within ^= self.0.wrapping_neg();
        self.0 = within >> 63;
        within
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the findings of a function in a text that comes in pieces of so many bytes.
    fn found(
        text: &[u8],
        piece: usize,
        mut find: impl FnMut(&Block<Portable>) -> u64,
    ) -> Vec<bool> {
        let mut found = Vec::new();
        for part in text.chunks(piece) {
            let (whole, rest) = part.as_chunks();
            let whole = whole.iter().map(Block::whole);
            let rest = (!rest.is_empty()).then(|| Block::part(rest));
            for block in whole.chain(rest) {
                let mask = find(&block);
                found.extend((block.first..64).map(|bit| mask >> bit & 1 == 1));
            }
        }
        found
    }

    proptest! {
        #[test]
        fn masks_are_what_one_byte_after_another_tells(
            text in prop::collection::vec(prop::sample::select(&b"a\"\\ "[..]), 0..300),
            piece in 1_usize..200,
        ) {
            let (mut behind, mut next, mut escaped, mut within) = <(Vec<_>, Vec<_>, Vec<_>, Vec<_>)>::default();
            let (mut is_behind, mut is_next, mut is_escaped, mut is_within) = (false, false, false, false);
            for &byte in &text {
                behind.push(is_behind);
                next.push(is_next && byte != b' ');
                escaped.push(is_escaped);
                is_within ^= byte == b'"';
                within.push(is_within);
                is_behind = byte == b'a';
                is_next = is_behind || is_next && byte == b' ';
                is_escaped = !is_escaped && byte == b'\\';
            }
            let mut carry = Carry::default();
            prop_assert_eq!(found(&text, piece, |block| carry.behind(block.equal(b'a'), block.first)), behind);
            let mut carry = Carry::default();
            prop_assert_eq!(
                found(&text, piece, |block| carry.next(block.equal(b'a'), block.equal(b' '), block.first)),
                next
            );
            let mut carry = Carry::default();
            prop_assert_eq!(found(&text, piece, |block| carry.escaped(block.equal(b'\\'), block.first)), escaped);
            let mut carry = Carry::default();
            prop_assert_eq!(found(&text, piece, |block| carry.within(block.equal(b'"'))), within);
        }

        #[test]
        fn bytes_are_told_apart(text in prop::collection::vec(any::<u8>(), 0..200), byte: u8, other: u8) {
            let expected = |is: &dyn Fn(u8) -> bool| text.iter().map(|&byte| is(byte)).collect::<Vec<_>>();
            prop_assert_eq!(found(&text, 70, |block| block.equal(byte)), expected(&|b| b == byte));
            prop_assert_eq!(found(&text, 70, |block| block.one_of([byte, other])), expected(&|b| b == byte || b == other));
            prop_assert_eq!(found(&text, 70, Block::controls), expected(&|b| b < 32));
            prop_assert_eq!(found(&text, 70, Block::digits), expected(&|b| b.is_ascii_digit()));
        }
    }
}
