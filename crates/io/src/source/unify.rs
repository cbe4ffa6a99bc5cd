//! The type that holds the values of two types, for columns of several files or of several datasets.
//!
//! Guarantee: the type holds every value of both exactly. The exceptions are integers beyond 2^53 and decimals beside
//! floats, which become the nearest double as everywhere (and in DuckDB and Polars). Types that would need a guess, such as
//! numbers and text, have no common type.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit, DECIMAL256_MAX_PRECISION};

const DECIMAL128_DIGITS: u8 = 38;

/// The common type of two; `None` if there is none.
pub(super) fn unified(a: &DataType, b: &DataType) -> Option<DataType> {
    if a == b {
        return Some(a.clone());
    }
    match (a, b) {
        (DataType::Null, other) | (other, DataType::Null) => Some(other.clone()),
        (DataType::Dictionary(i, x), DataType::Dictionary(j, y)) => Some(DataType::Dictionary(
            Box::new(wider_index(i, j)?),
            Box::new(unified(x, y)?),
        )),
        (DataType::Dictionary(_, x), other) | (other, DataType::Dictionary(_, x)) => {
            unified(x, other)
        }
        _ => texts(a, b)
            .or_else(|| numbers(a, b))
            .or_else(|| times(a, b))
            .or_else(|| nested(a, b)),
    }
}

/// A type of keys that numbers the values of both dictionaries. It has at least 32 bits, because two dictionaries
/// together may have more values than each.
fn wider_index(a: &DataType, b: &DataType) -> Option<DataType> {
    if a == b && bits(a)? >= 32 {
        return Some(a.clone());
    }
    let holds = |key: &DataType| Some(bits(key)? * if key.is_signed_integer() { 1 } else { 2 });
    Some(signed_of(holds(a)?.max(holds(b)?).max(32)))
}

fn bits(data_type: &DataType) -> Option<usize> {
    Some(8 * data_type.primitive_width()?)
}

fn texts(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary, LargeUtf8, Utf8, Utf8View};
    let is_text = |t: &DataType| matches!(t, Utf8 | LargeUtf8 | Utf8View);
    let is_binary =
        |t: &DataType| matches!(t, Binary | LargeBinary | BinaryView | FixedSizeBinary(_));
    match (a, b) {
        _ if is_text(a) && is_text(b) => {
            let is_large = [a, b].contains(&&LargeUtf8);
            Some(if is_large { LargeUtf8 } else { Utf8 })
        }
        _ if is_binary(a) && is_binary(b) => {
            let is_large = [a, b].contains(&&LargeBinary);
            Some(if is_large { LargeBinary } else { Binary })
        }
        _ => None,
    }
}

fn numbers(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{Decimal128, Float16, Float32, Float64};
    if let (Some(x), Some(y)) = (digits(a), digits(b)) {
        if a.is_decimal() || b.is_decimal() {
            return decimals(a, b, x, y);
        }
    }
    let bits = |t: &DataType| bits(t).unwrap_or_default();
    let is_float = |t: &DataType| matches!(t, Float16 | Float32 | Float64);
    let is_number = |t: &DataType| is_float(t) || t.is_integer() || t.is_decimal();
    if !is_number(a) || !is_number(b) {
        return None;
    }
    if is_float(a) && is_float(b) {
        return Some(if bits(a) >= bits(b) {
            a.clone()
        } else {
            b.clone()
        });
    }
    if is_float(a) || is_float(b) {
        let (float, other) = if is_float(a) { (a, b) } else { (b, a) };
        let is_exact = other.is_integer()
            && match float {
                Float16 => bits(other) <= 8,
                Float32 => bits(other) <= 16,
                _ => true,
            };
        return Some(if is_exact { float.clone() } else { Float64 });
    }
    if a.is_signed_integer() == b.is_signed_integer() {
        return Some(if bits(a) >= bits(b) {
            a.clone()
        } else {
            b.clone()
        });
    }
    let (signed, unsigned) = if a.is_signed_integer() {
        (a, b)
    } else {
        (b, a)
    };
    Some(match bits(signed).max(2 * bits(unsigned)) {
        // No integer of 64 bits holds both.
        128.. => Decimal128(20, 0),
        bits => signed_of(bits),
    })
}

fn signed_of(bits: usize) -> DataType {
    match bits {
        ..=8 => DataType::Int8,
        9..=16 => DataType::Int16,
        17..=32 => DataType::Int32,
        _ => DataType::Int64,
    }
}

/// Digits before and behind the point.
fn digits(data_type: &DataType) -> Option<(i16, i16)> {
    use DataType::{Int16, Int32, Int64, Int8, UInt16, UInt32, UInt64, UInt8};
    Some(match data_type {
        Int8 | UInt8 => (3, 0),
        Int16 | UInt16 => (5, 0),
        Int32 | UInt32 => (10, 0),
        Int64 => (19, 0),
        UInt64 => (20, 0),
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => (i16::from(*p) - i16::from(*s), i16::from(*s)),
        _ => return None,
    })
}

fn decimals(a: &DataType, b: &DataType, x: (i16, i16), y: (i16, i16)) -> Option<DataType> {
    let (whole, scale) = (x.0.max(y.0), x.1.max(y.1));
    let precision = u8::try_from(whole + scale).ok()?;
    let scale = i8::try_from(scale).ok()?;
    let is_wide = [a, b].iter().any(|t| matches!(t, DataType::Decimal256(..)));
    match precision {
        ..=DECIMAL128_DIGITS if !is_wide => Some(DataType::Decimal128(precision, scale)),
        ..=DECIMAL256_MAX_PRECISION => Some(DataType::Decimal256(precision, scale)),
        _ => None,
    }
}

/// Takes the finer unit. Timestamps with and without a zone have no common type; those of different zones meet in UTC.
fn times(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{Date32, Date64, Duration, Time32, Time64, Timestamp};
    let finer = |u: &TimeUnit, v: &TimeUnit| *u.max(v);
    match (a, b) {
        (Date32, Date64) | (Date64, Date32) => Some(Date64),
        (Duration(u), Duration(v)) => Some(Duration(finer(u, v))),
        (Time32(u) | Time64(u), Time32(v) | Time64(v)) => Some(match finer(u, v) {
            unit @ (TimeUnit::Second | TimeUnit::Millisecond) => Time32(unit),
            unit => Time64(unit),
        }),
        (Timestamp(u, None), Timestamp(v, None)) => Some(Timestamp(finer(u, v), None)),
        (Timestamp(u, Some(x)), Timestamp(v, Some(y))) => {
            let zone = if x == y { x.clone() } else { "UTC".into() };
            Some(Timestamp(finer(u, v), Some(zone)))
        }
        _ => None,
    }
}

fn nested(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{FixedSizeList, LargeList, List, Map, Struct};
    match (a, b) {
        (List(x), List(y)) => Some(List(item(x, y)?)),
        (List(x) | LargeList(x), List(y) | LargeList(y)) => Some(LargeList(item(x, y)?)),
        (FixedSizeList(x, n), FixedSizeList(y, m)) if n == m => {
            Some(FixedSizeList(item(x, y)?, *n))
        }
        (FixedSizeList(x, _) | List(x), FixedSizeList(y, _) | List(y)) => Some(List(item(x, y)?)),
        (FixedSizeList(x, _), LargeList(y)) | (LargeList(x), FixedSizeList(y, _)) => {
            Some(LargeList(item(x, y)?))
        }
        (Map(x, s), Map(y, t)) if s == t => Some(Map(item(x, y)?, *s)),
        (Struct(x), Struct(y)) => Some(Struct(fields(x, y)?)),
        _ => None,
    }
}

/// Matches fields by their names, in the order of the first; a field that one side lacks can be null. Structs without a
/// common name have no common type.
fn fields(a: &Fields, b: &Fields) -> Option<Fields> {
    let can_be_null = |field: &FieldRef| Arc::new(Field::clone(field).with_nullable(true));
    let names: HashSet<&String> = a.iter().chain(b).map(|field| field.name()).collect();
    let mut all: Vec<FieldRef> = Vec::with_capacity(names.len());
    let mut common = 0;
    for field in a {
        all.push(match b.find(field.name()) {
            Some((_, other)) => {
                common += 1;
                item(field, other)?
            }
            None => can_be_null(field),
        });
    }
    let unseen = b.iter().filter(|field| a.find(field.name()).is_none());
    all.extend(unseen.map(can_be_null));
    // Where a name occurs twice, nothing tells the two fields apart.
    (common > 0 && all.len() == names.len() && a.len() + b.len() == names.len() + common)
        .then(|| all.into())
}

/// The common field of two lists' items, whatever the items are called there.
fn item(a: &Field, b: &Field) -> Option<FieldRef> {
    let data_type = unified(a.data_type(), b.data_type())?;
    let field = Field::new(a.name(), data_type, a.is_nullable() || b.is_nullable());
    Some(Arc::new(field.with_metadata(a.metadata().clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_round() {
        use DataType::*;
        let dictionary =
            |key: DataType, value: DataType| Dictionary(Box::new(key), Box::new(value));
        let unit = |unit| Timestamp(unit, None);
        let cases = [
            (Utf8, Utf8View, Some(Utf8)),
            (Utf8View, LargeUtf8, Some(LargeUtf8)),
            (
                dictionary(Int8, Utf8),
                dictionary(Int32, LargeUtf8),
                Some(dictionary(Int32, LargeUtf8)),
            ),
            (
                dictionary(Int8, Utf8),
                dictionary(UInt8, Utf8),
                Some(dictionary(Int32, Utf8)),
            ),
            (
                dictionary(UInt32, Utf8),
                dictionary(Int32, Utf8),
                Some(dictionary(Int64, Utf8)),
            ),
            (
                dictionary(UInt64, Utf8),
                dictionary(Int8, Utf8),
                Some(dictionary(Int64, Utf8)),
            ),
            (
                dictionary(UInt32, Utf8),
                dictionary(UInt32, LargeUtf8),
                Some(dictionary(UInt32, LargeUtf8)),
            ),
            (dictionary(Int8, Utf8), Utf8View, Some(Utf8)),
            (Binary, FixedSizeBinary(3), Some(Binary)),
            (FixedSizeBinary(2), FixedSizeBinary(3), Some(Binary)),
            (Utf8, Binary, None),
            (Int32, Int64, Some(Int64)),
            (UInt32, Int32, Some(Int64)),
            (UInt8, Int8, Some(Int16)),
            (Int64, UInt64, Some(Decimal128(20, 0))),
            (Int64, Float32, Some(Float64)),
            (Int16, Float32, Some(Float32)),
            (Float16, Float32, Some(Float32)),
            (Decimal128(10, 2), Decimal128(9, 4), Some(Decimal128(12, 4))),
            (
                Decimal128(38, 0),
                Decimal128(38, 10),
                Some(Decimal256(48, 10)),
            ),
            (Decimal128(10, 2), Int64, Some(Decimal128(21, 2))),
            (Decimal128(10, 2), Float32, Some(Float64)),
            (
                unit(TimeUnit::Second),
                unit(TimeUnit::Microsecond),
                Some(unit(TimeUnit::Microsecond)),
            ),
            (
                unit(TimeUnit::Second),
                Timestamp(TimeUnit::Second, Some("UTC".into())),
                None,
            ),
            (
                Time32(TimeUnit::Second),
                Time64(TimeUnit::Nanosecond),
                Some(Time64(TimeUnit::Nanosecond)),
            ),
            (Date32, Date64, Some(Date64)),
            (Null, Boolean, Some(Boolean)),
            (Boolean, Int8, None),
            (Int64, Utf8, None),
        ];
        for (a, b, wanted) in cases {
            assert_eq!(unified(&a, &b), wanted, "{a} {b}");
            assert_eq!(unified(&b, &a), wanted, "{b} {a}");
        }
    }
}
