//! The columns of one input batch as plain typed buffers, checked against the layout.
//!
//! A reader may deliver another variant of a column's family than the schema declares. Strings and binary may have any
//! offset width or be views; dictionaries and plain values may stand for each other. Nulls in a column that is declared
//! free of them are refused here, so nothing downstream can turn them into garbage.

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryViewType, ByteArrayType, ByteViewType, StringViewType};
use arrow_array::{Array, ArrayRef, GenericByteArray, GenericByteViewArray, RecordBatch};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_cast::cast;
use arrow_schema::DataType;

use crate::error::{KernelError, Result};
use crate::layout::RowLayout;
use crate::map::lists::Lists;
use crate::slot::{Column, Slot};

/// Values of one column.
#[derive(Debug, Clone)]
pub(crate) enum Values {
    /// The null type, or a column that is not in the row.
    Nothing,
    Bool(BooleanBuffer),
    Fixed(Buffer),
    Short(OffsetBuffer<i32>, Buffer),
    Long(OffsetBuffer<i64>, Buffer),
    Views(ScalarBuffer<u128>, Vec<Buffer>),
    Lists(Lists),
}

/// One column of a batch; `nulls` only where there are any.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) values: Values,
    pub(crate) nulls: Option<NullBuffer>,
}

/// A batch, ready to be encoded.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) columns: Vec<Source>,
    pub(crate) rows: usize,
    /// Columns that do not fit into rows, in order.
    pub(crate) framed: Vec<ArrayRef>,
}

impl Sources {
    pub(crate) fn try_new(layout: &RowLayout, batch: &RecordBatch) -> Result<Self> {
        let columns = layout.columns();
        if batch.num_columns() != columns.len() {
            return Err(KernelError::ColumnCount {
                expected: columns.len(),
                actual: batch.num_columns(),
            });
        }
        let mut framed = Vec::with_capacity(layout.num_framed());
        let mut sources = Vec::with_capacity(columns.len());
        for ((column, array), field) in columns
            .iter()
            .zip(batch.columns())
            .zip(layout.schema().fields())
        {
            if let Slot::Framed { .. } = column.slot {
                refuse_nulls(&column.name, field.is_nullable(), array)?;
                framed.push(crate::slices::frames::to_wire(&column.name, field, array)?);
                sources.push(Source {
                    values: Values::Nothing,
                    nulls: None,
                });
            } else {
                sources.push(Source::try_new(column, array)?);
            }
        }
        Ok(Self {
            columns: sources,
            rows: batch.num_rows(),
            framed,
        })
    }

    /// Returns the given columns alone, without those beside the rows.
    pub(crate) fn project(&self, columns: &[usize]) -> Self {
        let columns = columns.iter().map(|&c| self.columns[c].clone()).collect();
        Self {
            columns,
            rows: self.rows,
            framed: Vec::new(),
        }
    }
}

impl Source {
    fn try_new(column: &Column, array: &ArrayRef) -> Result<Self> {
        let plain = match array.data_type() {
            DataType::Dictionary(_, values) => &cast(array, values).map_err(|e| {
                KernelError::arrow(format!("decoding dictionary column '{}'", column.name), e)
            })?,
            _ => array,
        };
        let values = values(column, plain)?;
        refuse_nulls(
            &column.name,
            column.null_bit.is_some() || column.slot == Slot::Nothing,
            plain,
        )?;
        let nulls = plain.nulls().filter(|n| n.null_count() > 0).cloned();
        Ok(Self { values, nulls })
    }
}

fn refuse_nulls(column: &str, nullable: bool, array: &ArrayRef) -> Result<()> {
    match array.logical_null_count() {
        count if count > 0 && !nullable => Err(KernelError::UnexpectedNull {
            column: column.to_owned(),
            count,
        }),
        _ => Ok(()),
    }
}

fn values(column: &Column, array: &ArrayRef) -> Result<Values> {
    use DataType as T;
    Ok(match (&column.value_type, array.data_type()) {
        (T::Null, T::Null) => Values::Nothing,
        (T::Boolean, T::Boolean) => Values::Bool(array.as_boolean().values().clone()),
        (T::Utf8 | T::LargeUtf8 | T::Utf8View, actual) => match actual {
            T::Utf8 => short(array.as_string::<i32>()),
            T::LargeUtf8 => long(array.as_string::<i64>()),
            T::Utf8View => views::<StringViewType>(array.as_string_view()),
            _ => return Err(mismatch(column, array)),
        },
        (T::Binary | T::LargeBinary | T::BinaryView, actual) => match actual {
            T::Binary => short(array.as_binary::<i32>()),
            T::LargeBinary => long(array.as_binary::<i64>()),
            T::BinaryView => views::<BinaryViewType>(array.as_binary_view()),
            _ => return Err(mismatch(column, array)),
        },
        (T::List(_) | T::LargeList(_) | T::FixedSizeList(..), _) => {
            let lists = Lists::of(&column.name, &column.value_type, array)?;
            Values::Lists(lists.ok_or_else(|| mismatch(column, array))?)
        }
        (expected, actual) if expected == actual => fixed(column, array)?,
        _ => return Err(mismatch(column, array)),
    })
}

fn short<T: ByteArrayType<Offset = i32>>(array: &GenericByteArray<T>) -> Values {
    Values::Short(array.offsets().clone(), array.values().clone())
}

fn long<T: ByteArrayType<Offset = i64>>(array: &GenericByteArray<T>) -> Values {
    Values::Long(array.offsets().clone(), array.values().clone())
}

fn views<T: ByteViewType>(array: &GenericByteViewArray<T>) -> Values {
    Values::Views(array.views().clone(), array.data_buffers().to_vec())
}

/// Returns the values of a fixed-width array as bytes from its first row on.
fn fixed(column: &Column, array: &ArrayRef) -> Result<Values> {
    let Slot::Fixed { width, .. } = column.slot else {
        return Err(mismatch(column, array));
    };
    let data = array.to_data();
    let Some(buffer) = data.buffers().first() else {
        return Err(mismatch(column, array));
    };
    Ok(Values::Fixed(buffer.slice_with_length(
        data.offset() * width,
        data.len() * width,
    )))
}

fn mismatch(column: &Column, array: &ArrayRef) -> KernelError {
    KernelError::ColumnType {
        column: column.name.clone(),
        expected: column.value_type.clone(),
        actual: array.data_type().clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{DictionaryArray, Int32Array, Int64Array, StringArray, StringViewArray};
    use arrow_schema::{Field, Schema};
    use std::sync::Arc;

    fn open(declared: DataType, nullable: bool, array: ArrayRef) -> Result<Sources> {
        let layout = RowLayout::try_new(
            &Arc::new(Schema::new(vec![Field::new("c", declared, nullable)])),
            &[],
        )?;
        let schema = Schema::new(vec![Field::new("c", array.data_type().clone(), true)]);
        Sources::try_new(
            &layout,
            &RecordBatch::try_new(Arc::new(schema), vec![array]).unwrap(),
        )
    }

    #[test]
    fn any_variant_of_a_family_is_taken() {
        let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        let encoded: DictionaryArray<arrow_array::types::Int16Type> =
            ["a", "b"].into_iter().collect();
        for declared in [DataType::Utf8, DataType::LargeUtf8, dictionary] {
            assert!(open(
                declared.clone(),
                false,
                Arc::new(StringArray::from(vec!["x"]))
            )
            .is_ok());
            assert!(open(
                declared.clone(),
                false,
                Arc::new(StringViewArray::from(vec!["x"]))
            )
            .is_ok());
            assert!(open(declared, false, Arc::new(encoded.clone())).is_ok());
        }
    }

    #[test]
    fn other_types_and_unexpected_nulls_are_refused_by_name() {
        let error = open(DataType::Int32, true, Arc::new(Int64Array::from(vec![1]))).unwrap_err();
        assert!(
            matches!(&error, KernelError::ColumnType { column, .. } if column == "c"),
            "{error}"
        );
        let error = open(
            DataType::Int32,
            false,
            Arc::new(Int32Array::from(vec![Some(1), None])),
        )
        .unwrap_err();
        assert!(
            matches!(error, KernelError::UnexpectedNull { count: 1, .. }),
            "{error}"
        );
    }
}
