//! Splits: parts of files that one task reads.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::{Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use super::conform::retyped;
use super::constants::Widening;
use super::inspect::Group;
use super::kept::{self, RowRange};
use super::reorder::Reordered;
use super::spans::whole_groups;
use super::{places, projected, LargePages, PartitionValue, ReadOptions, SourceFile, Span};
use crate::direct::{known, RangeReader};
use crate::error::{IoError, Result};
use crate::guard::{guarded, Guarded};
use crate::storage::FileStamp;
use crate::{travel, Format};

/// A part of one file. Any process that has the file can read the part, without the [`Source`](super::Source).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Split {
    /// The file.
    #[serde(with = "travel::path")]
    pub path: PathBuf,
    /// Number of the file in its source.
    pub file_index: u64,
    /// Its format.
    pub format: Format,
    /// The beginning of the split: a row for Parquet and IPC, else a byte offset.
    pub start: u64,
    /// The end of the split, exclusive.
    pub end: u64,
    /// Index of the row group or batch that holds `start`.
    pub group: u64,
    /// First row of that group.
    pub group_start: u64,
    /// Number of row groups or batches that the split touches.
    pub groups: u64,
    /// Rows in the split, where the format tells.
    pub rows: Option<u64>,
    /// Estimated bytes when decoded.
    pub bytes: u64,
    /// Size of the file when it was listed.
    pub file_bytes: u64,
    /// Modification time of the file when it was listed.
    pub file_mtime_ns: i64,
    /// The values of partition columns.
    pub partition: Vec<PartitionValue>,
    /// Places of the input's columns in the file, without partition columns, if it is CSV with another order of columns.
    pub columns: Vec<usize>,
    /// Memory that the pages of large columns of Parquet take.
    pub pages: Vec<LargePages>,
    /// Whether rows may be far larger than `bytes` tells, so that a reader has to measure them first.
    pub hides_sizes: bool,
    /// The rows that are read, if rows between them are not; empty if all from `start` to `end` are.
    pub kept: Vec<RowRange>,
}

impl Split {
    /// Number of the first row within its file, so that rows have the same numbers however the file is cut. CSV and JSON
    /// lines do not tell it: there it is the byte offset, which is larger than the number of any row before it.
    pub fn first_row(&self) -> u64 {
        self.format.driver().first_row(self)
    }

    /// Rows where the format tells their number, else bytes of the file.
    pub fn size(&self) -> u64 {
        self.rows.unwrap_or(self.end - self.start)
    }

    /// The first rows of the split, of about `num_bytes` decoded bytes; at least one row.
    ///
    /// A split with an unknown number of rows stays as it is, because the ends of its rows are unknown too.
    pub fn beginning(&self, num_bytes: u64) -> Self {
        let Some(rows) = self.rows.filter(|&rows| rows > 0 && self.bytes > num_bytes) else {
            return self.clone();
        };
        let first = part_of(rows, num_bytes, self.bytes).max(1);
        if !self.kept.is_empty() {
            return self.of_rows(kept::part(&self.kept, 0, first));
        }
        Self {
            // Positions are rows, or bytes of records.
            end: self.start + (self.end - self.start) / rows * first,
            bytes: part_of(self.bytes, first, rows),
            rows: Some(first),
            ..self.clone()
        }
    }

    /// The rows of the split for which masks, one after the other, are true; null is not. Only for formats whose positions
    /// are rows.
    pub fn picked(&self, masks: &[BooleanArray]) -> Self {
        self.of_rows(kept::picked(&self.ranges(), masks))
    }

    /// The rows that are read, as ranges.
    pub(crate) fn ranges(&self) -> Vec<RowRange> {
        if self.kept.is_empty() {
            return vec![(self.start, self.end)];
        }
        self.kept.clone()
    }

    /// The split with only these of its rows.
    fn of_rows(&self, ranges: Vec<RowRange>) -> Self {
        let rows = kept::num_rows(&ranges);
        let start = ranges.first().map_or(self.start, |range| range.0);
        Self {
            start,
            end: ranges.last().map_or(start, |range| range.1),
            bytes: part_of(self.bytes, rows, self.size().max(1)),
            rows: Some(rows),
            kept: if ranges.len() > 1 { ranges } else { Vec::new() },
            ..self.clone()
        }
    }

    /// The split as bytes, for other processes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        travel::to_bytes(NAME, self)
    }

    /// Returns the split that [`to_bytes`](Self::to_bytes) made these bytes of.
    ///
    /// # Errors
    /// The bytes were made by another version, or are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        travel::from_bytes(NAME, bytes)
    }

    pub(super) fn open_file(&self) -> Result<Arc<RangeReader>> {
        let stamp = FileStamp {
            bytes: self.file_bytes,
            mtime_ns: self.file_mtime_ns,
        };
        RangeReader::open_unchanged(&self.path, stamp).map(Arc::new)
    }
}

/// Names the rows or bytes of the split, and its file, for people.
impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // If the split has as many positions as rows, positions are rows.
        let are_rows = !self.kept.is_empty() || self.rows == Some(self.end - self.start);
        let unit = if are_rows { "rows" } else { "bytes" };
        let path = known(&self.path).display();
        write!(f, "{unit} {} to {} of {path}", self.start, self.end)
    }
}

/// The name of a split in errors.
const NAME: &str = "a split";

/// `part` of `whole` parts of a number.
fn part_of(number: u64, part: u64, whole: u64) -> u64 {
    (u128::from(number) * u128::from(part) / u128::from(whole)) as u64
}

/// Most splits that are read together: each is a file to open and a part of a task's description.
const MAX_TOGETHER: usize = 256;
/// Rows of one part of a file may take so many bytes more than others without notice: the buffers of a task hold them.
const MISSING_BYTES: u64 = 4 << 20;

/// Groups neighbours that have about `target_bytes` decoded bytes together; a larger split stays alone. Why: with a task for
/// each of thousands of small files, running the tasks would take longer than reading the files.
pub fn together(splits: Vec<Split>, target_bytes: u64) -> Vec<Vec<Split>> {
    let mut groups: Vec<Vec<Split>> = Vec::new();
    let mut room = 0;
    for split in splits {
        let bytes = split.bytes;
        match groups.last_mut() {
            Some(group) if bytes <= room && group.len() < MAX_TOGETHER => group.push(split),
            _ => {
                groups.push(vec![split]);
                room = target_bytes;
            }
        }
        room = room.saturating_sub(bytes);
    }
    groups
}

/// The batches of a split, in order; the stream ends after its first error.
pub type BatchStream = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// Streams the rows of a split in batches of at most `batch_rows`.
///
/// Columns come in the order of `projection`, with the names and nullability of `schema`, the schema of the source. Strings
/// and binary values may come as views into the file's buffers, dictionary columns as their values.
pub fn open_split(
    split: &Split,
    schema: &SchemaRef,
    options: &ReadOptions,
    projection: Option<&[usize]>,
    batch_rows: usize,
) -> Result<BatchStream> {
    if !split.partition.is_empty() {
        return open_widened(split, schema, options, projection, batch_rows);
    }
    if !split.columns.is_empty() {
        let file = Reordered::new(split, schema, projection)?;
        let columns = Some(&file.columns[..]);
        return open_split(&file.split, &file.schema, options, columns, batch_rows);
    }
    let request = Request::new(split, schema, options, projection)?;
    let batch_rows = batch_rows.max(1);
    let stream = guarded(&split.path, split.format, || {
        split.format.driver().open(&request, batch_rows)
    })?;
    let (wanted, path, format) = (request.wanted, split.path.clone(), split.format);
    let stream = stream.map(move |batch| retyped((&path, format), batch?, &wanted));
    Ok(Box::new(Guarded::new(
        Box::new(stream),
        &split.path,
        split.format,
    )))
}

/// Returns the rows of a split of CSV or JSON lines that [`BadRows::Skip`](super::BadRows) leaves out.
///
/// The columns are `line` (counted from the byte `from` of the file, and from 0), `reason` and `text`. Also returns the
/// number of lines from that byte to the end of the split.
pub fn bad_rows(
    split: &Split,
    schema: &SchemaRef,
    options: &ReadOptions,
    from: u64,
) -> Result<(RecordBatch, u64)> {
    if !split.partition.is_empty() {
        let file = Widening::new(split, schema, options, None)?;
        return bad_rows(&file.split, &file.schema, &file.options, from);
    }
    if !split.columns.is_empty() {
        let file = Reordered::new(split, schema, None)?;
        return bad_rows(&file.split, &file.schema, options, from);
    }
    let request = Request::new(split, schema, options, None)?;
    guarded(&split.path, split.format, || {
        split
            .format
            .driver()
            .bad_rows(&request, from.min(split.start))
    })
}

/// The batches of a split with partition columns.
fn open_widened(
    split: &Split,
    schema: &SchemaRef,
    options: &ReadOptions,
    projection: Option<&[usize]>,
    batch_rows: usize,
) -> Result<BatchStream> {
    let mut widening = Widening::new(split, schema, options, projection)?;
    let batches = match widening.unread(batch_rows.max(1)) {
        Some(batches) => {
            split.open_file()?;
            batches
        }
        None => open_split(
            &widening.split,
            &widening.schema,
            &widening.options,
            widening.columns.as_deref(),
            batch_rows,
        )?,
    };
    Ok(Box::new(batches.map(move |batch| widening.widen(&batch?))))
}

/// Everything that a format needs to read or sample a split.
pub(crate) struct Request<'a> {
    pub(crate) file: Arc<RangeReader>,
    pub(crate) split: &'a Split,
    /// The schema of the source.
    pub(crate) schema: &'a SchemaRef,
    /// The schema of the columns asked for.
    pub(crate) wanted: SchemaRef,
    pub(crate) projection: Option<&'a [usize]>,
    pub(crate) options: &'a ReadOptions,
}

impl<'a> Request<'a> {
    pub(super) fn new(
        split: &'a Split,
        schema: &'a SchemaRef,
        options: &'a ReadOptions,
        projection: Option<&'a [usize]>,
    ) -> Result<Self> {
        let wanted = projected(schema, projection)?;
        Ok(Self {
            file: split.open_file()?,
            split,
            schema,
            wanted,
            projection,
            options,
        })
    }

    /// Places of the wanted columns in a file with this schema; `None` if they are all its columns, in its order.
    pub(crate) fn places_in(&self, schema: &Schema) -> Result<Option<Vec<usize>>> {
        if schema.fields().len() != self.schema.fields().len() {
            let (before, now) = (self.schema.fields().len(), schema.fields().len());
            let what = format!("{before} columns became {now}");
            return Err(IoError::changed(&self.split.path, what));
        }
        let names = self.wanted.fields().iter().map(|field| field.name());
        let places = places(schema, names)
            .ok_or_else(|| IoError::changed(&self.split.path, "its columns".to_owned()))?;
        let is_all = places.len() == schema.fields().len() && places.is_sorted();
        Ok((!is_all).then_some(places))
    }

    /// Turns a parser's message into a corruption error.
    pub(crate) fn corrupt(&self, reason: impl std::fmt::Display) -> IoError {
        IoError::corrupt(&self.split.path, self.split.format, reason)
    }
}

pub(super) fn split_file(
    file: &SourceFile,
    format: Format,
    options: &ReadOptions,
    target: u64,
) -> Result<Vec<Split>> {
    let spans = format.driver().cut(file, options, target)?;
    let split = |span| split_of(file, format, span);
    Ok(spans.into_iter().map(split).collect())
}

/// Returns the parts of a file whose values of any length have over twice the bytes of as many rows of `row_bytes`.
/// They also have over [`MISSING_BYTES`] more than these.
pub(super) fn larger_parts(file: &SourceFile, format: Format, row_bytes: u64) -> Vec<Split> {
    let is_larger = |group: &Group| {
        let expected = group.rows.saturating_mul(row_bytes);
        let missing = group.text_bytes.saturating_sub(expected);
        missing > expected.max(MISSING_BYTES)
    };
    { whole_groups(&file.groups, file.kept.as_deref()) }
        .filter(|(group, _)| is_larger(group))
        .map(|(_, span)| split_of(file, format, span))
        .collect()
}

fn split_of(file: &SourceFile, format: Format, span: Span) -> Split {
    Split {
        path: file.path.clone(),
        file_index: file.index,
        format,
        start: span.start,
        end: span.end,
        group: span.group,
        group_start: span.group_start,
        groups: span.groups,
        rows: span.rows,
        bytes: span.memory_bytes,
        file_bytes: file.stamp.bytes,
        file_mtime_ns: file.stamp.mtime_ns,
        partition: file.partition.clone(),
        columns: file.columns.clone(),
        pages: file.pages.clone(),
        hides_sizes: file.hides_sizes,
        kept: span.kept,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use crate::direct::located;
    use crate::formats::{ipc, parquet, records, text};

    #[test]
    fn neighbours_are_read_together_as_long_as_there_is_room() {
        let of_bytes = |bytes: &[u64]| -> Vec<Split> {
            bytes
                .iter()
                .map(|&bytes| split_of(text::CSV, (0, bytes), None))
                .collect()
        };
        let sizes = |target, bytes: &[u64]| -> Vec<Vec<u64>> {
            let groups = together(of_bytes(bytes), target);
            groups
                .iter()
                .map(|group| group.iter().map(|split| split.bytes).collect())
                .collect()
        };
        assert_eq!(
            sizes(10, &[4, 6, 1, 20, 3, 3]),
            [vec![4, 6], vec![1], vec![20], vec![3, 3]]
        );
        assert_eq!(sizes(0, &[1, 0, 0]), [vec![1, 0, 0]]);
        assert_eq!(sizes(9, &[0; 2 * MAX_TOGETHER + 1]).len(), 3);
        assert!(sizes(10, &[]).is_empty());
    }

    #[test]
    fn splits_travel_as_bytes() {
        let split = Split {
            path: OsStr::from_bytes(b"/data/\xff.parquet").into(),
            file_index: 4,
            group: 2,
            groups: 1,
            file_bytes: 1000,
            file_mtime_ns: -5,
            partition: vec![PartitionValue {
                column: 2,
                in_file: false,
                text: None,
            }],
            columns: vec![1, 0],
            pages: vec![LargePages { leaf: 1, bytes: 9 }],
            hides_sizes: true,
            kept: vec![(1, 3), (7, 9)],
            ..split_of(parquet::FORMAT, (1, 9), Some(8))
        };
        let bytes = split.to_bytes().unwrap();
        assert_eq!(Split::from_bytes(&bytes).unwrap(), split);
        assert!(Split::from_bytes(&bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn a_beginning_has_whole_rows() {
        let of_rows = split_of(ipc::FORMAT, (100, 1100), Some(1000));
        let part = of_rows.beginning(10);
        assert_eq!((part.start, part.end, part.rows), (100, 110, Some(10)));
        assert_eq!((part.bytes, part.size()), (10, 10));
        assert_eq!(of_rows.beginning(0).rows, Some(1));
        assert_eq!(of_rows.beginning(1000), of_rows);
        let with_gap = Split {
            kept: vec![(100, 200), (300, 1200)],
            end: 1200,
            ..of_rows.clone()
        };
        let part = with_gap.beginning(150);
        assert_eq!((part.start, part.end, part.rows), (100, 350, Some(150)));
        assert_eq!((part.bytes, part.kept.len()), (150, 2));
        assert_eq!(with_gap.beginning(70).kept, []);
        assert!(with_gap.to_string().starts_with("rows 100 to 1200"));
        let of_records = split_of(records::FORMAT, (300, 1300), Some(10));
        let part = of_records.beginning(250);
        assert_eq!((part.start, part.end, part.rows), (300, 500, Some(2)));
        let of_text = split_of(text::CSV, (0, 1000), None);
        assert_eq!(of_text.beginning(10), of_text);
    }

    #[test]
    fn splits_say_what_is_read_of_which_file() {
        let of_rows = split_of(ipc::FORMAT, (7, 20), Some(13));
        assert_eq!(of_rows.to_string(), "rows 7 to 20 of /data/x");
        let of_records = split_of(records::FORMAT, (300, 700), Some(4));
        assert_eq!(of_records.to_string(), "bytes 300 to 700 of /data/x");
        let mut of_text = split_of(text::CSV, (55, 80), None);
        of_text.path = located("in.csv", "/proc/7/fd/3").into();
        assert_eq!(of_text.to_string(), "bytes 55 to 80 of in.csv");
    }

    fn split_of(format: Format, (start, end): (u64, u64), rows: Option<u64>) -> Split {
        Split {
            path: "/data/x".into(),
            file_index: 0,
            format,
            start,
            end,
            group: 0,
            group_start: 0,
            groups: 0,
            rows,
            bytes: end - start,
            file_bytes: 0,
            file_mtime_ns: 0,
            partition: vec![],
            columns: vec![],
            pages: vec![],
            hides_sizes: false,
            kept: Vec::new(),
        }
    }

    #[test]
    fn rows_are_numbered_within_their_file() {
        let of = split_of;
        assert_eq!(of(ipc::FORMAT, (7, 20), Some(13)).first_row(), 7);
        assert_eq!(of(records::FORMAT, (300, 700), Some(4)).first_row(), 3);
        assert_eq!(of(records::FORMAT, (0, 0), Some(0)).first_row(), 0);
        assert_eq!(of(text::CSV, (55, 80), None).first_row(), 55);
    }
}
