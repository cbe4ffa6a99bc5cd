//! A random permutation of the rows of an input: every row gets a pseudo-random 64-bit number, and rows are sorted by it.
//!
//! The number depends on a seed and on which row it is: (source, row in the source), for example (file, row in the
//! file). It depends neither on how the input was cut nor on which map reads what. So numbers are computed from the
//! row's identity, not drawn from a generator that would have to be at the right place:
//!
//! `number(row) = mix(mix(row ^ key) + key)`, with `key = mix(mix(seed) ^ source)`,
//!
//! `mix` is the finaliser of SplitMix64 (`mix.rs`). One round of it is a generator that passes BigCrush when it counts.
//! There are two rounds, so that nothing is left of the counting where keys of sources agree in many bits. For one
//! source it is a bijection: no two of its rows have the same number. Rows of different sources may (among a billion
//! rows 1 pair in 37 cases); they stay in the order of the input. It is no cipher: somebody who sees the order can find
//! the seed.
//!
//! Within windows of w rows of a source, the high bits of the number are those of the window's own number. That has
//! `row / w` in the place of `row`, and `mix(key)` for a key. The low bits are the high bits of the row's number. So
//! windows are in random order, and so are the rows of each. `2 log2(w) + 4` bits, at most 40, are left of the row's
//! number, so that few rows of a window have the same. At least 24 bits are left of the window's number.

use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::error::{KernelError, Result};
use crate::keys::key::SortKey;
use crate::layout::RowLayout;
use crate::mix::mix;

/// Name of the column of numbers, for messages; users do not see it.
const COLUMN: &str = "random number";

/// A random order of rows of one schema.
#[derive(Debug, Clone)]
pub struct Permutation {
    layout: RowLayout,
    seed: u64,
    window: Option<NonZeroU64>,
}

impl Permutation {
    /// Makes the order that `seed` stands for.
    ///
    /// # Errors
    /// A schema that cannot be laid out.
    pub fn try_new(schema: &SchemaRef, seed: u64) -> Result<Self> {
        let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
        let column = fields.len();
        fields.push(Arc::new(Field::new(COLUMN, DataType::UInt64, false)));
        let numbered = Schema::new_with_metadata(fields, schema.metadata().clone());
        let key = SortKey {
            column,
            descending: false,
            nulls_first: false,
        };
        let layout = RowLayout::try_new(&Arc::new(numbered), &[key])?;
        Ok(Self {
            layout,
            seed,
            window: None,
        })
    }

    /// Makes the order in which windows of so many rows stay together.
    #[must_use]
    pub fn within(self, window: Option<NonZeroU64>) -> Self {
        Self { window, ..self }
    }

    /// Returns the layout of numbered rows: the number is the last column, and the key.
    pub fn layout(&self) -> &RowLayout {
        &self.layout
    }

    /// Returns the numbers of these rows of `source`, in their order.
    pub(crate) fn numbers(&self, source: u64, rows: Range<u64>) -> Vec<u64> {
        let key = mix(mix(self.seed) ^ source);
        match self.window {
            None => rows.map(|row| number(key, row)).collect(),
            Some(window) => numbers_within(key, rows, window),
        }
    }

    /// Returns the batch with the number of each row as a further column. The first row is number `first_row` of
    /// `source`, the others follow.
    ///
    /// # Errors
    /// Another number of columns than the schema has.
    pub fn number(&self, batch: &RecordBatch, source: u64, first_row: u64) -> Result<RecordBatch> {
        let rows = first_row..first_row + batch.num_rows() as u64;
        Self::with_numbers(batch, self.numbers(source, rows))
    }

    /// Returns the batch with these numbers as a further column.
    pub(crate) fn with_numbers(batch: &RecordBatch, numbers: Vec<u64>) -> Result<RecordBatch> {
        let mut fields: Vec<Arc<Field>> = batch.schema().fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(COLUMN, DataType::UInt64, false)));
        let mut columns = batch.columns().to_vec();
        columns.push(Arc::new(UInt64Array::from(numbers)));
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
            .map_err(|e| KernelError::arrow("numbering rows", e))
    }
}

fn numbers_within(key: u64, rows: Range<u64>, window: NonZeroU64) -> Vec<u64> {
    let low_bits = (2 * (64 - window.leading_zeros()) + 4).min(40);
    let mut numbers = Vec::with_capacity((rows.end - rows.start) as usize);
    let mut next = rows.start;
    while next < rows.end {
        let number_of_window = next / window;
        let end = (number_of_window + 1)
            .saturating_mul(window.get())
            .min(rows.end);
        let high = number(mix(key), number_of_window) >> low_bits << low_bits;
        numbers.extend((next..end).map(|row| high | number(key, row) >> (64 - low_bits)));
        next = end;
    }
    numbers
}

#[inline]
fn number(key: u64, row: u64) -> u64 {
    mix(mix(row ^ key).wrapping_add(key))
}
