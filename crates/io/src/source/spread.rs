//! The statements of files about the values of columns: for rows that follow each other, the least and the greatest value.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use super::inspect::in_parallel;
use super::{projected, Source, SourceFile};
use crate::direct::RangeReader;
use crate::error::{IoError, Result};
use crate::guard::guarded;

/// The result of work on arrays.
type Arrow<T> = std::result::Result<T, ArrowError>;

/// The rows for which values are told together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Row groups.
    Groups,
    /// Pages, where the file has an index of them.
    Pages,
}

/// The spreads of one column in one file, part by part, in the order of the rows.
#[derive(Debug)]
pub(crate) struct Spread {
    /// The first row of each part in its file.
    pub(crate) starts: Vec<u64>,
    /// The row behind its last.
    pub(crate) ends: Vec<u64>,
    /// Whether the file has a Bloom filter for its values.
    pub(crate) filters: Vec<bool>,
    /// Its nulls; null if unknown.
    pub(crate) nulls: UInt64Array,
    /// No value is less; null if unknown.
    pub(crate) low: ArrayRef,
    /// No value is greater; null if unknown.
    pub(crate) high: ArrayRef,
}

impl Source {
    /// Returns what the files say about some columns, a batch for each. A batch has the number of the file in this source,
    /// `start` and `end` (rows of the file), `filters`, `nulls`, `low` and `high`. Rows that were left out are left out here, too.
    /// Files that have no more than `small_bytes` bytes, and formats that tell no values, have no lines.
    ///
    /// # Errors
    /// A file cannot be read, has changed or is damaged.
    pub fn spreads(
        &self,
        columns: &[usize],
        detail: Detail,
        small_bytes: u64,
    ) -> Result<Vec<RecordBatch>> {
        let schema = projected(&self.schema, Some(columns))?;
        let fields: Vec<&Field> = schema.fields().iter().map(AsRef::as_ref).collect();
        let files: Vec<(usize, &SourceFile)> = { self.files.iter().enumerate() }
            .filter(|(_, file)| file.stamp.bytes > small_bytes)
            .collect();
        let found = in_parallel(&files, |(_, file)| self.of_file(file, &fields, detail))?;
        { fields.iter().enumerate() }
            .map(|(place, field)| {
                let lines = files.iter().zip(&found);
                let lines: Vec<_> = lines
                    .filter_map(|((number, _), spreads)| Some((*number, spreads.get(place)?)))
                    .collect();
                table(field, &lines).map_err(|error| IoError::BadProjection {
                    columns: self.schema.fields().len(),
                    reason: error.to_string(),
                })
            })
            .collect()
    }

    /// Returns whether each row group may have one of some values in a column, as Bloom filters say. The row groups are
    /// those of [`spreads`](Self::spreads), in the same order.
    ///
    /// # Errors
    /// As for `spreads`.
    pub fn may_hold(
        &self,
        column: usize,
        values: &ArrayRef,
        small_bytes: u64,
    ) -> Result<Vec<bool>> {
        let field = self.schema.field(column);
        let files: Vec<&SourceFile> = { self.files.iter() }
            .filter(|file| file.stamp.bytes > small_bytes)
            .collect();
        let found = in_parallel(&files, |listed| {
            let file = Arc::new(RangeReader::open_unchanged(&listed.path, listed.stamp)?);
            guarded(&listed.path, self.format, || {
                let kept = listed.kept.as_deref();
                self.format.driver().may_hold(&file, field, values, kept)
            })
        })?;
        Ok(found.concat())
    }

    fn of_file(
        &self,
        listed: &SourceFile,
        columns: &[&Field],
        detail: Detail,
    ) -> Result<Vec<Spread>> {
        let file = Arc::new(RangeReader::open_unchanged(&listed.path, listed.stamp)?);
        guarded(&listed.path, self.format, || {
            let kept = listed.kept.as_deref();
            self.format.driver().spreads(&file, columns, kept, detail)
        })
    }
}

fn table(field: &Field, lines: &[(usize, &Spread)]) -> Arrow<RecordBatch> {
    let value = match field.data_type() {
        DataType::Dictionary(_, values) => values.as_ref(),
        other => other,
    };
    let files = lines
        .iter()
        .flat_map(|(number, spread)| std::iter::repeat_n(*number as u32, spread.starts.len()));
    let rows = |of: fn(&Spread) -> &[u64]| {
        let all = lines
            .iter()
            .flat_map(|(_, spread)| of(spread).iter().copied());
        Arc::new(UInt64Array::from_iter_values(all))
    };
    let empty = arrow_array::new_empty_array(value);
    let concat = |of: fn(&Spread) -> &ArrayRef| {
        let arrays = lines.iter().map(|(_, spread)| of(spread).as_ref());
        let arrays: Vec<_> = std::iter::once(empty.as_ref()).chain(arrays).collect();
        arrow_select::concat::concat(&arrays)
    };
    let filters =
        { lines.iter() }.flat_map(|(_, spread)| spread.filters.iter().map(|&has| Some(has)));
    let nulls = lines.iter().flat_map(|(_, spread)| spread.nulls.iter());
    let number = |name: &str| Field::new(name, DataType::UInt64, true);
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("file", DataType::UInt32, false),
        number("start"),
        number("end"),
        Field::new("filters", DataType::Boolean, false),
        number("nulls"),
        Field::new("low", value.clone(), true),
        Field::new("high", value.clone(), true),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt32Array::from_iter_values(files)),
        rows(|spread| &spread.starts),
        rows(|spread| &spread.ends),
        Arc::new(BooleanArray::from_iter(filters)),
        Arc::new(UInt64Array::from_iter(nulls)),
        concat(|spread| &spread.low)?,
        concat(|spread| &spread.high)?,
    ];
    RecordBatch::try_new(schema, columns)
}
