//! Calls that Linux has and other Unix systems lack, with replacements. The rest of the crate names no system.
//!
//! Flags that a system lacks are 0, and its advice is to do nothing. So files are neither direct nor made without a name,
//! pages come one by one, and all of it works; `memory_file` has the rest. `docs/platforms.md` names the parts that are slower.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

pub(crate) use flags::{ADVICE_COLLAPSE, ADVICE_POPULATE, MAP_POPULATE, OPEN_DIRECT, OPEN_UNNAMED};

#[cfg(target_os = "linux")]
mod flags {
    pub(crate) const OPEN_DIRECT: i32 = libc::O_DIRECT;
    pub(crate) const OPEN_UNNAMED: i32 = libc::O_TMPFILE;
    pub(crate) const MAP_POPULATE: i32 = libc::MAP_POPULATE;
    pub(crate) const ADVICE_POPULATE: i32 = libc::MADV_POPULATE_WRITE;
    pub(crate) const ADVICE_COLLAPSE: i32 = libc::MADV_COLLAPSE;
}

#[cfg(not(target_os = "linux"))]
mod flags {
    pub(crate) const OPEN_DIRECT: i32 = 0;
    pub(crate) const OPEN_UNNAMED: i32 = 0;
    pub(crate) const MAP_POPULATE: i32 = 0;
    pub(crate) const ADVICE_POPULATE: i32 = libc::MADV_NORMAL;
    pub(crate) const ADVICE_COLLAPSE: i32 = libc::MADV_NORMAL;
}

/// Gives a range of a file back to the system; it reads as zeros afterwards.
pub(crate) fn punch(file: &File, offset: u64, len: u64) -> io::Result<()> {
    uninterrupted(|| {
        #[cfg(target_os = "linux")]
        // SAFETY: fallocate takes no pointers.
        let code = unsafe {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            libc::fallocate(file.as_raw_fd(), mode, offset as i64, len as i64)
        };
        #[cfg(not(target_os = "linux"))]
        let code = {
            let hole = libc::fpunchhole_t {
                fp_flags: 0,
                reserved: 0,
                fp_offset: offset as i64,
                fp_length: len as i64,
            };
            // SAFETY: the command reads the structure that it gets.
            unsafe { libc::fcntl(file.as_raw_fd(), libc::F_PUNCHHOLE, &raw const hole) }
        };
        if code == 0 {
            0
        } else {
            io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO)
        }
    })
}

/// Gives a new file its disk space and its length. A sparse file on a full disk would kill the process at some later
/// write into the mapping.
pub(crate) fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    // SAFETY: takes a descriptor that is open here and two integers.
    return uninterrupted(|| unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as i64) });
    #[cfg(not(target_os = "linux"))]
    {
        let mut wanted = libc::fstore_t {
            fst_flags: libc::F_ALLOCATEALL,
            fst_posmode: libc::F_PEOFPOSMODE,
            fst_offset: 0,
            fst_length: bytes as i64,
            fst_bytesalloc: 0,
        };
        uninterrupted(|| {
            // SAFETY: the command reads and fills the structure that it gets.
            match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_PREALLOCATE, &raw mut wanted) } {
                -1 => io::Error::last_os_error()
                    .raw_os_error()
                    .unwrap_or(libc::EIO),
                _ => 0,
            }
        })?;
        file.set_len(bytes)
    }
}

/// Repeats a call that returns the number of its error, or 0, until no signal interrupts it.
fn uninterrupted(mut call: impl FnMut() -> i32) -> io::Result<()> {
    loop {
        match call() {
            0 => return Ok(()),
            libc::EINTR => {}
            code => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}
