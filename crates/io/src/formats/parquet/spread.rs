//! Tells between which values a column lies, row group by row group or page by page, as the footer and the page index say.
//!
//! Guarantee: a value that is known lies as far out as any value of its rows, as filters compare them, or further. In doubt
//! nothing is known. So deprecated statistics of text and unsigned numbers, which have another order, tell nothing. Nor do
//! bounds that are NaN or in the wrong order, nor types that have an order of their own. NaN is the greatest value, and few
//! writers count it, so a column of floats has no upper bound where they do not.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, UInt64Array};
use arrow_cast::{cast_with_options, CastOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use arrow_select::nullif::nullif;
use arrow_select::zip::zip;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::basic::{ColumnOrder, SortOrder, Type};
use parquet::file::metadata::page_index::PageIndexProvider;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::index_reader::{decode_column_index, decode_offset_index};
use parquet::file::page_index::offset_index::OffsetIndexMetaData;
use parquet::schema::types::SchemaDescriptor;

use super::{footer, types, FORMAT};
use crate::direct::RangeReader;
use crate::error::{IoError, Result};
use crate::source::{Detail, RowRange, Spread};

/// The result of work on arrays.
type Arrow<T> = std::result::Result<T, ArrowError>;

/// Larger indexes of pages are not read: 300,000 pages with bounds of text have as much.
const MOST_INDEX_BYTES: u64 = 32 << 20;

/// Returns what a file says about each of some columns, in those of its groups that have rows in `kept`.
pub(super) fn spreads(
    file: &Arc<RangeReader>,
    columns: &[&Field],
    kept: Option<&[RowRange]>,
    detail: Detail,
) -> Result<Vec<Spread>> {
    let (metadata, _turn) = footer::load_in_turn(file)?;
    let declared = types::declared(file, &metadata)?;
    let groups = groups(&metadata, kept);
    let look = Look {
        file,
        metadata: &metadata,
        schema: declared.schema(),
        groups: &groups,
    };
    let corrupt = |e: ArrowError| IoError::corrupt(file.path(), FORMAT, e);
    { columns.iter() }
        .map(|column| look.spread(column, detail).map_err(corrupt))
        .collect()
}

/// The indexes of groups that have rows in `kept`, each with its first row.
pub(super) fn groups(metadata: &ParquetMetaData, kept: Option<&[RowRange]>) -> Vec<(usize, u64)> {
    let mut first = 0;
    let mut found = Vec::new();
    for (index, group) in metadata.row_groups().iter().enumerate() {
        let (start, end) = (first, first + group.num_rows() as u64);
        first = end;
        let is_kept = kept.is_none_or(|kept| {
            let range = kept.partition_point(|range| range.1 <= start);
            kept.get(range).is_some_and(|range| range.0 < end)
        });
        if is_kept && start < end {
            found.push((index, start));
        }
    }
    found
}

/// A file, and the row groups that are looked at.
struct Look<'a> {
    file: &'a RangeReader,
    metadata: &'a ParquetMetaData,
    schema: &'a Schema,
    groups: &'a [(usize, u64)],
}

impl<'a> Look<'a> {
    fn spread(&self, column: &Field, detail: Detail) -> Arrow<Spread> {
        let Some((leaf, field)) = self.leaf(column) else {
            return Ok(self.unknown(column));
        };
        let descriptor = self.metadata.file_metadata().schema_descr();
        let converter = StatisticsConverter::from_column_index(leaf, field, descriptor)?
            .with_missing_null_counts_as_zero(false);
        let of_groups = self.of_groups(&converter, leaf)?;
        let found = match detail {
            Detail::Groups => of_groups,
            Detail::Pages => self.of_pages(&converter, leaf, of_groups)?,
        };
        let filters = match detail {
            Detail::Groups => self.filters(leaf),
            Detail::Pages => vec![false; found.starts.len()],
        };
        found.checked(column, filters)
    }

    /// Whether each group has a Bloom filter for a leaf.
    fn filters(&self, leaf: usize) -> Vec<bool> {
        let groups = self.groups.iter();
        let chunks = groups.map(|&(index, _)| self.metadata.row_group(index).column(leaf));
        chunks
            .map(|chunk| chunk.bloom_filter_offset().is_some())
            .collect()
    }

    /// The only leaf of a column, if its order is that of filters, and its type in the file.
    fn leaf(&self, column: &Field) -> Option<(usize, &'a Field)> {
        let schema = self.metadata.file_metadata().schema_descr();
        leaf_of(schema, self.schema, column).filter(|&(leaf, _)| self.has_order(leaf))
    }

    /// Whether bounds of a leaf, as the file orders values, are bounds as filters order them.
    fn has_order(&self, leaf: usize) -> bool {
        let file = self.metadata.file_metadata();
        let column = file.schema_descr().column(leaf);
        match file.column_order(leaf) {
            ColumnOrder::TYPE_DEFINED_ORDER(SortOrder::UNDEFINED) => false,
            ColumnOrder::TYPE_DEFINED_ORDER(_) | ColumnOrder::IEEE_754_TOTAL_ORDER => {
                column.physical_type() != Type::INT96
            }
            // Writers that tell no order compared all values as if they had a sign.
            ColumnOrder::UNDEFINED => has_signed_order(&column),
            ColumnOrder::INT96_TIMESTAMP_ORDER | ColumnOrder::UNKNOWN => false,
        }
    }

    fn of_groups(&self, converter: &StatisticsConverter<'a>, leaf: usize) -> Arrow<Found> {
        let metadata = || {
            self.groups
                .iter()
                .map(|&(index, _)| self.metadata.row_group(index))
        };
        let column = self.metadata.file_metadata().schema_descr().column(leaf);
        let is_doubtful = |group: &RowGroupMetaData| {
            let statistics = group.column(leaf).statistics();
            let is_old = statistics
                .is_some_and(parquet::file::statistics::Statistics::is_min_max_deprecated);
            Some(is_old && !has_signed_order(&column))
        };
        let doubtful = BooleanArray::from_iter(metadata().map(is_doubtful));
        let ends = metadata().zip(self.groups);
        Ok(Found {
            starts: self.groups.iter().map(|&(_, start)| start).collect(),
            ends: { ends }
                .map(|(group, &(_, start))| start + group.num_rows() as u64)
                .collect(),
            nulls: converter.row_group_null_counts(metadata())?,
            nans: converter.row_group_nan_counts(metadata())?,
            low: nullif(&converter.row_group_mins(metadata())?, &doubtful)?,
            high: nullif(&converter.row_group_maxes(metadata())?, &doubtful)?,
        })
    }

    /// The pages of each group; the group itself where the file has no index of its pages.
    fn of_pages(
        &self,
        converter: &StatisticsConverter<'a>,
        leaf: usize,
        of_groups: Found,
    ) -> Arrow<Found> {
        let mut parts = Vec::with_capacity(self.groups.len());
        for (place, &(index, start)) in self.groups.iter().enumerate() {
            let group = self.metadata.row_group(index);
            let pages = self.pages(group, leaf);
            parts.push(match pages {
                None => of_groups.slice(place, 1),
                Some(pages) => {
                    let (mut starts, rows) = (pages.starts(), group.num_rows() as u64);
                    starts.iter_mut().for_each(|first| *first += start);
                    let behind = starts.iter().skip(1).copied();
                    Found {
                        ends: behind.chain([start + rows]).collect(),
                        starts,
                        nulls: converter.data_page_null_counts(&pages, &[0])?,
                        nans: converter.data_page_nan_counts(&pages, &[0])?,
                        low: converter.data_page_mins(&pages, &[0])?,
                        high: converter.data_page_maxes(&pages, &[0])?,
                    }
                }
            });
        }
        Found::joined(&parts, &of_groups)
    }

    /// The index of the pages of a column chunk, if the file has one that can be.
    fn pages(&self, group: &RowGroupMetaData, leaf: usize) -> Option<PagesOf> {
        let column = group.column(leaf);
        let read = |range: std::ops::Range<u64>| {
            let length = range.end.checked_sub(range.start)?;
            let is_inside = range.end <= self.file.len() && length <= MOST_INDEX_BYTES;
            let bytes = is_inside.then(|| self.file.read(range.start, length as usize))?;
            bytes.ok()
        };
        let bounds = read(column.column_index_range()?)?;
        let places = read(column.offset_index_range()?)?;
        let pages = PagesOf {
            leaf,
            bounds: decode_column_index(&bounds, column.column_type()).ok()?,
            places: decode_offset_index(&places).ok()?,
        };
        pages.fit(group.num_rows() as u64).then_some(pages)
    }

    /// Nothing known about any row.
    fn unknown(&self, column: &Field) -> Spread {
        let rows = self.groups.len();
        let ends = self
            .groups
            .iter()
            .map(|&(index, start)| start + self.metadata.row_group(index).num_rows() as u64);
        let value = arrow_array::new_null_array(&plain(column.data_type()), rows);
        Spread {
            starts: self.groups.iter().map(|&(_, start)| start).collect(),
            ends: ends.collect(),
            filters: vec![false; rows],
            nulls: UInt64Array::new_null(rows),
            low: Arc::clone(&value),
            high: value,
        }
    }
}

/// The only leaf of a column, if it is a plain value that is compared as in the file, and its type in the file.
pub(super) fn leaf_of<'a>(
    file: &SchemaDescriptor,
    schema: &'a Schema,
    column: &Field,
) -> Option<(usize, &'a Field)> {
    let (root, field) = schema.column_with_name(column.name())?;
    let mut leaves = (0..file.num_columns()).filter(|&leaf| file.get_column_root_idx(leaf) == root);
    let leaf = leaves.next().filter(|_| leaves.next().is_none())?;
    let is_flat = file.column(leaf).max_rep_level() == 0 && !field.data_type().is_nested();
    let is_known =
        kind(field.data_type()).is_some_and(|of_file| kind(column.data_type()) == Some(of_file));
    (is_flat && is_known).then_some((leaf, field))
}

/// Whether the order of values with a sign is that of a column's type.
pub(super) fn has_signed_order(column: &parquet::schema::types::ColumnDescriptor) -> bool {
    let is_number = matches!(
        column.physical_type(),
        Type::BOOLEAN | Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE
    );
    is_number && column.sort_order() == SortOrder::SIGNED
}

/// Types whose values are compared in one way, and keep their order when they become others of these types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bool,
    Number,
    Text,
    Bytes,
    Date,
    Time,
    /// Without a time zone.
    Clock,
    Moment,
}

fn kind(data_type: &DataType) -> Option<Kind> {
    use DataType as T;
    match data_type {
        T::Boolean => Some(Kind::Bool),
        T::Float32 | T::Float64 => Some(Kind::Number),
        T::Decimal32(..) | T::Decimal64(..) | T::Decimal128(..) | T::Decimal256(..) => {
            Some(Kind::Number)
        }
        integer if integer.is_integer() => Some(Kind::Number),
        T::Utf8 | T::LargeUtf8 | T::Utf8View => Some(Kind::Text),
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => Some(Kind::Bytes),
        T::Date32 => Some(Kind::Date),
        T::Time32(_) | T::Time64(_) => Some(Kind::Time),
        T::Timestamp(_, None) => Some(Kind::Clock),
        T::Timestamp(_, Some(_)) => Some(Kind::Moment),
        T::Dictionary(_, values) => kind(values),
        _ => None,
    }
}

/// The type of a column's values, whatever holds them.
pub(super) fn plain(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain(values),
        other => other.clone(),
    }
}

/// Spreads as a file tells them, before they are checked.
struct Found {
    starts: Vec<u64>,
    ends: Vec<u64>,
    nulls: UInt64Array,
    nans: UInt64Array,
    low: ArrayRef,
    high: ArrayRef,
}

impl Found {
    fn slice(&self, first: usize, count: usize) -> Self {
        Self {
            starts: self.starts[first..first + count].to_vec(),
            ends: self.ends[first..first + count].to_vec(),
            nulls: self.nulls.slice(first, count),
            nans: self.nans.slice(first, count),
            low: self.low.slice(first, count),
            high: self.high.slice(first, count),
        }
    }

    /// All parts, one after the other; `like` has their types.
    fn joined(parts: &[Self], like: &Self) -> Arrow<Self> {
        let empty = like.slice(0, 0);
        let parts: Vec<&Self> = std::iter::once(&empty).chain(parts).collect();
        let concat = |array: fn(&Self) -> &dyn Array| {
            let arrays: Vec<&dyn Array> = parts.iter().map(|part| array(part)).collect();
            arrow_select::concat::concat(&arrays)
        };
        Ok(Self {
            starts: { parts.iter() }
                .flat_map(|part| part.starts.iter().copied())
                .collect(),
            ends: { parts.iter() }
                .flat_map(|part| part.ends.iter().copied())
                .collect(),
            nulls: concat(|part| &part.nulls)?.as_primitive().clone(),
            nans: concat(|part| &part.nans)?.as_primitive().clone(),
            low: concat(|part| &*part.low)?,
            high: concat(|part| &*part.high)?,
        })
    }

    /// Forgets what cannot be, or may not be true; gives values the type of the input's column.
    fn checked(self, column: &Field, filters: Vec<bool>) -> Arrow<Spread> {
        let (low, high) = (without_nan(&self.low)?, without_nan(&self.high)?);
        let crossed = arrow_ord::cmp::gt(&low, &high)?;
        let (low, high) = (nullif(&low, &crossed)?, nullif(&high, &crossed)?);
        let may_be_nan = self.nans.iter().map(|nans| Some(nans != Some(0)));
        let high = with_nan(&high, &BooleanArray::from_iter(may_be_nan))?;
        let target = plain(column.data_type());
        let options = CastOptions::default();
        Ok(Spread {
            starts: self.starts,
            ends: self.ends,
            filters,
            nulls: self.nulls,
            low: cast_with_options(&low, &target, &options)?,
            high: cast_with_options(&high, &target, &options)?,
        })
    }
}

/// The values with null for NaN.
fn without_nan(values: &ArrayRef) -> Arrow<ArrayRef> {
    let is_nan = match values.data_type() {
        DataType::Float32 => {
            BooleanArray::from_unary(values.as_primitive::<Float32Type>(), f32::is_nan)
        }
        DataType::Float64 => {
            BooleanArray::from_unary(values.as_primitive::<Float64Type>(), f64::is_nan)
        }
        _ => return Ok(Arc::clone(values)),
    };
    nullif(values, &is_nan)
}

/// Upper bounds of floats, NaN where there may be one.
fn with_nan(high: &ArrayRef, may_be_nan: &BooleanArray) -> Arrow<ArrayRef> {
    let nan: ArrayRef = match high.data_type() {
        DataType::Float32 => Arc::new(arrow_array::Float32Array::from(vec![f32::NAN])),
        DataType::Float64 => Arc::new(arrow_array::Float64Array::from(vec![f64::NAN])),
        _ => return Ok(Arc::clone(high)),
    };
    zip(may_be_nan, &arrow_array::Scalar::new(nan), high)
}

/// The pages of one column chunk.
#[derive(Debug)]
struct PagesOf {
    leaf: usize,
    bounds: ColumnIndexMetaData,
    places: OffsetIndexMetaData,
}

impl PagesOf {
    /// The first row of each page, in its group.
    fn starts(&self) -> Vec<u64> {
        let pages = self.places.page_locations().iter();
        pages.map(|page| page.first_row_index as u64).collect()
    }

    /// Whether the pages can be those of a group with so many rows.
    fn fit(&self, rows: u64) -> bool {
        let pages = self.places.page_locations();
        let starts = || pages.iter().map(|page| page.first_row_index);
        let rise = starts().zip(starts().skip(1)).all(|(one, next)| one < next);
        let ends = starts().next() == Some(0)
            && starts().next_back().is_some_and(|row| (row as u64) < rows);
        rise && ends && self.bounds.num_pages() as usize == pages.len()
    }
}

impl PageIndexProvider for PagesOf {
    fn has_offset_indexes(&self) -> bool {
        true
    }

    fn has_column_indexes(&self) -> bool {
        true
    }

    fn column_index(&self, _group: usize, leaf: usize) -> Option<&ColumnIndexMetaData> {
        (leaf == self.leaf).then_some(&self.bounds)
    }

    fn offset_index(&self, _group: usize, leaf: usize) -> Option<&OffsetIndexMetaData> {
        (leaf == self.leaf).then_some(&self.places)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, Int64Array};

    use super::*;

    fn found(low: ArrayRef, high: ArrayRef, nans: Vec<Option<u64>>) -> Found {
        let rows = low.len() as u64;
        Found {
            starts: (0..rows).collect(),
            ends: (1..=rows).collect(),
            nulls: UInt64Array::new_null(low.len()),
            nans: nans.into(),
            low,
            high,
        }
    }

    #[test]
    fn bounds_in_the_wrong_order_are_unknown() {
        let low = Int64Array::from(vec![Some(1), Some(9), None]);
        let high = Int64Array::from(vec![Some(1), Some(3), Some(4)]);
        let found = found(Arc::new(low), Arc::new(high), vec![None; 3]);
        let column = Field::new("x", DataType::Int64, true);
        let spread = found.checked(&column, Vec::new()).unwrap();
        let expected = Int64Array::from(vec![Some(1), None, None]);
        assert_eq!(spread.low.as_primitive(), &expected);
        let expected = Int64Array::from(vec![Some(1), None, Some(4)]);
        assert_eq!(spread.high.as_primitive(), &expected);
    }

    #[test]
    fn floats_are_bounded_above_only_where_nan_was_counted() {
        let low = Float64Array::from(vec![1.0, 1.0, f64::NAN, 1.0]);
        let high = Float64Array::from(vec![2.0, 2.0, f64::NAN, 2.0]);
        let nans = vec![Some(0), None, Some(0), Some(3)];
        let found = found(Arc::new(low), Arc::new(high), nans);
        let column = Field::new("x", DataType::Float64, true);
        let spread = found.checked(&column, Vec::new()).unwrap();
        let low: Vec<_> = spread.low.as_primitive::<Float64Type>().iter().collect();
        assert_eq!(low, [Some(1.0), Some(1.0), None, Some(1.0)]);
        let high = spread.high.as_primitive::<Float64Type>();
        assert_eq!(high.value(0), 2.0);
        assert!(high.value(1).is_nan() && high.value(3).is_nan() && high.is_null(2));
    }
}
