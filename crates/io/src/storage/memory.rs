//! A second storage, for tests: objects in memory, by names that begin with `memory://`.
//!
//! It behaves as an object store does: directories are beginnings of names, and a file appears when all of it is written.
//! An empty directory is an object without bytes, whose name ends in a `/`, as tools of object stores make it. So whatever
//! works here assumes no path of the machine. Builds with debug assertions have this storage too, for tests in Python.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Error, ErrorKind, Read, Result};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Below, FileStamp, Kind, Listed, Lock, Metadata, NewFile, Storage, StoredFile};

const ROOT: &str = "memory://";

/// The objects of this process.
pub(super) struct Memory;

#[derive(Clone)]
struct Object {
    content: Arc<[u8]>,
    /// Counts all objects that were written.
    version: i64,
}

/// All names that there are.
struct Names {
    objects: BTreeMap<PathBuf, Object>,
    /// Directories that were made, so that they need not have anything.
    directories: BTreeSet<PathBuf>,
    /// Numbers of locks, by the directories that are locked.
    locks: BTreeMap<PathBuf, u64>,
    marks: BTreeMap<PathBuf, Vec<u8>>,
}

static NAMES: Mutex<Names> = Mutex::new(Names {
    objects: BTreeMap::new(),
    directories: BTreeSet::new(),
    locks: BTreeMap::new(),
    marks: BTreeMap::new(),
});
static LOCKS: AtomicU64 = AtomicU64::new(0);

fn names() -> MutexGuard<'static, Names> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn object(path: &Path) -> Result<Object> {
    let found = names().objects.get(path).cloned();
    found.ok_or_else(|| ErrorKind::NotFound.into())
}

impl Names {
    /// Whether a path is a directory: it was made, or something is in it.
    fn is_directory(&self, path: &Path) -> bool {
        path == Path::new(ROOT) || self.directories.contains(path) || self.has_below(path)
    }

    fn has_below(&self, path: &Path) -> bool {
        let mut names = self.objects.keys().chain(&self.directories);
        names.any(|name| name != path && name.starts_with(path))
    }

    /// Gives all names that begin with a path another beginning.
    fn move_all(&mut self, from: &Path, to: &Path) {
        move_keys(&mut self.objects, from, to);
        move_keys(&mut self.locks, from, to);
        move_keys(&mut self.marks, from, to);
        let moved = std::mem::take(&mut self.directories).into_iter();
        self.directories = moved.map(|name| moved_name(name, from, to)).collect();
    }
}

fn move_keys<T>(map: &mut BTreeMap<PathBuf, T>, from: &Path, to: &Path) {
    let moved = std::mem::take(map).into_iter();
    *map = moved
        .map(|(name, value)| (moved_name(name, from, to), value))
        .collect();
}

fn moved_name(name: PathBuf, from: &Path, to: &Path) -> PathBuf {
    match name.strip_prefix(from) {
        Err(_) => name,
        Ok(rest) if rest.as_os_str().is_empty() => to.to_path_buf(),
        Ok(rest) => to.join(rest),
    }
}

/// A lock by its number, so that it may move with its directory.
struct Locked(u64);

impl Lock for Locked {}

impl Drop for Locked {
    fn drop(&mut self) {
        names().locks.retain(|_, number| *number != self.0);
    }
}

impl Object {
    fn stamp(&self) -> FileStamp {
        FileStamp {
            bytes: self.content.len() as u64,
            mtime_ns: self.version,
        }
    }
}

impl Storage for Memory {
    fn root_bytes(&self, path: &Path) -> Option<usize> {
        let bytes = path.as_os_str().as_bytes();
        bytes.starts_with(ROOT.as_bytes()).then_some(ROOT.len())
    }

    fn metadata(&self, path: &Path) -> Result<Metadata> {
        let names = names();
        let (kind, stamp) = match names.objects.get(path) {
            Some(object) => (Kind::File, object.stamp()),
            None if !names.is_directory(path) => return Err(ErrorKind::NotFound.into()),
            None => (
                Kind::Directory,
                FileStamp {
                    bytes: 0,
                    mtime_ns: 0,
                },
            ),
        };
        Ok(Metadata {
            kind,
            stamp,
            identity: None,
        })
    }

    fn list(&self, directory: &Path) -> Result<Vec<Listed>> {
        let below = self.below(directory)?.into_iter();
        let own = below.filter(|found| found.name.components().count() == 1);
        let listed = own.map(|found| Listed {
            is_directory: found.kind == Kind::Directory,
            is_link: false,
            name: found.name.into_os_string(),
        });
        Ok(listed.collect())
    }

    fn real_path(&self, path: &Path) -> Result<PathBuf> {
        Ok(path.to_path_buf())
    }

    fn open(&self, path: &Path) -> Result<Option<Box<dyn StoredFile>>> {
        Ok(Some(Box::new(object(path)?)))
    }

    fn stream(&self, path: &Path) -> Result<Box<dyn Read>> {
        Ok(Box::new(Cursor::new(object(path)?.content)))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn NewFile>> {
        if names().objects.contains_key(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        Ok(Box::new(NewObject {
            path: path.to_path_buf(),
            content: Vec::new(),
        }))
    }

    fn create_directories(&self, path: &Path) -> Result<()> {
        match self.create_directory(path) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists && object(path).is_err() => Ok(()),
            created => created,
        }
    }

    fn resolved(&self, path: &Path) -> Result<PathBuf> {
        let below = path.strip_prefix(ROOT).unwrap_or(path);
        Ok(Path::new(ROOT).join(below.components().collect::<PathBuf>()))
    }

    fn below(&self, directory: &Path) -> Result<Vec<Below>> {
        let names = names();
        let mut found: BTreeMap<&Path, (Kind, u64)> = BTreeMap::new();
        for (path, object) in &names.objects {
            let Ok(name) = path.strip_prefix(directory) else {
                continue;
            };
            found.insert(name, (Kind::File, object.content.len() as u64));
            for folder in name.ancestors().skip(1) {
                found.insert(folder, (Kind::Directory, 0));
            }
        }
        for path in &names.directories {
            let within = path.strip_prefix(directory);
            for folder in within.iter().flat_map(|name| name.ancestors()) {
                found.insert(folder, (Kind::Directory, 0));
            }
        }
        found.remove(Path::new(""));
        let all = found.into_iter().map(|(name, (kind, bytes))| Below {
            name: name.to_path_buf(),
            kind,
            bytes,
        });
        Ok(all.collect())
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        let mut names = names();
        if names.objects.contains_key(path) || names.is_directory(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        names.directories.insert(path.to_path_buf());
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut names = names();
        let is_file = names.objects.contains_key(from);
        match () {
            () if !is_file && !names.is_directory(from) => Err(ErrorKind::NotFound.into()),
            () if is_file && names.is_directory(to) => Err(ErrorKind::IsADirectory.into()),
            () if !is_file && names.objects.contains_key(to) => {
                Err(ErrorKind::NotADirectory.into())
            }
            () if names.has_below(to) => Err(ErrorKind::DirectoryNotEmpty.into()),
            () => {
                names.objects.remove(to);
                names.marks.remove(to);
                names.move_all(from, to);
                Ok(())
            }
        }
    }

    fn exchange(&self, one: &Path, other: &Path) -> Result<bool> {
        let mut names = names();
        if !names.is_directory(one) || !names.is_directory(other) {
            return Err(ErrorKind::NotFound.into());
        }
        let between = Path::new("memory://exchanged");
        names.move_all(one, between);
        names.move_all(other, one);
        names.move_all(between, other);
        Ok(true)
    }

    fn link(&self, file: &Path, place: &Path) -> Result<()> {
        let mut names = names();
        if names.objects.contains_key(place) || names.is_directory(place) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let found = names.objects.get(file).cloned();
        let object = found.ok_or_else(|| Error::from(ErrorKind::NotFound))?;
        names.objects.insert(place.to_path_buf(), object);
        if let Some(mark) = names.marks.get(file).cloned() {
            names.marks.insert(place.to_path_buf(), mark);
        }
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        let mut names = names();
        names.marks.remove(path);
        let removed = names.objects.remove(path);
        removed
            .map(|_| ())
            .ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn remove_directory(&self, path: &Path) -> Result<()> {
        let mut names = names();
        if names.has_below(path) {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        let removed = names.directories.remove(path);
        removed
            .then_some(())
            .ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn remove_all(&self, path: &Path) -> Result<()> {
        let mut names = names();
        names.objects.retain(|name, _| !name.starts_with(path));
        names.marks.retain(|name, _| !name.starts_with(path));
        names.directories.retain(|name| !name.starts_with(path));
        Ok(())
    }

    fn sync(&self, path: &Path) -> Result<()> {
        self.metadata(path).map(|_| ())
    }

    fn lock(&self, directory: &Path) -> Result<Box<dyn Lock>> {
        let mut names = names();
        if !names.is_directory(directory) {
            return Err(ErrorKind::NotFound.into());
        }
        if names.locks.contains_key(directory) {
            return Err(ErrorKind::WouldBlock.into());
        }
        let number = LOCKS.fetch_add(1, Ordering::Relaxed);
        names.locks.insert(directory.to_path_buf(), number);
        Ok(Box::new(Locked(number)))
    }

    fn set_mark(&self, path: &Path, mark: &[u8]) -> Result<()> {
        object(path)?;
        names().marks.insert(path.to_path_buf(), mark.to_vec());
        Ok(())
    }

    fn mark(&self, path: &Path) -> Result<Vec<u8>> {
        let found = names().marks.get(path).cloned();
        found.ok_or_else(|| ErrorKind::NotFound.into())
    }
}

impl StoredFile for Object {
    fn stamp(&self) -> FileStamp {
        Object::stamp(self)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let rest = &self.content[self.content.len().min(offset as usize)..];
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

struct NewObject {
    path: PathBuf,
    content: Vec<u8>,
}

impl NewFile for NewObject {
    fn append(&mut self, pages: &[u8]) -> Result<()> {
        self.content.extend_from_slice(pages);
        Ok(())
    }

    fn finish(mut self: Box<Self>, buffer: &mut [u8], filled: usize) -> Result<()> {
        self.content.extend_from_slice(&buffer[..filled]);
        let objects = &mut names().objects;
        let version = objects.values().map(|object| object.version).max();
        let object = Object {
            content: self.content.into(),
            version: version.unwrap_or_default() + 1,
        };
        objects.insert(self.path, object);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use arrow_schema::SchemaRef;
    use arrow_select::concat::concat_batches;

    use super::*;
    use crate::direct::DirectWriter;
    use crate::formats::{ipc, lines, parquet, text};
    use crate::{
        decompress, list_compressed, open_source, open_split, pattern_finds, sample_splits, Bounds,
        Codec, Format, IoError, PartWriter, PartitionBy, PartitionedWriter, ReadOptions, Source,
        WriteOptions,
    };

    const ROWS: usize = 100_000;

    /// Rows of several windows; the keys are in order.
    fn rows() -> RecordBatch {
        let numbers = (0..ROWS as i64).map(|i| i * 1_000_003);
        let texts = (0..ROWS).map(|i| format!("row {i} of some length, so that files have pages"));
        let columns: [(&str, ArrayRef); 3] = [
            ("number", Arc::new(Int64Array::from_iter_values(numbers))),
            ("text", Arc::new(StringArray::from_iter_values(texts))),
            (
                "key",
                Arc::new(Int64Array::from_iter_values(
                    (0..ROWS).map(|i| (i / 40_000) as i64),
                )),
            ),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn opened(path: &str) -> crate::Result<Source> {
        let options = ReadOptions {
            hive: true,
            ..ReadOptions::default()
        };
        open_source(&[path.to_owned()], &options)
    }

    fn read(source: &Source) -> RecordBatch {
        let options = ReadOptions::default();
        let mut batches = Vec::new();
        for split in source.splits(1 << 20).unwrap() {
            let rows = open_split(&split, &source.schema, &options, None, 1000).unwrap();
            batches.extend(rows.map(|batch| as_declared(&batch.unwrap(), &source.schema)));
        }
        concat_batches(&source.schema, &batches).unwrap()
    }

    fn as_declared(batch: &RecordBatch, schema: &SchemaRef) -> RecordBatch {
        let columns = batch.columns().iter().zip(schema.fields());
        let columns = columns.map(|(c, f)| arrow_cast::cast(c, f.data_type()).unwrap());
        RecordBatch::try_new(schema.clone(), columns.collect()).unwrap()
    }

    fn write(directory: &str, format: Format, rows: &RecordBatch) {
        let options = WriteOptions {
            target_file_bytes: Some(1 << 20),
            ..WriteOptions::new(format)
        };
        let directory = Path::new(directory);
        let mut writer = PartWriter::new(directory, 0, rows.schema(), options).unwrap();
        writer.write(rows.clone()).unwrap();
        let files = writer.end().unwrap().wait().unwrap();
        assert!(files.len() > 1);
        for file in files {
            let written = object(&directory.join(&file.name)).unwrap();
            assert_eq!(written.content.len() as u64, file.bytes);
            assert_eq!(crc32fast::hash(&written.content), file.crc32);
        }
    }

    #[test]
    fn each_format_is_written_listed_and_read() {
        let rows = rows();
        for format in [parquet::FORMAT, ipc::FORMAT, text::CSV, text::JSON_LINES] {
            let directory = format!("memory://round/{}", format.name());
            write(&directory, format, &rows);
            for path in [
                &directory,
                &format!("{directory}/p*-0000?*"),
                "memory://round/*/*",
            ] {
                let files = crate::source::list_files(&[path.to_owned()]).unwrap();
                assert!(files.len() > 1 && files.iter().all(|file| Memory.exists(file)));
            }
            let source = opened(&directory).unwrap();
            assert!(read(&source).columns() == rows.columns(), "{directory}");
            let splits = source.splits(1 << 20).unwrap();
            let options = ReadOptions::default();
            let sampled = sample_splits(&splits, &source.schema, &options, None, 100, 7).unwrap();
            assert!(sampled.iter().any(|(batch, _)| batch.num_rows() > 0));
        }
    }

    #[test]
    fn lines_are_written_and_read() {
        let rows = rows().project(&[1]).unwrap();
        write("memory://lines", lines::FORMAT, &rows);
        let back = read(&opened("memory://lines").unwrap());
        assert!(back.columns() == rows.columns());
    }

    #[test]
    fn folders_become_columns_again() {
        let rows = rows();
        let by = PartitionBy {
            columns: vec!["key".to_owned()],
            max_folders: 10,
        };
        let (root, options) = (Path::new("memory://by"), WriteOptions::new(parquet::FORMAT));
        let mut writer = PartitionedWriter::new(root, 0, &rows.schema(), options, by).unwrap();
        writer.write(&rows).unwrap();
        assert_eq!(writer.end().unwrap().wait().unwrap().len(), 3);
        let back = read(&opened("memory://by").unwrap());
        assert!(back.columns() == rows.columns());
        let pruned = read(&opened("memory://by/key=[12]/*").unwrap());
        assert_eq!(pruned.num_rows(), ROWS - 40_000);
    }

    #[test]
    fn a_file_that_was_written_again_is_noticed() {
        write("memory://changed", parquet::FORMAT, &rows());
        let source = opened("memory://changed").unwrap();
        let split = &source.splits(1 << 20).unwrap()[0];
        names().objects.get_mut(&split.path).unwrap().version += 1000;
        let again = open_split(split, &source.schema, &ReadOptions::default(), None, 10);
        assert!(matches!(again.err(), Some(IoError::FileChanged { .. })));
        names().objects.remove(&split.path);
        let gone = open_split(split, &source.schema, &ReadOptions::default(), None, 10);
        let gone = gone.err().unwrap().to_string();
        assert!(gone.contains("memory://changed"), "{gone}");
    }

    #[test]
    fn refusals_are_those_of_local_files() {
        let missing = opened("memory://missing").err().unwrap();
        assert!(matches!(missing, IoError::PathMissing { .. }), "{missing}");
        let unmatched = opened("memory://missing/*.csv").err().unwrap();
        assert!(
            matches!(unmatched, IoError::NothingMatched { .. }),
            "{unmatched}"
        );
        let path = Path::new("memory://twice/x");
        DirectWriter::create(path).unwrap().finish().unwrap();
        let twice = DirectWriter::create(path).err().unwrap().to_string();
        assert!(twice.contains("remove the file"), "{twice}");
    }

    #[test]
    fn patterns_find_paths() {
        let finds = |pattern| pattern_finds(pattern, Path::new("memory://a/b/c.csv"));
        assert!(finds("memory://a/*/c.csv") && finds("memory://**/*.csv"));
        assert!(!finds("memory://b/*/c.csv") && !finds("/a/*/c.csv") && !finds("a/*/c.csv"));
    }

    #[test]
    fn compressed_text_is_found_and_decompressed() {
        let text = b"a,b\n1,2\n".repeat(1000);
        let path = Path::new("memory://compressed/x.csv");
        let mut writer = DirectWriter::create(path).unwrap();
        writer
            .append(&zstd::encode_all(&text[..], 1).unwrap())
            .unwrap();
        writer.finish().unwrap();
        let listed = list_compressed(&["memory://compressed".to_owned()], None).unwrap();
        assert_eq!((listed.len(), listed[0].codec), (1, Some(Codec::Zstd)));
        let mut to = tempfile::tempfile().unwrap();
        let bounds = Bounds {
            decoder: 0,
            line: 100,
        };
        let name = Path::new("there");
        decompress(path, Codec::Zstd, (&to, name), bounds, &|| false).unwrap();
        to.flush().unwrap();
        let mut made = Vec::new();
        std::io::Seek::rewind(&mut to).unwrap();
        to.read_to_end(&mut made).unwrap();
        assert!(made == text);
    }
}
