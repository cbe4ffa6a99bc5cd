//! The image of a block, the same in memory and on disk:
//!
//! ```text
//! [slice 0][slice 1] … [slice R-1] pad to 8 [index: R+1 entries of offset u64, crc32 u32, 0 u32] pad to 4096
//! ```
//!
//! Entry r holds where slice r starts and its checksum; entry R holds where the last slice ends. The index lives in the
//! block's own memory, so that M × R slices cost no heap and are spilled along with the data. Spilling fills in the
//! checksum. The checksum covers the bounds as well, so that an index of zeros does not pass for empty slices.

use crate::error::{Result, StoreError};
use crate::index::Index;
use crate::mapping::Mapping;

/// Alignment of everything that direct I/O touches.
pub const PAGE_BYTES: u64 = 4096;
/// Bytes of one index entry.
pub const ENTRY_BYTES: u64 = 16;
/// Blocks larger than this are nonsense; the limit keeps the arithmetic below from overflowing.
const MAX_DATA_BYTES: u64 = 1 << 48;

/// Where things are in the image of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) data_bytes: u64,
    pub(crate) num_slices: usize,
}

/// One slice inside the image: its bounds, and the checksum they and the bytes must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) crc: u32,
}

impl Extent {
    pub(crate) fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Returns whether `bytes` are those that were written for these bounds.
    pub(crate) fn verifies(&self, bytes: &[u8]) -> bool {
        checksum(self.start, self.end, bytes) == self.crc
    }
}

/// Returns the checksum of a slice.
fn checksum(start: u64, end: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&start.to_ne_bytes());
    hasher.update(&end.to_ne_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

impl Layout {
    /// Returns the layout of a block with these R+1 slice offsets.
    pub(crate) fn of(offsets: &[u64], budget_bytes: u64) -> Result<Self> {
        let mut previous = 0;
        for (position, &value) in offsets.iter().enumerate() {
            if value < previous || (position == 0 && value != 0) {
                return Err(StoreError::InvalidOffsets { position, value });
            }
            previous = value;
        }
        if offsets.is_empty() {
            return Err(StoreError::InvalidOffsets {
                position: 0,
                value: 0,
            });
        }
        if previous > MAX_DATA_BYTES {
            return Err(StoreError::TooLarge {
                requested_bytes: previous,
                budget_bytes,
            });
        }
        Ok(Self {
            data_bytes: previous,
            num_slices: offsets.len() - 1,
        })
    }

    fn index_start(&self) -> u64 {
        self.data_bytes.next_multiple_of(8)
    }

    /// Returns where the index is.
    pub(crate) fn index(&self) -> Index {
        Index {
            start: self.index_start(),
            entry_bytes: ENTRY_BYTES,
            num_entries: self.num_slices as u64 + 1,
        }
    }

    /// Returns where entry `slice` of the index is in the image.
    pub(crate) fn entry_start(&self, slice: usize) -> u64 {
        self.index().entry_start(slice)
    }

    /// Returns the bytes of the image, in whole pages.
    pub(crate) fn image_bytes(&self) -> u64 {
        self.entry_start(self.num_slices + 1)
            .next_multiple_of(PAGE_BYTES)
    }

    /// Reads the extent of `slice` from two neighbouring index entries as they came from disk. Returns `None` when they
    /// cannot be the bounds of a slice.
    pub(crate) fn parse(&self, entries: &[u8]) -> Option<Extent> {
        let word = |at: usize| {
            Some(u64::from_ne_bytes(
                entries.get(at..at + 8)?.try_into().ok()?,
            ))
        };
        let crc = u32::from_ne_bytes(entries.get(8..12)?.try_into().ok()?);
        let (start, end) = (word(0)?, word(ENTRY_BYTES as usize)?);
        (start <= end && end <= self.data_bytes).then_some(Extent { start, end, crc })
    }

    /// Writes the offsets into the index of a block that is being made.
    pub(crate) fn write_offsets(&self, memory: &Mapping, offsets: &[u64]) {
        for (slice, &offset) in offsets.iter().enumerate() {
            let entry = memory.at(self.entry_start(slice) as usize, ENTRY_BYTES as usize);
            // SAFETY: the entry is inside the mapping (`at` checks). It is 8-byte aligned, because mappings start at
            // pages and entries at multiples of 8. The block is unsealed, so nobody else sees its index.
            unsafe {
                entry.cast::<u64>().write(offset);
                entry.cast::<u64>().add(1).write(0);
            }
        }
    }

    /// Returns the bounds of `slice` in a sealed block in memory.
    pub(crate) fn bounds(&self, memory: &Mapping, slice: usize) -> (u64, u64) {
        let offset = |slice: usize| {
            let entry = memory.at(self.entry_start(slice) as usize, ENTRY_BYTES as usize);
            // SAFETY: inside the mapping and aligned as in `write_offsets`. Offsets never change after sealing, and the
            // checksum that a spill may be writing lies in other bytes.
            unsafe { entry.cast::<u64>().read() }
        };
        (offset(slice), offset(slice + 1))
    }

    /// Returns bytes of the image of a block in memory.
    ///
    /// # Safety
    /// The block must be sealed, and stay mapped as long as the bytes are used.
    pub(crate) unsafe fn sealed<'a>(&self, memory: &'a Mapping, start: u64, end: u64) -> &'a [u8] {
        let len = (end - start) as usize;
        // SAFETY: the bytes are inside the mapping (`at` checks); nobody writes data of a sealed block, and
        // checksums only who spills it.
        unsafe { std::slice::from_raw_parts(memory.at(start as usize, len).as_ptr(), len) }
    }

    /// Fills in the checksums of all slices.
    ///
    /// # Safety
    /// The block must be sealed and stay mapped, and only one thread may do this at a time.
    pub(crate) unsafe fn write_checksums(&self, memory: &Mapping) {
        for slice in 0..self.num_slices {
            let (start, end) = self.bounds(memory, slice);
            // SAFETY: the block is sealed and mapped.
            let crc = checksum(start, end, unsafe { self.sealed(memory, start, end) });
            let entry = memory.at(self.entry_start(slice) as usize, ENTRY_BYTES as usize);
            // SAFETY: inside the mapping and aligned as in `write_offsets`; nobody else reads or writes a checksum in
            // memory, as the caller promises.
            unsafe { entry.cast::<u32>().add(2).write(crc) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_must_start_at_zero_and_not_decrease() {
        for (offsets, position) in [(&[][..], 0), (&[1, 2], 0), (&[0, 5, 4], 2)] {
            match Layout::of(offsets, 1) {
                Err(StoreError::InvalidOffsets {
                    position: found, ..
                }) => assert_eq!(found, position),
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(
            Layout::of(&[0, u64::MAX], 7),
            Err(StoreError::TooLarge { .. })
        ));
    }

    #[test]
    fn the_image_is_data_then_an_aligned_index_then_padding() {
        let layout = Layout::of(&[0, 3, 13], 1).unwrap();
        assert_eq!(
            (
                layout.entry_start(0),
                layout.entry_start(2),
                layout.image_bytes()
            ),
            (16, 48, 4096)
        );
        let exact = Layout::of(&[0, 4096 - 32], 1).unwrap();
        assert_eq!(exact.image_bytes(), 4096);
    }

    #[test]
    fn an_index_of_zeros_is_not_an_empty_slice() {
        let layout = Layout::of(&[0, 100], 1).unwrap();
        let extent = layout.parse(&[0; 32]).unwrap();
        assert!(!extent.verifies(&[]));
        assert!(layout.parse(&[0xff; 32]).is_none());
        assert!(layout.parse(&[0; 20]).is_none());
    }
}
