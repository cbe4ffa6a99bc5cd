//! Prefixes: the first 64 or 128 bits of a row's key, packed so that they compare like the key does.
//!
//! Key columns are packed from the most significant bit down. A nullable field begins with one bit for null placement;
//! then comes the value, inverted for descending keys. A string takes the room that is left. It ends with one byte that
//! tells its length, or that it goes on; so short strings are decided exactly. A `State` says what did not fit. It
//! holds the key column, and the depth within its bytes up to which two rows with equal prefix are known to be equal.
//! Packing again from there decides further. So rows are ordered by digits all the way and never need a comparison sort
//! of many long keys.
//!
//! A single nullable 8-byte key is packed into 64 bits although it needs 65. Null shares a prefix with the smallest or
//! largest value, and only there the prefix is not exact.

use crate::keys::key::{KeyField, KeyKind};
use crate::keys::segment::{number_bits, Part, Segment};
use crate::order::Prefix;

/// How far two rows are known to be equal: before `depth` bytes of the `key`-th key column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct State {
    pub(crate) key: usize,
    pub(crate) depth: usize,
}

/// The meaning of two equal prefixes.
#[derive(Debug, Clone, Copy)]
enum Tie {
    /// The keys are equal.
    Exact,
    /// Ordering goes on from here.
    Undecided(State),
    /// Equal keys, except at this prefix, which null shares with a value.
    Clash(u128),
    /// Depends on whether the string that was packed last goes on.
    Text {
        shift: u32,
        flip: u128,
        longest: u128,
        goes_on: State,
        done: Option<State>,
    },
}

/// A compiled way to pack a prefix.
#[derive(Debug, Clone)]
pub(crate) struct PrefixPlan {
    segments: Vec<Segment>,
    tie: Tie,
    narrow: bool,
}

impl PrefixPlan {
    /// Returns the plan for whole keys, in 64 bits where these decide.
    pub(crate) fn first(fields: &[KeyField]) -> Self {
        if let [field @ KeyField {
            null_bit: Some(_), ..
        }] = fields
        {
            if number_bits(field) == Some(64) {
                let clash = if field.nulls_first {
                    0
                } else {
                    u128::from(u64::MAX)
                };
                let segments = vec![Segment {
                    field: *field,
                    part: Part::Number,
                    shift: 0,
                }];
                return Self {
                    segments,
                    tie: Tie::Clash(clash),
                    narrow: true,
                };
            }
        }
        let narrow = Self::pack(fields, State::default(), 64);
        match narrow.tie {
            Tie::Exact => Self {
                narrow: true,
                ..narrow
            },
            _ => Self::pack(fields, State::default(), 128),
        }
    }

    /// Returns the 128-bit plan for rows that are equal up to `state`.
    pub(crate) fn next(fields: &[KeyField], state: State) -> Self {
        Self::pack(fields, state, 128)
    }

    fn pack(fields: &[KeyField], state: State, bits: u32) -> Self {
        let mut packer = Packer {
            segments: Vec::new(),
            left: bits,
        };
        let mut depth = state.depth;
        for (key, field) in fields.iter().enumerate().skip(state.key) {
            let done = (key + 1 < fields.len()).then_some(State {
                key: key + 1,
                depth: 0,
            });
            if let Some(tie) = packer.add(field, State { key, depth }, done) {
                return Self {
                    segments: packer.segments,
                    tie,
                    narrow: false,
                };
            }
            depth = 0;
        }
        Self {
            segments: packer.segments,
            tie: Tie::Exact,
            narrow: false,
        }
    }

    /// Returns whether prefixes of this plan fit into 64 bits.
    pub(crate) fn is_narrow(&self) -> bool {
        self.narrow
    }

    /// Returns where to go on with rows that share `prefix`; `None` if their keys are equal.
    pub(crate) fn after(&self, prefix: u128) -> Option<State> {
        match self.tie {
            Tie::Exact => None,
            Tie::Undecided(state) => Some(state),
            Tie::Clash(clash) => (prefix == clash).then(State::default),
            Tie::Text {
                shift,
                flip,
                longest,
                goes_on,
                done,
            } => {
                if (prefix >> shift & 0xFF) ^ flip == longest + 1 {
                    Some(goes_on)
                } else {
                    done
                }
            }
        }
    }

    /// Fills `out[i]` with the prefix of `row(i)`, one key column after the other.
    #[inline]
    pub(crate) fn fill<'a, P: Prefix>(
        &self,
        row: impl Fn(usize) -> &'a [u8] + Copy,
        out: &mut [P],
    ) {
        out.fill(P::default());
        for segment in &self.segments {
            segment.fill(row, out);
        }
        if let (Tie::Clash(clash), Some(segment)) = (self.tie, self.segments.first()) {
            for (i, prefix) in out.iter_mut().enumerate() {
                if segment.field.is_null(row(i)) {
                    *prefix = P::place(clash, 0);
                }
            }
        }
    }
}

/// Hands out bits from the most significant down.
struct Packer {
    segments: Vec<Segment>,
    left: u32,
}

impl Packer {
    /// Packs one field from `at` on. Returns how to read ties if packing must stop here.
    fn add(&mut self, field: &KeyField, at: State, done: Option<State>) -> Option<Tie> {
        if field.kind == KeyKind::Nothing {
            return None;
        }
        // Rows that are equal in some bytes of a field are not null in it.
        let marker = u32::from(field.null_bit.is_some() && at.depth == 0);
        if let Some(bits) = number_bits(field) {
            if marker + bits > self.left {
                return Some(Tie::Undecided(at));
            }
            self.mark(field, marker);
            self.push(field, Part::Number, bits);
            return None;
        }
        let room = self.left.saturating_sub(marker) as usize / 8;
        match field.kind {
            KeyKind::Variable { .. } if room >= 2 => {
                self.mark(field, marker);
                let bytes = room - 1;
                let shift = self.push(
                    field,
                    Part::Text {
                        from: at.depth,
                        bytes,
                    },
                    8 * room as u32,
                );
                let goes_on = State {
                    key: at.key,
                    depth: at.depth + bytes,
                };
                let flip = if field.descending { 0xFF } else { 0 };
                Some(Tie::Text {
                    shift,
                    flip,
                    longest: bytes as u128,
                    goes_on,
                    done,
                })
            }
            KeyKind::Bytes { width, .. } | KeyKind::Wide { width, .. }
                if room >= 1 || width == 0 =>
            {
                self.mark(field, marker);
                let bytes = room.min(width - at.depth);
                self.push(
                    field,
                    Part::Bytes {
                        from: at.depth,
                        bytes,
                    },
                    8 * bytes as u32,
                );
                (at.depth + bytes < width).then_some(Tie::Undecided(State {
                    key: at.key,
                    depth: at.depth + bytes,
                }))
            }
            _ => Some(Tie::Undecided(at)),
        }
    }

    fn mark(&mut self, field: &KeyField, bits: u32) {
        if bits == 1 {
            self.push(field, Part::Marker, 1);
        }
    }

    fn push(&mut self, field: &KeyField, part: Part, bits: u32) -> u32 {
        self.left -= bits;
        if bits > 0 {
            self.segments.push(Segment {
                field: *field,
                part,
                shift: self.left,
            });
        }
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(width: usize, null_bit: Option<usize>) -> KeyField {
        KeyField {
            kind: KeyKind::Signed { at: 1, width },
            null_bit,
            descending: false,
            nulls_first: true,
        }
    }

    fn string() -> KeyField {
        let kind = KeyKind::Variable {
            lengths_at: 0,
            index: 0,
            fixed_bytes: 4,
        };
        KeyField {
            kind,
            null_bit: None,
            descending: false,
            nulls_first: true,
        }
    }

    fn row(text: &[u8]) -> Vec<u8> {
        [&(text.len() as u32).to_le_bytes()[..], text].concat()
    }

    #[test]
    fn keys_that_fit_are_narrow_and_exact() {
        assert!(PrefixPlan::first(&[number(8, None)]).is_narrow());
        assert!(PrefixPlan::first(&[number(4, Some(0)), number(2, Some(1))]).is_narrow());
        assert!(!PrefixPlan::first(&[number(4, Some(0)), number(4, None)]).is_narrow());
        assert!(PrefixPlan::first(&[]).is_narrow());
        let pair = PrefixPlan::first(&[number(4, Some(0)), number(8, Some(1))]);
        assert!(!pair.is_narrow() && pair.after(7).is_none());
    }

    #[test]
    fn null_shares_its_prefix_with_one_value_only() {
        let plan = PrefixPlan::first(&[number(8, Some(0))]);
        let encode = |null: u8, v: i64| [&[null][..], &v.to_le_bytes()].concat();
        let rows = [encode(1, 0), encode(0, i64::MIN), encode(0, 5)];
        let mut prefixes = [0u64; 3];
        plan.fill(|i| &rows[i], &mut prefixes);
        assert_eq!(prefixes[..2], [0, 0]);
        assert_eq!(plan.after(0), Some(State::default()));
        assert_eq!(plan.after(u128::from(prefixes[2])), None);
    }

    #[test]
    fn strings_are_exact_up_to_fifteen_bytes() {
        let plan = PrefixPlan::first(&[string()]);
        let rows = [
            row(b"a"),
            row(b"a\0"),
            row(b"abcdefghijklmno"),
            row(b"abcdefghijklmnop"),
            row(b"abcdefghijklmnoq"),
        ];
        let mut prefixes = [u128::default(); 5];
        plan.fill(|i| &rows[i], &mut prefixes);
        assert!(prefixes[..4].is_sorted_by(|a, b| a < b));
        assert_eq!(prefixes[3], prefixes[4]);
        assert_eq!(plan.after(prefixes[2]), None);
        assert_eq!(plan.after(prefixes[3]), Some(State { key: 0, depth: 15 }));
    }

    #[test]
    fn a_column_behind_a_string_comes_in_the_next_step() {
        let plan = PrefixPlan::first(&[string(), number(8, None)]);
        let rows = [row(b"x")];
        let mut prefixes = [u128::default()];
        plan.fill(|i| &rows[i], &mut prefixes);
        assert_eq!(plan.after(prefixes[0]), Some(State { key: 1, depth: 0 }));
    }
}
