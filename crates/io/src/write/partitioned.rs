//! Writes rows that come grouped by the values of some columns. Each group becomes files in a folder `key=value`,
//! without these columns.
//!
//! Guarantee: one file is open at a time, however many groups there are, and the buffers of one more are on their way to
//! disk. Rows of a group keep their order.

use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{DataType, SchemaRef};
use serde::{Deserialize, Serialize};

use super::{encode_error, PartFile, PartWriter, PendingParts, WriteOptions};
use crate::error::{one_line, IoError, Result};
use crate::source::NULL_PARTITION;
use crate::storage;

/// How many folders a partition makes before it counts again those of all partitions.
const COUNTED_FOLDERS: usize = 256;
/// The longest name that file systems have for a folder.
const MAX_NAME_BYTES: usize = 255;

/// Which columns become folders, and how many of these there may be.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PartitionBy {
    /// Names of the columns, the outermost folder first.
    pub columns: Vec<String>,
    /// The most folders of files.
    pub max_folders: usize,
}

/// Writes the batches of one partition into folders. Dropped before its end, it leaves unfinished files behind.
pub struct PartitionedWriter {
    directory: PathBuf,
    partition: usize,
    /// The schema of the files.
    schema: SchemaRef,
    options: WriteOptions,
    by: PartitionBy,
    keys: Vec<usize>,
    others: Vec<usize>,
    current: Option<Folder>,
    closing: Option<(String, PendingParts)>,
    written: Vec<PartFile>,
    num_folders: usize,
}

struct Folder {
    name: String,
    writer: PartWriter,
}

impl PartitionedWriter {
    /// Prepares to write `partition` into folders of `directory`, which must exist; `schema` has all columns.
    pub fn new(
        directory: &Path,
        partition: usize,
        schema: &SchemaRef,
        options: WriteOptions,
        by: PartitionBy,
    ) -> Result<Self> {
        let index = |name: &String| {
            schema.index_of(name).map_err(|e| IoError::BadProjection {
                columns: schema.fields().len(),
                reason: one_line(&e.to_string()),
            })
        };
        let keys: Vec<usize> = by.columns.iter().map(index).collect::<Result<_>>()?;
        let others: Vec<usize> = (0..schema.fields().len())
            .filter(|column| !keys.contains(column))
            .collect();
        let dictionary_columns = options.dictionary_columns.as_ref().map(|all| {
            let own = others.iter().map(|&column| all.get(column).copied());
            own.map(Option::unwrap_or_default).collect()
        });
        Ok(Self {
            directory: directory.to_path_buf(),
            partition,
            schema: crate::source::projected(schema, Some(&others))?,
            options: WriteOptions {
                dictionary_columns,
                ..options
            },
            by,
            keys,
            others,
            current: None,
            closing: None,
            written: Vec::new(),
            num_folders: 0,
        })
    }

    /// Appends rows, in which equal keys follow each other.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let failed = |e| encode_error(&self.directory, self.options.format, &e);
        let keys: Vec<ArrayRef> = self.keys.iter().map(|&c| batch.column(c).clone()).collect();
        let runs = arrow_ord::partition::partition(&keys).map_err(failed)?;
        let rows = batch.project(&self.others).map_err(failed)?;
        for run in runs.ranges() {
            self.write_run(&keys, &rows, run)?;
        }
        Ok(())
    }

    /// Finishes the last file. A partition without rows is a file without rows in the folder of nulls, so that readers
    /// find all columns.
    pub fn end(mut self) -> Result<PendingParts> {
        if self.current.is_none() && self.num_folders == 0 {
            let null = |key: &String| format!("{}={NULL_PARTITION}", key_name(key));
            let folders: Vec<String> = self.by.columns.iter().map(null).collect();
            self.open(folders.join("/"))?;
        }
        self.close()?;
        let Some((folder, files)) = self.closing.take() else {
            return Ok(PendingParts::of(self.written));
        };
        Ok(files.placed(self.written, &folder))
    }

    fn write_run(
        &mut self,
        keys: &[ArrayRef],
        rows: &RecordBatch,
        run: Range<usize>,
    ) -> Result<()> {
        let mut folders = Vec::with_capacity(keys.len());
        for (name, key) in self.by.columns.iter().zip(keys) {
            folders.push(self.folder(name, &key.slice(run.start, 1))?);
        }
        let folder = folders.join("/");
        if self.current.as_ref().is_none_or(|open| open.name != folder) {
            self.close()?;
            self.check_number()?;
            self.open(folder)?;
        }
        let rows = rows.slice(run.start, run.len());
        match &mut self.current {
            Some(open) => open.writer.write(rows),
            None => Ok(()),
        }
    }

    /// Returns the name of the folder of a value, which comes as an array of one.
    fn folder(&self, column: &str, value: &ArrayRef) -> Result<String> {
        let failed = |e| encode_error(&self.directory, self.options.format, &e);
        let text = cast(value, &DataType::Utf8).map_err(failed)?;
        let text = text.as_string::<i32>();
        let name = match text.is_valid(0).then(|| text.value(0)) {
            None => NULL_PARTITION.to_owned(),
            // With a space Spark takes it for a timestamp; all other readers take it either way.
            Some(text) if matches!(value.data_type(), DataType::Timestamp(..)) => {
                value_name(&text.replacen('T', " ", 1))
            }
            Some(text) => value_name(text),
        };
        let folder = format!("{}={name}", key_name(column));
        if folder.len() > MAX_NAME_BYTES {
            return Err(IoError::FolderName {
                column: column.to_owned(),
                value: one_line(text.value(0)),
                bytes: folder.len(),
                limit: MAX_NAME_BYTES,
            });
        }
        Ok(folder)
    }

    /// Refuses another folder where there are too many, before each partition makes as many as all may have.
    fn check_number(&self) -> Result<()> {
        let limit = self.by.max_folders;
        let mut is_too_much = self.num_folders >= limit;
        if self.num_folders.is_multiple_of(COUNTED_FOLDERS) {
            // There may be one more than the limit for a while, if it is the folder of partitions without rows.
            let found = count_folders(&self.directory, self.keys.len(), limit + 2)
                .map_err(|e| IoError::write(&self.directory, e))?;
            is_too_much |= found > limit + 1;
        }
        match is_too_much {
            true => Err(IoError::TooManyFolders {
                columns: self.by.columns.join(", "),
                limit,
            }),
            false => Ok(()),
        }
    }

    fn open(&mut self, name: String) -> Result<()> {
        self.num_folders += 1;
        let mut path = self.directory.clone();
        // Not the directory itself: once it is gone, nobody wants these files any more.
        for part in Path::new(&name) {
            path.push(part);
            match storage::of(&path).create_directory(&path) {
                Err(e) if e.kind() != ErrorKind::AlreadyExists => {
                    return Err(IoError::write(&path, e))
                }
                _ => {}
            }
        }
        let (schema, options) = (Arc::clone(&self.schema), self.options.clone());
        let writer = PartWriter::new(&path, self.partition, schema, options)?;
        self.current = Some(Folder { name, writer });
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        if let Some(Folder { name, writer }) = self.current.take() {
            let files = writer.end()?;
            self.settle()?;
            self.closing = Some((name, files));
        }
        Ok(())
    }

    /// Waits for the files of the folder before.
    fn settle(&mut self) -> Result<()> {
        if let Some((folder, files)) = self.closing.take() {
            let written = std::mem::take(&mut self.written);
            self.written = files.placed(written, &folder).wait()?;
        }
        Ok(())
    }
}

/// Counts the folders so deep in a directory, up to `most`.
fn count_folders(directory: &Path, depth: usize, most: usize) -> std::io::Result<usize> {
    let mut found = 0;
    for entry in storage::of(directory).list(directory)? {
        if found >= most {
            break;
        }
        if entry.is_directory && !entry.is_link {
            found += match depth {
                0 | 1 => 1,
                _ => count_folders(&directory.join(entry.name), depth - 1, most - found)?,
            };
        }
    }
    Ok(found)
}

/// Returns a key as readers decode it, or take it as it is: only characters that need it are encoded.
fn key_name(key: &str) -> String {
    encoded(key, |byte| {
        matches!(byte, b'/' | b'=' | b'%') || byte.is_ascii_control()
    })
}

/// Returns a value as readers decode it. Encodes the characters that Hive does; others stay as they are, since Hive
/// decodes single bytes.
fn value_name(value: &str) -> String {
    if value == NULL_PARTITION {
        return value.replacen('_', "%5F", 1);
    }
    encoded(value, |byte| {
        byte.is_ascii_control() || b"\"#%'*/:=?\\{}[]^+".contains(&byte)
    })
}

fn encoded(text: &str, is_special: impl Fn(u8) -> bool) -> String {
    let mut made = String::with_capacity(text.len());
    for character in text.chars() {
        match u8::try_from(character) {
            Ok(byte) if byte.is_ascii() && is_special(byte) => {
                made.push_str(&format!("%{byte:02X}"))
            }
            _ => made.push(character),
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use arrow_array::Int64Array;

    use super::*;

    #[test]
    fn partitions_share_the_number_of_folders() {
        let directory = tempfile::tempdir().unwrap();
        let keys = |partition: usize| -> Vec<i64> {
            (0..8).map(|key| key + 8 * partition as i64).collect()
        };
        let batch = |partition| {
            let columns: [(&str, ArrayRef); 3] = [
                ("a", Arc::new(Int64Array::from(keys(partition)))),
                (
                    "b",
                    Arc::new(Int64Array::from(vec![partition as i64 % 2; 8])),
                ),
                ("c", Arc::new(Int64Array::from(vec![1; 8]))),
            ];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        let write = |partition| {
            let by = PartitionBy {
                columns: vec!["b".to_owned(), "a".to_owned()],
                max_folders: 20,
            };
            let batch = batch(partition);
            let mut writer = PartitionedWriter::new(
                directory.path(),
                partition,
                &batch.schema(),
                WriteOptions::new(crate::formats::text::CSV),
                by,
            )?;
            writer.write(&batch)?;
            writer.end()?.wait()
        };
        let written: Vec<_> = (0..10).map(write).collect();
        assert!(written[..3].iter().all(Result::is_ok));
        for refused in &written[3..] {
            assert!(matches!(
                refused,
                Err(IoError::TooManyFolders { limit: 20, .. })
            ));
        }
        assert_eq!(count_folders(directory.path(), 2, 1_000).unwrap(), 24);
    }

    #[test]
    fn names_are_those_that_hive_decodes() {
        assert_eq!(value_name("a/b=c d:é%"), "a%2Fb%3Dc d%3Aé%25");
        assert_eq!(value_name(NULL_PARTITION), "%5F_HIVE_DEFAULT_PARTITION__");
        assert_eq!(value_name("2024-01-02"), "2024-01-02");
        assert_eq!(key_name("a key: b=c"), "a key: b%3Dc");
    }
}
