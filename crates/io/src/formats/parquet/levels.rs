//! Reads the levels of a page, which say where rows begin and which values are missing: runs of one level, or packed bits.
//!
//! Guarantee: these are the levels that the decoder finds; its own reader is not public. Nothing is allocated.

/// Levels in their order. They end early where the bytes are invalid.
#[derive(Debug, Clone)]
pub(super) struct Levels<'a> {
    rest: &'a [u8],
    width: u32,
    run: Run<'a>,
    left: u64,
}

#[derive(Debug, Clone, Copy)]
enum Run<'a> {
    /// One level that repeats.
    Same(u16),
    /// Levels packed in these bytes, from this bit on.
    Packed(&'a [u8], usize),
}

impl<'a> Levels<'a> {
    /// The levels in a page's bytes, for a column in which no level is above `most`.
    pub(super) fn of(most: i16, bytes: &'a [u8]) -> Self {
        let width = (most.max(0) as u16)
            .checked_ilog2()
            .map_or(0, |log| log + 1);
        Self {
            rest: bytes,
            width,
            run: Run::Same(0),
            // Pages store no levels for a column that has only one.
            left: if width == 0 { u64::MAX } else { 0 },
        }
    }

    /// Whether the first `count` levels, none of which was read yet, are one run of this level.
    pub(super) fn are_all(&self, level: u16, count: u32) -> bool {
        let mut first = self.clone();
        let is_there = first.left > 0 || first.run().is_some();
        let is_same = matches!(first.run, Run::Same(found) if found == level);
        is_there && is_same && first.left >= u64::from(count)
    }

    /// Goes on to the next run.
    fn run(&mut self) -> Option<()> {
        let header = self.varint()?;
        let count = header >> 1;
        if header & 1 == 0 {
            let bytes = self.width.div_ceil(8) as usize;
            let level = self.rest.get(..bytes)?;
            self.rest = &self.rest[bytes..];
            let level = level
                .iter()
                .rev()
                .fold(0, |level, &byte| level << 8 | u16::from(byte));
            (self.run, self.left) = (Run::Same(level), count);
        } else {
            // Packed levels come in groups of eight.
            let bytes = usize::try_from(count.checked_mul(u64::from(self.width))?).ok()?;
            // The last run may end with its last level.
            let (packed, rest) = self.rest.split_at(bytes.min(self.rest.len()));
            self.rest = rest;
            (self.run, self.left) = (Run::Packed(packed, 0), count.checked_mul(8)?);
        }
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(value);
            }
        }
        None
    }
}

impl Iterator for Levels<'_> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        while self.left == 0 {
            self.run()?;
        }
        self.left -= 1;
        match &mut self.run {
            Run::Same(level) => Some(*level),
            Run::Packed(bytes, bit) => {
                let (start, shift) = (*bit / 8, *bit % 8);
                *bit += self.width as usize;
                let bytes = bytes.get(start..bit.div_ceil(8))?;
                let word =
                    { bytes.iter().rev() }.fold(0, |word, &byte| word << 8 | u32::from(byte));
                Some((word >> shift & ((1 << self.width) - 1)) as u16)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_from_runs_and_from_bits() {
        // Five times 1, eight levels of a bit, twice 0.
        let bytes = [10, 1, 3, 0b1010_0110, 4, 0];
        let found: Vec<u16> = Levels::of(1, &bytes).collect();
        assert_eq!(found, [1, 1, 1, 1, 1, 0, 1, 1, 0, 0, 1, 0, 1, 0, 0]);
        // Eight levels of three bits: 0 to 7, the lowest first.
        let bytes = [3, 0b1000_1000, 0b1100_0110, 0b1111_1010];
        let found: Vec<u16> = Levels::of(5, &bytes).collect();
        assert_eq!(found, [0, 1, 2, 3, 4, 5, 6, 7]);
        // Wider ones have two bytes in a run.
        let found: Vec<u16> = Levels::of(300, &[4, 44, 1]).collect();
        assert_eq!(found, [300, 300]);
    }

    #[test]
    fn columns_without_levels_have_as_many_as_wanted() {
        assert_eq!(Levels::of(0, &[]).take(1000).sum::<u16>(), 0);
        assert_eq!(Levels::of(0, &[]).take(1000).count(), 1000);
    }

    #[test]
    fn one_run_is_told_from_several() {
        assert!(Levels::of(1, &[10, 1]).are_all(1, 5));
        assert!(!Levels::of(1, &[10, 1]).are_all(1, 6));
        assert!(!Levels::of(1, &[10, 0]).are_all(1, 5));
        assert!(!Levels::of(1, &[3, 0xff]).are_all(1, 5));
        assert!(!Levels::of(1, &[]).are_all(1, 5));
        assert!(Levels::of(0, &[]).are_all(0, u32::MAX));
    }

    #[test]
    fn what_is_cut_ends_early() {
        // The last run has two levels of its eight.
        assert_eq!(
            Levels::of(7, &[3, 0b00_010_001]).collect::<Vec<_>>(),
            [1, 2]
        );
        assert_eq!(Levels::of(1, &[10]).count(), 0);
        assert_eq!(Levels::of(1, &[0xff; 20]).count(), 0);
        assert_eq!(Levels::of(3, &[0, 1, 0, 1]).count(), 0);
    }
}
