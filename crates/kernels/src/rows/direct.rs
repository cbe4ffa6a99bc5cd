//! Direct scatter: the rows of a random order go from each batch straight to the block.
//!
//! The numbers of rows tell their partitions before any row is read. So where all rows have one width, the block is laid
//! out first. No decoded columns are held, and those of a batch are still in the cache when its rows are written.

use crate::error::{KernelError, Result};
use crate::map::assignment::Assignment;
use crate::map::filling::Filling;
use crate::map::source::Sources;
use crate::mix::scale;
use crate::permutation::Permutation;
use crate::slices::sections::{slice_offsets, HEADER_BYTES};

use super::kind::RowKind;
use super::placed::{Placed, RowOrigin};

/// Numbers of rows that are counted at a time.
const COUNTED_ROWS: u64 = 1 << 14;

impl RowKind {
    /// Lays out the block of map number `map_index` before any row is read; `None` where the rows have to tell it. Pieces
    /// are the origin of a first row, and the number of rows from it on.
    ///
    /// # Errors
    /// A damaged assignment.
    pub fn plan_unread(
        &self,
        pieces: &[(RowOrigin, u64)],
        map_index: u32,
        assignment: &[u8],
    ) -> Result<Option<Direct>> {
        let Self::Permutation(permutation) = self else {
            return Ok(None);
        };
        let assignment = Assignment::from_bytes(permutation.layout(), assignment)?;
        Ok(Direct::plan(permutation, pieces, map_index, &assignment))
    }
}

/// The output of a map whose rows were not read yet.
pub struct Direct {
    permutation: Permutation,
    num_partitions: u64,
    offsets: Vec<u64>,
    rows: u64,
    tag: u8,
    map: u32,
}

impl Direct {
    /// Lays out the block of map number `map` for rows from these origins on. `None` where only the rows tell it: they
    /// differ in width, or do not go by even ranges of their numbers.
    fn plan(
        permutation: &Permutation,
        pieces: &[(RowOrigin, u64)],
        map: u32,
        assignment: &Assignment,
    ) -> Option<Self> {
        let width = permutation.layout().fixed_row_bytes()? as u64;
        let Assignment::Even(count) = assignment else {
            return None;
        };
        let num_partitions = count.get() as u64;
        let mut rows = vec![0_u64; count.get()];
        for &(origin, num_rows) in pieces {
            let (mut next, end) = (origin.row, origin.row + num_rows);
            while next < end {
                let stop = end.min(next + COUNTED_ROWS);
                for number in permutation.numbers(origin.source, next..stop) {
                    rows[scale(number, num_partitions) as usize] += 1;
                }
                next = stop;
            }
        }
        Some(Self {
            permutation: permutation.clone(),
            num_partitions,
            rows: rows.iter().sum(),
            offsets: slice_offsets(rows.into_iter().map(|rows| rows * width)),
            tag: 0,
            map,
        })
    }

    /// Marks the slices as coming from the input with this tag.
    #[must_use]
    pub fn tagged(self, tag: u8) -> Self {
        Self { tag, ..self }
    }

    /// Returns the slice offsets of the block.
    pub fn slice_offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// Returns the bytes of the rows: those of the block without the headers of slices.
    pub fn row_bytes(&self) -> u64 {
        let num_slices = self.offsets.len() - 1;
        self.offsets[num_slices] - (HEADER_BYTES * num_slices) as u64
    }

    /// Returns the bytes of each row.
    pub fn longest_row(&self) -> u64 {
        self.row_bytes() / self.rows.max(1)
    }

    /// Fills the block with the rows of all batches.
    ///
    /// # Errors
    /// Those of the batches; another size than the last offset says; other rows than were laid out.
    pub fn write<E: From<KernelError>>(
        &self,
        batches: impl Iterator<Item = Result<Placed, E>>,
        block: &mut [u8],
    ) -> Result<(), E> {
        let layout = self.permutation.layout();
        let mut filling = Filling::new(layout, &self.offsets, block)?;
        let mut partitions = Vec::new();
        for batch in batches {
            let (origin, batch) = batch?;
            let rows = origin.row..origin.row + batch.num_rows() as u64;
            let numbers = self.permutation.numbers(origin.source, rows);
            partitions.clear();
            let partition = |&number: &u64| scale(number, self.num_partitions) as u32;
            partitions.extend(numbers.iter().map(partition));
            let numbered = Permutation::with_numbers(&batch, numbers)?;
            filling.add(&Sources::try_new(layout, &numbered)?, &partitions)?;
        }
        Ok(filling.close(self.tag, self.map)?)
    }
}
