//! Where the rows of one sorted side lie among those of another, for joins by order of two pieces.
//!
//! The order is that of sorts: ascending, nulls last, NaN one value and greater than all numbers, −0.0 equals 0.0.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, PrimitiveArray, RecordBatch,
};
use arrow_buffer::{ArrowNativeType, ScalarBuffer};
use arrow_ord::ord::{make_comparator, DynComparator};
use arrow_schema::{DataType, SortOptions};
use arrow_select::concat::concat_batches;

use crate::error::{KernelError, Result};

/// Which rows of the other side are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// Rows that are smaller.
    Apart,
    /// Rows that are smaller or equal.
    Counted,
}

/// Returns for each left row how many right rows come before it. Both sides are sorted by all of their columns, which
/// have the same types. `ranks` takes eight bytes for each left row, a little-endian number.
///
/// Cost: one comparison for each row of both sides, and a copy of sides that come in several batches.
pub fn merge_ranks(
    left: &[RecordBatch],
    right: &[RecordBatch],
    ties: Ties,
    ranks: &mut [u8],
) -> Result<()> {
    let sides = (whole(left)?, whole(right)?);
    let (Some(left), Some(right)) = sides else {
        ranks.fill(0);
        return Ok(());
    };
    column_ranks(left.columns(), right.columns(), ties, ranks)
}

/// Returns all rows as one batch, or `None` if there is no batch and so no row.
fn whole(batches: &[RecordBatch]) -> Result<Option<RecordBatch>> {
    match batches {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        [first, ..] => concat_batches(&first.schema(), batches)
            .map(Some)
            .map_err(|source| KernelError::arrow("putting keys together", source)),
    }
}

fn column_ranks(left: &[ArrayRef], right: &[ArrayRef], ties: Ties, ranks: &mut [u8]) -> Result<()> {
    let (left, right) = (normalised(left), normalised(right));
    if let ([one], [other]) = (left.as_slice(), right.as_slice()) {
        if one.null_count() + other.null_count() == 0 && one.data_type() == other.data_type() {
            if let (Some(one), Some(other)) = (words::<i64>(one), words::<i64>(other)) {
                return typed(&one, &other, ties, ranks);
            }
            if let (Some(one), Some(other)) = (words::<i32>(one), words::<i32>(other)) {
                return typed(&one, &other, ties, ranks);
            }
        }
    }
    let comparators = comparators(&right, &left)?;
    let compare = |r: usize, l: usize| {
        let each = comparators.iter().map(|compare| compare(r, l));
        each.fold(Ordering::Equal, Ordering::then)
    };
    let sides = (rows(&left), rows(&right));
    count(sides, ranks, |r, l| is_before(compare(r, l), ties));
    Ok(())
}

fn typed<T: Ord + Copy>(left: &[T], right: &[T], ties: Ties, ranks: &mut [u8]) -> Result<()> {
    let sides = (left.len(), right.len());
    match ties {
        Ties::Apart => count(sides, ranks, |r, l| right[r] < left[l]),
        Ties::Counted => count(sides, ranks, |r, l| right[r] <= left[l]),
    }
    Ok(())
}

fn is_before(order: Ordering, ties: Ties) -> bool {
    order == Ordering::Less || (order == Ordering::Equal && ties == Ties::Counted)
}

fn count(
    (left, right): (usize, usize),
    ranks: &mut [u8],
    is_before: impl Fn(usize, usize) -> bool,
) {
    let mut r = 0;
    for (l, rank) in (0..left).zip(ranks.chunks_exact_mut(8)) {
        while r < right && is_before(r, l) {
            r += 1;
        }
        rank.copy_from_slice(&(r as u64).to_le_bytes());
    }
}

fn rows(columns: &[ArrayRef]) -> usize {
    columns.first().map_or(0, |column| column.len())
}

fn comparators(right: &[ArrayRef], left: &[ArrayRef]) -> Result<Vec<DynComparator>> {
    let options = SortOptions {
        descending: false,
        nulls_first: false,
    };
    let pairs = right.iter().zip(left);
    let each = pairs.map(|(right, left)| make_comparator(right, left, options));
    each.collect::<Result<_, _>>()
        .map_err(|source| KernelError::arrow("comparing keys", source))
}

/// Returns the values of a column that are integers of this width, or kept as such.
fn words<T: ArrowNativeType>(column: &ArrayRef) -> Option<ScalarBuffer<T>> {
    let width = match column.data_type() {
        DataType::Int64
        | DataType::Timestamp(..)
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Duration(_) => 8,
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => 4,
        _ => return None,
    };
    let data = column.to_data();
    (width == size_of::<T>())
        .then(|| ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len()))
}

/// Gives columns of floats one NaN, greater than all numbers, and one zero; Arrow's order tells them apart by their
/// bits.
fn normalised(columns: &[ArrayRef]) -> Vec<ArrayRef> {
    let each = columns.iter().map(|column| -> ArrayRef {
        match column.data_type() {
            DataType::Float64 => Arc::new(normal::<Float64Type>(column, f64::NAN.abs())),
            DataType::Float32 => Arc::new(normal::<Float32Type>(column, f32::NAN.abs())),
            _ => Arc::clone(column),
        }
    });
    each.collect()
}

fn normal<T: ArrowPrimitiveType>(column: &ArrayRef, nan: T::Native) -> PrimitiveArray<T>
where
    T::Native: ArrowNativeTypeOp,
{
    let zero = T::Native::ZERO;
    column.as_primitive::<T>().unary(|value| {
        // Only NaN has no order; the sum of both zeros is the positive one.
        let is_nan = value.partial_cmp(&value).is_none();
        if is_nan {
            nan
        } else {
            value.add_wrapping(zero)
        }
    })
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, Int16Array, Int32Array, Int64Array, StringArray};
    use proptest::prelude::*;

    use super::*;

    fn ranks(left: &[ArrayRef], right: &[ArrayRef], ties: Ties) -> Vec<u64> {
        let mut bytes = vec![0; 8 * rows(left)];
        column_ranks(left, right, ties, &mut bytes).unwrap();
        let each = bytes.chunks_exact(8);
        each.map(|rank| u64::from_le_bytes(rank.try_into().unwrap()))
            .collect()
    }

    fn column(array: impl Array + 'static) -> ArrayRef {
        Arc::new(array)
    }

    /// Orders a null behind all values.
    fn order(value: &(Option<i16>, i16)) -> (bool, Option<i16>, i16) {
        (value.0.is_none(), value.0, value.1)
    }

    fn expected(left: &[(Option<i16>, i16)], right: &[(Option<i16>, i16)], ties: Ties) -> Vec<u64> {
        let rank = |l: &(Option<i16>, i16)| {
            let before = right
                .iter()
                .filter(|r| is_before(order(r).cmp(&order(l)), ties));
            before.count() as u64
        };
        left.iter().map(rank).collect()
    }

    fn columns(rows: &[(Option<i16>, i16)]) -> Vec<ArrayRef> {
        vec![
            column(rows.iter().map(|row| row.0).collect::<Int16Array>()),
            column(Int64Array::from_iter_values(
                rows.iter().map(|row| i64::from(row.1)),
            )),
        ]
    }

    proptest! {
        #[test]
        fn several_columns_with_nulls(
            mut left in prop::collection::vec((prop::option::of(-2..3_i16), -2..3_i16), 0..40),
            mut right in prop::collection::vec((prop::option::of(-2..3_i16), -2..3_i16), 0..40),
        ) {
            left.sort_by_key(order);
            right.sort_by_key(order);
            for ties in [Ties::Apart, Ties::Counted] {
                let found = ranks(&columns(&left), &columns(&right), ties);
                prop_assert_eq!(found, expected(&left, &right, ties));
            }
        }

        #[test]
        fn one_column_of_words(
            mut left in prop::collection::vec(-9..9_i16, 0..40),
            mut right in prop::collection::vec(-9..9_i16, 0..40),
        ) {
            left.sort_unstable();
            right.sort_unstable();
            let rows = |values: &[i16]| values.iter().map(|v| (Some(0), *v)).collect::<Vec<_>>();
            let wanted = |ties| expected(&rows(&left), &rows(&right), ties);
            for ties in [Ties::Apart, Ties::Counted] {
                let wide = |v: &[i16]| column(Int64Array::from_iter_values(v.iter().map(|v| (*v).into())));
                prop_assert_eq!(ranks(&[wide(&left)], &[wide(&right)], ties), wanted(ties));
                let slim = |v: &[i16]| column(Int32Array::from_iter_values(v.iter().map(|v| (*v).into())));
                prop_assert_eq!(ranks(&[slim(&left)], &[slim(&right)], ties), wanted(ties));
            }
        }
    }

    #[test]
    fn nan_is_one_value_and_so_is_zero() {
        let left = column(Float64Array::from(vec![
            -0.0,
            0.0,
            f64::INFINITY,
            -f64::NAN,
        ]));
        let right = column(Float64Array::from(vec![0.0, -0.0, f64::NAN]));
        let (left, right) = ([left], [right]);
        assert_eq!(ranks(&left, &right, Ties::Counted), [2, 2, 2, 3]);
        assert_eq!(ranks(&left, &right, Ties::Apart), [0, 0, 2, 2]);
    }

    #[test]
    fn slices_and_texts() {
        let left = column(Int64Array::from(vec![9, 1, 5])).slice(1, 2);
        let right = column(Int64Array::from(vec![9, 0, 5])).slice(1, 2);
        assert_eq!(ranks(&[left], &[right], Ties::Counted), [1, 2]);
        let left = column(StringArray::from(vec!["a", "b"]));
        let right = column(StringArray::from(vec!["", "a", "c"]));
        assert_eq!(ranks(&[left], &[right], Ties::Apart), [1, 2]);
    }
}
