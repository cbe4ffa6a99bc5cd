//! The oracle of the kernels: values as plain enums, compared the obvious way.

use std::cmp::Ordering;

use arrow_buffer::i256;
use exoshuffle_kernels::SortKey;

/// One value of any column; a payload without an order has no value.
#[derive(Debug, Clone)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i256),
    Float(f64),
    Bytes(Vec<u8>),
}

/// Compares two rows, given as their values per column.
pub fn compare_rows(keys: &[SortKey], a: &[Value], b: &[Value]) -> Ordering {
    keys.iter()
        .map(|key| compare(&a[key.column], &b[key.column], key))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

fn compare(a: &Value, b: &Value, key: &SortKey) -> Ordering {
    let nulls = if key.nulls_first {
        Ordering::Less
    } else {
        Ordering::Greater
    };
    let order = match (a, b) {
        (Value::Null, Value::Null) => return Ordering::Equal,
        (Value::Null, _) => return nulls,
        (_, Value::Null) => return nulls.reverse(),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) => match (a.is_nan(), b.is_nan()) {
            (false, false) => a.partial_cmp(b).unwrap(),
            (a, b) => a.cmp(&b),
        },
        other => panic!("values of different types: {other:?}"),
    };
    if key.descending {
        order.reverse()
    } else {
        order
    }
}
