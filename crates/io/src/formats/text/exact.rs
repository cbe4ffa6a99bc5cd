//! Texts as values of an inferred type, where they are exactly that. Later rows must not become something else only
//! because the first rows, which were looked at, did not show them.
//!
//! The rule is that of inference. A text is a value of the type if, among the first rows, it would have left the type
//! unchanged. So `007` is no integer, and 17 digits are a double only if the double prints as them.

use std::sync::Arc;

use arrow_array::timezone::Tz;
use arrow_array::types::{
    Date32Type, Float64Type, Int64Type, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt64Type,
};
use arrow_array::{ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, StringViewArray};
use arrow_schema::{ArrowError, DataType, TimeUnit};

use super::{csv_values, number};

/// Returns the texts of a CSV column as values of the type inferred for it.
pub(super) fn column(
    texts: &StringViewArray,
    data_type: &DataType,
) -> Result<ArrayRef, ArrowError> {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    let of = (texts, data_type);
    match data_type {
        DataType::Boolean => {
            let values = texts
                .iter()
                .map(|text| parsed(text, csv_values::exact_bool));
            Ok(Arc::new(values.collect::<Result<BooleanArray, _>>()?))
        }
        DataType::Int64 => primitive::<Int64Type>(of, number::exact_i64),
        DataType::UInt64 => primitive::<UInt64Type>(of, number::exact_u64),
        DataType::Float64 => primitive::<Float64Type>(of, csv_values::exact_f64),
        DataType::Date32 => primitive::<Date32Type>(of, csv_values::exact_date),
        DataType::Time64(Nanosecond) => {
            primitive::<Time64NanosecondType>(of, |text| csv_values::exact_time(text, Nanosecond))
        }
        DataType::Time64(unit) => {
            primitive::<Time64MicrosecondType>(of, |text| csv_values::exact_time(text, *unit))
        }
        DataType::Timestamp(unit, zone) => {
            let utc: Tz = "+00:00".parse()?;
            let parse = |text: &str| csv_values::exact_timestamp(text, *unit, zone.is_some(), &utc);
            match unit {
                Second => primitive::<TimestampSecondType>(of, parse),
                Millisecond => primitive::<TimestampMillisecondType>(of, parse),
                Microsecond => primitive::<TimestampMicrosecondType>(of, parse),
                Nanosecond => primitive::<TimestampNanosecondType>(of, parse),
            }
        }
        other => Err(ArrowError::NotYetImplemented(format!(
            "no column of CSV is inferred as {other}"
        ))),
    }
}

fn primitive<T: ArrowPrimitiveType>(
    (texts, data_type): (&StringViewArray, &DataType),
    parse: impl Fn(&str) -> Option<T::Native>,
) -> Result<ArrayRef, ArrowError> {
    let values = texts.iter().map(|text| parsed(text, &parse));
    let values = values.collect::<Result<PrimitiveArray<T>, _>>()?;
    // The type of the values does not tell the zone.
    Ok(Arc::new(values.with_data_type(data_type.clone())))
}

fn parsed<V>(
    text: Option<&str>,
    parse: impl Fn(&str) -> Option<V>,
) -> Result<Option<V>, ArrowError> {
    let parse = |text| parse(text).ok_or_else(|| refused(text));
    text.map(parse).transpose()
}

/// Returns the error that starts the search for the record at fault; users see the result of the search.
pub(super) fn refused(text: &str) -> ArrowError {
    ArrowError::ParseError(format!(
        "'{text}' is not exactly a value of the column's type"
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use csv_values::Values;

    /// First rows for each type that can be inferred.
    const FIRST: [&[&str]; 15] = [
        &["1"],
        &["18446744073709551615"],
        &["1.5"],
        &["true"],
        &["2020-01-01"],
        &["2020-01-01T00:00:00"],
        &["2020-01-01 00:00:00.5"],
        &["2020-01-01T00:00:00.123456"],
        &["2020-01-01T00:00:00.123456789"],
        &["2020-01-01T00:00:00Z"],
        &["2020-01-01T00:00:00.5+01:00"],
        &["2020-01-01T00:00:00.123456-0530"],
        &["2020-01-01T00:00:00.123456789z"],
        &["12:34:56"],
        &["12:34:56.123456789"],
    ];

    fn known(values: &[&str]) -> Values {
        let mut known = Values::default();
        values.iter().for_each(|value| known.add(value.as_bytes()));
        known
    }

    fn is_exact(text: &str, data_type: &DataType) -> bool {
        column(&StringViewArray::from(vec![None, Some(text)]), data_type).is_ok()
    }

    /// Leaves out zeros behind the point: they are no finer unit, unless a row that was looked at says so.
    fn without_zeros(text: &str) -> String {
        match text.get(..19).zip(text.get(19..)) {
            Some((clock, rest)) if rest.starts_with('.') && clock.contains(':') => {
                let zone = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
                let (fraction, zone) = rest.split_at(zone.unwrap_or(rest.len()));
                match fraction.len() {
                    1 => text.to_owned(),
                    _ => [
                        clock,
                        fraction.trim_end_matches('0').trim_end_matches('.'),
                        zone,
                    ]
                    .concat(),
                }
            }
            _ => text.to_owned(),
        }
    }

    proptest! {
        #[test]
        fn a_text_is_a_value_if_it_would_have_left_the_type_as_it_is(
            first in 0..FIRST.len(),
            text in prop_oneof![
                "[-+ ]?(0|[1-9]|007|[0-9]{1,21})(\\.[0-9]{0,20})?(e-?[0-9]{1,3})?[ ]?",
                "(true|FALSE|t|1|yes|NaN|nan|inf|-inf|Infinity|INF|null|-)",
                "(20|19|99)[0-9]{2}-[01][0-9]-[0-3][0-9]",
                "(2020-?0?1-?0?1|\\+10000-01-01|2020/01/01|20200101| 2020-01-01)",
                "2020-02-(28|30)[T t](23|24|7):?59:?(59|60)(\\.[0-9]{0,10}|\\.50{1,9}|\\.0{1,8})?(Z|z|[ ]?[+-]0[0-9](:?30)?| UTC)?",
                "(0|1|2)[0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{0,10}|\\.50{0,9})?",
                ".{0,12}",
            ],
        ) {
            let mut known = known(FIRST[first]);
            let data_type = known.data_type();
            known.add(without_zeros(&text).as_bytes());
            // An empty text is null, and not looked at.
            prop_assume!(!text.is_empty());
            prop_assert_eq!(is_exact(&text, &data_type), known.data_type() == data_type, "{} {}", text, data_type);
        }
    }

    #[test]
    fn values_are_those_that_are_written() {
        use arrow_cast::display::array_value_to_string;
        for (first, text, expected) in [
            ("1", "-9223372036854775808", "-9223372036854775808"),
            ("1.5", "0.30000000000000004", "0.30000000000000004"),
            ("1.5", "-0", "-0.0"),
            ("1.5", "-inf", "-inf"),
            ("true", "FALSE", "false"),
            ("2020-01-01", "0001-12-31", "0001-12-31"),
            ("12:34:56", "23:59:59.001", "23:59:59.001"),
            (
                "12:34:56.123456789",
                "00:00:00.000000001",
                "00:00:00.000000001",
            ),
            ("2020-01-01T00:00:00", "1969-12-31", "1969-12-31T00:00:00"),
            (
                "2020-01-01T00:00:00.5",
                "1969-12-31 23:59:59.999000000",
                "1969-12-31T23:59:59.999",
            ),
            (
                "2020-01-01T00:00:00Z",
                "2020-01-01T00:00:00.00+02:00",
                "2019-12-31T22:00:00Z",
            ),
        ] {
            let data_type = known(&[first]).data_type();
            let column = column(&StringViewArray::from(vec![text]), &data_type).unwrap();
            assert_eq!(column.data_type(), &data_type);
            assert_eq!(array_value_to_string(&column, 0).unwrap(), expected);
        }
    }
}
