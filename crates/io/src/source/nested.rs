//! Casts that reach into lists and structs. Fields are matched by their names: they may come in another order, and missing
//! fields are null.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    new_null_array, Array, ArrayRef, FixedSizeListArray, GenericListArray, OffsetSizeTrait,
    StructArray,
};
use arrow_cast::{cast_with_options, CastOptions};
use arrow_schema::{ArrowError, DataType, FieldRef, Fields};

/// Values that a type cannot hold are errors.
const STRICT: CastOptions<'static> = CastOptions {
    safe: false,
    format_options: arrow_cast::display::FormatOptions::new(),
};

/// Casts an array to another type.
pub(super) fn cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    use DataType::{FixedSizeList, LargeList, List, Struct};
    if array.data_type() == to {
        return Ok(array.clone());
    }
    match (array.data_type(), to) {
        (Struct(_), Struct(fields)) => structs(array.as_struct(), fields),
        (List(_), List(item)) => lists::<i32>(array, item),
        (LargeList(_), LargeList(item)) => lists::<i64>(array, item),
        (FixedSizeList(_, n), FixedSizeList(item, m)) if n == m => fixed_lists(array, item, *n),
        (List(_), LargeList(item)) => other_lists(&lists::<i32>(array, item)?, to),
        (FixedSizeList(_, n), List(item) | LargeList(item)) => {
            other_lists(&fixed_lists(array, item, *n)?, to)
        }
        _ => cast_with_options(array, to, &STRICT),
    }
}

fn structs(array: &StructArray, fields: &Fields) -> Result<ArrayRef, ArrowError> {
    let columns = fields
        .iter()
        .map(|field| match array.column_by_name(field.name()) {
            Some(column) => cast(column, field.data_type()),
            None => Ok(new_null_array(field.data_type(), array.len())),
        });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let nulls = array.nulls().cloned();
    let made = StructArray::try_new_with_length(fields.clone(), columns, nulls, array.len())?;
    Ok(Arc::new(made))
}

fn lists<O: OffsetSizeTrait>(array: &ArrayRef, item: &FieldRef) -> Result<ArrayRef, ArrowError> {
    let (_, offsets, values, nulls) = array.as_list::<O>().clone().into_parts();
    let values = cast(&values, item.data_type())?;
    let made = GenericListArray::<O>::try_new(item.clone(), offsets, values, nulls)?;
    Ok(Arc::new(made))
}

fn fixed_lists(array: &ArrayRef, item: &FieldRef, size: i32) -> Result<ArrayRef, ArrowError> {
    let lists = array.as_fixed_size_list();
    let values = cast(lists.values(), item.data_type())?;
    let nulls = lists.nulls().cloned();
    let made = FixedSizeListArray::try_new(item.clone(), size, values, nulls)?;
    Ok(Arc::new(made))
}

/// Lists of the same values in another layout.
fn other_lists(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    cast_with_options(array, to, &STRICT)
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int32Array, ListArray};
    use arrow_schema::Field;

    use super::*;

    fn field(name: &str, data_type: DataType) -> FieldRef {
        Arc::new(Field::new(name, data_type, true))
    }

    #[test]
    fn fields_are_told_by_name_at_any_depth() {
        use DataType::{Int32, Int64, Utf8};
        let (x, y) = (field("x", Int32), field("y", Int32));
        let values: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(vec![1, 2])),
            Arc::new(Int32Array::from(vec![3, 4])),
        ];
        let pairs = StructArray::try_new(vec![x, y].into(), values, None).unwrap();
        let item = field("item", pairs.data_type().clone());
        let offsets = arrow_buffer::OffsetBuffer::from_lengths([2, 0]);
        let list: ArrayRef =
            Arc::new(ListArray::try_new(item, offsets, Arc::new(pairs), None).unwrap());
        let fields = vec![field("y", Int64), field("z", Utf8), field("x", Int32)];
        let to = DataType::LargeList(field("item", DataType::Struct(fields.into())));
        let made = cast(&list, &to).unwrap();
        assert_eq!(made.data_type(), &to);
        let values = made.as_list::<i64>().value(0);
        let shown = arrow_cast::display::array_value_to_string(&values, 1).unwrap();
        assert_eq!(shown, "{y: 4, z: , x: 2}");
    }
}
