//! Inspects files for their schema, rows and sizes. Files are inspected in parallel, because each costs a few dependent
//! reads and an input may have thousands.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::SchemaRef;
use serde::{Deserialize, Serialize};

use super::{total, ReadOptions, SourceFile};
use crate::direct::RangeReader;
use crate::error::Result;
use crate::guard::guarded;
use crate::Format;

/// The facts that one file tells about itself.
pub(crate) struct FileInfo {
    pub(crate) schema: SchemaRef,
    pub(crate) rows: Option<u64>,
    pub(crate) memory_bytes: u64,
    pub(crate) groups: Vec<Group>,
    pub(crate) working: Vec<Working>,
    pub(crate) pages: Vec<LargePages>,
    /// Memory of columns that is held as long as rows are read: dictionaries of IPC.
    pub(crate) held: Vec<Working>,
    pub(crate) dictionary_columns: Vec<bool>,
    /// Whether rows may be far larger than `groups` tells.
    pub(crate) hides_sizes: bool,
}

impl FileInfo {
    /// The facts of a file with these columns, if nothing else is known or matters.
    pub(crate) fn of_schema(schema: SchemaRef) -> Self {
        Self {
            dictionary_columns: vec![false; schema.fields().len()],
            schema,
            rows: None,
            memory_bytes: 0,
            groups: Vec::new(),
            working: Vec::new(),
            pages: Vec::new(),
            held: Vec::new(),
            hides_sizes: false,
        }
    }
}

/// Rows that are stored together: a row group of Parquet, or a batch of IPC.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Group {
    pub(crate) rows: u64,
    pub(crate) memory_bytes: u64,
    /// Bytes of its values of any length, at least: a sample of its rows may miss a few that have most of them.
    pub(crate) text_bytes: u64,
}

/// Memory that reading any row takes at once, beside the rows: pages of Parquet and batches of Arrow IPC are decoded in one
/// piece. Left out where that is no more than the buffers of any task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Working {
    /// The name of the top-level column; `None` if the memory is the same whichever column is read.
    pub(crate) column: Option<String>,
    pub(crate) bytes: u64,
    /// The most bytes that a row can have in it, if its page or batch is mostly that row.
    pub(crate) row_bytes: u64,
}

/// Memory for the pages of a large leaf column of Parquet, all of which were inspected.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LargePages {
    /// The number of the leaf.
    pub leaf: u64,
    /// The most bytes that are held between batches while the column is decoded.
    pub bytes: u64,
}

impl Group {
    /// The rows of all groups. Sums saturate at the largest number, whatever a file declares.
    pub(crate) fn rows(groups: &[Self]) -> u64 {
        total(groups.iter().map(|group| group.rows))
    }

    pub(crate) fn memory_bytes(groups: &[Self]) -> u64 {
        total(groups.iter().map(|group| group.memory_bytes))
    }

    /// So many of its rows, as if all had the same size.
    pub(super) fn part(&self, rows: u64) -> Self {
        let share = |bytes: u64| {
            let bytes = u128::from(rows) * u128::from(bytes);
            (bytes / u128::from(self.rows.max(1))) as u64
        };
        Self {
            rows,
            memory_bytes: share(self.memory_bytes),
            text_bytes: share(self.text_bytes),
        }
    }
}

const MAX_THREADS: usize = 16;

pub(super) fn inspect_all(
    paths: &[PathBuf],
    format: Format,
    options: &ReadOptions,
) -> Result<Vec<(SourceFile, FileInfo)>> {
    let look = format.driver().inspect(paths, options)?;
    let numbered: Vec<_> = paths.iter().enumerate().collect();
    in_parallel(&numbered, |&(number, path)| {
        inspect(path, format, |file| look(number, file))
    })
}

/// Inspects a file, and closes it afterwards: an input may have more files than may be open at once.
fn inspect(
    path: &Path,
    format: Format,
    look: impl FnOnce(&Arc<RangeReader>) -> Result<FileInfo>,
) -> Result<(SourceFile, FileInfo)> {
    let file = Arc::new(RangeReader::open(path)?);
    let mut info = guarded(path, format, || look(&file))?;
    let listed = SourceFile {
        path: path.to_path_buf(),
        stamp: file.stamp(),
        rows: info.rows,
        memory_bytes: info.memory_bytes,
        index: 0,
        partition: Vec::new(),
        columns: Vec::new(),
        kept: None,
        groups: std::mem::take(&mut info.groups),
        working: std::mem::take(&mut info.working),
        pages: std::mem::take(&mut info.pages),
        held: std::mem::take(&mut info.held),
        hides_sizes: info.hides_sizes,
    };
    Ok((listed, info))
}

/// Maps all items on a few threads; the first error (by position) wins.
pub(crate) fn in_parallel<T: Sync, U: Send>(
    items: &[T],
    map: impl Fn(&T) -> Result<U> + Sync,
) -> Result<Vec<U>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = (2 * threads).min(MAX_THREADS).min(items.len());
    if threads <= 1 {
        return items.iter().map(map).collect();
    }
    let next = AtomicUsize::new(0);
    let slots: Vec<Mutex<Option<Result<U>>>> = items.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(i) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&i| i < items.len())
                {
                    *slots[i].lock().unwrap_or_else(PoisonError::into_inner) = Some(map(&items[i]));
                }
            });
        }
    });
    let filled = slots
        .into_iter()
        .map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner));
    filled.flatten().collect()
}
