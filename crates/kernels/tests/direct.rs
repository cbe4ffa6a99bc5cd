//! Maps of random orders that lay out their block before they read rows: it is the block of maps that read them first.

#![allow(clippy::unwrap_used, reason = "a test that fails should stop")]

use std::iter;
use std::num::NonZeroU64;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float32Array, Int64Array, RecordBatch, StringArray};
use arrow_select::concat::concat_batches;
use exoshuffle_kernels::rows::{along, follow, Placed, RowKind, RowOrigin};
use exoshuffle_kernels::{Assignment, CheckError, KernelError, Permutation, Result};

const ROWS: i64 = 1000;

/// Rows of one width, some of them null.
fn table() -> RecordBatch {
    let numbers = (0..ROWS).map(|row| (row % 7 > 0).then_some(row as f32));
    let columns: [(&str, ArrayRef); 3] = [
        ("row", Arc::new(Int64Array::from_iter_values(0..ROWS))),
        ("number", Arc::new(Float32Array::from_iter(numbers))),
        (
            "truth",
            Arc::new(
                (0..ROWS)
                    .map(|row| Some(row % 3 > 0))
                    .collect::<BooleanArray>(),
            ),
        ),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn kind(table: &RecordBatch, window: Option<u64>) -> (RowKind, Permutation) {
    let permutation = Permutation::try_new(&table.schema(), 5).unwrap();
    let permutation = permutation.within(window.and_then(NonZeroU64::new));
    (RowKind::Permutation(permutation.clone()), permutation)
}

/// Two parts of a source, the rows of each in batches of so many.
fn batches(table: &RecordBatch, at_once: usize) -> Vec<Result<Placed>> {
    let part = |first: usize, rows: usize| {
        let cut = (first..first + rows).step_by(at_once);
        let cut = cut.map(move |at| Ok(table.slice(at, at_once.min(first + rows - at))));
        let origin = RowOrigin {
            source: 3,
            row: first as u64,
        };
        follow(cut, origin)
    };
    part(600, 300).chain(part(0, 250)).collect()
}

fn pieces() -> [(RowOrigin, u64); 2] {
    [(600, 300), (0, 250)].map(|(row, rows)| (RowOrigin { source: 3, row }, rows))
}

#[test]
fn the_block_is_the_same_as_if_rows_were_read_first() {
    let table = table();
    for (window, partitions, at_once) in [(None, 4, 64), (None, 1, 900), (Some(16), 7, 100)] {
        let (kind, permutation) = kind(&table, window);
        let assignment = Assignment::even(permutation.layout(), partitions).unwrap();
        let assignment = assignment.to_bytes();
        let read = kind
            .plan(batches(&table, 200).into_iter(), 9, &assignment)
            .unwrap();
        let mut expected = vec![0; *read.slice_offsets().last().unwrap() as usize];
        read.write(&mut expected).unwrap();
        let direct = kind
            .plan_unread(&pieces(), 9, &assignment)
            .unwrap()
            .unwrap();
        assert_eq!(direct.slice_offsets(), read.slice_offsets());
        assert_eq!(direct.row_bytes(), read.row_bytes());
        assert_eq!(Some(direct.longest_row()), read.longest_row().unwrap());
        let mut block = vec![1; expected.len()];
        direct
            .write(batches(&table, at_once).into_iter(), &mut block)
            .unwrap();
        assert!(block == expected, "{window:?} {partitions}");
    }
}

#[test]
fn other_rows_than_were_laid_out_are_refused() {
    let table = table();
    let (kind, permutation) = kind(&table, None);
    let assignment = Assignment::even(permutation.layout(), 2)
        .unwrap()
        .to_bytes();
    let direct = kind
        .plan_unread(&pieces(), 0, &assignment)
        .unwrap()
        .unwrap();
    let mut block = vec![0; *direct.slice_offsets().last().unwrap() as usize];
    let origin = RowOrigin {
        source: 3,
        row: 990,
    };
    let more = batches(&table, 100)
        .into_iter()
        .chain(iter::once(Ok((origin, table.slice(990, 10)))));
    let fewer = batches(&table, 100).into_iter().skip(1);
    for rows in [more.collect::<Vec<_>>(), fewer.collect()] {
        let refused = direct.write(rows.into_iter(), &mut block);
        let error = refused.unwrap_err();
        assert!(
            matches!(error, KernelError::Check(CheckError::Scattered { .. })),
            "{error}"
        );
    }
    let short = direct.write(batches(&table, 100).into_iter(), &mut block[1..]);
    assert!(matches!(short, Err(KernelError::OutputSize { .. })));
}

#[test]
fn rows_of_several_widths_are_read_first() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "bc"]));
    let table = RecordBatch::try_from_iter([("text", texts)]).unwrap();
    let (kind, permutation) = kind(&table, None);
    let assignment = Assignment::even(permutation.layout(), 2)
        .unwrap()
        .to_bytes();
    assert!(kind
        .plan_unread(&pieces(), 0, &assignment)
        .unwrap()
        .is_none());
    let in_turn = Assignment::round_robin(2).unwrap().to_bytes();
    assert!(kind.plan_unread(&pieces(), 0, &in_turn).unwrap().is_none());
}

/// The rows of the pieces, in batches that know nothing of these, and one without rows.
fn unplaced(table: &RecordBatch, at_once: usize) -> Vec<Result<RecordBatch>> {
    let parts = [table.slice(600, 300), table.slice(0, 250)];
    let all = concat_batches(&table.schema(), &parts).unwrap();
    let cut = (0..550).step_by(at_once);
    let cut = cut.map(|at| Ok(all.slice(at, at_once.min(550 - at))));
    iter::once(Ok(all.slice(0, 0))).chain(cut).collect()
}

#[test]
fn batches_are_cut_where_pieces_end() {
    let table = table();
    let none = (RowOrigin { source: 9, row: 5 }, 0);
    let pieces = [none, pieces()[0], none, pieces()[1], none];
    for (at_once, most_rows, expected) in [(550, 200, 4), (400, 1000, 3), (1, 7, 550)] {
        let rows = unplaced(&table, at_once).into_iter();
        let placed: Result<Vec<Placed>> = along(rows, pieces.to_vec(), most_rows).collect();
        let placed = placed.unwrap();
        assert_eq!(placed[0].1.num_rows(), 0);
        assert_eq!(placed.len() - 1, expected, "{at_once}");
        for (origin, batch) in &placed[1..] {
            assert_eq!(origin.source, 3);
            assert!(batch.num_rows() <= most_rows);
            let rows = batch.num_rows();
            assert_eq!(*batch, table.slice(origin.row as usize, rows));
        }
    }
}

#[test]
fn other_rows_than_pieces_have_are_refused() {
    let table = table();
    let more = unplaced(&table, 100)
        .into_iter()
        .chain(iter::once(Ok(table.slice(0, 1))));
    let fewer = unplaced(&table, 100).into_iter().take(4);
    for rows in [more.collect::<Vec<_>>(), fewer.collect(), Vec::new()] {
        let mut placed = along(rows.into_iter(), pieces().to_vec(), 1000);
        let error = placed.find_map(Result::err).unwrap();
        let expected = KernelError::Check(CheckError::Numbered { expected: 550 });
        assert_eq!(error.to_string(), expected.to_string());
        assert!(placed.next().is_none());
    }
}
