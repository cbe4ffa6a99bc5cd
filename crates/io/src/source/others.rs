//! Tells whether files can be left to a reader of others, such as that of DuckDB.
//!
//! Our reader checks what others do not. Where a format can check all of that before, another reader is as good. Whether
//! files have changed meanwhile is the caller's to check, behind it.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::Field;

use super::inspect::in_parallel;
use super::{kept, Source, SourceFile};
use crate::direct::{place, RangeReader};
use crate::error::Result;
use crate::guard::guarded;

/// Larger inputs are left to our reader: looking at pages takes time before anything runs, and reads what is not cached twice.
const MOST_BYTES: u64 = 4 << 30;

impl SourceFile {
    /// Whether its rows are all those of the file at its path, and nothing else.
    fn is_whole(&self) -> bool {
        let all: u64 = self.groups.iter().map(|group| group.rows).sum();
        let has_all = { self.kept.as_deref() }.is_none_or(|rows| kept::num_rows(rows) == all);
        has_all && self.partition.is_empty() && place(&self.path) == self.path
    }
}

impl Source {
    /// Whether another reader of the format makes the same of these columns of all files. It holds row groups of at most
    /// `group_bytes` as they are stored.
    ///
    /// # Errors
    /// A file cannot be read, has changed or is damaged.
    pub fn are_open(&self, columns: &HashSet<String>, group_bytes: u64) -> Result<bool> {
        let wanted = |field: &&Field| columns.contains(field.name());
        let fields = self.schema.fields().iter().map(AsRef::as_ref);
        let fields: Vec<&Field> = fields.filter(wanted).collect();
        let bytes: u64 = self.files.iter().map(|file| file.stamp.bytes).sum();
        if bytes > MOST_BYTES || !self.files.iter().all(SourceFile::is_whole) {
            return Ok(false);
        }
        let found = in_parallel(&self.files, |listed| {
            let file = Arc::new(RangeReader::open_unchanged(&listed.path, listed.stamp)?);
            guarded(&listed.path, self.format, || {
                self.format.driver().are_open(&file, &fields, group_bytes)
            })
        })?;
        Ok(found.into_iter().all(|is_open| is_open))
    }

    /// Checks that the files are still those that were listed.
    ///
    /// # Errors
    /// A file is gone, or has changed.
    pub fn check_unchanged(&self) -> Result<()> {
        let open = |listed: &SourceFile| RangeReader::open_unchanged(&listed.path, listed.stamp);
        self.files
            .iter()
            .try_for_each(|listed| open(listed).map(drop))
    }
}
