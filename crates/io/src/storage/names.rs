//! Names of the machine: where a path leads, what is below a directory, and the system calls that change names at once.

use std::collections::VecDeque;
use std::ffi::{CStr, CString, OsString};
use std::fs::{self, File};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use super::{Below, Kind, Lock};

/// Links that lead to links: Linux follows 40.
const MOST_LINKS: usize = 40;
/// The attribute that has the mark of a file.
const MARK: &CStr = c"user.exoshuffle";
/// A mark has no more bytes.
const MOST_MARK_BYTES: usize = 256;

/// Returns where a path leads, which need not exist: absolute and without links. A circle of links stays as it is.
pub(super) fn resolved(path: &Path) -> Result<PathBuf> {
    let mut found = PathBuf::from("/");
    if !path.is_absolute() {
        found = std::env::current_dir()?;
    }
    let mut rest: VecDeque<OsString> = parts(path);
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            found.pop();
            continue;
        }
        let next = found.join(&part);
        match fs::read_link(&next) {
            Ok(target) if links < MOST_LINKS => {
                links += 1;
                if target.is_absolute() {
                    found = PathBuf::from("/");
                }
                for part in parts(&target).into_iter().rev() {
                    rest.push_front(part);
                }
            }
            _ => found = next,
        }
    }
    Ok(found)
}

/// Returns the names in a path, and `..` where it goes up.
fn parts(path: &Path) -> VecDeque<OsString> {
    let named = path
        .components()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    named.map(|part| part.as_os_str().to_owned()).collect()
}

/// Adds everything below a directory, which has the name `within`.
pub(super) fn add_below(directory: &Path, within: &Path, found: &mut Vec<Below>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let (own, name) = (entry.file_type()?, within.join(entry.file_name()));
        let kind = match () {
            () if own.is_dir() => Kind::Directory,
            () if own.is_file() => Kind::File,
            () => Kind::Other,
        };
        let bytes = match kind {
            Kind::File => entry.metadata()?.len(),
            _ => 0,
        };
        found.push(Below {
            name: name.clone(),
            kind,
            bytes,
        });
        if kind == Kind::Directory {
            add_below(&entry.path(), &name, found)?;
        }
    }
    Ok(())
}

/// Exchanges two directories in one step. Returns false if this system or file system cannot.
#[cfg(target_os = "linux")]
pub(super) fn exchange(one: &Path, other: &Path) -> Result<bool> {
    let names = (c_string(one)?, c_string(other)?);
    // SAFETY: two strings that end with a zero byte and live until the call returns. The number of the call is passed on
    // because a C library may be older than the kernel.
    let status = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            libc::AT_FDCWD,
            names.0.as_ptr(),
            libc::AT_FDCWD,
            names.1.as_ptr(),
            libc::RENAME_EXCHANGE,
        )
    };
    if status == 0 {
        return Ok(true);
    }
    let error = Error::last_os_error();
    if is_unknown(&error) {
        return Ok(false);
    }
    Err(error)
}

/// See the function of the same name for Linux.
#[cfg(not(target_os = "linux"))]
pub(super) fn exchange(_: &Path, _: &Path) -> Result<bool> {
    Ok(false)
}

/// Waits until a file's bytes, or a directory's names, are on disk, where the file system can tell.
pub(super) fn sync(path: &Path) -> Result<()> {
    match File::open(path)?.sync_all() {
        Err(e) if is_unknown(&e) => Ok(()),
        done => done,
    }
}

/// The descriptor has the lock, which ends with the last copy of it: a forked child that drops its copy unlocks nothing.
struct Locked {
    _descriptor: File,
}

impl Lock for Locked {}

/// Locks a directory; the error is `WouldBlock` if another process has the lock.
pub(super) fn lock(directory: &Path) -> Result<Box<dyn Lock>> {
    let mut options = File::options();
    let file = options
        .read(true)
        .custom_flags(libc::O_DIRECTORY)
        .open(directory)?;
    // SAFETY: an integer argument and a descriptor that is open for the whole call.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(Box::new(Locked { _descriptor: file })),
        _ => Err(Error::last_os_error()),
    }
}

/// Keeps a mark with a file, where the file system can.
#[cfg(target_os = "linux")]
pub(super) fn set_mark(path: &Path, mark: &[u8]) -> Result<()> {
    let path = c_string(path)?;
    // SAFETY: strings that end with a zero byte, and a buffer of the length that is passed with it.
    let status = unsafe {
        libc::setxattr(
            path.as_ptr(),
            MARK.as_ptr(),
            mark.as_ptr().cast(),
            mark.len(),
            0,
        )
    };
    if status == 0 {
        return Ok(());
    }
    Err(Error::last_os_error())
}

/// Returns the mark of a file.
#[cfg(target_os = "linux")]
pub(super) fn mark(path: &Path) -> Result<Vec<u8>> {
    let path = c_string(path)?;
    let mut mark = vec![0; MOST_MARK_BYTES];
    // SAFETY: as above; the call fills no more than the length that is passed.
    let len = unsafe {
        libc::getxattr(
            path.as_ptr(),
            MARK.as_ptr(),
            mark.as_mut_ptr().cast(),
            mark.len(),
        )
    };
    let len = usize::try_from(len).map_err(|_| Error::last_os_error())?;
    mark.truncate(len);
    Ok(mark)
}

/// See the function of the same name for Linux.
#[cfg(not(target_os = "linux"))]
pub(super) fn set_mark(_: &Path, _: &[u8]) -> Result<()> {
    Err(ErrorKind::Unsupported.into())
}

/// See the function of the same name for Linux.
#[cfg(not(target_os = "linux"))]
pub(super) fn mark(_: &Path) -> Result<Vec<u8>> {
    Err(ErrorKind::Unsupported.into())
}

/// Whether a kernel, a C library or a file system does not know the call.
fn is_unknown(error: &Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOSYS | libc::EINVAL | libc::EOPNOTSUPP)
    )
}

fn c_string(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| ErrorKind::InvalidInput.into())
}
