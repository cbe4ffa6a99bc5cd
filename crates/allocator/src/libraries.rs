//! Gives pages of pyarrow, DuckDB and the native module that nobody needs now back to the system.
//!
//! Loading a library touches far more of it than is in use later. Linux maps as much at once as its file cache has in
//! one piece, up to all of it. pyarrow and DuckDB had 80 to 150 MB resident, depending on how their files had been read
//! before. 30 to 37 of these came back in use. The pages stay in the file cache, so that coming back costs a millisecond
//! in all. Libraries of the program stay as they are: nobody knows which of their pages are in use, so all of them
//! count.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How the names of the libraries' files begin; pyarrow's wheels have a folder, too.
const LIBRARIES: [&str; 4] = ["libarrow", "libparquet", "_duckdb.", "_native."];

/// The most that was ever released at once.
static MOST: AtomicU64 = AtomicU64::new(0);

/// Lets go of those pages of these libraries in this process that are as they are in their files. Pages in use come
/// back. Takes some milliseconds, and more where much memory is mapped. Does nothing where the system does not describe
/// its mappings.
pub fn release() {
    let Ok(text) = fs::read_to_string("/proc/self/smaps") else {
        return;
    };
    let parts = parts(&text);
    let code = parts.iter().filter(|part| part.is_code());
    MOST.fetch_max(code.map(Part::release).sum(), Ordering::Relaxed);
}

/// Returns the most bytes that the libraries had when they were released.
pub fn most_released() -> u64 {
    MOST.load(Ordering::Relaxed)
}

/// Releases on a thread of its own: while the guard released, it looked at nothing for 6 ms and let workers grow beyond
/// the limit.
#[derive(Default)]
pub struct Releasing {
    thread: Option<JoinHandle<Duration>>,
    /// When the last release ended, and how long it took.
    last: Option<(Instant, Duration)>,
}

impl Releasing {
    /// Begins a release, if a hundred times as long has passed since the last one as that took.
    pub fn start(&mut self) {
        if let Some(thread) = self.thread.take_if(|thread| thread.is_finished()) {
            self.last = thread.join().ok().map(|took| (Instant::now(), took));
        }
        let is_due = self.last.is_none_or(|(at, took)| at.elapsed() > 100 * took);
        if self.thread.is_none() && is_due {
            let run = || {
                let started = Instant::now();
                release();
                started.elapsed()
            };
            let thread = thread::Builder::new().name("exoshuffle-code".into());
            self.thread = thread.spawn(run).ok();
        }
    }
}

impl Drop for Releasing {
    /// Waits for the end of the release.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A piece of the address space that lies in a file.
struct Part<'text> {
    start: usize,
    end: usize,
    /// Nobody may write to it, and other processes do not see it.
    is_read_only: bool,
    path: &'text str,
    resident_bytes: u64,
    /// The process's own bytes in it, in memory and swapped out: those that the loader has filled in.
    own_bytes: u64,
    /// Nobody could write to it since it was mapped, as far as the system says.
    was_read_only: bool,
}

impl Part<'_> {
    /// Returns whether it is code and constants as they are in the file, of a library that the engine loads.
    fn is_code(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let is_known = self.path.contains("/pyarrow/")
            || LIBRARIES.iter().any(|library| name.starts_with(library));
        let is_library = name.ends_with(".so") || name.contains(".so.");
        self.is_read_only && self.was_read_only && self.own_bytes == 0 && is_known && is_library
    }

    fn release(&self) -> u64 {
        let address = std::ptr::with_exposed_provenance_mut(self.start);
        // SAFETY: nobody wrote to these pages, so they are read from the file again, unchanged, when they are used. If
        // they have been unmapped meanwhile, the call fails; libraries that Python has loaded stay.
        let result = unsafe { libc::madvise(address, self.end - self.start, libc::MADV_DONTNEED) };
        if result == 0 {
            self.resident_bytes
        } else {
            0
        }
    }
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    for line in text.lines() {
        if let Some((name, rest)) = line.split_once(':').filter(|(name, _)| is_field(name)) {
            let Some(part) = parts.last_mut() else {
                continue;
            };
            match name {
                "Rss" => part.resident_bytes = bytes(rest),
                "Anonymous" | "Swap" => part.own_bytes += bytes(rest),
                // Accounted for as the process's own memory, since it could be written to.
                "VmFlags" => part.was_read_only = rest.split_whitespace().all(|it| it != "ac"),
                _ => {}
            }
        } else {
            parts.extend(part(line));
        }
    }
    parts
}

fn bytes(text: &str) -> u64 {
    let kilobytes = text.trim().trim_end_matches("kB").trim_end().parse();
    kilobytes.map_or(0, |it: u64| it * 1024)
}

/// Returns whether a line describes the part before it, and is not the head of the next.
fn is_field(name: &str) -> bool {
    !name.contains(' ')
}

fn part(line: &str) -> Option<Part<'_>> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let access = words.next()?;
    let path = words.nth(3).unwrap_or_default().trim_start();
    Some(Part {
        start: usize::from_str_radix(start, 16).ok()?,
        end: usize::from_str_radix(end, 16).ok()?,
        is_read_only: access.starts_with("r-") && access.ends_with('p'),
        path,
        resident_bytes: 0,
        own_bytes: 0,
        was_read_only: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
7f00-7f10 r-xp 00000000 fe:00 12                 /lib/a b/libarrow.so.1
Size:                 64 kB
Rss:                  40 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
7f20-7f30 r--p 00010000 fe:00 12                 /pyarrow/in_memory.so
Rss:                   8 kB
Anonymous:             4 kB
Swap:                  0 kB
VmFlags: rd mr mw me
7f30-7f40 r--p 00010000 fe:00 12                 /pyarrow/swapped.so
Rss:                   8 kB
Anonymous:             0 kB
Swap:                  4 kB
VmFlags: rd mr mw me
7f40-7f50 r--p 00010000 fe:00 12                 /pyarrow/was_written.so
Rss:                   8 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd mr mw me ac
7f50-7f60 rw-p 00000000 00:00 0
Rss:                  12 kB
VmFlags: rd wr mr mw me ac
8f30-8f40 r--p 00000000 fe:00 13                 /pyarrow/rows.arrow
Rss:                  12 kB
Anonymous:             0 kB
VmFlags: rd mr mw me
9f30-9f40 r-xp 00000000 fe:00 14                 /lib/of_the_program.so
Rss:                  12 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
";

    #[test]
    fn clean_pages_of_libraries_are_known() {
        let parts = parts(TEXT);
        let chosen: Vec<&Part<'_>> = parts.iter().filter(|part| part.is_code()).collect();
        assert_eq!(parts.len(), 7);
        assert_eq!(chosen.len(), 1);
        assert_eq!((chosen[0].start, chosen[0].end), (0x7f00, 0x7f10));
        assert_eq!(chosen[0].path, "/lib/a b/libarrow.so.1");
        assert_eq!(chosen[0].resident_bytes, 40 << 10);
    }
}
