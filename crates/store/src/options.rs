//! How a store is set up. Plain data; checked by `Store::open`.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::arena::UNIT_BYTES;
use crate::codec::Codec;
use crate::error::{Interruption, Result, StoreError};
use crate::policy::Patience;
use crate::{packed, unpacking};

/// Several times what it takes to write a usual block to a file, so waiting longer costs more than it can save.
const FALLBACK_AFTER: Duration = Duration::from_millis(200);

/// Takes how many bytes a request waits for, and for how long nothing has been freed; an error ends the wait.
type Asked = dyn Fn(u64, Duration) -> Result<(), Interruption> + Send + Sync;

/// The function that a thread asks while it waits for memory that the store cannot free.
#[derive(Clone)]
pub struct Helpless(pub Arc<Asked>);

impl fmt::Debug for Helpless {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Helpless")
    }
}

/// The options of a [`Store`](crate::Store).
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Bytes that blocks and reservations may take together.
    pub budget_bytes: u64,
    /// Directories for spill files, all used at once. Without any, nothing is ever spilled.
    pub spill_dirs: Vec<PathBuf>,
    /// How spilled bytes are compressed; `None`: not at all. Its buffers are not in the budget: `packing_bytes`.
    pub spill_codec: Option<Codec>,
    /// Share of the budget above which spilling starts.
    pub spill_threshold: f64,
    /// Blocks are appended to one spill file until it has this many bytes.
    pub fuse_bytes: u64,
    /// How long a block being produced waits for room, once nothing can be spilled, before it goes to the file system.
    pub fallback_after: Duration,
    /// How long requests wait for frees when no directory takes more, before they fail; a tenth of it once one failed.
    pub disk_full_timeout: Duration,
    /// Each thread that waits for room calls this every 100 ms, without any lock: an error ends its wait.
    pub check_interrupted: fn() -> Result<(), Interruption>,
    /// Each thread that waits for memory which only others can free calls this as often, without any lock. The store
    /// does not know these others: the waiting thread may hold the slices itself, and then nobody ever frees anything.
    pub helpless: Helpless,
}

impl StoreOptions {
    /// Returns the defaults. They spill above 80 % of the budget, fuse to 100 MiB, fall back after 200 ms, and give up on
    /// full disks after 10 s. Spilled bytes are as they are in memory.
    /// Nothing interrupts or ends a wait.
    pub fn new(budget_bytes: u64, spill_dirs: Vec<PathBuf>) -> Self {
        Self {
            budget_bytes,
            spill_dirs,
            spill_codec: None,
            spill_threshold: 0.8,
            fuse_bytes: 100 << 20,
            fallback_after: FALLBACK_AFTER,
            disk_full_timeout: Duration::from_secs(10),
            check_interrupted: || Ok(()),
            helpless: Helpless(Arc::new(|_, _| Ok(()))),
        }
    }

    /// Returns the memory that compression takes beside the budget, while the store is open.
    pub fn packing_bytes(&self) -> u64 {
        let bytes = |codec| {
            let writers = self.spill_dirs.len() as u64 * packed::writer_bytes(codec);
            writers + unpacking::readers_bytes(codec)
        };
        self.spill_codec.map_or(0, bytes)
    }

    /// Returns how long a request waits. Once one has given up, the others wait a tenth of the time for disks, until one
    /// gets what it waits for. Without that, `cache()` with a full disk was refused after two waits, which are 20 s. And
    /// 30 tasks failed in turn for 90 s.
    pub(crate) fn patience(&self, gave_up: bool) -> Patience {
        Patience {
            fallback_after: self.fallback_after,
            disk_full_timeout: self.disk_full_timeout / if gave_up { 10 } else { 1 },
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.budget_bytes < UNIT_BYTES {
            return Err(StoreError::BudgetTooSmall {
                budget_bytes: self.budget_bytes,
                minimum_bytes: UNIT_BYTES,
            });
        }
        if !(0.0..=1.0).contains(&self.spill_threshold) {
            return Err(StoreError::InvalidThreshold {
                threshold: self.spill_threshold,
            });
        }
        Ok(())
    }

    pub(crate) fn threshold_bytes(&self) -> u64 {
        (self.budget_bytes as f64 * self.spill_threshold) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spilling_starts_at_four_fifths_and_fills_files_of_100_mib() {
        let options = StoreOptions::new(1000, Vec::new());
        assert_eq!(
            (options.threshold_bytes(), options.fuse_bytes),
            (800, 104_857_600)
        );
    }
}
