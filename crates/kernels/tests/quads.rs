//! Neighbouring columns of four bytes, which are written and read four at a time: rows are what they were.

#![allow(clippy::unwrap_used, reason = "a test that fails should stop")]

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{ArrayRef, Float32Array, Int32Array, Int64Array, RecordBatch, UInt32Array};
use arrow_buffer::Buffer;
use exoshuffle_kernels::{
    Assignment, GatheredRows, Position, RowLayout, Scatter, Sections, SortKey,
};

const ROWS: u32 = 700;

/// Nine columns of four bytes around one of eight. From row `nulls` on, every third value of one column is null.
fn table(nulls: u32) -> RecordBatch {
    let floats = |by: u32| Float32Array::from_iter((0..ROWS).map(|row| Some((row * by) as f32)));
    let some = (0..ROWS).map(|row| (row < nulls || row % 3 > 0).then_some(row as i32 * 7));
    let columns: [(&str, ArrayRef); 10] = [
        ("row", Arc::new(UInt32Array::from_iter_values(0..ROWS))),
        ("a", Arc::new(floats(2))),
        ("b", Arc::new(floats(3))),
        ("c", Arc::new(floats(4))),
        ("d", Arc::new(floats(5))),
        (
            "wide",
            Arc::new(Int64Array::from_iter_values((0..ROWS).map(i64::from))),
        ),
        ("e", Arc::new(floats(6))),
        ("f", Arc::new(Int32Array::from_iter(some))),
        ("g", Arc::new(floats(7))),
        ("h", Arc::new(floats(8))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .unwrap()
}

#[test]
fn rows_come_back_from_where_they_were_scattered() {
    for nulls in [0, 300, ROWS] {
        let table = table(nulls);
        let key = SortKey {
            column: 0,
            descending: true,
            nulls_first: false,
        };
        let layout = RowLayout::try_new(&table.schema(), &[key]).unwrap();
        let all = Assignment::round_robin(1).unwrap();
        let first = Position { split: 0, row: 0 };
        // The second batch begins within the memory of its columns.
        let batches = [table.slice(400, 300), table.slice(0, 400)];
        let scatter = Scatter::plan(&layout, &batches, &all, first).unwrap();
        let mut block = vec![0xff; scatter.slice_offsets()[1] as usize];
        scatter.write(&mut block).unwrap();
        let sections = Sections::open(vec![Buffer::from(block)], 0, Some(0), None).unwrap();
        let rows = Arc::new(GatheredRows::sorted(&layout, Arc::new(sections), 0).unwrap());
        let mut next = ROWS;
        for batch in rows.batches(512) {
            let batch = batch.unwrap();
            let numbers = batch.column(0).as_primitive::<UInt32Type>();
            for (place, number) in numbers.values().iter().enumerate() {
                next -= 1;
                assert_eq!(*number, next);
                assert_eq!(batch.slice(place, 1), table.slice(next as usize, 1));
            }
        }
        assert_eq!(next, 0);
    }
}
