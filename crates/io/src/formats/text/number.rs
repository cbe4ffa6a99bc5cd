//! Which type holds numbers as they are written: integers of 64 bits, doubles, or text where both would lose digits.

use arrow_schema::DataType;

/// The facts about the numbers of a column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    integers: bool,
    fractions: bool,
    negative: bool,
    beyond_i64: bool,
    beyond_u64: bool,
    /// Some number differs from the text of the nearest double with as many digits.
    inexact: bool,
}

impl Numbers {
    /// Adds a number as it is written. Returns false, and adds nothing, if the text is no number, or more than its
    /// value. Article numbers with leading zeros and telephone numbers with a plus are more.
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

    /// Adds a text that is no number but a value of doubles: not a number, infinity.
    pub(super) fn add_special(&mut self) {
        self.fractions = true;
    }

    /// Returns the type that holds them all, text if no type of numbers does; `None` if there were none.
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

/// Returns the integer that a text is, if it has no leading zeros, no plus sign and no space.
pub(super) fn exact_i64(text: &str) -> Option<i64> {
    is_plain(text).then(|| text.parse().ok())?
}

/// Does the same as `exact_i64` for unsigned integers.
pub(super) fn exact_u64(text: &str) -> Option<u64> {
    is_plain(text).then(|| text.parse().ok())?
}

/// Returns whether a text begins as an integer does.
fn is_plain(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    matches!(digits, [b'0'] | [b'1'..=b'9', ..])
}

/// Returns the double that a number is, if it prints as the number again, with as many digits.
pub(super) fn exact_f64(text: &str) -> Option<f64> {
    if let Some(decimal) = Decimal::parse(text) {
        let double = text.parse().ok()?;
        if decimal.fits(double) {
            return Some(double);
        }
    }
    let number = Written::parse(text)?;
    number.fits_double(text).then(|| text.parse().ok())?
}

/// A number without its sign, `digits / 10^places`, that is not very small, large or long. It needs no memory to look
/// at.
struct Decimal {
    digits: u64,
    places: u32,
}

impl Decimal {
    /// With so many places, a double times their power of ten is an integer of less than 128 bits.
    const MAX_PLACES: i64 = 22;

    /// Parses a number. `None` does not say that the text is no number.
    fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix('-').unwrap_or(text).as_bytes();
        if let [b'0', b'0'..=b'9', ..] = unsigned {
            return None;
        }
        let (mut digits, mut places, mut point, mut seen) = (0_u64, 0, false, false);
        for (at, byte) in unsigned.iter().enumerate() {
            match byte {
                b'0'..=b'9' => {
                    digits = digits
                        .checked_mul(10)?
                        .checked_add(u64::from(byte - b'0'))?;
                    places += i64::from(point);
                    seen = true;
                }
                b'.' if !point => point = true,
                b'e' | b'E' if seen => {
                    let exponent = &text[text.len() - unsigned.len() + at + 1..];
                    places = places.checked_sub(power(exponent)?)?;
                    break;
                }
                _ => return None,
            }
        }
        (seen && (0..=Self::MAX_PLACES).contains(&places)).then_some(Self {
            digits,
            places: places as u32,
        })
    }

    /// Returns whether the nearest double differs by less than half of the last digit; false does not say that it
    /// prints otherwise.
    fn fits(&self, nearest: f64) -> bool {
        // Doubles have at least 15 digits.
        if self.digits < 1_000_000_000_000_000 {
            return true;
        }
        let bits = nearest.to_bits();
        let mantissa = u128::from(bits & ((1 << 52) - 1) | 1 << 52);
        let exponent = (bits >> 52 & 0x7ff) as i32 - 1075;
        let shift = exponent.min(0).unsigned_abs();
        // Both numbers times 10^places and 2^shift, and 1 on that scale.
        let double = (mantissa << exponent.max(0)) * 10_u128.pow(self.places);
        let number = u128::from(self.digits) << shift;
        double.abs_diff(number) * 2 < 1 << shift
    }
}

/// A number as it is written: its significant digits, and the power of ten of the first.
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

    /// Returns whether the double nearest to the number, printed with as many digits, is the number again. The fewest
    /// digits that tell the double apart count too: if it is halfway between two such numbers, writers take one or the
    /// other.
    fn fits_double(&self, text: &str) -> bool {
        let Some(last) = self.digits.len().checked_sub(1) else {
            return true; // zero
        };
        let double: f64 = text.parse().unwrap_or(f64::INFINITY);
        if last < 15 && double.is_normal() {
            return true;
        }
        let wanted = format!("{}e{}", self.digits, self.exponent);
        let is_wanted = |printed: String| printed.replacen('.', "", 1) == wanted;
        is_wanted(format!("{:.last$e}", double.abs())) || is_wanted(format!("{:e}", double.abs()))
    }
}

/// Returns the power of ten behind the `e`. A power beyond 64 bits is far beyond any double too.
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
                // Both digits tell 996920820341310.25 apart; Python writes the first, Rust the second.
                &["996920820341310.2", "996920820341310.3"],
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
            let again = [format!("{double:.*e}", count - 1), format!("{double:e}")];
            prop_assert_eq!(!numbers.inexact, again.iter().any(|again| {
                let (a, b) = (Written::parse(again).unwrap(), Written::parse(&text).unwrap());
                (a.digits, a.exponent) == (b.digits, b.exponent)
            }));
        }

        #[test]
        fn a_text_is_exact_if_inference_says_so(
            text in "-?(0|[1-9][0-9]{0,20}|00?[0-9]{0,3})(\\.[0-9]{0,25})?([eE][+-]?[0-9]{1,3})?[ x]?",
        ) {
            let mut numbers = Numbers::default();
            let is_number = numbers.add(&text);
            let expected = text.parse().ok().filter(|_| is_number && !numbers.inexact);
            prop_assert_eq!(exact_f64(&text).map(f64::to_bits), expected.map(f64::to_bits));
            let fits = |data_type| is_number && numbers.data_type() == Some(data_type);
            prop_assert_eq!(exact_i64(&text), text.parse().ok().filter(|_| fits(Int64)));
            let fits = fits(UInt64) || (fits(Int64) && !text.starts_with('-'));
            prop_assert_eq!(exact_u64(&text), text.parse().ok().filter(|_| fits));
        }

        #[test]
        fn doubles_are_exact_as_they_are_printed(bits: u64, digits in 14_usize..20) {
            let double = f64::from_bits(bits);
            prop_assume!(double.is_finite());
            for text in [format!("{double:e}"), format!("{double}"), format!("{double:.digits$e}")] {
                let found = exact_f64(&text).map(f64::to_bits);
                prop_assert_eq!(found, Some(text.parse::<f64>().unwrap().to_bits()), "{}", text);
            }
        }

        #[test]
        fn doubles_of_common_sizes_are_exact_without_the_long_way(double in 1e-5..1e6) {
            let text = format!("{double}");
            prop_assert!(Decimal::parse(&text).is_some_and(|decimal| decimal.fits(double)), "{text}");
        }
    }
}
