//! The spill directories: which of them take files, and why others do not.
//!
//! A directory that failed is left alone. A full one is tried again once one of its spill files is gone, or once a
//! request was told that it is full. Any other failure is final.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::spill_io::SpillFile;

/// Counts the spill files of one directory: created, and gone. Atomic, because files close outside the lock of the
/// store.
#[derive(Debug, Default)]
struct FileCounts {
    created: AtomicU64,
    gone: AtomicU64,
}

#[derive(Debug)]
struct Failure {
    full: bool,
    gone_before: u64,
    reason: String,
}

#[derive(Debug)]
struct Directory {
    path: PathBuf,
    files: Arc<FileCounts>,
    failure: Option<Failure>,
}

impl Directory {
    fn takes_files(&self) -> bool {
        self.failure.as_ref().is_none_or(|failure| {
            failure.full && self.files.gone.load(Ordering::Relaxed) > failure.gone_before
        })
    }
}

/// All spill directories of a store.
#[derive(Debug)]
pub(crate) struct Directories {
    all: Vec<Directory>,
}

impl Directories {
    pub(crate) fn new(paths: &[PathBuf]) -> Self {
        let directory = |path: &PathBuf| Directory {
            path: path.clone(),
            files: Arc::default(),
            failure: None,
        };
        Self {
            all: paths.iter().map(directory).collect(),
        }
    }

    pub(crate) fn path(&self, index: usize) -> &Path {
        &self.all[index].path
    }

    pub(crate) fn takes_files(&self, index: usize) -> bool {
        self.all[index].takes_files()
    }

    /// Returns the first directory that takes files.
    pub(crate) fn first_usable(&self) -> Option<usize> {
        self.all.iter().position(Directory::takes_files)
    }

    pub(crate) fn failed(&self) -> usize {
        self.all
            .iter()
            .filter(|directory| !directory.takes_files())
            .count()
    }

    /// Notes that a directory takes no more files.
    pub(crate) fn fail(&mut self, index: usize, error: &io::Error) {
        let directory = &mut self.all[index];
        directory.failure = Some(Failure {
            full: matches!(
                error.kind(),
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
            ),
            gone_before: directory.files.gone.load(Ordering::Relaxed),
            reason: error.to_string(),
        });
    }

    /// Lets full directories be tried again.
    pub(crate) fn retry_full(&mut self) {
        for directory in &mut self.all {
            if directory
                .failure
                .as_ref()
                .is_some_and(|failure| failure.full)
            {
                directory.failure = None;
            }
        }
    }

    /// Names every directory, with the reason why it takes no files.
    pub(crate) fn describe(&self) -> String {
        if self.all.is_empty() {
            return "no spill directory is configured".to_owned();
        }
        let describe = |directory: &Directory| {
            let reason = directory
                .failure
                .as_ref()
                .map_or("usable", |failure| &failure.reason);
            format!("{}: {reason}", directory.path.display())
        };
        self.all.iter().map(describe).collect::<Vec<_>>().join("; ")
    }

    /// Takes charge of a file created in a directory.
    pub(crate) fn adopt(&self, index: usize, file: Box<dyn SpillFile>) -> Arc<LiveFile> {
        let files = Arc::clone(&self.all[index].files);
        files.created.fetch_add(1, Ordering::Relaxed);
        Arc::new(LiveFile { file, files })
    }

    /// Returns the number of spill files that exist.
    pub(crate) fn live_files(&self) -> u64 {
        let live = |directory: &Directory| {
            let gone = directory.files.gone.load(Ordering::Relaxed);
            directory.files.created.load(Ordering::Relaxed) - gone
        };
        self.all.iter().map(live).sum()
    }
}

/// A spill file; it disappears from disk with the last block in it.
pub(crate) struct LiveFile {
    pub(crate) file: Box<dyn SpillFile>,
    files: Arc<FileCounts>,
}

impl Drop for LiveFile {
    fn drop(&mut self) {
        self.files.gone.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::IoSlice;

    struct NoFile;

    impl SpillFile for NoFile {
        fn write_at(&self, _: &mut [IoSlice<'_>], _: u64) -> io::Result<()> {
            Ok(())
        }
        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
            Ok(())
        }
    }

    fn full() -> io::Error {
        io::Error::from_raw_os_error(libc::ENOSPC)
    }

    #[test]
    fn a_full_directory_is_tried_again_when_a_file_has_gone() {
        let mut directories = Directories::new(&["/a".into(), "/b".into()]);
        let file = directories.adopt(0, Box::new(NoFile));
        directories.fail(0, &full());
        assert_eq!(
            (
                directories.first_usable(),
                directories.failed(),
                directories.live_files()
            ),
            (Some(1), 1, 1)
        );
        drop(file);
        assert_eq!(
            (
                directories.first_usable(),
                directories.failed(),
                directories.live_files()
            ),
            (Some(0), 0, 0)
        );
    }

    #[test]
    fn a_broken_directory_is_never_tried_again() {
        let mut directories = Directories::new(&["/a".into()]);
        let file = directories.adopt(0, Box::new(NoFile));
        directories.fail(0, &io::Error::from_raw_os_error(libc::EIO));
        drop(file);
        directories.retry_full();
        assert_eq!(directories.first_usable(), None);
        directories.fail(0, &full());
        directories.retry_full();
        assert_eq!(directories.first_usable(), Some(0));
    }

    #[test]
    fn the_description_names_directories_and_reasons() {
        let mut directories = Directories::new(&["/a".into()]);
        directories.fail(0, &full());
        assert!(directories
            .describe()
            .starts_with("/a: No space left on device"));
        assert!(Directories::new(&[])
            .describe()
            .contains("no spill directory"));
    }
}
