//! Asks the Bloom filters of column chunks which row groups may have one of some values.
//!
//! Guarantee: a row group that has one of the values is not ruled out, as far as the file tells the truth. In doubt a row
//! group may have them. So types count only whose equal values have the same bytes in the file. These are no times of 96
//! bits, no nanoseconds, which DuckDB rounds, no NaN, and no decimals of any length. A filter is ignored that is cut, or
//! has another size than the footer says. So is one that denies the bounds which the statistics of its chunk name.
//!
//! Memory: the header and one page of a filter, however large the filter is.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float32Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_cast::{cast_with_options, CastOptions};
use arrow_schema::{DataType, Field, TimeUnit};
use bytes::Bytes;
use parquet::basic::{ConvertedType, Type};
use parquet::bloom_filter::{Sbbf, BITSET_MAX_LENGTH};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::schema::types::ColumnDescriptor;
use twox_hash::XxHash64;

use super::footer;
use super::spread::{groups, leaf_of, plain};
use super::types;
use crate::direct::RangeReader;
use crate::error::Result;
use crate::source::RowRange;

/// A filter is made of blocks of so many bytes; a value is in one of them.
const BLOCK: u64 = 32;
/// So much of a filter is read at once: storage reads no less.
const WINDOW: u64 = 4096;
/// The bytes of a header behind the number of bytes: they say blocks, XXH64, not compressed. Nothing else is defined.
const KIND: [u8; 13] = [0x1c, 0x1c, 0, 0, 0x1c, 0x1c, 0, 0, 0x1c, 0x1c, 0, 0, 0];
/// Before it, a header has a tag and a number of up to five bytes.
const MOST_HEADER: u64 = 6 + KIND.len() as u64;

/// The bytes of a value in a file, which its filters hash.
type Stored = Vec<u8>;

/// Says of each row group that has rows in `kept` whether it may have one of `values` in a column.
pub(super) fn may_hold(
    file: &Arc<RangeReader>,
    column: &Field,
    values: &ArrayRef,
    kept: Option<&[RowRange]>,
) -> Result<Vec<bool>> {
    let (metadata, _turn) = footer::load_in_turn(file)?;
    let declared = types::declared(file, &metadata)?;
    let descriptor = metadata.file_metadata().schema_descr();
    let asked = leaf_of(descriptor, declared.schema(), column).and_then(|(leaf, field)| {
        let (of_file, wanted) = (plain(field.data_type()), plain(column.data_type()));
        let stored = stored(&descriptor.column(leaf), &of_file, &wanted, values)?;
        Some((leaf, stored))
    });
    let found = groups(&metadata, kept).into_iter().map(|(index, _)| {
        asked.as_ref().is_none_or(|(leaf, values)| {
            may_be_in(file, metadata.row_group(index).column(*leaf), values)
        })
    });
    Ok(found.collect())
}

/// Whether a column chunk may have one of some values.
fn may_be_in(file: &RangeReader, chunk: &ColumnChunkMetaData, values: &[Stored]) -> bool {
    let Some(filter) = Filter::of(file, chunk) else {
        return true;
    };
    let holds = |values: &[Stored]| filter.first_of(values);
    // A filter that cannot be read, or denies what is surely there, says nothing.
    let is_true = bounds(chunk)
        .iter()
        .all(|bound| holds(std::slice::from_ref(bound)) == Some(true));
    !is_true || holds(values) != Some(false)
}

/// The least and the greatest value of a chunk, where its statistics have them as they are in the file.
fn bounds(chunk: &ColumnChunkMetaData) -> Vec<Stored> {
    let Some(statistics) = chunk.statistics() else {
        return Vec::new();
    };
    let is_whole = |is_exact: bool| {
        is_exact
            || !matches!(
                chunk.column_type(),
                Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY
            )
    };
    let low = statistics
        .min_bytes_opt()
        .filter(|_| is_whole(statistics.min_is_exact()));
    let high = statistics
        .max_bytes_opt()
        .filter(|_| is_whole(statistics.max_is_exact()));
    let is_float = matches!(chunk.column_type(), Type::FLOAT | Type::DOUBLE);
    // Writers name −0.0 as a bound for 0.0, and the other way round.
    let is_zero = |bound: &[u8]| is_float && bound.iter().rev().skip(1).all(|&byte| byte == 0);
    { low.into_iter().chain(high) }
        .filter(|bound| !is_zero(bound))
        .map(<[u8]>::to_vec)
        .collect()
}

/// The blocks of a filter in its file.
struct Filter<'a> {
    file: &'a RangeReader,
    start: u64,
    num_blocks: u64,
}

impl<'a> Filter<'a> {
    /// The filter of a chunk; `None` if it has none that can be one.
    fn of(file: &'a RangeReader, chunk: &ColumnChunkMetaData) -> Option<Self> {
        let start = u64::try_from(chunk.bloom_filter_offset()?).ok()?;
        let left = file.len().checked_sub(start)?;
        let header = file.read(start, left.min(MOST_HEADER) as usize).ok()?;
        let (header_bytes, bytes) = sizes(&header)?;
        let told = chunk.bloom_filter_length().map(i64::from);
        let is_whole = header_bytes + bytes <= left
            && told.is_none_or(|told| u64::try_from(told) == Ok(header_bytes + bytes));
        is_whole.then_some(Self {
            file,
            start: start + header_bytes,
            num_blocks: bytes / BLOCK,
        })
    }

    /// Whether the filter has one of some values, with false alarms; `None` if it cannot be read.
    fn first_of(&self, values: &[Stored]) -> Option<bool> {
        let mut places: Vec<(u64, &Stored)> = { values.iter() }
            .map(|value| (self.block(value), value))
            .collect();
        places.sort_unstable_by_key(|&(block, _)| block);
        let mut window = (0, Bytes::new());
        for (block, value) in places {
            let at = block * BLOCK;
            if at < window.0 || at + BLOCK > window.0 + window.1.len() as u64 {
                let bytes = WINDOW.min((self.num_blocks - block) * BLOCK);
                window = (at, self.file.read(self.start + at, bytes as usize).ok()?);
            }
            let first = (at - window.0) as usize;
            // A filter of one block checks a value as its block in a larger one does.
            if Sbbf::new(&window.1[first..first + BLOCK as usize]).check(value.as_slice()) {
                return Some(true);
            }
        }
        Some(false)
    }

    fn block(&self, value: &Stored) -> u64 {
        ((XxHash64::oneshot(0, value) >> 32) * self.num_blocks) >> 32
    }
}

/// The bytes of a header, and of the filter behind it; `None` for another kind of filter.
fn sizes(header: &[u8]) -> Option<(u64, u64)> {
    let number = header.strip_prefix(&[0x15])?;
    let last = number.iter().take(5).position(|byte| byte & 0x80 == 0)?;
    let zigzag = { number[..=last].iter().enumerate() }.fold(0, |all, (place, byte)| {
        all | u64::from(byte & 0x7f) << (7 * place)
    });
    let bytes = zigzag / 2;
    let is_known = number[last + 1..].starts_with(&KIND)
        && zigzag.is_multiple_of(2)
        && bytes.is_multiple_of(BLOCK)
        && (1..=BITSET_MAX_LENGTH as u64).contains(&bytes);
    is_known.then_some(((2 + last + KIND.len()) as u64, bytes))
}

/// The bytes that values have in a file; `None` where equal values may have others.
///
/// `of_file` is the type of the column in the file, `wanted` that of the input's column. The values have the type in which
/// they were found equal to a literal. Values that the file's type does not have are in no file.
fn stored(
    column: &ColumnDescriptor,
    of_file: &DataType,
    wanted: &DataType,
    values: &ArrayRef,
) -> Option<Vec<Stored>> {
    use DataType as T;
    let (physical, named) = (column.physical_type(), name(column));
    let is_same = of_file == wanted;
    match (of_file, physical) {
        (integer, Type::INT32 | Type::INT64) if integer.is_integer() && wanted.is_integer() => {
            let bytes = if physical == Type::INT32 { 4 } else { 8 };
            let is_narrow = integer.primitive_width()? <= bytes;
            is_narrow
                .then(|| of_integers(values, integer, bytes))
                .flatten()
        }
        (T::Date32, Type::INT32) if is_same && named == ConvertedType::DATE => {
            of_integers(values, of_file, 4)
        }
        (T::Time32(TimeUnit::Millisecond), Type::INT32)
            if is_same && named == ConvertedType::TIME_MILLIS =>
        {
            of_integers(values, of_file, 4)
        }
        (T::Time64(TimeUnit::Microsecond), Type::INT64)
            if is_same && named == ConvertedType::TIME_MICROS =>
        {
            of_integers(values, of_file, 8)
        }
        (T::Timestamp(TimeUnit::Millisecond, _), Type::INT64)
            if is_same_moment(of_file, wanted) && named == ConvertedType::TIMESTAMP_MILLIS =>
        {
            of_integers(values, of_file, 8)
        }
        (T::Timestamp(TimeUnit::Microsecond, _), Type::INT64)
            if is_same_moment(of_file, wanted) && named == ConvertedType::TIMESTAMP_MICROS =>
        {
            of_integers(values, of_file, 8)
        }
        (T::Decimal128(..), Type::INT32 | Type::INT64 | Type::FIXED_LEN_BYTE_ARRAY) if is_same => {
            of_decimals(values, column, of_file)
        }
        (T::Float32 | T::Float64, Type::FLOAT | Type::DOUBLE) if wanted.is_floating() => {
            of_floats(values, of_file, physical)
        }
        (T::Utf8 | T::LargeUtf8 | T::Utf8View, Type::BYTE_ARRAY) if is_text(wanted) => {
            of_bytes(values)
        }
        (T::Binary | T::LargeBinary | T::BinaryView, Type::BYTE_ARRAY) if wanted.is_binary() => {
            of_bytes(values)
        }
        (T::FixedSizeBinary(_), Type::FIXED_LEN_BYTE_ARRAY) if is_same => of_bytes(values),
        _ => None,
    }
}

/// The type of a column's values, as the file names it.
fn name(column: &ColumnDescriptor) -> ConvertedType {
    match column.logical_type_ref() {
        Some(logical) => ConvertedType::from(Some(logical.clone())),
        None => column.converted_type(),
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

/// Whether timestamps have the same unit, and are moments both or none.
fn is_same_moment(one: &DataType, other: &DataType) -> bool {
    match (one, other) {
        (DataType::Timestamp(unit, zone), DataType::Timestamp(other_unit, other_zone)) => {
            unit == other_unit && zone.is_some() == other_zone.is_some()
        }
        _ => false,
    }
}

/// Values in another type, without those that it does not have.
fn cast_to(values: &ArrayRef, target: &DataType) -> Option<ArrayRef> {
    cast_with_options(values, target, &CastOptions::default()).ok()
}

/// Whole numbers, and what is counted as such, in the first bytes of eight.
fn of_integers(values: &ArrayRef, of_file: &DataType, bytes: usize) -> Option<Vec<Stored>> {
    let found = cast_to(values, of_file)?;
    let bits: Vec<Option<u64>> = if of_file.is_unsigned_integer() {
        let wide = cast_to(&found, &DataType::UInt64)?;
        wide.as_primitive::<UInt64Type>().iter().collect()
    } else {
        // Dates and times of 32 bits do not become int64 at once.
        let narrow = of_file.primitive_width()? == 4;
        let number = if narrow {
            cast_to(&found, &DataType::Int32)?
        } else {
            found
        };
        let wide = cast_to(&number, &DataType::Int64)?;
        let numbers = wide.as_primitive::<Int64Type>();
        numbers
            .iter()
            .map(|value| value.map(i64::cast_unsigned))
            .collect()
    };
    Some(
        { bits.into_iter().flatten() }
            .map(|bits| bits.to_le_bytes()[..bytes].to_vec())
            .collect(),
    )
}

fn of_decimals(
    values: &ArrayRef,
    column: &ColumnDescriptor,
    of_file: &DataType,
) -> Option<Vec<Stored>> {
    let DataType::Decimal128(_, scale) = of_file else {
        return None;
    };
    if column.type_scale() != i32::from(*scale) || name(column) != ConvertedType::DECIMAL {
        return None;
    }
    let found = cast_to(values, of_file)?;
    let length = usize::try_from(column.type_length()).ok();
    let encoded = |value: i128| match column.physical_type() {
        Type::INT32 => Some(value.to_le_bytes()[..4].to_vec()),
        Type::INT64 => Some(value.to_le_bytes()[..8].to_vec()),
        _ => {
            let bytes = value.to_be_bytes();
            let length = length.filter(|&length| length <= bytes.len())?;
            Some(bytes[bytes.len() - length..].to_vec())
        }
    };
    let numbers = found.as_primitive::<Decimal128Type>();
    numbers.iter().flatten().map(encoded).collect()
}

fn of_floats(values: &ArrayRef, of_file: &DataType, physical: Type) -> Option<Vec<Stored>> {
    let found = cast_to(values, of_file)?;
    match (of_file, physical) {
        (DataType::Float32, Type::FLOAT) => {
            let numbers = found.as_primitive::<Float32Type>().iter().flatten();
            both_zeros(numbers.map(f64::from)).map(|all| {
                all.map(|value| (value as f32).to_le_bytes().to_vec())
                    .collect()
            })
        }
        (DataType::Float64, Type::DOUBLE) => {
            let numbers = found.as_primitive::<Float64Type>().iter().flatten();
            both_zeros(numbers).map(|all| all.map(|value| value.to_le_bytes().to_vec()).collect())
        }
        _ => None,
    }
}

/// The numbers, with 0.0 and −0.0 where there is one of them; `None` if one is NaN, which has many forms.
fn both_zeros(numbers: impl Iterator<Item = f64>) -> Option<impl Iterator<Item = f64>> {
    let numbers: Vec<f64> = numbers.collect();
    let has_nan = numbers.iter().any(|value| value.is_nan());
    (!has_nan).then(|| {
        let both = |value: f64| {
            let other = (value == 0.0).then_some(-value);
            std::iter::once(value).chain(other)
        };
        numbers.into_iter().flat_map(both)
    })
}

/// Text and binary of any layout.
fn of_bytes(values: &ArrayRef) -> Option<Vec<Stored>> {
    let is_known = is_text(values.data_type()) || values.data_type().is_binary();
    if !is_known {
        return None;
    }
    let binary = cast_to(values, &DataType::LargeBinary)?;
    let all = binary.as_binary::<i64>().iter().flatten();
    Some(all.map(<[u8]>::to_vec).collect())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use arrow_array::{
        BinaryArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float64Array, Int8Array,
        StringArray, TimestampMicrosecondArray, UInt32Array,
    };
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::WriterProperties;

    use super::*;

    /// Columns of each type that filters are asked for, with a value for each of these numbers.
    fn columns(numbers: std::ops::Range<i64>) -> arrow_array::RecordBatch {
        let all = || numbers.clone();
        let decimals = |precision| {
            let made = Decimal128Array::from_iter_values(all().map(|n| i128::from(n) - 500));
            made.with_precision_and_scale(precision, 2).unwrap()
        };
        let bytes: Vec<[u8; 3]> = all().map(|n| [n as u8, (n >> 8) as u8, 7]).collect();
        let fixed = FixedSizeBinaryArray::try_from_iter(bytes.iter()).unwrap();
        let columns: [(&str, ArrayRef); 10] = [
            (
                "i8",
                Arc::new(Int8Array::from_iter_values(all().map(|n| (n % 100) as i8))),
            ),
            (
                "u32",
                Arc::new(UInt32Array::from_iter_values(
                    all().map(|n| u32::MAX - n as u32),
                )),
            ),
            (
                "f64",
                Arc::new(Float64Array::from_iter_values(
                    all().map(|n| n as f64 / 7.0),
                )),
            ),
            ("dec9", Arc::new(decimals(9))),
            ("dec38", Arc::new(decimals(38))),
            (
                "d",
                Arc::new(Date32Array::from_iter_values(all().map(|n| n as i32))),
            ),
            (
                "us",
                Arc::new(TimestampMicrosecondArray::from_iter_values(all())),
            ),
            (
                "s",
                Arc::new(StringArray::from_iter_values(
                    all().map(|n| format!("s{n}")),
                )),
            ),
            ("b", Arc::new(BinaryArray::from_iter_values(bytes.iter()))),
            ("fixed", Arc::new(fixed)),
        ];
        arrow_array::RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn filters_of_other_writers_have_our_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("in.parquet");
        let (inside, outside) = (columns(0..1000), columns(5000..5200));
        let properties = WriterProperties::builder()
            .set_bloom_filter_enabled(true)
            .set_max_row_group_row_count(Some(500))
            .build();
        let file = File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(file, inside.schema(), Some(properties)).unwrap();
        writer.write(&inside).unwrap();
        writer.close().unwrap();
        let file = Arc::new(RangeReader::open(&path).unwrap());
        for (column, field) in inside.schema().fields().iter().enumerate() {
            let ask = |values: ArrayRef| may_hold(&file, field, &values, None).unwrap();
            for row in [0, 250, 499] {
                let here = ask(inside.column(column).slice(row, 1));
                assert!(here[0], "row {row} of {}", field.name());
                let there = ask(inside.column(column).slice(row + 500, 1));
                assert!(there[1], "row {} of {}", row + 500, field.name());
            }
            let denied =
                (0..200).filter(|&row| ask(outside.column(column).slice(row, 1)) == [false; 2]);
            let expected = if field.name() == "i8" { 0 } else { 150 };
            assert!(denied.count() >= expected, "{}", field.name());
            assert!(ask(inside.column(column).slice(0, 300))[0]);
        }
    }

    #[test]
    fn headers_of_other_kinds_are_unknown() {
        let of = |number: &[u8], kind: &[u8]| sizes(&[&[0x15], number, kind].concat());
        assert_eq!(of(&[0x40], &KIND), Some((15, 32)));
        assert_eq!(of(&[0x80, 0x80, 0x80, 0x01], &KIND), Some((18, 1 << 20)));
        // An odd number is negative; no block has half of its bytes; a filter has some.
        assert_eq!(of(&[0x41], &KIND), None);
        assert_eq!(of(&[0x20], &KIND), None);
        assert_eq!(of(&[0x00], &KIND), None);
        assert_eq!(of(&[0x80, 0x80, 0x80, 0x80, 0x80], &KIND), None);
        assert_eq!(of(&[0x40], &KIND[..12]), None);
        assert_eq!(of(&[0x40], &[0; 13]), None);
        assert_eq!(sizes(&[]), None);
    }

    #[test]
    fn a_number_that_the_file_does_not_have_is_left_out() {
        let values: ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![-1, 1 << 40]));
        let found = of_integers(&values, &DataType::Int8, 4);
        assert_eq!(found, Some(vec![vec![255, 255, 255, 255]]));
        let found = of_integers(&values, &DataType::UInt64, 8);
        assert_eq!(found, Some(vec![(1_u64 << 40).to_le_bytes().to_vec()]));
    }

    #[test]
    fn zeros_have_two_forms_and_nan_has_many() {
        let zeros: Vec<f64> = both_zeros([-0.0, 1.0].into_iter()).unwrap().collect();
        let bits: Vec<u64> = zeros.into_iter().map(f64::to_bits).collect();
        assert_eq!(bits, [(-0.0_f64).to_bits(), 0, 1_f64.to_bits()]);
        assert!(both_zeros([f64::NAN].into_iter()).is_none());
    }
}
