//! The handles that users hold: a block being filled, and pinned views of sealed ones.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::acquire::Owned;
use crate::arena::Memory;
use crate::budget::Priority;
use crate::error::Result;
use crate::layout::Layout;
use crate::shared::Shared;

/// The name of a sealed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u64);

/// A block being filled. Dropping it unsealed frees it.
#[derive(Debug)]
pub struct BlockMut {
    owned: Owned,
    layout: Layout,
}

impl BlockMut {
    /// Takes memory for the data and its index.
    pub(crate) fn allocate(
        shared: &Arc<Shared>,
        offsets: &[u64],
        priority: Priority,
    ) -> Result<Self> {
        let layout = Layout::of(offsets, shared.options.budget_bytes)?;
        let owned = shared.memory(layout.image_bytes(), priority)?;
        layout.write_offsets(owned.mapping(), offsets);
        Ok(Self { owned, layout })
    }

    /// Returns the data, all slices back to back. It holds whatever the memory held before.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let len = self.layout.data_bytes as usize;
        let start = self.owned.mapping().at(0, len);
        // SAFETY: the bytes are mapped and initialised, by the system or by earlier blocks. They belong to this value alone
        // until it is sealed, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) }
    }

    /// Returns where the data lies in the arena, for [`ArenaView::block`](crate::ArenaView::block): offsets and
    /// lengths, in order. `None` if it is in a file instead.
    pub fn pieces(&self) -> Option<Vec<(u64, u64)>> {
        self.owned.memory().pieces(0, self.layout.data_bytes)
    }

    /// Makes the block immutable. From here on the block can be fetched and spilled.
    pub fn seal(self) -> BlockId {
        BlockId(self.owned.seal(self.layout))
    }
}

impl AsMut<[u8]> for BlockMut {
    fn as_mut(&mut self) -> &mut [u8] {
        self.as_mut_slice()
    }
}

/// Keeps the bytes of a slice in place.
#[derive(Debug)]
pub(crate) enum Pin {
    /// A block in memory.
    Block {
        shared: Arc<Shared>,
        block: u64,
        memory: Arc<Memory>,
    },
    /// Memory that a fetch has read slices into.
    Restored { owned: Owned },
    /// There are no bytes.
    Nothing,
}

impl Pin {
    fn memory(&self) -> Option<&Memory> {
        match self {
            Pin::Block { memory, .. } => Some(memory),
            Pin::Restored { owned } => Some(owned.memory()),
            Pin::Nothing => None,
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if let Pin::Block {
            shared,
            block,
            memory,
        } = self
        {
            memory.rest();
            shared.unpin(*block);
        }
    }
}

/// A pinned, read-only view of one slice or of a whole block. The bytes stay where they are while a clone exists, even
/// if the block is freed or the store closed.
#[derive(Clone)]
pub struct Slice {
    pin: Arc<Pin>,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes are immutable while the pin exists, and the pin may be dropped on any thread.
unsafe impl Send for Slice {}
// SAFETY: as above.
unsafe impl Sync for Slice {}

impl Slice {
    /// Returns a view of `len` bytes at `start`.
    ///
    /// # Safety
    /// `pin` must keep these bytes mapped and unchanged.
    pub(crate) unsafe fn new(pin: Arc<Pin>, start: NonNull<u8>, len: usize) -> Self {
        Self { pin, start, len }
    }

    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the pin keeps the bytes mapped and unchanged, as promised to `new`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// Returns where the bytes lie in the arena, for [`ArenaView::slice`](crate::ArenaView::slice): offsets and
    /// lengths, in order. `None` if they are in a file instead.
    pub fn pieces(&self) -> Option<Vec<(u64, u64)>> {
        match self.pin.memory() {
            Some(memory) if self.len > 0 => {
                memory.pieces(memory.mapping().offset_of(self.start), self.len as u64)
            }
            _ => Some(Vec::new()),
        }
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slice")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
