//! Lists of numbers out of rows, where `map/lists.rs` wrote them.

use arrow_array::{make_array, ArrayRef};
use arrow_buffer::{BooleanBufferBuilder, MutableBuffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};

use crate::keys::key::read_length;

/// Collects the lists of one column.
#[derive(Debug)]
pub(crate) struct Lists<'a> {
    data_type: &'a DataType,
    width: usize,
    items: MutableBuffer,
    /// Where lists start, and where the last one ends; empty for lists of a fixed size.
    offsets: MutableBuffer,
    /// Which items are valid, once one was null.
    valid: Option<BooleanBufferBuilder>,
    rows: usize,
}

/// Why a list cannot be read.
pub(crate) enum Unread {
    /// Its bytes are no list of this type.
    Corrupt,
    /// There are more items than offsets can number.
    TooMany,
}

impl<'a> Lists<'a> {
    /// Takes memory for so many lists, and so many bytes of items; for more it is doubled.
    pub(crate) fn new(
        data_type: &'a DataType,
        width: usize,
        (rows, bytes): (usize, usize),
    ) -> Self {
        let offset_bytes = offset_bytes(data_type);
        let mut offsets = MutableBuffer::with_capacity(offset_bytes * (rows + 1));
        offsets.extend_zeros(offset_bytes);
        Self {
            data_type,
            width,
            items: MutableBuffer::with_capacity(bytes),
            offsets,
            valid: None,
            rows: 0,
        }
    }

    /// Appends the lists of rows whose lengths are at `length_at`. `tails[i]` is where the list of row i starts, and is
    /// moved on.
    ///
    /// # Errors
    /// The number of a row, and what is wrong with its list.
    pub(crate) fn append(
        &mut self,
        rows: &[&[u8]],
        length_at: usize,
        tails: &mut [usize],
    ) -> Result<(), (usize, Unread)> {
        for (number, (row, tail)) in rows.iter().zip(tails).enumerate() {
            let end = *tail + read_length(row, length_at);
            self.add(&row[*tail..end]).map_err(|why| (number, why))?;
            *tail = end;
        }
        self.rows += rows.len();
        Ok(())
    }

    fn add(&mut self, list: &[u8]) -> Result<(), Unread> {
        let (count, valid) = split(list, self.width).ok_or(Unread::Corrupt)?;
        match self.data_type {
            DataType::FixedSizeList(_, size) if count != *size as usize => {
                return Err(Unread::Corrupt)
            }
            _ => {}
        }
        let before = self.num_items();
        self.items.extend_from_slice(&list[..count * self.width]);
        match (&mut self.valid, valid) {
            (None, None) => {}
            (Some(bits), None) => bits.append_n(count, true),
            (_, Some(valid)) => {
                let bits = self.valid.get_or_insert_with(|| {
                    let mut bits = BooleanBufferBuilder::new(before + count);
                    bits.append_n(before, true);
                    bits
                });
                bits.append_packed_range(0..count, valid);
            }
        }
        let end = self.num_items();
        match self.data_type {
            DataType::List(_) => {
                let end = i32::try_from(end).map_err(|_| Unread::TooMany)?;
                self.offsets.push(end);
            }
            DataType::LargeList(_) => self.offsets.push(end as i64),
            _ => {}
        }
        Ok(())
    }

    fn num_items(&self) -> usize {
        self.items.len() / self.width
    }

    /// Returns the finished column.
    pub(crate) fn finish(self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let num_items = self.num_items();
        let (DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)) =
            self.data_type
        else {
            return Err(ArrowError::SchemaError(format!(
                "{} is no type of lists",
                self.data_type
            )));
        };
        let valid = self.valid.map(|mut bits| NullBuffer::new(bits.finish()));
        let items = ArrayData::builder(item.data_type().clone())
            .len(num_items)
            .add_buffer(self.items.into())
            .nulls(valid)
            .build()?;
        let mut lists = ArrayData::builder(self.data_type.clone())
            .len(self.rows)
            .nulls(nulls)
            .add_child_data(items);
        if !self.offsets.is_empty() {
            lists = lists.add_buffer(self.offsets.into());
        }
        lists.build().map(make_array)
    }
}

fn offset_bytes(data_type: &DataType) -> usize {
    match data_type {
        DataType::List(_) => size_of::<i32>(),
        DataType::LargeList(_) => size_of::<i64>(),
        _ => 0,
    }
}

/// Returns the number of items of a list, and their validity bits if it has any; `None` if the bytes are no list.
fn split(list: &[u8], width: usize) -> Option<(usize, Option<&[u8]>)> {
    let Some((flag, list)) = list.split_last() else {
        return Some((0, None));
    };
    if *flag == 0 {
        return list
            .len()
            .is_multiple_of(width)
            .then_some((list.len() / width, None));
    }
    // Items and bits: count * width + ceil(count / 8) bytes.
    let count = list.len() * 8 / (8 * width + 1);
    let valid = &list[count * width..];
    (valid.len() == count.div_ceil(8)).then_some((count, Some(valid)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_list_tells_its_items_and_bits() {
        for width in [1, 2, 4, 8, 16, 32] {
            for count in 0..100 {
                let mut list = vec![0; count * width];
                list.push(0);
                assert_eq!(split(&list, width), Some((count, None)));
                list.extend(vec![0xff; count.div_ceil(8)]);
                *list.last_mut().unwrap() = 1;
                list[count * width..].rotate_left(1);
                let bits = list.len() - 1 - count * width;
                *list.last_mut().unwrap() = 1;
                assert_eq!(
                    split(&list, width).map(|(n, v)| (n, v.map(<[u8]>::len))),
                    Some((count, Some(bits)))
                );
            }
        }
        assert_eq!(split(&[], 4), Some((0, None)));
    }

    #[test]
    fn bytes_that_are_no_list_are_not_read() {
        assert_eq!(split(&[0; 4], 4), None);
        assert_eq!(split(&[1, 0, 0, 0, 1], 4), None);
        let item = std::sync::Arc::new(arrow_schema::Field::new("item", DataType::Int8, true));
        let pairs = DataType::FixedSizeList(item, 2);
        let mut lists = Lists::new(&pairs, 1, (1, 1));
        let row = [4, 0, 0, 0, 7, 7, 7, 0];
        assert!(matches!(
            lists.append(&[&row], 0, &mut [4]),
            Err((0, Unread::Corrupt))
        ));
    }
}
