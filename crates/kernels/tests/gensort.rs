//! Generated records against the published checksums of `gensort`, and through sort and validation.

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, also outside of #[test] functions"
)]

use exoshuffle_kernels::gensort::{fill_records, RecordKind, KEY_BYTES, RECORD_BYTES};
use exoshuffle_kernels::records::{sort_into, RecordShape};
use exoshuffle_kernels::valsort::Summary;

fn shape() -> RecordShape {
    RecordShape::try_new(RECORD_BYTES, KEY_BYTES).unwrap()
}

/// Returns the summary of records 0 to `records` - 1, made piece by piece.
fn summary(kind: RecordKind, records: usize, piece: usize) -> Summary {
    let mut summary = Summary::new(shape());
    for start in (0..records).step_by(piece) {
        let mut out = vec![0; piece.min(records - start) * RECORD_BYTES];
        fill_records(start as u128, kind, &mut out).unwrap();
        summary.update(&out).unwrap();
    }
    assert_eq!(summary.records, records as u64);
    summary
}

#[test]
fn checksums_are_those_of_gensort() {
    let million = summary(RecordKind::Binary, 1_000_000, 9_999);
    assert_eq!(million.checksum, 0x7_a27e_2d0d_55de);
    assert_eq!(million.duplicates, 0);
    assert!(!million.is_sorted());
}

/// Compares with sums of an independent implementation of the published procedure.
#[test]
fn skewed_checksums_are_those_of_gensort() {
    let binary = summary(RecordKind::SkewedBinary, 5000, 700);
    assert_eq!(binary.checksum, 0x9e3_7449_764b);
    let ascii = summary(RecordKind::SkewedAscii, 5000, 700);
    assert_eq!(ascii.checksum, 0x9bd_a2a7_8512);
}

#[test]
fn sorted_records_are_valid_and_keep_their_checksum() {
    for kind in [
        RecordKind::Binary,
        RecordKind::SkewedBinary,
        RecordKind::SkewedAscii,
    ] {
        let mut records = vec![0; 100_000 * RECORD_BYTES];
        fill_records(0, kind, &mut records).unwrap();
        let mut before = Summary::new(shape());
        before.update(&records).unwrap();
        let mut after = Summary::new(shape());
        sort_into(shape(), &[&records], &mut vec![0; 1 << 20], |out| {
            after.update(out)
        })
        .unwrap();
        assert!(after.is_sorted());
        assert_eq!(after.records, before.records);
        assert_eq!(after.checksum, before.checksum);
        assert_ne!(after.first_key, before.first_key);
    }
}
