//! The bytes of single rows of a batch, where few rows may have most of them.

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{Array, GenericByteViewArray, OffsetSizeTrait, RecordBatch};
use arrow_schema::DataType;

/// Returns the bytes of the first so many values.
type UpTo<'a> = Box<dyn Fn(usize) -> u64 + 'a>;

/// Returns the row with the most bytes, and these; `None` if there is no row.
pub(crate) fn longest_row(batch: &RecordBatch) -> Option<(usize, u64)> {
    let columns: Vec<_> = batch.columns().iter().map(|array| up_to(array)).collect();
    let up_to_row = |row: usize| columns.iter().map(|column| column(row)).sum::<u64>();
    let mut start = 0;
    let sizes = (0..batch.num_rows()).map(|row| {
        let end = up_to_row(row + 1);
        (row, end - std::mem::replace(&mut start, end))
    });
    sizes.max_by_key(|&(_, bytes)| bytes)
}

/// Returns the rows that have at least so many bytes, ascending.
///
/// Halves that have fewer bytes are left out, so few rows are looked at where none is long.
pub(crate) fn long_rows(batch: &RecordBatch, least: u64) -> Vec<usize> {
    let columns: Vec<_> = batch.columns().iter().map(|array| up_to(array)).collect();
    let up_to_row = |row: usize| columns.iter().map(|column| column(row)).sum::<u64>();
    let mut found = Vec::new();
    let mut halves = vec![(0, batch.num_rows())];
    while let Some((start, end)) = halves.pop() {
        if start == end || up_to_row(end) - up_to_row(start) < least {
            continue;
        }
        let middle = start + (end - start) / 2;
        if middle == start {
            found.push(start);
            continue;
        }
        halves.push((middle, end));
        halves.push((start, middle));
    }
    found
}

fn up_to(array: &dyn Array) -> UpTo<'_> {
    match array.data_type() {
        DataType::Utf8 => between(array.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => between(array.as_string::<i64>().value_offsets()),
        DataType::Binary => between(array.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => between(array.as_binary::<i64>().value_offsets()),
        DataType::Utf8View => views(array.as_string_view()),
        DataType::BinaryView => views(array.as_binary_view()),
        DataType::List(_) => list(array.as_list::<i32>()),
        DataType::LargeList(_) => list(array.as_list::<i64>()),
        DataType::Map(..) => {
            let map = array.as_map();
            let entries = up_to(map.entries());
            within(map.value_offsets(), entries)
        }
        DataType::FixedSizeList(_, size) => {
            let values = up_to(array.as_fixed_size_list().values());
            let size = *size as usize;
            Box::new(move |count| values(count * size))
        }
        DataType::Struct(_) => {
            let columns = array.as_struct().columns().iter();
            let columns: Vec<_> = columns.map(|column| up_to(column)).collect();
            Box::new(move |count| columns.iter().map(|column| column(count)).sum())
        }
        _ => even(array),
    }
}

/// Values of one size, or those of dictionaries and unions, whose sizes are taken for equal.
fn even(array: &dyn Array) -> UpTo<'_> {
    let width = array.data_type().primitive_width();
    let width = width.unwrap_or(array.get_buffer_memory_size() / array.len().max(1)) as u64;
    Box::new(move |count| count as u64 * width)
}

fn between<O: OffsetSizeTrait>(offsets: &[O]) -> UpTo<'_> {
    Box::new(|count| (offsets[count].as_usize() - offsets[0].as_usize()) as u64)
}

fn list<O: OffsetSizeTrait>(array: &arrow_array::GenericListArray<O>) -> UpTo<'_> {
    within(array.value_offsets(), up_to(array.values()))
}

fn within<'a, O: OffsetSizeTrait>(offsets: &'a [O], values: UpTo<'a>) -> UpTo<'a> {
    let before = values(offsets[0].as_usize());
    Box::new(move |count| values(offsets[count].as_usize()) - before)
}

fn views<T: ByteViewType>(array: &GenericByteViewArray<T>) -> UpTo<'_> {
    let lengths = array.lengths().scan(0, |sum, length| {
        *sum += u64::from(length);
        Some(*sum)
    });
    let ends: Vec<u64> = std::iter::once(0).chain(lengths).collect();
    Box::new(move |count| ends[count])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, BinaryViewArray, Int64Array, LargeStringArray, ListArray, StringArray,
        StringViewArray, StructArray,
    };
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::{Field, Schema};

    use super::*;

    fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
        let fields = columns.iter().enumerate();
        let fields = fields.map(|(i, c)| Field::new(i.to_string(), c.data_type().clone(), true));
        let schema = Schema::new(fields.collect::<Vec<_>>());
        RecordBatch::try_new(Arc::new(schema), columns).unwrap()
    }

    #[test]
    fn the_longest_row_is_found_in_every_type() {
        let texts = ["a", "b", "cccccccccccccccccccccccccccccc", "dd"];
        let item = |kind| Arc::new(Field::new("item", kind, true));
        let values: ArrayRef = Arc::new(StringArray::from_iter_values([
            "a",
            "a",
            "b",
            "longer than others",
            "longer than others",
            "d",
        ]));
        let offsets = OffsetBuffer::new(vec![0, 1, 3, 5, 6].into());
        let lists: ArrayRef = Arc::new(ListArray::new(item(DataType::Utf8), offsets, values, None));
        let plain: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
        let columns: Vec<(ArrayRef, u64)> = vec![
            (Arc::clone(&plain), 30),
            (Arc::new(LargeStringArray::from_iter_values(texts)), 30),
            (Arc::new(StringViewArray::from_iter_values(texts)), 30),
            (
                Arc::new(BinaryViewArray::from_iter_values(texts.map(str::as_bytes))),
                30,
            ),
            (Arc::clone(&lists), 36),
            (
                Arc::new(StructArray::from(vec![
                    (item(DataType::Utf8), plain),
                    (item(lists.data_type().clone()), lists),
                ])),
                66,
            ),
        ];
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
        for (column, bytes) in columns {
            let rows = batch(vec![Arc::clone(&numbers), column]);
            assert_eq!(longest_row(&rows), Some((2, bytes + 8)));
            assert_eq!(longest_row(&rows.slice(2, 2)), Some((0, bytes + 8)));
            assert_eq!(longest_row(&rows.slice(0, 0)), None);
            assert_eq!(long_rows(&rows, bytes + 8), [2]);
            assert_eq!(long_rows(&rows.slice(1, 3), bytes + 8), [1]);
            assert_eq!(long_rows(&rows, bytes + 9), [0; 0]);
            assert_eq!(long_rows(&rows, 0), [0, 1, 2, 3]);
            assert_eq!(long_rows(&rows.slice(0, 0), 0), [0; 0]);
        }
    }
}
