//! Frames: how columns that do not fit into rows travel beside them.
//!
//! A section of such a schema that has rows is a frame
//! `[rows_bytes u64][columns_bytes u64][rows][Arrow IPC stream of the other columns]`. The stream of a frame holds one
//! batch, its rows in the order of the frame's rows. Inside nested columns, views and dictionaries travel as plain
//! values. Otherwise every slice would carry all the values of the input.

use std::ops::Range;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_cast::{can_cast_types, cast};
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, UnionMode};
use arrow_select::interleave::interleave;

use crate::columns::output::undo_wire;
use crate::error::{KernelError, Result};
use crate::layout::RowLayout;
use crate::slices::pieces::Beside;
use crate::slot::{packs_into_dictionary, Slot};

/// The two length words of a frame.
pub(crate) const HEADER_BYTES: usize = 16;

/// Converts a column into the form in which it travels.
pub(crate) fn to_wire(name: &str, declared: &Field, array: &ArrayRef) -> Result<ArrayRef> {
    let wire = wire_type(declared.data_type());
    if array.data_type() == &wire {
        return Ok(Arc::clone(array));
    }
    if !same_shape(array.data_type(), declared.data_type()) {
        return Err(KernelError::ColumnType {
            column: name.to_owned(),
            expected: declared.data_type().clone(),
            actual: array.data_type().clone(),
        });
    }
    cast(array, &wire).map_err(|e| KernelError::arrow(format!("encoding column '{name}'"), e))
}

/// Returns whether two types differ only in how strings and dictionaries are represented.
fn same_shape(a: &DataType, b: &DataType) -> bool {
    wire_type(a).equals_datatype(&wire_type(b))
}

/// Returns the type in which a framed column travels.
fn wire_type(declared: &DataType) -> DataType {
    let wire = plain_type(declared);
    if can_cast_types(declared, &wire) && can_cast_types(&wire, declared) {
        wire
    } else {
        declared.clone()
    }
}

fn plain_type(declared: &DataType) -> DataType {
    use DataType as T;
    let field =
        |f: &Arc<Field>| Arc::new(f.as_ref().clone().with_data_type(plain_type(f.data_type())));
    match declared {
        T::Utf8View => T::LargeUtf8,
        T::BinaryView => T::LargeBinary,
        T::Dictionary(_, values) if packs_into_dictionary(values) => plain_type(values),
        T::List(f) => T::List(field(f)),
        T::LargeList(f) => T::LargeList(field(f)),
        T::FixedSizeList(f, size) => T::FixedSizeList(field(f), *size),
        T::Struct(fields) => T::Struct(fields.iter().map(field).collect()),
        T::Map(f, sorted) => T::Map(field(f), *sorted),
        other => other.clone(),
    }
}

fn wire_schema(layout: &RowLayout) -> SchemaRef {
    let framed = layout.columns().iter().zip(layout.schema().fields());
    let fields: Vec<Field> = framed
        .filter(|(column, _)| matches!(column.slot, Slot::Framed { .. }))
        .map(|(column, field)| Field::new(&column.name, wire_type(field.data_type()), true))
        .collect();
    Arc::new(Schema::new(fields))
}

/// Encodes, for each partition, the framed columns of its rows; nothing for a partition without rows.
///
/// `batches` holds the columns of each batch, `partitions` the partition of every row, batch after batch.
pub(crate) fn encode(
    layout: &RowLayout,
    batches: &[(usize, &[ArrayRef])],
    partitions: impl Iterator<Item = u32>,
    num_partitions: usize,
) -> Result<Vec<Vec<u8>>> {
    let mut rows: Vec<Vec<(usize, usize)>> = vec![Vec::new(); num_partitions];
    let places = batches
        .iter()
        .enumerate()
        .flat_map(|(b, (count, _))| (0..*count).map(move |row| (b, row)));
    for (place, partition) in places.zip(partitions) {
        rows[partition as usize].push(place);
    }
    let schema = wire_schema(layout);
    rows.iter()
        .map(|rows| match rows.as_slice() {
            [] => Ok(Vec::new()),
            rows => encode_one(&schema, batches, rows)
                .map_err(|e| KernelError::arrow("encoding nested columns", e)),
        })
        .collect()
}

fn encode_one(
    schema: &SchemaRef,
    batches: &[(usize, &[ArrayRef])],
    rows: &[(usize, usize)],
) -> std::result::Result<Vec<u8>, ArrowError> {
    let columns = (0..schema.fields().len()).map(|c| {
        let inputs: Vec<&dyn Array> = batches
            .iter()
            .map(|(_, columns)| columns[c].as_ref())
            .collect();
        interleave(&inputs, rows)
    });
    let batch = RecordBatch::try_new(
        Arc::clone(schema),
        columns.collect::<std::result::Result<_, _>>()?,
    )?;
    let mut writer = StreamWriter::try_new(Vec::new(), schema)?;
    writer.write(&batch)?;
    writer.into_inner()
}

/// One frame of a slice.
pub(crate) struct Frame {
    /// Where its rows lie in the slice.
    pub(crate) rows: Range<usize>,
    /// Its other columns.
    pub(crate) beside: Beside,
}

/// Takes apart the frames in this range of a slice.
pub(crate) fn parse(layout: &RowLayout, slice: &Buffer, range: Range<usize>) -> Result<Vec<Frame>> {
    let schema = wire_schema(layout);
    let mut frames = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let corrupt = |reason| KernelError::CorruptSlice {
            offset: at as u64,
            reason,
        };
        let cut = || corrupt("a frame is cut off");
        let (rows_bytes, rest) = slice[at..range.end].split_first_chunk().ok_or_else(cut)?;
        let (columns_bytes, _) = rest.split_first_chunk().ok_or_else(cut)?;
        let end = |start: usize, bytes: &[u8; 8]| {
            let end = start.checked_add(usize::try_from(u64::from_le_bytes(*bytes)).ok()?)?;
            (end <= range.end).then_some(end)
        };
        let rows_end = end(at + HEADER_BYTES, rows_bytes).ok_or_else(cut)?;
        let columns_end = end(rows_end, columns_bytes).ok_or_else(cut)?;
        let columns = decode(
            slice.slice_with_length(rows_end, columns_end - rows_end),
            &schema,
        )
        .ok_or(corrupt("the nested columns of a frame cannot be read"))?;
        frames.push(Frame {
            rows: at + HEADER_BYTES..rows_end,
            beside: Beside {
                columns,
                range: rows_end..columns_end,
            },
        });
        at = columns_end;
    }
    Ok(frames)
}

fn has_dense_union(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(_, UnionMode::Dense) => true,
        DataType::Union(fields, UnionMode::Sparse) => fields
            .iter()
            .any(|(_, field)| has_dense_union(field.data_type())),
        DataType::Dictionary(_, values) => has_dense_union(values),
        DataType::RunEndEncoded(_, values) => has_dense_union(values.data_type()),
        DataType::Struct(fields) => fields
            .iter()
            .any(|field| has_dense_union(field.data_type())),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => has_dense_union(item.data_type()),
        _ => false,
    }
}

/// Reads the one batch of a stream. Arrow's decoder panics on some malformed input; here that is an error, too.
///
/// Fields inside nested columns are named as the schema says. Files name the fields of maps and lists as they like. One
/// side of a shuffle may have got its schema through pyarrow, which does not keep all of these names.
fn decode(stream: Buffer, schema: &SchemaRef) -> Option<RecordBatch> {
    let mut stream = if schema
        .fields()
        .iter()
        .any(|field| has_dense_union(field.data_type()))
    {
        // For these types alone the decoder takes offsets where they lie; the copy begins where they are aligned.
        Buffer::from(stream.as_slice())
    } else {
        stream
    };
    let read = || StreamDecoder::new().decode(&mut stream).ok()?;
    let batch = catch_unwind(AssertUnwindSafe(read)).ok()??;
    if batch.num_columns() != schema.fields().len() {
        return None;
    }
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| {
        let is_same = column.data_type().equals_datatype(field.data_type());
        is_same.then(|| undo_wire(column, field.data_type()).ok())?
    });
    RecordBatch::try_new(Arc::clone(schema), columns.collect::<Option<_>>()?).ok()
}
