//! Texts as values of a given type, which may be rounded. But a finite number never becomes infinity, which parsers
//! make without a word of numbers beyond the largest double or float.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, StringArray};
use arrow_cast::{cast_with_options, CastOptions};
use arrow_schema::{ArrowError, DataType};

use super::exact;

/// Returns the texts of a column, or of the parts of a nested one, as values of the type.
pub(super) fn column(texts: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let values = cast_with_options(texts, data_type, &strict)?;
    check(texts, &values)?;
    Ok(values)
}

/// Finds numbers that became infinities.
fn check(texts: &ArrayRef, values: &ArrayRef) -> Result<(), ArrowError> {
    match (texts.data_type(), values.data_type()) {
        (DataType::Utf8, DataType::Float32) => {
            floats::<Float32Type>(texts.as_string(), values, f32::is_infinite)
        }
        (DataType::Utf8, DataType::Float64) => {
            floats::<Float64Type>(texts.as_string(), values, f64::is_infinite)
        }
        (DataType::List(_), DataType::List(_)) => check(
            texts.as_list::<i32>().values(),
            values.as_list::<i32>().values(),
        ),
        (DataType::LargeList(_), DataType::LargeList(_)) => check(
            texts.as_list::<i64>().values(),
            values.as_list::<i64>().values(),
        ),
        (DataType::FixedSizeList(..), DataType::FixedSizeList(..)) => check(
            texts.as_fixed_size_list().values(),
            values.as_fixed_size_list().values(),
        ),
        (DataType::Struct(_), DataType::Struct(_)) => {
            let mut pairs =
                { texts.as_struct().columns().iter() }.zip(values.as_struct().columns());
            pairs.try_for_each(|(texts, values)| check(texts, values))
        }
        _ => Ok(()),
    }
}

fn floats<T: ArrowPrimitiveType>(
    texts: &StringArray,
    values: &ArrayRef,
    is_infinite: fn(T::Native) -> bool,
) -> Result<(), ArrowError> {
    let values = values.as_primitive::<T>().values();
    let infinite = values
        .iter()
        .enumerate()
        .filter(|(_, &value)| is_infinite(value));
    for (row, _) in infinite {
        // A null place may hold anything. Words for infinity have no digits.
        if texts.is_valid(row) && texts.value(row).contains(|c: char| c.is_ascii_digit()) {
            return Err(exact::refused(texts.value(row)));
        }
    }
    Ok(())
}
