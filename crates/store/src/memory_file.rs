//! The file that the arena is in: of memory alone where the system has such files.

use std::fs::File;
use std::io;

/// Opens a file of memory that has no name.
#[cfg(target_os = "linux")]
pub(crate) fn open() -> io::Result<File> {
    // SAFETY: the name is a constant C string.
    let fd = unsafe { libc::memfd_create(c"exoshuffle".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened and has no other owner.
    Ok(unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) })
}

/// Opens a file of the folder for temporary files that has no name any more: the page cache is its memory.
#[cfg(not(target_os = "linux"))]
pub(crate) fn open() -> io::Result<File> {
    crate::direct_file::create_unlinked(&std::env::temp_dir(), 0)
}
