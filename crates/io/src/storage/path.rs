//! A path together with the storage that has it: what committing an output needs, for callers outside of this crate.

use std::ffi::OsString;
use std::hash::{Hash, Hasher};
use std::io::{Error, ErrorKind, Read, Result};
use std::path::{Path, PathBuf};

use super::{Below, Disk, FileStamp, Kind, Lock, Storage};

/// A path, and the storage that has it. The path alone tells the storage.
#[derive(Clone)]
pub struct StoredPath {
    path: PathBuf,
    storage: &'static dyn Storage,
}

impl PartialEq for StoredPath {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for StoredPath {}

impl Hash for StoredPath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.path.hash(state);
    }
}

impl StoredPath {
    /// Takes a path of any storage.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        let storage = super::of(&path);
        Self { path, storage }
    }

    /// Returns the path alone.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of something in this directory.
    #[must_use]
    pub fn join(&self, name: &Path) -> Self {
        let is_here = name.as_os_str().is_empty();
        self.at(if is_here {
            self.path.clone()
        } else {
            self.path.join(name)
        })
    }

    /// Returns the directory that the path is in. The root has none.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let root = self.storage.root_bytes(&self.path)?;
        let text = self.path.as_os_str().as_encoded_bytes();
        let root = Path::new(std::str::from_utf8(&text[..root]).ok()?);
        if self.path == root {
            return None;
        }
        let parent = self.path.parent()?;
        let is_above = parent.as_os_str().len() < root.as_os_str().len();
        Some(self.at(if is_above { root } else { parent }.to_path_buf()))
    }

    /// Returns where the path leads, which need not exist: absolute and without links.
    ///
    /// # Errors
    ///
    /// Those of the storage, as from all methods here.
    pub fn resolved(&self) -> Result<Self> {
        Ok(self.at(self.storage.resolved(&self.path)?))
    }

    /// Tells what the path leads to, behind links. Returns `None` if there is nothing.
    pub fn kind(&self) -> Result<Option<Kind>> {
        match self.storage.metadata(&self.path) {
            Ok(found) => Ok(Some(found.kind)),
            Err(e) if is_missing(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Returns size and modification time.
    pub fn stamp(&self) -> Result<FileStamp> {
        Ok(self.storage.metadata(&self.path)?.stamp)
    }

    /// Returns the names in a directory, in any order.
    pub fn names(&self) -> Result<Vec<OsString>> {
        let listed = self.storage.list(&self.path)?;
        Ok(listed.into_iter().map(|entry| entry.name).collect())
    }

    /// Lists everything below a directory, without following links.
    pub fn below(&self) -> Result<Vec<Below>> {
        self.storage.below(&self.path)
    }

    /// Returns the first bytes of a file, at most so many.
    pub fn start(&self, most_bytes: u64) -> Result<Vec<u8>> {
        let mut start = Vec::new();
        let stream = self.storage.stream(&self.path)?;
        stream.take(most_bytes).read_to_end(&mut start)?;
        Ok(start)
    }

    /// Creates a directory, which must not exist, in one that does.
    pub fn create_directory(&self) -> Result<()> {
        self.storage.create_directory(&self.path)
    }

    /// Creates a directory, and those above it, where they do not exist.
    pub fn create_directories(&self) -> Result<()> {
        self.storage.create_directories(&self.path)
    }

    /// Gives a file or directory another name in one step; see [`Storage::rename`].
    pub fn rename(&self, to: &Self) -> Result<()> {
        self.storage.rename(&self.path, &to.path)
    }

    /// Exchanges two directories in one step, so that neither name is ever missing. Returns false if the storage cannot.
    pub fn exchange(&self, other: &Self) -> Result<bool> {
        self.storage.exchange(&self.path, &other.path)
    }

    /// Gives a file a second name, which must be new; see [`Storage::link`].
    pub fn link(&self, to: &Self) -> Result<()> {
        self.storage.link(&self.path, &to.path)
    }

    /// Removes a file.
    pub fn remove(&self) -> Result<()> {
        self.storage.remove_file(&self.path)
    }

    /// Removes a directory, which must be empty.
    pub fn remove_directory(&self) -> Result<()> {
        self.storage.remove_directory(&self.path)
    }

    /// Removes a directory and everything below it.
    pub fn remove_all(&self) -> Result<()> {
        self.storage.remove_all(&self.path)
    }

    /// Waits until a file's bytes, or a directory's names, would survive a loss of power.
    pub fn sync(&self) -> Result<()> {
        self.storage.sync(&self.path)
    }

    /// Locks a directory; the error is [`ErrorKind::WouldBlock`] if another process has the lock.
    pub fn lock(&self) -> Result<Box<dyn Lock>> {
        self.storage.lock(&self.path)
    }

    /// Keeps a mark of up to 256 bytes with a file, where the storage can.
    pub fn set_mark(&self, mark: &[u8]) -> Result<()> {
        self.storage.set_mark(&self.path, mark)
    }

    /// Returns the mark of a file.
    pub fn mark(&self) -> Result<Vec<u8>> {
        self.storage.mark(&self.path)
    }

    /// Returns the disk that new files of this directory are on, if that is known.
    #[must_use]
    pub fn disk(&self) -> Option<Disk> {
        self.storage.disk(&self.path)
    }

    fn at(&self, path: PathBuf) -> Self {
        let storage = self.storage;
        Self { path, storage }
    }
}

/// Whether an error says that nothing is there.
fn is_missing(error: &Error) -> bool {
    let known = [ErrorKind::NotFound, ErrorKind::NotADirectory];
    known.contains(&error.kind()) || error.raw_os_error() == Some(libc::ELOOP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direct::DirectWriter;

    /// A directory of each storage, which is removed with the first value.
    fn roots(name: &str) -> (tempfile::TempDir, [StoredPath; 2]) {
        let local = tempfile::tempdir().unwrap();
        let paths = [
            local.path().to_path_buf(),
            PathBuf::from(format!("memory://{name}")),
        ];
        (
            local,
            paths.map(|path| StoredPath::new(path).resolved().unwrap()),
        )
    }

    fn write(path: &StoredPath, content: &[u8]) {
        let mut writer = DirectWriter::create(path.path()).unwrap();
        writer.append(content).unwrap();
        writer.finish().unwrap();
    }

    /// Makes a directory with a file in a hidden sibling, as every output is made.
    fn staged(root: &StoredPath, name: &str) -> StoredPath {
        let staging = root.join(Path::new(".out.staging"));
        staging.create_directories().unwrap();
        write(&staging.join(Path::new(name)), name.as_bytes());
        for path in [&staging.join(Path::new(name)), &staging] {
            path.sync().unwrap();
        }
        staging
    }

    fn names(path: &StoredPath) -> Vec<String> {
        let found = path.names().unwrap().into_iter();
        let mut names: Vec<String> = found.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn an_output_appears_at_once_is_replaced_and_added_to() {
        let (_kept, roots) = roots("commits");
        for root in roots {
            let out = root.join(Path::new("out"));
            assert!(out.kind().unwrap().is_none());
            staged(&root, "first").rename(&out).unwrap();
            assert_eq!(names(&out), ["first"]);
            // Another directory does not take its place by a rename.
            let taken = staged(&root, "second").rename(&out).unwrap_err();
            assert_eq!(taken.kind(), ErrorKind::DirectoryNotEmpty);
            let staging = root.join(Path::new(".out.staging"));
            assert!(staging.exchange(&out).unwrap());
            assert_eq!(
                (names(&out), names(&staging)),
                (vec!["second".into()], vec!["first".into()])
            );
            staging.remove_all().unwrap();
            // An append is an exchange with a directory that has the old files, too.
            let staging = staged(&root, "third");
            let old = Path::new("second");
            out.join(old).link(&staging.join(old)).unwrap();
            assert!(staging.exchange(&out).unwrap());
            staging.remove_all().unwrap();
            assert_eq!(names(&out), ["second", "third"]);
            assert_eq!(out.join(old).start(3).unwrap(), b"sec");
            assert_eq!(names(&root), ["out"]);
        }
    }

    #[test]
    fn an_output_that_is_given_up_leaves_nothing() {
        let (_kept, roots) = roots("aborts");
        for root in roots {
            let staging = staged(&root, "some");
            let folder = staging.join(Path::new("k=1"));
            folder.create_directory().unwrap();
            let again = folder.create_directory().unwrap_err();
            assert_eq!(again.kind(), ErrorKind::AlreadyExists);
            let mut below = staging.below().unwrap();
            below.sort_by(|one, other| one.name.cmp(&other.name));
            let below: Vec<_> = below
                .iter()
                .map(|b| (b.name.to_str(), b.kind, b.bytes))
                .collect();
            let wanted = [
                (Some("k=1"), Kind::Directory, 0),
                (Some("some"), Kind::File, 4),
            ];
            assert_eq!(below, wanted);
            assert!(staging.remove_directory().is_err());
            folder.remove_directory().unwrap();
            staging.remove_all().unwrap();
            assert!(staging.kind().unwrap().is_none());
        }
    }

    #[test]
    fn a_lock_goes_with_its_directory_and_ends_when_it_is_dropped() {
        let (_kept, roots) = roots("locks");
        for root in roots {
            let staging = staged(&root, "some");
            let held = staging.lock().unwrap();
            let out = root.join(Path::new("out"));
            staging.rename(&out).unwrap();
            let refused = out.lock().err().unwrap();
            assert_eq!(refused.kind(), ErrorKind::WouldBlock);
            drop(held);
            assert!(out.lock().is_ok());
            out.remove_all().unwrap();
        }
    }

    #[test]
    fn a_file_keeps_its_mark_under_another_name_and_replaces_no_other() {
        let (_kept, roots) = roots("marks");
        for root in roots {
            let [one, other] = ["one", "other"].map(|name| root.join(Path::new(name)));
            write(&one, b"1");
            if one.set_mark(b"ours").is_err() {
                continue; // this file system keeps no marks
            }
            one.link(&other).unwrap();
            assert_eq!(other.mark().unwrap(), b"ours");
            let third = root.join(Path::new("third"));
            write(&third, b"3");
            assert!(third.mark().is_err());
            let taken = third.link(&other).unwrap_err();
            assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
            third.rename(&other).unwrap();
            assert!(other.mark().is_err() && other.stamp().unwrap().bytes == 1);
            other.remove().unwrap();
            assert!(other.kind().unwrap().is_none());
        }
    }

    #[test]
    fn parents_end_at_the_root() {
        let above = |path: &str| {
            let mut found = Vec::new();
            let mut next = StoredPath::new(path.into()).parent();
            while let Some(path) = next {
                found.push(path.path().to_str().unwrap().to_owned());
                next = path.parent();
            }
            found
        };
        assert_eq!(above("/a/b"), ["/a", "/"]);
        assert_eq!(above("memory://a/b"), ["memory://a", "memory://"]);
    }

    #[test]
    fn links_are_followed_to_a_place_that_need_not_exist() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::os::unix::fs::symlink(root.join("x/../none"), root.join("link")).unwrap();
        std::os::unix::fs::symlink("circle", root.join("circle")).unwrap();
        let leads = |path: &str| {
            let path = StoredPath::new(root.join(path)).resolved().unwrap();
            path.path().strip_prefix(&root).unwrap().to_path_buf()
        };
        assert_eq!(leads("link/a/./b"), Path::new("none/a/b"));
        assert_eq!(leads("circle"), Path::new("circle"));
        let circle = StoredPath::new(root.join("circle"));
        assert!(circle.kind().unwrap().is_none());
    }

    #[test]
    fn a_storage_tells_its_disk_where_it_has_one() {
        let (_local, [local, memory]) = roots("disk");
        let inner = local.join(Path::new("inner"));
        assert_eq!(inner.disk(), None);
        inner.create_directory().unwrap();
        let (one, other) = (local.disk().unwrap(), inner.disk().unwrap());
        assert_eq!(one.identity, other.identity);
        assert!(one.free_bytes > 0);
        assert_eq!(memory.disk(), None);
    }
}
