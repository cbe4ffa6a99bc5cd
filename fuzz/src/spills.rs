//! A block that is spilled, and whose index comes back from disk otherwise.

use std::fs::File;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

use exoshuffle_store::{
    DirectIo, Priority, Result, SpillFile, SpillIo, Store, StoreOptions, UNIT_BYTES,
};

use crate::{memory, watch_panics};

const BUDGET_BYTES: u64 = 8 * UNIT_BYTES;

/// The first byte says how many slices there are, so many their sizes, and all others what is changed behind the data.
pub fn restore(bytes: &[u8]) {
    watch_panics();
    let Some((&slices, rest)) = bytes.split_first() else {
        return;
    };
    let (sizes, changes) = rest.split_at(rest.len().min(usize::from(slices)));
    memory::allow(64 << 20);
    check(sizes, changes).expect("a store of its own works");
}

fn check(sizes: &[u8], changes: &[u8]) -> Result<()> {
    let mut end = 0;
    let ends = sizes.iter().map(|&size| {
        end += u64::from(size);
        end
    });
    let offsets: Vec<u64> = std::iter::once(0).chain(ends).collect();
    let data_bytes = offsets.last().copied().unwrap_or_default();
    let changed = Changed {
        start: data_bytes.next_multiple_of(8),
        changes: changes.into(),
    };
    let is_sound = changes.iter().all(|&change| change == 0);
    let options = StoreOptions::new(BUDGET_BYTES, vec![std::env::temp_dir()]);
    let store = Store::open_with(options, Arc::new(changed))?;
    let mut block = store.allocate(&offsets, Priority::Output)?;
    block.as_mut_slice().fill(7);
    let block = block.seal();
    // Nothing else fits, so that it is spilled.
    drop(store.reserve(BUDGET_BYTES)?);
    let sizes_found = store.slice_bytes(block);
    if is_sound {
        assert!(sizes_found.is_ok_and(|found| found.iter().sum::<u64>() == data_bytes));
    }
    for slice in 0..sizes.len() {
        match store.fetch(&[(block, Some(slice))]) {
            Ok(found) => {
                let found = found[0].as_slice();
                assert!(found.iter().all(|&byte| byte == 7));
                assert!(!is_sound || found.len() == usize::from(sizes[slice]));
            }
            Err(error) => assert!(!is_sound, "{error}"),
        }
    }
    let whole = store.fetch(&[(block, None)]);
    assert!(!is_sound || whole.is_ok_and(|found| found[0].as_slice().len() as u64 == data_bytes));
    Ok(())
}

/// Real files, with bytes from `start` on that are read otherwise.
struct Changed {
    start: u64,
    changes: Arc<[u8]>,
}

struct ChangedFile {
    real: Box<dyn SpillFile>,
    start: u64,
    changes: Arc<[u8]>,
}

impl SpillIo for Changed {
    fn create(&self, directory: &Path) -> io::Result<Box<dyn SpillFile>> {
        Ok(Box::new(ChangedFile {
            real: DirectIo.create(directory)?,
            start: self.start,
            changes: self.changes.clone(),
        }))
    }

    fn create_mappable(&self, directory: &Path, bytes: u64) -> io::Result<File> {
        DirectIo.create_mappable(directory, bytes)
    }
}

impl SpillFile for ChangedFile {
    fn write_at(&self, buffers: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.real.write_at(buffers, offset)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.real.read_at(buffer, offset)?;
        for (place, change) in (self.start..).zip(self.changes.iter()) {
            let within = place.checked_sub(offset).map(|at| at as usize);
            if let Some(byte) = within.and_then(|at| buffer.get_mut(at)) {
                *byte ^= change;
            }
        }
        Ok(())
    }
}
