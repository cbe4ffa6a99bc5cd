//! Which type holds values of CSV as they are written, so that they are the same when they are written again. Some
//! values can be written in several ways (`1.10`, `TRUE`, the offset of a timestamp): the value is the same then.

use arrow_array::timezone::Tz;
use arrow_array::types::Date32Type;
use arrow_cast::parse::{string_to_datetime, Parser};
use arrow_schema::{DataType, TimeUnit};

use super::number::{self, Numbers};

/// The facts about the values of a column so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Values {
    bools: bool,
    numbers: Numbers,
    dates: bool,
    /// The finest unit of times of day.
    times: Option<TimeUnit>,
    /// The finest unit of timestamps without a zone.
    local: Option<TimeUnit>,
    /// The finest unit of timestamps that tell their distance from UTC.
    zoned: Option<TimeUnit>,
    /// Whether a date or timestamp is too far from 1970 to be given in nanoseconds.
    far: bool,
    texts: bool,
}

impl Values {
    /// Adds a value; an empty text is no value.
    pub(super) fn add(&mut self, value: &[u8]) {
        let Ok(text) = std::str::from_utf8(value) else {
            self.texts = true;
            return;
        };
        if text.is_empty() || self.texts || self.numbers.add(text) {
            return;
        }
        if exact_bool(text).is_some() {
            self.bools = true;
        } else if is_special(text) {
            self.numbers.add_special();
        } else if is_date(text) {
            self.dates = true;
            self.far |= is_far(text, false);
        } else if let Some(unit) = time_unit(text) {
            self.times = self.times.max(Some(unit));
        } else if let Some((unit, zoned)) = timestamp(text) {
            self.far |= is_far(text, zoned);
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

    /// Returns a type that holds all values. A column without any value becomes text, which can hold anything.
    pub(super) fn data_type(&self) -> DataType {
        if self.far && self.local.max(self.zoned) == Some(TimeUnit::Nanosecond) {
            return DataType::Utf8;
        }
        let local = self.local.map(|unit| DataType::Timestamp(unit, None));
        let of_kinds = [
            self.bools.then_some(DataType::Boolean),
            self.numbers.data_type(),
            local.or(self.dates.then_some(DataType::Date32)),
            self.times.map(DataType::Time64),
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

/// Parses `true` or `false`, in capitals or not.
pub(super) fn exact_bool(text: &str) -> Option<bool> {
    let is_true = text.eq_ignore_ascii_case("true");
    (is_true || text.eq_ignore_ascii_case("false")).then_some(is_true)
}

/// Returns the double that a text is, if no digit is lost.
pub(super) fn exact_f64(text: &str) -> Option<f64> {
    number::exact_f64(text).or_else(|| is_special(text).then(|| text.parse().ok())?)
}

/// Returns whether the text is no number but still a value of doubles.
fn is_special(text: &str) -> bool {
    matches!(text, "NaN" | "nan" | "inf" | "-inf")
}

/// Returns the days from 1970 to a date, `2020-12-31`.
pub(super) fn exact_date(text: &str) -> Option<i32> {
    is_date_shape(text).then(|| Date32Type::parse(text))?
}

/// Returns a time of day, `23:59:59.123`, as the number of units since midnight, if no part of it is finer than the
/// unit.
pub(super) fn exact_time(text: &str, unit: TimeUnit) -> Option<i64> {
    let (clock, fraction) = clock_and_fraction(text)?;
    let [hours, minutes, seconds] = clock;
    let places = match unit {
        TimeUnit::Nanosecond => 9,
        _ => 6,
    };
    let mut units = i64::from(hours * 3600 + minutes * 60 + seconds);
    for place in 0..places {
        let digit = fraction
            .as_bytes()
            .get(place)
            .map_or(0, |digit| digit - b'0');
        units = units * 10 + i64::from(digit);
    }
    (fraction.len() <= places).then_some(units)
}

/// Returns the unit that holds a time of day: microseconds, which other programs have, or nanoseconds.
fn time_unit(text: &str) -> Option<TimeUnit> {
    match clock_and_fraction(text)?.1.len() {
        0..=6 => Some(TimeUnit::Microsecond),
        7..=9 => Some(TimeUnit::Nanosecond),
        _ => None,
    }
}

/// Returns hours, minutes and seconds of `23:59:59.1230`, and the digits of the fraction without zeros at the end.
fn clock_and_fraction(text: &str) -> Option<([u32; 3], &str)> {
    let (clock, fraction) = match text.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (text, ""),
    };
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mut numbers = [0; 3];
    let mut parts = clock.split(':');
    for (number, below) in numbers.iter_mut().zip([24, 60, 60]) {
        let part = parts
            .next()
            .filter(|part| part.len() == 2 && is_digits(part))?;
        *number = part.parse().ok().filter(|number| *number < below)?;
    }
    let is_time = parts.next().is_none() && is_digits(fraction);
    is_time.then(|| (numbers, fraction.trim_end_matches('0')))
}

fn is_date(text: &str) -> bool {
    exact_date(text).is_some()
}

/// Returns a timestamp as the number of units since 1970, if no part of it is finer than the unit. It must tell its
/// distance from UTC if the column does, and only then. In a column of local timestamps a date is one, too.
pub(super) fn exact_timestamp(text: &str, unit: TimeUnit, zoned: bool, utc: &Tz) -> Option<i64> {
    let (fraction, zone) = match fraction_and_zone(text) {
        None if !zoned && is_date_shape(text) => ("", ""),
        parts => parts?,
    };
    let places = fraction.trim_end_matches('0').len();
    if zone.is_empty() == zoned || (places > 0 && unit < unit_of(places)?) {
        return None;
    }
    let time = string_to_datetime(utc, text).ok()?;
    match unit {
        TimeUnit::Second => Some(time.timestamp()),
        TimeUnit::Millisecond => Some(time.timestamp_millis()),
        TimeUnit::Microsecond => Some(time.timestamp_micros()),
        TimeUnit::Nanosecond => time.timestamp_nanos_opt(),
    }
}

fn is_far(text: &str, zoned: bool) -> bool {
    let utc = "+00:00".parse();
    utc.is_ok_and(|utc| exact_timestamp(text, TimeUnit::Nanosecond, zoned, &utc).is_none())
}

/// Returns the unit that holds a timestamp, and whether it tells its distance from UTC.
fn timestamp(text: &str) -> Option<(TimeUnit, bool)> {
    let (fraction, zone) = fraction_and_zone(text)?;
    let unit = unit_of(fraction.len())?;
    let zoned = !zone.is_empty();
    exact_timestamp(text, unit, zoned, &"+00:00".parse().ok()?)?;
    Some((unit, zoned))
}

/// Returns the unit that holds so many digits of a fraction of a second.
fn unit_of(places: usize) -> Option<TimeUnit> {
    match places {
        0 => Some(TimeUnit::Second),
        1..=3 => Some(TimeUnit::Millisecond),
        4..=6 => Some(TimeUnit::Microsecond),
        7..=9 => Some(TimeUnit::Nanosecond),
        _ => None,
    }
}

/// Returns the last parts of `2020-12-31T23:59:59.123456+02:00`, each of which can be missing; `None` where the other
/// parts have another form. Whether such a day and time exist is for the parser to say, which makes another minute of a
/// leap second.
fn fraction_and_zone(text: &str) -> Option<(&str, &str)> {
    let rest = text.get(19..)?;
    let clock = &text.as_bytes()[10..19];
    let (separator, second) = (clock[0], &clock[7..]);
    if !matches!(separator, b'T' | b' ') || clock[3] != b':' || second == b"60" {
        return None;
    }
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            rest.split_at(digits)
        }
        None => ("", rest),
    };
    let is_zone = matches!(zone, "" | "Z" | "z") || zone.starts_with(['+', '-']);
    is_zone.then_some((fraction, zone))
}

/// Returns whether the text has the form of `2020-12-31`, whatever the digits.
fn is_date_shape(text: &str) -> bool {
    let is_like = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    text.len() == 10 && text.bytes().enumerate().all(is_like)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_holds_what_is_written() {
        use DataType::{Boolean, Date32, Time64, Timestamp, Utf8};
        use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        let utc = |unit| Timestamp(unit, Some("UTC".into()));
        for (values, expected) in [
            (&["007", "8"][..], Utf8),
            (&["TRUE", "false"], Boolean),
            (&["true", "1"], Utf8),
            (&["2020-01-31"], Date32),
            (&["2020-02-31"], Utf8),
            (&["01/02/2024"], Utf8),
            (&["12:34:56", "00:00:00.123456"], Time64(Microsecond)),
            (&["23:59:59.1234567"], Time64(Nanosecond)),
            (&["23:59:59.1234567891"], Utf8),
            (&["24:00:00"], Utf8),
            (&["12:34"], Utf8),
            (&["12:34:56."], Utf8),
            (&["12:34:56Z"], Utf8),
            (&["12:34:56", "2020-01-31"], Utf8),
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
            (&["2020-01-01T00:00:00.123456789", "9900-01-01"], Utf8),
            (
                &["9900-01-01T00:00:00", "2020-01-01T00:00:00.123456789"],
                Utf8,
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
