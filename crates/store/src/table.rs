//! The blocks and their states. Pure transitions; the caller holds the lock and disposes of what a transition releases.
//!
//! ```text
//!              begin_spill        end_spill(disk)
//!   resident ─────────────> spilling ─────────────> on disk
//!       ^  pin / unpin          │ end_spill(None)
//!       └───────────────────────┘
//! ```
//!
//! A block pinned while it is being spilled keeps its memory until the last pin goes. A block freed while pinned or
//! being spilled stays as long as that lasts, but can no longer be found.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::arena::Memory;
use crate::directories::LiveFile;
use crate::error::{Result, StoreError};
use crate::index::IndexCache;
use crate::layout::Layout;

/// A block's image in a spill file.
#[derive(Clone)]
pub(crate) struct DiskBlock {
    pub(crate) file: Arc<LiveFile>,
    pub(crate) offset: u64,
    pub(crate) index: Arc<IndexCache>,
    /// Where the index starts in the image of a packed block; `None` if the image is that of the block in memory.
    pub(crate) packed: Option<u64>,
}

/// A sealed block, in memory or on disk or both.
pub(crate) struct Entry {
    pub(crate) layout: Layout,
    pub(crate) memory: Option<Arc<Memory>>,
    pub(crate) disk: Option<DiskBlock>,
    pins: usize,
    spilling: bool,
    freed: bool,
}

/// A block chosen to be spilled.
pub(crate) struct Victim {
    pub(crate) block: u64,
    pub(crate) layout: Layout,
    pub(crate) memory: Arc<Memory>,
}

/// The things that a transition lets go of: memory for the budget, and a place on disk to be dropped outside the lock.
#[derive(Default)]
pub(crate) struct Released {
    pub(crate) memory: Option<Arc<Memory>>,
    pub(crate) disk: Option<DiskBlock>,
}

/// All sealed blocks.
#[derive(Default)]
pub(crate) struct Table {
    entries: HashMap<u64, Entry>,
    /// Blocks that could be spilled now. Numbers grow, so the order is that of sealing.
    spillable: BTreeSet<u64>,
    next: u64,
    live: u64,
    spilling_bytes: u64,
}

impl Table {
    /// Adds a sealed block.
    pub(crate) fn insert(&mut self, layout: Layout, memory: Memory) -> u64 {
        let block = self.next;
        self.next += 1;
        self.live += 1;
        if memory.budget_bytes() > 0 {
            self.spillable.insert(block);
        }
        let memory = Some(Arc::new(memory));
        let entry = Entry {
            layout,
            memory,
            disk: None,
            pins: 0,
            spilling: false,
            freed: false,
        };
        self.entries.insert(block, entry);
        block
    }

    /// Returns the block, unless it was freed.
    pub(crate) fn get(&self, block: u64) -> Result<&Entry> {
        let found = self.entries.get(&block).filter(|entry| !entry.freed);
        found.ok_or(StoreError::UnknownBlock { block })
    }

    /// Returns the number of blocks that can be found.
    pub(crate) fn len(&self) -> u64 {
        self.live
    }

    /// Returns whether some block could be spilled.
    pub(crate) fn has_spillable(&self) -> bool {
        !self.spillable.is_empty()
    }

    /// Returns the bytes of the blocks being spilled.
    pub(crate) fn spilling_bytes(&self) -> u64 {
        self.spilling_bytes
    }

    /// Returns the blocks that could be spilled with their bytes, oldest first.
    pub(crate) fn spillable(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + Clone + '_ {
        let bytes = move |block: &u64| {
            self.entries
                .get(block)?
                .memory
                .as_ref()
                .map(|memory| memory.budget_bytes())
        };
        self.spillable
            .iter()
            .map(move |block| (*block, bytes(block).unwrap_or(0)))
    }

    /// Keeps a resident block in memory until `unpin`.
    pub(crate) fn pin(&mut self, block: u64) {
        if let Some(entry) = self.entries.get_mut(&block) {
            entry.pins += 1;
            self.spillable.remove(&block);
        }
    }

    pub(crate) fn unpin(&mut self, block: u64) -> Released {
        if let Some(entry) = self.entries.get_mut(&block) {
            entry.pins -= 1;
        }
        self.settle(block)
    }

    /// Makes the block unfindable, and releases it as soon as nobody holds it.
    pub(crate) fn free(&mut self, block: u64) -> Result<Released> {
        self.get(block)?;
        if let Some(entry) = self.entries.get_mut(&block) {
            entry.freed = true;
            self.live -= 1;
        }
        self.spillable.remove(&block);
        Ok(self.settle(block))
    }

    /// Returns the numbers of all blocks that can be found.
    pub(crate) fn blocks(&self) -> Vec<u64> {
        self.entries
            .iter()
            .filter(|(_, entry)| !entry.freed)
            .map(|(&block, _)| block)
            .collect()
    }

    /// Starts to spill a spillable block.
    pub(crate) fn begin_spill(&mut self, block: u64) -> Option<Victim> {
        let entry = self.entries.get_mut(&block)?;
        let memory = Arc::clone(entry.memory.as_ref()?);
        entry.spilling = true;
        self.spillable.remove(&block);
        self.spilling_bytes += memory.budget_bytes();
        Some(Victim {
            block,
            layout: entry.layout,
            memory,
        })
    }

    /// Ends the spill of a block: it is on `disk` now, or the spill failed.
    pub(crate) fn end_spill(&mut self, victim: &Victim, disk: Option<DiskBlock>) -> Released {
        self.spilling_bytes -= victim.memory.budget_bytes();
        if let Some(entry) = self.entries.get_mut(&victim.block) {
            entry.spilling = false;
            entry.disk = disk;
        }
        self.settle(victim.block)
    }

    /// Releases the parts of a block that nothing holds any more after a transition.
    fn settle(&mut self, block: u64) -> Released {
        let Some(entry) = self.entries.get_mut(&block) else {
            return Released::default();
        };
        if entry.pins > 0 || entry.spilling {
            return Released::default();
        }
        if entry.freed {
            let entry = self.entries.remove(&block);
            return entry.map_or_else(Released::default, |entry| Released {
                memory: entry.memory,
                disk: entry.disk,
            });
        }
        if entry.disk.is_some() {
            return Released {
                memory: entry.memory.take(),
                disk: None,
            };
        }
        if entry
            .memory
            .as_ref()
            .is_some_and(|memory| memory.budget_bytes() > 0)
        {
            self.spillable.insert(block);
        }
        Released::default()
    }
}
