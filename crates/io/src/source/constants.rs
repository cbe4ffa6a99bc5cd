//! Adds the values of partition columns to the batches of a file.
//!
//! A file's own columns of the same names are not read. If only partition columns are wanted, and the format tells the
//! number of rows, nothing is read.

use std::sync::Arc;

use arrow_array::{
    new_empty_array, Array, ArrayRef, RecordBatch, RecordBatchOptions, StringArray, UInt32Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::partitions::{as_type, unlikely, without};
use super::{projected, BatchStream, PartitionValue, ReadOptions, Split};
use crate::error::Result;

/// The origin of a wanted column.
enum Origin {
    /// The column with this number among those that are read.
    File(usize),
    /// A value for all rows, as an array of one.
    Folder(ArrayRef),
}

/// Reads a file, and adds the values of its folders.
pub(super) struct Widening {
    /// The split without partition columns.
    pub(super) split: Split,
    /// The schema of the file.
    pub(super) schema: SchemaRef,
    /// The options for the file.
    pub(super) options: ReadOptions,
    /// The columns to read from it; `None` for all.
    pub(super) columns: Option<Vec<usize>>,
    wanted: SchemaRef,
    origins: Vec<Origin>,
    /// The constant columns, as long as the longest batch so far.
    filled: Vec<ArrayRef>,
}

impl Widening {
    /// For a split with partition columns; `schema` and `projection` have these, too.
    pub(super) fn new(
        split: &Split,
        schema: &SchemaRef,
        options: &ReadOptions,
        projection: Option<&[usize]>,
    ) -> Result<Self> {
        let value = |column: usize| split.partition.iter().find(|value| value.column == column);
        let is_added = |column: usize| value(column).is_some_and(|value| !value.in_file);
        let own: Vec<usize> = (0..schema.fields().len())
            .filter(|&column| !is_added(column))
            .collect();
        let all: Vec<usize> = (0..schema.fields().len()).collect();
        let (mut columns, mut origins) = (Vec::new(), Vec::new());
        for &column in projection.unwrap_or(&all) {
            match value(column).zip(schema.fields().get(column)) {
                Some((value, field)) => {
                    origins.push(Origin::Folder(constant(value, field.data_type())?));
                }
                // `projected` refuses a column that does not exist.
                None => {
                    origins.push(Origin::File(columns.len()));
                    columns.push(own.binary_search(&column).unwrap_or(column));
                }
            }
        }
        if columns.is_empty() {
            // Some column has to carry the number of rows; for text that is required.
            let carrier = own.iter().position(|&column| value(column).is_none());
            let is_needed = !split.format.tells_types() && !own.is_empty();
            columns.extend(carrier.or(is_needed.then_some(0)));
        }
        let is_all = projection.is_none() && columns.len() == own.len();
        let is_partition = |name: &str| {
            let names = split.partition.iter();
            let mut names = names.filter_map(|value| schema.fields().get(value.column));
            names.any(|field| field.name() == name)
        };
        Ok(Self {
            split: Split {
                partition: Vec::new(),
                ..split.clone()
            },
            schema: of_file(split, schema, &own)?,
            options: without(options, is_partition),
            columns: (!is_all).then_some(columns),
            wanted: projected(schema, projection)?,
            origins,
            filled: Vec::new(),
        })
    }

    /// The batches of the split, if they can be made without reading it.
    pub(super) fn unread(&self, batch_rows: usize) -> Option<BatchStream> {
        let is_read = self.origins.iter().any(|o| matches!(o, Origin::File(_)));
        let mut left = self.split.rows.filter(|_| !is_read)?;
        Some(Box::new(std::iter::from_fn(move || {
            let rows = left.min(batch_rows as u64);
            left -= rows;
            (rows > 0).then(|| without_columns(rows as usize))
        })))
    }

    /// Adds the partition columns to a batch of the file, in the order that was asked for.
    pub(super) fn widen(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        if self.filled.first().map_or(0, |array| array.len()) < rows {
            self.filled = self.fill(rows)?;
        }
        let mut filled = self.filled.iter();
        let mut arrays = Vec::with_capacity(self.origins.len());
        for origin in &self.origins {
            arrays.push(match origin {
                Origin::File(column) => batch.column(*column).clone(),
                Origin::Folder(value) => match filled.next() {
                    Some(array) => array.slice(0, rows),
                    None => new_empty_array(value.data_type()),
                },
            });
        }
        let fields = self.wanted.fields().iter().zip(&arrays);
        let fields: Vec<Field> = fields
            .map(|(field, array)| (**field).clone().with_data_type(array.data_type().clone()))
            .collect();
        let schema = Schema::new_with_metadata(fields, self.wanted.metadata().clone());
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::new(schema), arrays, &options).map_err(unlikely)
    }

    fn fill(&self, rows: usize) -> Result<Vec<ArrayRef>> {
        let values = self.origins.iter().filter_map(|origin| match origin {
            Origin::Folder(value) => Some(value),
            Origin::File(_) => None,
        });
        let mut values = values.peekable();
        if values.peek().is_none() {
            return Ok(Vec::new());
        }
        let first = UInt32Array::from(vec![0; rows]);
        values
            .map(|value| arrow_select::take::take(value, &first, None).map_err(unlikely))
            .collect()
    }
}

/// The schema of the file itself. Its own column with the name of a partition column is text: it is not used, so no value of
/// it is bad.
fn of_file(split: &Split, schema: &SchemaRef, own: &[usize]) -> Result<SchemaRef> {
    let own_schema = projected(schema, Some(own))?;
    if split.format.tells_types() || split.partition.iter().all(|value| !value.in_file) {
        return Ok(own_schema);
    }
    let is_replaced = |column: usize| split.partition.iter().any(|value| value.column == column);
    let fields = own_schema.fields().iter().zip(own);
    let fields: Vec<Field> = fields
        .map(|(field, &column)| match is_replaced(column) {
            true => Field::new(field.name(), DataType::Utf8, true),
            false => field.as_ref().clone(),
        })
        .collect();
    Ok(Arc::new(Schema::new(fields)))
}

fn without_columns(rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)
        .map_err(unlikely)
}

/// The value as an array of one; text becomes a view, which many rows can share.
fn constant(value: &PartitionValue, data_type: &DataType) -> Result<ArrayRef> {
    let text = StringArray::from(vec![value.text.as_deref()]);
    match data_type {
        DataType::Utf8 => as_type(&text, &DataType::Utf8View),
        other => as_type(&text, other),
    }
}
