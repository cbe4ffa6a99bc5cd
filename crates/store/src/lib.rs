//! Blocks under one byte budget: allocate, seal, fetch, spill, restore, verify, free.
//!
//! A [`Store`] owns every byte that a shuffle keeps between tasks. Blocks live in one memory arena. When the budget is
//! short, background threads write the oldest unpinned blocks to unlinked files, compressed if the options say so.
//! [`Store::fetch`] reads single slices back and checks their CRC-32. Working memory of tasks ([`Store::reserve`])
//! comes out of the same budget. So blocks + reservations never exceed it, and neither does the memory that the arena
//! keeps resident.
//!
//! ```text
//!  allocate ──> BlockMut ──seal──> resident ──spill──> on disk ──fetch──> Slice (memory of its own)
//!                                     └────────────────fetch────────────> Slice (pins the block)
//! ```
//!
//! One mutex guards the books; every file operation, mapping and checksum happens outside it.
//!
//! A child that the process has forked cannot use the store: it gets an error, and handles that it drops change
//! nothing.
//!
//! Another process reads and fills the same memory through an [`ArenaView`]. It keeps no books; the process that has
//! the store tells it where blocks are.
#![warn(missing_docs)]

mod acquire;
mod arena;
mod block;
mod budget;
mod codec;
mod direct_file;
mod directories;
mod error;
mod fill;
mod home;
mod index;
mod layout;
mod mapped_files;
mod mapping;
mod memory_file;
mod options;
mod packed;
mod pages;
mod parallel;
mod policy;
mod ranges;
mod restore;
mod shared;
mod sources;
mod spill;
mod spill_io;
mod stats;
mod store;
mod system;
mod table;
mod unpacking;
mod view;

pub use acquire::Reservation;
pub use arena::UNIT_BYTES;
pub use block::{BlockId, BlockMut, Slice};
pub use budget::Priority;
pub use codec::Codec;
pub use direct_file::DirectIo;
pub use error::{Interruption, Result, StoreError};
pub use layout::{ENTRY_BYTES, PAGE_BYTES};
pub use options::{Helpless, StoreOptions};
pub use spill_io::{SpillFile, SpillIo};
pub use stats::Stats;
pub use store::Store;
pub use view::{ArenaView, MappedBlock, MappedSlice};
