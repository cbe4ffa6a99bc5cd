//! Blocks that found no memory lie in files, which the budget does not count. They are resident only while somebody
//! looks at them. In a process of its own, since it looks at all mappings.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, like tests"
)]
mod support;

use std::fs;

use support::{content, put, Setup, UNIT};

/// Returns the bytes of files in a directory that are resident in this process.
fn resident_file_bytes(directory: &std::path::Path) -> u64 {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut is_inside = false;
    let mut kilobytes = 0;
    for line in maps.lines() {
        match line.strip_prefix("Rss:") {
            Some(size) if is_inside => {
                kilobytes += size.trim_end_matches("kB").trim().parse::<u64>().unwrap();
            }
            None if line
                .split(' ')
                .next()
                .is_some_and(|range| range.contains('-')) =>
            {
                is_inside = line.contains(&*directory.to_string_lossy());
            }
            _ => {}
        }
    }
    kilobytes << 10
}

#[test]
fn blocks_in_files_stay_resident_only_while_they_are_looked_at() {
    let mut setup = Setup::new(4, 1);
    setup.options.fallback_after = std::time::Duration::ZERO;
    let store = setup.open();
    let directory = setup.directories[0].path();
    let size = 20 * UNIT as usize;
    let block = put(&store, 1, &[size]).unwrap();
    assert!(store.stats().fallback_bytes >= size as u64);
    assert_eq!(resident_file_bytes(directory), 0);
    let view = store.fetch(&[(block, Some(0))]).unwrap();
    assert!(view[0].as_slice() == content(1, 0, size));
    assert!(resident_file_bytes(directory) >= size as u64);
    drop(view);
    assert_eq!(resident_file_bytes(directory), 0);
    let again = store.fetch(&[(block, Some(0))]).unwrap();
    assert!(again[0].as_slice() == content(1, 0, size));
}
