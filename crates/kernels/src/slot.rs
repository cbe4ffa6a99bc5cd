//! Where the value of each column lies within a row.
//!
//! Columns get their places in schema order, so that the same schema has the same rows everywhere.

use arrow_schema::{DataType, Schema};

/// Where a column's value lies within a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// The null type: no bytes.
    Nothing,
    /// One byte, 0 or 1.
    Bool { at: usize },
    /// `width` bytes, little-endian.
    Fixed { at: usize, width: usize },
    /// The `index`-th length, and as many bytes behind the lengths.
    Variable { index: usize },
    /// Not in the row: the `index`-th column beside the rows.
    Framed { index: usize },
}

/// One column of the layout.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// The type that travels: a dictionary's value type, otherwise the declared type.
    pub(crate) value_type: DataType,
    pub(crate) slot: Slot,
    /// Number of this column's bit in the null bits, for nullable columns in the row.
    pub(crate) null_bit: Option<usize>,
}

/// Places handed out so far.
#[derive(Default)]
pub(crate) struct Places {
    null_bits: usize,
    /// Bytes of fixed-width fields.
    fixed: usize,
    pub(crate) num_variable: usize,
    pub(crate) num_framed: usize,
}

impl Places {
    /// Gives every column of the schema its place.
    pub(crate) fn of(schema: &Schema) -> (Vec<Column>, Self) {
        let mut places = Self::default();
        let mut columns: Vec<Column> = schema
            .fields()
            .iter()
            .map(|f| places.column(f.name(), f.data_type(), f.is_nullable()))
            .collect();
        // Fields lie behind the null bits, whose number is known only now.
        for column in &mut columns {
            match &mut column.slot {
                Slot::Bool { at } | Slot::Fixed { at, .. } => *at += places.null_bytes(),
                _ => {}
            }
        }
        (columns, places)
    }

    pub(crate) fn null_bytes(&self) -> usize {
        self.null_bits.div_ceil(8)
    }

    pub(crate) fn lengths_at(&self) -> usize {
        self.null_bytes() + self.fixed
    }

    /// Returns the bytes of a row in front of its strings; never 0.
    pub(crate) fn fixed_bytes(&self) -> usize {
        (self.lengths_at() + 4 * self.num_variable).max(1)
    }

    fn column(&mut self, name: &str, declared: &DataType, nullable: bool) -> Column {
        let value_type = travelling_type(declared);
        let slot = match value_type {
            DataType::Null => Slot::Nothing,
            DataType::Boolean => Slot::Bool {
                at: self.take_fixed(1),
            },
            DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView => self.take_variable(),
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)
                if item_width(value_type).is_some() =>
            {
                self.take_variable()
            }
            _ => match fixed_width(value_type) {
                Some(width) => Slot::Fixed {
                    at: self.take_fixed(width),
                    width,
                },
                None => {
                    self.num_framed += 1;
                    Slot::Framed {
                        index: self.num_framed - 1,
                    }
                }
            },
        };
        let null_bit =
            (nullable && !matches!(slot, Slot::Nothing | Slot::Framed { .. })).then(|| {
                self.null_bits += 1;
                self.null_bits - 1
            });
        Column {
            name: name.to_owned(),
            value_type: value_type.clone(),
            slot,
            null_bit,
        }
    }

    fn take_variable(&mut self) -> Slot {
        self.num_variable += 1;
        Slot::Variable {
            index: self.num_variable - 1,
        }
    }

    fn take_fixed(&mut self, width: usize) -> usize {
        self.fixed += width;
        self.fixed - width
    }
}

/// Returns a dictionary's value type where the dictionary can be rebuilt from plain values, otherwise the declared
/// type.
fn travelling_type(declared: &DataType) -> &DataType {
    match declared {
        DataType::Dictionary(_, values) if packs_into_dictionary(values) => values,
        other => other,
    }
}

/// Returns whether arrow-cast can make a dictionary of such values.
pub(crate) fn packs_into_dictionary(values: &DataType) -> bool {
    values.is_integer()
        || values.is_floating()
        || values.is_decimal()
        || matches!(
            values,
            DataType::Date32
                | DataType::Date64
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Timestamp(_, _)
                | DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
                | DataType::FixedSizeBinary(1..)
        )
}

/// Returns the bytes of an item of lists that lie in rows; `None` for all other types.
pub(crate) fn item_width(value_type: &DataType) -> Option<usize> {
    match value_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, 1..) => {
            item.data_type().primitive_width()
        }
        _ => None,
    }
}

fn fixed_width(value_type: &DataType) -> Option<usize> {
    match value_type {
        DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
        other => other.primitive_width(),
    }
}
