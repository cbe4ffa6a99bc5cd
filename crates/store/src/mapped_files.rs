//! Blocks in mapped files of their own, whose resident pages can go while they are written or read.
//!
//! The budget does not count such a block, and its pages become resident when they are touched. A map had to write a
//! block of 300 MB where 2 MB were planned: it took the program to 345 MB within 300.

use std::sync::{Arc, Mutex, PoisonError};

use crate::home::Home;
use crate::mapping::Mapping;

/// The mapped files of a store. In a forked child the list is not touched: a thread may have held its lock.
#[derive(Debug, Clone)]
pub(crate) struct MappedFiles {
    home: Home,
    mapped: Arc<Mutex<Vec<Arc<Mapping>>>>,
}

/// A mapped file, which stays in the list until it is dropped.
#[derive(Debug)]
pub(crate) struct MappedFile {
    files: MappedFiles,
    mapping: Arc<Mapping>,
}

impl MappedFiles {
    pub(crate) fn new(home: Home) -> Self {
        Self {
            home,
            mapped: Arc::default(),
        }
    }

    pub(crate) fn add(&self, mapping: Mapping) -> MappedFile {
        let mapping = Arc::new(mapping);
        self.with(|files| files.push(Arc::clone(&mapping)));
        MappedFile {
            files: self.clone(),
            mapping,
        }
    }

    /// Lets the pages of all files leave the resident memory. Nothing is lost: the written bytes are in the system's
    /// cache.
    pub(crate) fn let_go(&self) {
        self.with(|files| files.iter().for_each(|mapping| mapping.let_go()));
    }

    fn with(&self, work: impl FnOnce(&mut Vec<Arc<Mapping>>)) {
        if self.home.is_here() {
            work(&mut self.mapped.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl MappedFile {
    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        let is_other = |mapping: &Arc<Mapping>| !Arc::ptr_eq(mapping, &self.mapping);
        self.files.with(|files| files.retain(is_other));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direct_file::DirectIo;
    use crate::spill_io::SpillIo;

    #[test]
    fn what_was_written_comes_back_and_dropped_files_are_forgotten() {
        let len = 3 << 20;
        let files = MappedFiles::new(Home::here().unwrap());
        let of_file = || {
            let file = DirectIo.create_mappable(&std::env::temp_dir(), len as u64);
            files.add(Mapping::of_file(&file.unwrap(), len).unwrap())
        };
        let (file, other) = (of_file(), of_file());
        let start = file.mapping().at(0, len).as_ptr();
        // SAFETY: the mapping has so many bytes, and nobody else looks at them.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start, len) };
        bytes.fill(7);
        files.let_go();
        assert!(bytes.iter().all(|&byte| byte == 7));
        drop(other);
        assert_eq!(files.mapped.lock().unwrap().len(), 1);
        drop(file);
        files.let_go();
        assert!(files.mapped.lock().unwrap().is_empty());
    }
}
