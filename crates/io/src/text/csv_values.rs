//! Which type holds values of CSV as they are written, so that they are the same when they are written again; where a
//! value has several ways to be written (`1.10`, `TRUE`, the offset of a timestamp), the same value.

use arrow_array::timezone::Tz;
use arrow_array::types::Date32Type;
use arrow_cast::parse::{string_to_datetime, Parser};
use arrow_schema::{DataType, TimeUnit};

use super::number::Numbers;

/// What is known of the values of a column.
#[derive(Debug, Clone, Default)]
pub(super) struct Values {
    bools: bool,
    numbers: Numbers,
    dates: bool,
    /// The finest unit of timestamps without a zone.
    local: Option<TimeUnit>,
    /// The finest unit of timestamps that tell their distance from UTC.
    zoned: Option<TimeUnit>,
    texts: bool,
}

impl Values {
    /// Adds a value; an empty one is none.
    pub(super) fn add(&mut self, value: &[u8]) {
        let Ok(text) = std::str::from_utf8(value) else {
            self.texts = true;
            return;
        };
        if text.is_empty() || self.texts || self.numbers.add(text) {
            return;
        }
        if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
            self.bools = true;
        } else if matches!(text, "NaN" | "nan" | "inf" | "-inf") {
            self.numbers.add_special();
        } else if text.len() == 10 && is_date(text) {
            self.dates = true;
        } else if let Some((unit, zoned)) = timestamp(text) {
            let finest = if zoned {
                &mut self.zoned
            } else {
                &mut self.local
            };
            *finest = (*finest).max(Some(unit));
        } else {
            self.texts = true;
        }
    }

    /// A type that holds all of them; a column without any value could hold anything, which text can.
    pub(super) fn data_type(&self) -> DataType {
        let local = self.local.map(|unit| DataType::Timestamp(unit, None));
        let of_kinds = [
            self.bools.then_some(DataType::Boolean),
            self.numbers.data_type(),
            local.or(self.dates.then_some(DataType::Date32)),
            self.zoned
                .map(|unit| DataType::Timestamp(unit, Some("UTC".into()))),
        ];
        let mut kinds = of_kinds.into_iter().flatten();
        match (kinds.next(), kinds.next()) {
            (Some(one), None) if !self.texts => one,
            _ => DataType::Utf8,
        }
    }
}

/// Whether the text begins with `2020-12-31`, and there is such a day.
fn is_date(text: &str) -> bool {
    text.get(..10)
        .is_some_and(|day| has_shape(day, "dddd-dd-dd") && Date32Type::parse(day).is_some())
}

/// The unit that holds a timestamp, `2020-12-31T23:59:59.123456+02:00` with or without its last parts, and whether it
/// tells its distance from UTC.
fn timestamp(text: &str) -> Option<(TimeUnit, bool)> {
    let clock = text
        .get(11..19)
        .filter(|_| matches!(text.as_bytes()[10], b'T' | b' '))?;
    if !is_date(text) || !has_shape(clock, "dd:dd:dd") {
        return None;
    }
    let (places, zone) = match text[19..].strip_prefix('.') {
        Some(rest) => {
            let zone = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            (rest.len() - zone.len(), zone)
        }
        None => (0, &text[19..]),
    };
    let unit = match (places, text.as_bytes()[19..].first()) {
        (0, Some(b'.')) => return None,
        (0, _) => TimeUnit::Second,
        (1..=3, _) => TimeUnit::Millisecond,
        (4..=6, _) => TimeUnit::Microsecond,
        (7..=9, _) => TimeUnit::Nanosecond,
        _ => return None,
    };
    if !(zone.is_empty() || matches!(zone, "Z" | "z") || zone.starts_with(['+', '-'])) {
        return None;
    }
    let time = string_to_datetime(&"+00:00".parse::<Tz>().ok()?, text).ok()?;
    let held = unit != TimeUnit::Nanosecond || time.timestamp_nanos_opt().is_some();
    held.then_some((unit, !zone.is_empty()))
}

/// Whether the text has digits where the shape has `d`, and else the same.
fn has_shape(text: &str, shape: &str) -> bool {
    let pairs = text.bytes().zip(shape.bytes());
    text.len() == shape.len() && { pairs }
        .all(|(byte, wanted)| byte == wanted || (wanted == b'd' && byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_holds_what_is_written() {
        use DataType::{Boolean, Date32, Timestamp, Utf8};
        use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        let utc = |unit| Timestamp(unit, Some("UTC".into()));
        for (values, expected) in [
            (&["007", "8"][..], Utf8),
            (&["TRUE", "false"], Boolean),
            (&["true", "1"], Utf8),
            (&["2020-01-31"], Date32),
            (&["2020-02-31"], Utf8),
            (
                &["2020-01-01", "2020-01-01 00:00:00.12"],
                Timestamp(Millisecond, None),
            ),
            (
                &["2020-01-01T00:00:00", "2020-01-01T00:00:00.123456"],
                Timestamp(Microsecond, None),
            ),
            (
                &["2020-01-01T00:00:00.1234567"],
                Timestamp(Nanosecond, None),
            ),
            (&["9999-01-01T00:00:00.1234567"], Utf8),
            (&["2020-01-01T00:00:00."], Utf8),
            (
                &[
                    "2020-01-01T00:00:00+02:00",
                    "2020-01-01 00:00:00Z",
                    "2020-01-01 00:00:00-05",
                ],
                utc(Second),
            ),
            (&["2020-01-01T00:00:00.5+0200"], utc(Millisecond)),
            (&["2020-01-01T00:00:00+02:00", "2020-01-01T00:00:00"], Utf8),
            (&["2020-01-01T00:00:00+02:00", "2020-01-01"], Utf8),
            (&["2020-01-01T00:00:00 and more"], Utf8),
            (&["2020-01-01T25:00:00"], Utf8),
            (&["é2020-01-01T00:00:0"], Utf8),
        ] {
            let mut known = Values::default();
            values.iter().for_each(|value| known.add(value.as_bytes()));
            assert_eq!(known.data_type(), expected, "{values:?}");
        }
    }
}
