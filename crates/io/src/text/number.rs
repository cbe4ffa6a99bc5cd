//! Which type holds numbers as they are written: integers of 64 bits, doubles, or text where both would lose digits.

use arrow_schema::DataType;

/// What is known of the numbers of a column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    integers: bool,
    fractions: bool,
    negative: bool,
    beyond_i64: bool,
    beyond_u64: bool,
    /// Some number is not what the nearest double prints as, with as many digits.
    inexact: bool,
}

impl Numbers {
    /// Adds a number as it is written; false, and nothing is added, if it is none, or more than its value: as an
    /// article number with leading zeros, or a telephone number with a plus.
    pub(super) fn add(&mut self, text: &str) -> bool {
        let Some(number) = Written::parse(text) else {
            return false;
        };
        if number.is_integer {
            self.integers = true;
            self.negative |= text.starts_with('-');
            if text.parse::<i64>().is_err() {
                self.beyond_i64 = true;
                self.beyond_u64 |= text.parse::<u64>().is_err();
            }
        } else {
            self.fractions = true;
        }
        self.inexact |= !number.fits_double(text);
        true
    }

    /// Adds what is no number but a value of doubles: not a number, infinity.
    pub(super) fn add_special(&mut self) {
        self.fractions = true;
    }

    /// The type that holds them all, text if no type of numbers does; `None` if there were none.
    pub(super) fn data_type(self) -> Option<DataType> {
        Some(match self {
            Self {
                fractions: true,
                inexact,
                ..
            } if !inexact => DataType::Float64,
            Self {
                fractions: true, ..
            }
            | Self {
                beyond_u64: true, ..
            } => DataType::Utf8,
            Self {
                beyond_i64: true,
                negative,
                ..
            } if !negative => DataType::UInt64,
            Self {
                beyond_i64: true, ..
            } => DataType::Utf8,
            Self { integers: true, .. } => DataType::Int64,
            _ => return None,
        })
    }
}

/// A number as it is written: the digits that count, and the power of ten of the first.
struct Written {
    digits: String,
    exponent: i64,
    is_integer: bool,
}

impl Written {
    fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
            Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
            None => (unsigned, None),
        };
        let (whole, fraction) = match mantissa.find('.') {
            Some(at) => (&mantissa[..at], Some(&mantissa[at + 1..])),
            None => (mantissa, None),
        };
        let shift = exponent.map_or(Some(0), power)?;
        let all = [whole, fraction.unwrap_or_default()].concat();
        let leading_zero = whole.len() > 1 && whole.starts_with('0');
        if all.is_empty() || leading_zero || !all.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let zeros = all.len() - all.trim_start_matches('0').len();
        Some(Self {
            digits: all.trim_matches('0').to_owned(),
            exponent: shift.saturating_add(whole.len() as i64 - 1 - zeros as i64),
            is_integer: fraction.is_none() && exponent.is_none(),
        })
    }

    /// Whether the double nearest to the number, printed with as many digits, is the number again.
    fn fits_double(&self, text: &str) -> bool {
        let Some(last) = self.digits.len().checked_sub(1) else {
            return true; // zero
        };
        let double: f64 = text.parse().unwrap_or(f64::INFINITY);
        if last < 15 && double.is_normal() {
            return true;
        }
        let printed = format!("{:.last$e}", double.abs());
        let wanted = format!("{}e{}", self.digits, self.exponent);
        printed.replacen('.', "", 1) == wanted
    }
}

/// The power of ten behind the `e`; what no integer of 64 bits holds is far beyond any double too.
fn power(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let limit = if text.starts_with('-') {
        i64::MIN
    } else {
        i64::MAX
    };
    Some(text.parse().unwrap_or(limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use DataType::{Float64, Int64, UInt64, Utf8};

    fn type_of(values: &[&str]) -> Option<DataType> {
        let mut numbers = Numbers::default();
        values
            .iter()
            .all(|value| numbers.add(value))
            .then(|| numbers.data_type())?
    }

    #[test]
    fn the_type_holds_every_digit() {
        for (values, expected) in [
            (&["0", "-0", "-9223372036854775808"][..], Int64),
            (&["1", "18446744073709551615"], UInt64),
            (&["-1", "18446744073709551615"], Utf8),
            (&["18446744073709551616"], Utf8),
            (&["1.10", "-2e5", ".5", "5.", "1E-3", "7"], Float64),
            (&["9007199254740993", "1.5"], Utf8),
            (&["9007199254740992", "1.5"], Float64),
            (&["100000000000000000000000", "1.5"], Float64),
            (&["123456789012345678.12"], Utf8),
            (&["1e400"], Utf8),
            (&["1e-400"], Utf8),
            (&["1e99999999999999999999"], Utf8),
            (
                &["0.30000000000000004", "5e-324", "1.7976931348623157e308"],
                Float64,
            ),
            (
                &[
                    "0.10000000000000001",
                    "0.1000000000000000055511151231257827",
                ],
                Float64,
            ),
            (&["0.1000000000000000000000000000000001"], Utf8),
        ] {
            assert_eq!(type_of(values), Some(expected), "{values:?}");
        }
    }

    #[test]
    fn what_is_more_than_its_value_is_no_number() {
        for text in [
            "007", "-07", "00.5", "+5", "", "-", ".", "e5", "1e", "1e+", "1.2.3", "x", "1_0", "0x1",
        ] {
            assert_eq!(type_of(&[text]), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn doubles_survive_being_printed(bits: u64, digits in 16_usize..30) {
            let double = f64::from_bits(bits);
            prop_assume!(double.is_finite() && double != 0.0);
            for text in [format!("{double:e}"), format!("{double}"), format!("{double:.digits$e}")] {
                let mut numbers = Numbers::default();
                prop_assert!(numbers.add(&text) && !numbers.inexact, "{text}");
            }
        }

        #[test]
        fn what_fits_is_nearer_than_its_last_digit(digits in "[1-9][0-9]{0,24}", places in 0_usize..30) {
            let text = format!("{digits}e-{places}");
            let mut numbers = Numbers::default();
            prop_assert!(numbers.add(&text));
            let double: f64 = text.parse().unwrap();
            let count = digits.trim_end_matches('0').len();
            let again = format!("{double:.*e}", count - 1);
            prop_assert_eq!(!numbers.inexact, type_of(&[again.as_str()]) == Some(Float64) && {
                let (a, b) = (Written::parse(&again).unwrap(), Written::parse(&text).unwrap());
                (a.digits, a.exponent) == (b.digits, b.exponent)
            });
        }
    }
}
