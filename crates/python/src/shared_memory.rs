//! Shared memory that functions map, which is part of no process alone: segments in `/dev/shm`, memory files, and
//! anonymous mappings that forks have in common.
//!
//! Each process counts with its share of the pages, so a segment counts once for all that have mapped it. Memory that
//! the program has mapped is none of its functions'. Blocks of the store are counted by the store.

use std::collections::HashSet;
use std::fs;

use crate::family::field_bytes;

/// How paths of such memory begin, as the system describes mappings.
const PLACES: [&str; 4] = ["/dev/shm/", "/dev/zero", "/memfd:", "/SYSV"];
/// The memory of all blocks of a store.
const STORE: &str = "/memfd:exoshuffle";

/// The shared memory that this process has mapped, by device and number.
pub struct OfProgram(HashSet<String>);

impl OfProgram {
    /// Asks the system. It takes some 100 µs.
    pub fn now() -> Self {
        let text = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        Self(text.lines().filter_map(identity).collect())
    }

    /// Returns the process's shares of the shared memory that it has mapped and this one has not. It takes some
    /// milliseconds.
    pub fn beside(&self, process: i32) -> u64 {
        let text = fs::read_to_string(format!("/proc/{process}/smaps")).unwrap_or_default();
        self.beside_in(&text)
    }

    fn beside_in(&self, text: &str) -> u64 {
        let mut is_counted = false;
        let mut bytes = 0;
        for line in text.lines() {
            // Fields are described by lines such as "Pss: 4 kB", and mappings by lines with numbers first.
            if line.starts_with(|first: char| first.is_ascii_uppercase()) {
                if is_counted {
                    bytes += field_bytes(line, "Pss:").unwrap_or(0);
                }
            } else {
                is_counted = identity(line).is_some_and(|it| !self.0.contains(&it));
            }
        }
        bytes
    }
}

/// Returns what identifies the shared memory behind a mapping; nothing if it is a file or a block, or belongs to one
/// process.
fn identity(line: &str) -> Option<String> {
    let mut words = line.splitn(6, ' ');
    let (device, number) = (words.nth(3)?, words.next()?);
    let path = words.next()?.trim_start();
    let is_shared = PLACES.iter().any(|place| path.starts_with(place));
    (is_shared && !path.starts_with(STORE)).then(|| format!("{device} {number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
7f00-7f10 rw-s 00000000 00:01 12                         /dev/shm/psm_1 (deleted)
Size:                 64 kB
Rss:                  40 kB
Pss:                  20 kB
Pss_Dirty:            20 kB
VmFlags: rd wr sh mr mw me
7f20-7f30 rw-s 00000000 00:01 13                         /dev/zero (deleted)
Pss:                   8 kB
7f30-7f40 rw-s 00000000 00:01 14                         /memfd:exoshuffle (deleted)
Pss:                  16 kB
7f40-7f50 r-xp 00000000 fe:00 15                         /lib/of_the_program.so
Pss:                  32 kB
7f50-7f60 rw-p 00000000 00:00 0
Pss:                  64 kB
";

    #[test]
    fn shared_memory_counts_where_the_program_has_not_mapped_it() {
        let nothing = OfProgram(HashSet::new());
        assert_eq!(nothing.beside_in(TEXT), 28 << 10);
        let program = OfProgram(HashSet::from(["00:01 12".to_owned()]));
        assert_eq!(program.beside_in(TEXT), 8 << 10);
    }
}
