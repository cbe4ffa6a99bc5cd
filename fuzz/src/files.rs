//! Bytes as a file of an input: listed, planned, cut into splits, sampled and read.

use std::path::PathBuf;
use std::sync::OnceLock;

use exoshuffle_io::{
    open_source, open_split, sample_split, told, ReadMemory, ReadOptions, Result, RowLimit,
};
use tempfile::TempDir;

use crate::{memory, watch_panics};

/// The most memory that a plan would grant; files that ask for more are refused by it.
const MOST_PLANNED_BYTES: u64 = 64 << 20;
/// Buffers of any task, windows with those read ahead, and the rows of a batch.
const BUFFERS_BYTES: usize = 128 << 20;
/// Rows have at most this much.
const MEMORY: ReadMemory = ReadMemory {
    limit_bytes: 8 << 20,
    budget_bytes: 8 << 20,
    num_tasks: 1,
    row_copies: None,
};
const TARGET_BYTES: u64 = 50_000;
/// A file may repeat a value of a dictionary as often as it likes, so that reading to the end may take for ever.
const MOST_BATCHES: usize = 50;

/// Goes the way of a file with this name.
pub fn read_file(name: &str, bytes: &[u8]) {
    static DIRECTORY: OnceLock<TempDir> = OnceLock::new();
    watch_panics();
    let directory = DIRECTORY.get_or_init(|| {
        let memory = PathBuf::from("/dev/shm");
        let made = if memory.is_dir() {
            TempDir::new_in(memory)
        } else {
            TempDir::new()
        };
        made.expect("a directory for the file")
    });
    let path = directory.path().join(name);
    std::fs::write(&path, bytes).expect("the file is written");
    memory::allow(MOST_PLANNED_BYTES as usize + BUFFERS_BYTES);
    // Every error is fine: it says what is wrong.
    if let Err(error) = read(&path.display().to_string()) {
        let message = told(&error);
        assert!(
            message.contains(name) && !message.contains('\n'),
            "{message}"
        );
    }
}

fn read(path: &str) -> Result<()> {
    let options = ReadOptions {
        max_row: Some(RowLimit::of(MEMORY, 1)),
        max_page: Some(RowLimit::of(MEMORY, 1)),
        ..ReadOptions::default()
    };
    let source = open_source(&[path.to_owned()], &options)?;
    let names = source
        .schema
        .fields()
        .iter()
        .map(|field| field.name().clone());
    if source.working_bytes(&names.collect()).0 > MOST_PLANNED_BYTES
        || source.memory_bytes > MOST_PLANNED_BYTES
    {
        return Ok(());
    }
    for split in source.splits(TARGET_BYTES)?.iter().take(4) {
        let batches = open_split(split, &source.schema, &options, None, 500)?;
        for batch in batches.take(MOST_BATCHES) {
            batch?;
        }
        let first = Some(&[0][..]).filter(|_| !source.schema.fields().is_empty());
        sample_split(split, &source.schema, &options, first, 10, 1)?;
    }
    Ok(())
}
