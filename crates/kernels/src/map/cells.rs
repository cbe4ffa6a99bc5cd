//! Searching boundaries by a table: the cell of a word tells which boundaries are near it, mostly none.
//!
//! Halving takes seven steps for a hundred boundaries. The table takes one look-up, and one comparison for the few
//! words that share their cell with a boundary.

use std::ops::Range;

/// Table cells per boundary. They are few enough to stay in the first-level cache for hundreds of partitions. They are
/// enough that a random key rarely shares its cell with a boundary.
const CELLS_PER_BOUNDARY: usize = 16;
/// With more cells than this the table would outgrow the second-level cache.
const MAX_CELLS: usize = 1 << 17;

/// A table over the range of some sorted words.
#[derive(Clone, Debug)]
pub(crate) struct Cells {
    least: u64,
    shift: u32,
    /// The words in cell `c` are `starts[c]..starts[c + 1]`.
    starts: Vec<u32>,
}

impl Cells {
    pub(crate) fn new(words: &[u64]) -> Self {
        let least = words.first().copied().unwrap_or(0);
        let span = words.last().copied().unwrap_or(0) - least;
        let cells = (words.len() * CELLS_PER_BOUNDARY)
            .next_power_of_two()
            .clamp(2, MAX_CELLS);
        let shift = (u64::BITS - span.leading_zeros()).saturating_sub(cells.ilog2());
        let mut starts = vec![0; cells + 1];
        for word in words {
            starts[((word - least) >> shift) as usize + 1] += 1;
        }
        for c in 0..cells {
            starts[c + 1] += starts[c];
        }
        Self {
            least,
            shift,
            starts,
        }
    }

    /// Returns which of the words may be equal to `word` or on either side of it; all words before these are less.
    ///
    /// A word below the first cell is less than all words. It may use the first cell, which holds the least word. A
    /// word above the last cell may use the last cell.
    #[inline(always)]
    pub(crate) fn range(&self, word: u64) -> Range<usize> {
        let last = self.starts.len() as u64 - 2;
        let cell = (word.saturating_sub(self.least) >> self.shift).min(last) as usize;
        self.starts[cell] as usize..self.starts[cell + 1] as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_holds_all_that_may_be_near() {
        for words in [
            vec![],
            vec![5],
            vec![0, u64::MAX],
            vec![7, 7, 7],
            (0..300).map(|i| i * i).collect(),
            (0..300).map(|i| u64::MAX - 299 * 299 + i * i).collect(),
        ] {
            let cells = Cells::new(&words);
            let near = |w: &u64| [w.saturating_sub(1), *w, w.saturating_add(1)];
            for word in words.iter().flat_map(near).chain([0, 6, u64::MAX]) {
                let range = cells.range(word);
                assert!(words[..range.start].iter().all(|&w| w < word), "{word}");
                assert!(words[range.end..].iter().all(|&w| w > word), "{word}");
            }
        }
    }
}
