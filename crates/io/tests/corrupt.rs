//! Damaged files yield an error that names them, or the right rows. They never yield a panic, and never other rows in
//! silence where the format has a checksum.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;

use arrow_array::RecordBatch;
use common::{named, rich_types, table, write, Random};
use exoshuffle_io::{
    open_source, open_split, sample_split, Compression, Format, IoError, ReadOptions, WriteOptions,
};
use proptest::prelude::*;

fn read(dir: &Path) -> Result<Vec<RecordBatch>, IoError> {
    let options = ReadOptions::default();
    let source = open_source(&[dir.display().to_string()], &options)?;
    let mut batches = Vec::new();
    for split in source.splits(50_000)? {
        for batch in open_split(&split, &source.schema, &options, None, 500)? {
            batches.push(batch?);
        }
        let columns = Some(&[0][..]).filter(|_| !source.schema.fields().is_empty());
        sample_split(&split, &source.schema, &options, columns, 10, 1)?;
    }
    Ok(batches)
}

fn damage(format: Format, compression: Compression, seed: u64) {
    let mut random = Random(seed);
    let dir = tempfile::tempdir().unwrap();
    let rows = random.below(800) as usize;
    let table = table(&mut random, rows, &rich_types());
    let options = WriteOptions {
        compression,
        row_group_bytes: 20_000,
        ..WriteOptions::new(format)
    };
    let name = write(dir.path(), &table, options)[0].name.clone();
    let path = dir.path().join(&name);
    let content = std::fs::read(&path).unwrap();
    for _ in 0..20 {
        let mut damaged = content.clone();
        match random.below(4) {
            0 => damaged.truncate(random.below(content.len() as u64) as usize),
            // Most of the structure is at the end.
            1 => flip(&mut random, &mut damaged, content.len().saturating_sub(600)),
            _ => flip(&mut random, &mut damaged, 0),
        }
        std::fs::write(&path, &damaged).unwrap();
        if let Err(error) = read(dir.path()) {
            let message = error.to_string();
            assert!(message.contains(&name), "{message}");
            assert!(message.len() < 600 && !message.contains('\n'), "{message}");
        }
    }
}

fn flip(random: &mut Random, bytes: &mut [u8], from: usize) {
    for _ in 0..=random.below(3) {
        let at = from + random.below((bytes.len() - from) as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parquet(seed in 1_u64.., compressed in any::<bool>()) {
        damage(named("parquet"), if compressed { Compression::Zstd } else { Compression::None }, seed);
    }

    #[test]
    fn ipc(seed in 1_u64.., compressed in any::<bool>()) {
        damage(named("arrow"), if compressed { Compression::Lz4 } else { Compression::None }, seed);
    }

    #[test]
    fn arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..2000), magic in 0_usize..4) {
        let dir = tempfile::tempdir().unwrap();
        let (name, start): (_, &[u8]) =
            [("x.parquet", &b"PAR1"[..]), ("x.arrow", b"ARROW1\0\0"), ("x.csv", b"a,b\n"), ("x.jsonl", b"{\"a\":1}\n")][magic];
        let content = [start, &bytes, start].concat();
        std::fs::write(dir.path().join(name), content).unwrap();
        if let Err(error) = read(dir.path()) {
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
