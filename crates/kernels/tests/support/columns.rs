//! Random columns of every type, as Arrow arrays and as values for the oracle.

use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Int32Builder, ListBuilder, StringViewBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{
    make_array, Array, ArrayRef, BooleanArray, DictionaryArray, NullArray, StructArray,
};
use arrow_array::{BinaryArray, Int64Array, RecordBatch, StringArray};
use arrow_buffer::{i256, MutableBuffer, NullBuffer};
use arrow_cast::cast;
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Fields, IntervalUnit, TimeUnit};

use super::oracle::Value;

/// SplitMix64: the tests' only source of randomness, seeded by proptest.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ x >> 31
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// Returns types that have an order.
pub fn sortable_types() -> Vec<DataType> {
    use DataType as T;
    let dictionary = |key: T, values: T| T::Dictionary(Box::new(key), Box::new(values));
    vec![
        T::Null,
        T::Boolean,
        T::Int8,
        T::Int16,
        T::Int32,
        T::Int64,
        T::UInt8,
        T::UInt16,
        T::UInt32,
        T::UInt64,
        T::Float16,
        T::Float32,
        T::Float64,
        T::Decimal32(9, 2),
        T::Decimal64(18, 2),
        T::Decimal128(38, 2),
        T::Decimal256(76, 2),
        T::Date32,
        T::Date64,
        T::Time32(TimeUnit::Second),
        T::Time64(TimeUnit::Nanosecond),
        T::Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into())),
        T::Duration(TimeUnit::Millisecond),
        T::FixedSizeBinary(3),
        T::FixedSizeBinary(40),
        T::Utf8,
        T::LargeUtf8,
        T::Utf8View,
        T::Binary,
        T::LargeBinary,
        T::BinaryView,
        dictionary(T::Int16, T::Utf8),
        dictionary(T::Int32, T::Utf8View),
        dictionary(T::UInt16, T::LargeBinary),
        dictionary(T::Int32, T::Int64),
        dictionary(T::Int32, T::Timestamp(TimeUnit::Second, None)),
        dictionary(T::Int32, T::FixedSizeBinary(3)),
    ]
}

/// Returns types that can only travel along.
pub fn payload_types() -> Vec<DataType> {
    use DataType as T;
    let pair = Fields::from(vec![
        Field::new("n", T::Int64, true),
        Field::new("s", T::Utf8View, true),
    ]);
    vec![
        T::Interval(IntervalUnit::DayTime),
        T::Interval(IntervalUnit::MonthDayNano),
        T::FixedSizeBinary(0),
        T::new_list(T::Int32, true),
        T::new_large_list(T::Int32, true),
        T::new_fixed_size_list(T::Int32, 3, true),
        T::new_list(T::Utf8View, true),
        T::Struct(pair),
        T::Dictionary(Box::new(T::Int32), Box::new(T::Boolean)),
    ]
}

/// Returns a column of `rows` values out of about `distinct` different ones.
pub fn column(
    data_type: &DataType,
    nullable: bool,
    rows: usize,
    distinct: usize,
    random: &mut Random,
) -> (ArrayRef, Vec<Value>) {
    let pool: Vec<Value> = (0..distinct).map(|_| value(data_type, random)).collect();
    let values: Vec<Value> = (0..rows)
        .map(|_| {
            if nullable && random.below(4) == 0 {
                Value::Null
            } else {
                pool[random.below(distinct)].clone()
            }
        })
        .collect();
    (array(data_type, &values), values)
}

fn value(data_type: &DataType, random: &mut Random) -> Value {
    use DataType as T;
    match data_type {
        T::Dictionary(_, values) => value(values, random),
        T::Null => Value::Null,
        T::Boolean => Value::Bool(random.below(2) == 1),
        T::Float16 | T::Float32 | T::Float64 => Value::Float(float(random)),
        T::FixedSizeBinary(width) => Value::Bytes(bytes(*width as usize, random)),
        T::Utf8 | T::LargeUtf8 | T::Utf8View => Value::Bytes(text(random).into_bytes()),
        T::Binary | T::LargeBinary | T::BinaryView => {
            let length = random.below(40);
            Value::Bytes(bytes(length, random))
        }
        T::List(_) | T::LargeList(_) | T::FixedSizeList(..) | T::Struct(_) => {
            Value::Int(i256::from_i128(random.below(50) as i128))
        }
        T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64 => {
            let width = data_type.primitive_width().unwrap() as u32;
            let all = u64::MAX >> (64 - 8 * width);
            let n = [0, 1, all, all / 2, random.next() & all][random.below(5)];
            Value::Int(i256::from_i128(i128::from(n)))
        }
        _ => Value::Int(integer(data_type.primitive_width().unwrap(), random)),
    }
}

fn integer(width: usize, random: &mut Random) -> i256 {
    let wide = i256::from_parts(
        u128::from(random.next()) << 64 | u128::from(random.next()),
        i128::from(random.next()) << 64,
    );
    let excess = (256 - 8 * width) as u8;
    let max = i256::MAX >> excess;
    let min = max.wrapping_neg().wrapping_sub(i256::ONE);
    let any = wide >> excess;
    [
        min,
        max,
        i256::ZERO,
        i256::MINUS_ONE,
        i256::from_i128(random.below(100) as i128),
        any,
    ][random.below(6)]
}

/// Returns values that are the same in all float widths.
fn float(random: &mut Random) -> f64 {
    let small = random.below(100) as f64 / 4.0;
    [
        f64::NAN,
        -f64::NAN,
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        small,
        -small,
    ][random.below(8)]
}

fn bytes(length: usize, random: &mut Random) -> Vec<u8> {
    let edges = [0, 1, 0x7F, 0x80, 0xFF];
    (0..length)
        .map(|_| edges[random.below(edges.len())])
        .collect()
}

/// Returns strings around the lengths that matter, many with a long common beginning, some ending in zero bytes.
fn text(random: &mut Random) -> String {
    let begin = [
        "",
        "a",
        "http://example.org/a/path/of/some/length/",
        "fifteen bytes..",
    ][random.below(4)];
    let rest = (0..random.below(18)).map(|_| ['\0', 'a', 'b', 'é'][random.below(4)]);
    begin.chars().chain(rest).collect()
}

fn array(data_type: &DataType, values: &[Value]) -> ArrayRef {
    use DataType as T;
    match data_type {
        T::Null => Arc::new(NullArray::new(values.len())),
        T::Boolean => Arc::new(
            values
                .iter()
                .map(|v| {
                    if let Value::Bool(b) = v {
                        Some(*b)
                    } else {
                        None
                    }
                })
                .collect::<BooleanArray>(),
        ),
        T::Utf8 | T::LargeUtf8 | T::Utf8View => {
            let strings: StringArray = values
                .iter()
                .map(|v| value_bytes(v).map(|b| std::str::from_utf8(b).unwrap()))
                .collect();
            cast(&strings, data_type).unwrap()
        }
        T::Binary | T::LargeBinary | T::BinaryView => {
            let binary: BinaryArray = values.iter().map(value_bytes).collect();
            cast(&binary, data_type).unwrap()
        }
        // The one dictionary that casting cannot make.
        T::Dictionary(_, plain) if **plain == T::Boolean => {
            let keys = values.iter().map(|v| match v {
                Value::Bool(b) => Some(i32::from(*b)),
                _ => None,
            });
            let words = Arc::new(BooleanArray::from(vec![false, true]));
            Arc::new(DictionaryArray::<Int32Type>::new(keys.collect(), words))
        }
        T::Dictionary(_, plain) => cast(&array(plain, values), data_type).unwrap(),
        T::List(field) => list(field.data_type(), values),
        T::LargeList(field) => {
            let plain = T::new_list(field.data_type().clone(), true);
            cast(&array(&plain, values), data_type).unwrap()
        }
        T::FixedSizeList(..) => triples(values),
        T::Struct(fields) => {
            let columns = fields
                .iter()
                .map(|f| nested(f.data_type(), values))
                .collect();
            Arc::new(StructArray::new(
                fields.clone(),
                columns,
                Some(validity(values)),
            ))
        }
        _ => fixed(data_type, values),
    }
}

/// Makes any fixed-width type from its little-endian bytes.
fn fixed(data_type: &DataType, values: &[Value]) -> ArrayRef {
    let width = match data_type {
        DataType::FixedSizeBinary(width) => *width as usize,
        other => other.primitive_width().unwrap(),
    };
    let mut buffer = MutableBuffer::new(width * values.len());
    for value in values {
        let bytes = match (value, data_type) {
            (Value::Float(v), DataType::Float16) => half(*v).to_le_bytes().to_vec(),
            (Value::Float(v), DataType::Float32) => (*v as f32).to_le_bytes().to_vec(),
            (Value::Float(v), _) => v.to_le_bytes().to_vec(),
            (Value::Int(v), _) => v.to_le_bytes()[..width].to_vec(),
            (Value::Bytes(v), _) => v.clone(),
            // Rubbish below a null must not matter.
            _ => vec![0xA5; width],
        };
        buffer.extend_from_slice(&bytes);
    }
    let data = ArrayData::builder(data_type.clone())
        .len(values.len())
        .add_buffer(buffer.into());
    make_array(data.nulls(Some(validity(values))).build().unwrap())
}

/// Returns half precision bits of the values that `float` makes: multiples of 1/4 below 25, and the special ones.
fn half(v: f64) -> u16 {
    let bits = v.to_bits();
    let sign = (bits >> 48) as u16 & 0x8000;
    match v {
        v if v.is_nan() => sign | 0x7E00,
        v if v.is_infinite() => sign | 0x7C00,
        0.0 => sign,
        _ => {
            let exponent = (bits >> 52 & 0x7FF) as u16 + 15 - 1023;
            sign | exponent << 10 | (bits >> 42 & 0x3FF) as u16
        }
    }
}

fn list(items: &DataType, values: &[Value]) -> ArrayRef {
    let counts = values.iter().map(|v| {
        if let Value::Int(n) = v {
            n.to_i128().map(|n| n % 4)
        } else {
            None
        }
    });
    if *items == DataType::Int32 {
        let mut builder = ListBuilder::new(Int32Builder::new());
        for count in counts {
            (0..count.unwrap_or(0))
                .for_each(|i| builder.values().append_option((i != 1).then_some(i as i32)));
            builder.append(count.is_some());
        }
        Arc::new(builder.finish())
    } else {
        let mut builder = ListBuilder::new(StringViewBuilder::new());
        for count in counts {
            (0..count.unwrap_or(0)).for_each(|i| {
                builder
                    .values()
                    .append_value(format!("a string of some length {i}"))
            });
            builder.append(count.is_some());
        }
        Arc::new(builder.finish())
    }
}

/// Returns lists of three numbers, some of them null.
fn triples(values: &[Value]) -> ArrayRef {
    let mut builder = FixedSizeListBuilder::new(Int32Builder::new(), 3);
    for value in values {
        let number = match value {
            Value::Int(n) => n.to_i128().map(|n| n as i32),
            _ => None,
        };
        for i in 0..3 {
            let item = number.map_or(7, |n| n + i);
            builder
                .values()
                .append_option((item % 5 > 0).then_some(item));
        }
        builder.append(number.is_some());
    }
    Arc::new(builder.finish())
}

/// Returns a child column of a struct.
fn nested(data_type: &DataType, values: &[Value]) -> ArrayRef {
    let numbers = values.iter().map(|v| {
        if let Value::Int(n) = v {
            n.to_i128().map(|n| n as i64)
        } else {
            None
        }
    });
    cast(&numbers.collect::<Int64Array>(), data_type).unwrap()
}

fn value_bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

fn validity(values: &[Value]) -> NullBuffer {
    values.iter().map(|v| !matches!(v, Value::Null)).collect()
}

/// Returns the same rows as a reader may deliver them: strings as views, dictionaries decoded, columns not starting at
/// 0.
pub fn delivered(batch: &RecordBatch, random: &mut Random) -> RecordBatch {
    let columns = batch.columns().iter().map(|array| {
        let other = match array.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => &DataType::Utf8View,
            DataType::Utf8View => &DataType::LargeUtf8,
            DataType::Binary | DataType::LargeBinary => &DataType::BinaryView,
            DataType::Dictionary(_, values) if **values != DataType::Boolean => values.as_ref(),
            same => same,
        };
        let array = if random.below(2) == 0 {
            cast(array, other).unwrap()
        } else {
            Arc::clone(array)
        };
        shifted(&array)
    });
    let columns: Vec<ArrayRef> = columns.collect();
    let fields: Vec<Field> = columns
        .iter()
        .zip(batch.schema().fields())
        .map(|(c, f)| Field::new(f.name(), c.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(Arc::new(arrow_schema::Schema::new(fields)), columns).unwrap()
}

/// Returns the array as a slice out of a larger one.
fn shifted(array: &ArrayRef) -> ArrayRef {
    let twice = arrow_select::concat::concat(&[array.as_ref(), array.as_ref()]).unwrap();
    twice.slice(array.len(), array.len())
}
