//! How files store the values of columns, as their footers tell: compression and sizes, for files that are to be written.

use std::collections::HashSet;
use std::sync::Arc;

use super::inspect::in_parallel;
use super::{Source, SourceFile};
use crate::direct::RangeReader;
use crate::error::Result;
use crate::guard::guarded;
use crate::Compression;

/// Files, and row groups in each, that are sampled for how far all are compressed.
const SAMPLED: usize = 8;

/// A part of a column as a file stores it.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    /// The number of its row group.
    pub(crate) group: usize,
    /// The name of the column; for a value within it, the names on the way, with dots.
    pub(crate) column: String,
    /// The compression; none, too, where it is not one of ours.
    pub(crate) compression: Compression,
    /// Its bytes in the file.
    pub(crate) bytes: u64,
    /// Its bytes without compression.
    pub(crate) plain_bytes: u64,
    /// The least bytes that its values take without compression and dictionaries; 0 where none are sure.
    pub(crate) least_bytes: u64,
}

impl Source {
    /// The compression of most bytes in the first row group of the first file; none where the format does not tell.
    ///
    /// # Errors
    /// The file cannot be read, has changed or is damaged.
    pub fn compression(&self) -> Result<Compression> {
        let first = self.files.first().map(|file| self.stored(file));
        let mut sizes: Vec<(Compression, u64)> = Vec::new();
        for part in first.transpose()?.unwrap_or_default() {
            let known = sizes
                .iter_mut()
                .find(|(codec, _)| *codec == part.compression);
            match known {
                _ if part.group != 0 => {}
                Some((_, bytes)) => *bytes += part.bytes,
                None => sizes.push((part.compression, part.bytes)),
            }
        }
        // The first one of several with as many bytes.
        let most = sizes.iter().rev().max_by_key(|(_, bytes)| *bytes);
        Ok(most.map_or(Compression::None, |(codec, _)| *codec))
    }

    /// About the bytes of the files without compression, from the footers of some.
    ///
    /// # Errors
    /// A file cannot be read, has changed or is damaged.
    pub fn plain_bytes(&self) -> Result<u64> {
        let files: Vec<&SourceFile> = self.files.iter().collect();
        let (mut bytes, mut plain, mut num_parts) = (0_u64, 0_u64, 0);
        for parts in in_parallel(&evenly(&files), |file| self.stored(file))? {
            let groups: Vec<usize> = (0..parts.last().map_or(0, |part| part.group + 1)).collect();
            let sampled = evenly(&groups);
            for part in parts.iter().filter(|part| sampled.contains(&part.group)) {
                bytes = bytes.saturating_add(part.bytes);
                plain = plain.saturating_add(part.plain_bytes);
                num_parts += 1;
            }
        }
        if num_parts == 0 {
            return Ok(self.memory_bytes);
        }
        let scaled = u128::from(self.bytes) * u128::from(plain) / u128::from(bytes.max(1));
        Ok(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// The least bytes of these columns in files of the same format without compression; `None` if the format does not tell.
    ///
    /// # Errors
    /// A file cannot be read, has changed or is damaged.
    pub fn least_bytes(&self, columns: &HashSet<String>) -> Result<Option<u64>> {
        let parts = in_parallel(&self.files, |file| self.stored(file))?;
        let parts: Vec<Stored> = parts.into_iter().flatten().collect();
        let wanted = parts.iter().filter(|part| columns.contains(&part.column));
        let bytes = wanted.fold(0, |sum: u64, part| sum.saturating_add(part.least_bytes));
        Ok((!parts.is_empty()).then_some(bytes))
    }

    fn stored(&self, listed: &SourceFile) -> Result<Vec<Stored>> {
        if !self.format.packs_values() {
            return Ok(Vec::new());
        }
        let file = Arc::new(RangeReader::open_unchanged(&listed.path, listed.stamp)?);
        guarded(&listed.path, self.format, || {
            self.format.driver().stored(&file)
        })
    }
}

/// Some of the items, evenly spread.
fn evenly<T: Copy>(items: &[T]) -> Vec<T> {
    let count = items.len().min(SAMPLED);
    (0..count)
        .map(|at| items[at * items.len() / count])
        .collect()
}
