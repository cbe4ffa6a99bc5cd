//! Converts strings and binary from views to offsets and values, in exactly the memory that they take.
//!
//! Why not arrow-cast: its builder grows step by step, so that values are moved several times.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    BinaryType, BinaryViewType, ByteArrayType, ByteViewType, LargeBinaryType, LargeUtf8Type,
    StringViewType, Utf8Type,
};
use arrow_array::{Array, ArrayRef, GenericByteArray, GenericByteViewArray};
use arrow_buffer::{ArrowNativeType, Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;

use crate::columns::own_views::INLINE_BYTES;

/// Returns the array with offsets, if it has views and offsets of the wanted width reach so far.
pub(crate) fn from_views(array: &ArrayRef, wanted: &DataType) -> Option<ArrayRef> {
    match (array.data_type(), wanted) {
        (DataType::Utf8View, DataType::Utf8) => {
            copied::<StringViewType, Utf8Type>(array.as_string_view())
        }
        (DataType::Utf8View, DataType::LargeUtf8) => {
            copied::<StringViewType, LargeUtf8Type>(array.as_string_view())
        }
        (DataType::BinaryView, DataType::Binary) => {
            copied::<BinaryViewType, BinaryType>(array.as_binary_view())
        }
        (DataType::BinaryView, DataType::LargeBinary) => {
            copied::<BinaryViewType, LargeBinaryType>(array.as_binary_view())
        }
        _ => None,
    }
}

fn copied<V: ByteViewType, T: ByteArrayType<Native = V::Native>>(
    array: &GenericByteViewArray<V>,
) -> Option<ArrayRef> {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    // The view of a null may hold anything.
    let views: ScalarBuffer<u128> = match nulls {
        None => array.views().clone(),
        Some(nulls) => {
            let valid = array.views().iter().zip(nulls);
            valid
                .map(|(&view, valid)| if valid { view } else { 0 })
                .collect()
        }
    };
    let total: usize = views.iter().map(|&view| length(view)).sum();
    T::Offset::from_usize(total)?;
    let mut offsets = Vec::with_capacity(views.len() + 1);
    let mut values = Vec::with_capacity(total);
    offsets.push(T::Offset::default());
    for view in views.iter() {
        let length = length(*view);
        if length <= INLINE_BYTES {
            values.extend_from_slice(&view.to_le_bytes()[4..4 + length]);
        } else {
            let (buffer, start) = ((view >> 64) as u32 as usize, (view >> 96) as usize);
            values.extend_from_slice(&array.data_buffers()[buffer][start..start + length]);
        }
        offsets.push(T::Offset::usize_as(values.len()));
    }
    // SAFETY: offsets ascend from 0 to the number of bytes.
    let offsets = unsafe { OffsetBuffer::new_unchecked(offsets.into()) };
    // SAFETY: each value comes from an array of the same kind, and so is valid text where that is asked for. There is
    // one value for each view, and as many nulls.
    Some(Arc::new(unsafe {
        GenericByteArray::<T>::new_unchecked(offsets, Buffer::from_vec(values), nulls.cloned())
    }))
}

/// Returns the bytes of the value of a view.
fn length(view: u128) -> usize {
    view as u32 as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{BinaryViewArray, StringViewArray};
    use arrow_buffer::NullBuffer;
    use arrow_cast::cast;

    const TYPES: [(DataType, [DataType; 2]); 2] = [
        (DataType::Utf8View, [DataType::Utf8, DataType::LargeUtf8]),
        (
            DataType::BinaryView,
            [DataType::Binary, DataType::LargeBinary],
        ),
    ];

    #[test]
    fn values_and_nulls_are_those_that_arrow_makes() {
        let long = "thirteen byte";
        let texts = StringViewArray::from_iter([
            Some(""),
            None,
            Some("twelve bytes"),
            Some(long),
            Some("ä"),
            None,
            Some(long),
        ]);
        for whole in [
            texts.clone(),
            texts.slice(1, 4),
            texts.slice(2, 0),
            texts.slice(2, 2),
        ] {
            for (views, plain) in TYPES {
                let array = cast(&(Arc::new(whole.clone()) as ArrayRef), &views).unwrap();
                for wanted in plain {
                    let made = from_views(&array, &wanted).unwrap();
                    made.to_data().validate_full().unwrap();
                    assert_eq!(&made, &cast(&array, &wanted).unwrap());
                }
            }
        }
    }

    #[test]
    fn what_lies_behind_a_null_is_not_looked_at() {
        let wild = u128::from(u32::MAX) | 7 << 64;
        let nulls = NullBuffer::from(vec![false, false]);
        let views = vec![wild, 3].into();
        // SAFETY: both are null.
        let array = unsafe { BinaryViewArray::new_unchecked(views, Arc::from([]), Some(nulls)) };
        let made = from_views(&(Arc::new(array) as ArrayRef), &DataType::Binary).unwrap();
        assert_eq!(made.null_count(), 2);
        assert_eq!(made.as_binary::<i32>().value_data(), b"");
    }

    #[test]
    fn other_types_are_left_to_arrow() {
        let array: ArrayRef = Arc::new(StringViewArray::from(vec!["1"]));
        assert!(from_views(&array, &DataType::Int8).is_none());
        assert!(from_views(&array, &DataType::Utf8View).is_none());
    }
}
