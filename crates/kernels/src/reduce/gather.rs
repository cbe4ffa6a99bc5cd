//! Gather: the slices of a reduce become batches, sorted or in the order of the slices.
//!
//! Rows stay where they are. One pass walks them, checks every length and makes an entry of each row. The entries are
//! sorted, unless the order is to stay. `batch` then collects the fields of a range of rows in order, and hashes the
//! rows while they are in the cache. Strings are only pointed at, unless they are wanted as declared.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{new_empty_array, RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Schema, SchemaRef};

use crate::checks::check::CheckError;
use crate::checks::tally::Tally;
use crate::columns::decode::{Chunk, Decoder, Strings, ViewBuffers};
use crate::columns::output::{output_schema, plain_schema, undo_wire};
use crate::columns::own_views::{InlineBytes, MAX_VIEW_BUFFER_BYTES};
use crate::columns::quads::append_all;
use crate::error::{KernelError, Result};
use crate::layout::{RowLayout, CHUNK_ROWS};
use crate::order::{location, slice_and_offset, sort_entries, Entry, Prefix, Wide};
use crate::prefetch::read_ahead;
use crate::reduce::batches::Batches;
use crate::reduce::ties::TieBreaker;
use crate::slices::framed_rows::FramedRows;
use crate::slices::pieces::{pieces, recount, walk, Piece};
use crate::slices::sections::Sections;
use crate::slot::{item_width, Column, Slot};

/// The most slices of one reduce: a location has 16 bits for the slice.
const MAX_SLICES: usize = 1 << 16;
/// So many columns may each take memory for the variable bytes of all.
const ROOMY_COLUMNS: usize = 16;

/// The rows of one output partition, in order.
#[derive(Debug)]
pub struct GatheredRows {
    layout: RowLayout,
    sections: Arc<Sections>,
    tag: u8,
    /// Location of every row, in order.
    locs: Vec<u64>,
    views: ViewBuffers,
    framed: Option<FramedRows>,
    /// Slice and place of the encoded columns beside the rows.
    encoded: Vec<(usize, Range<usize>)>,
    schema: SchemaRef,
    num_bytes: usize,
    /// Bytes of values that are short enough to be held by their views, in columns that are declared as views.
    inline_bytes: usize,
    /// Mean bytes of a row; a row is not known to be as long as that before it is read.
    mean_bytes: usize,
}

impl GatheredRows {
    /// Finds and sorts the rows of the sections with this tag. Equal keys stay in the order of the slices and of rows
    /// within a slice.
    ///
    /// # Errors
    /// A section that does not hold whole rows of this layout, too many slices.
    ///
    /// # Cost
    /// `RowLayout::sort_bytes_per_row` for each row, beside the slices.
    pub fn sorted(layout: &RowLayout, sections: Arc<Sections>, tag: u8) -> Result<Self> {
        if layout.prefix().is_narrow() {
            Self::found(layout, sections, tag, sorted_locs::<u64>)
        } else {
            Self::found(layout, sections, tag, sorted_locs::<Wide>)
        }
    }

    /// Finds the rows of the sections with this tag and leaves them in the order of the slices, whatever their keys.
    ///
    /// # Errors
    /// As `sorted`.
    ///
    /// # Cost
    /// 8 bytes for each row, beside the slices.
    pub fn in_order(layout: &RowLayout, sections: Arc<Sections>, tag: u8) -> Result<Self> {
        Self::found(layout, sections, tag, locs_in_order)
    }

    /// Gathers rows whose locations `find` returns, together with the columns beside them.
    fn found(layout: &RowLayout, sections: Arc<Sections>, tag: u8, find: Find) -> Result<Self> {
        let slices = sections.slices();
        if slices.len() > MAX_SLICES {
            return Err(KernelError::TooManySlices {
                count: slices.len(),
                limit: MAX_SLICES,
            });
        }
        let bytes: Vec<&[u8]> = slices.iter().map(Buffer::as_slice).collect();
        let found = pieces(layout, &sections, tag).and_then(|pieces| {
            let rows = expected_rows(layout, sections.sent(tag), &pieces);
            let mut inline = InlineBytes::new(layout);
            let (locs, framed) = find(layout, &bytes, (&pieces, rows), &mut inline)?;
            Ok((pieces, locs, framed, inline.sum()))
        });
        let (pieces, locs, framed, inline_bytes) =
            found.map_err(|e| blame(layout, &sections, tag, e))?;
        let num_bytes = sections.tagged(tag).map(|s| s.range.len()).sum::<usize>();
        let encoded = |piece: &Piece| Some((piece.slice, piece.beside.as_ref()?.range.clone()));
        Ok(Self {
            layout: layout.clone(),
            views: ViewBuffers::new(slices),
            mean_bytes: num_bytes / locs.len().max(1),
            locs,
            framed,
            encoded: pieces.iter().filter_map(encoded).collect(),
            schema: output_schema(layout),
            num_bytes,
            inline_bytes,
            tag,
            sections,
        })
    }

    /// Hides the last column, which only their order needed.
    #[must_use]
    pub(crate) fn without_last_column(self) -> Self {
        let schema = leading(&self.schema, self.schema.fields().len().saturating_sub(1));
        Self { schema, ..self }
    }

    /// Returns the number of rows.
    pub fn num_rows(&self) -> usize {
        self.locs.len()
    }

    /// Returns the bytes of the rows.
    pub fn num_bytes(&self) -> usize {
        self.num_bytes
    }

    /// Returns all rows in order, `step` of them per batch. If these were not the rows that the maps sent, an error
    /// follows the last batch.
    pub fn batches(self: Arc<Self>, step: usize) -> Batches {
        let schema = Arc::clone(&self.schema);
        Batches::new(self, schema, Strings::Pointed, step)
    }

    /// Like `batches`, with strings and binary as declared, in buffers of their own; dictionaries are plain values here,
    /// too.
    pub fn plain_batches(self: Arc<Self>, step: usize) -> Batches {
        let schema = leading(&plain_schema(&self.layout), self.schema.fields().len());
        Batches::new(self, schema, Strings::Copied, step)
    }

    /// Returns the most that the buffers of `batches` of `step` rows take with the declared types of the first columns.
    /// Each buffer is padded to a multiple of `alignment`. `None` where it depends on the values: dictionaries, nested
    /// columns.
    pub fn declared_bytes(
        &self,
        declared: &Schema,
        step: usize,
        alignment: usize,
    ) -> Option<usize> {
        let layout = &self.layout;
        let num_batches = self.num_rows().div_ceil(step.max(1));
        let text_bytes = self.num_bytes - self.num_rows() * layout.fixed_bytes();
        // Views that own their bytes begin another buffer where two values would not fit into one.
        let further_buffers = text_bytes / (MAX_VIEW_BUFFER_BYTES / 2);
        let mut bytes = text_bytes - self.inline_bytes + further_buffers * alignment;
        for (column, field) in layout.columns().iter().zip(declared.fields()) {
            let (bits, buffers) = declared_width(column, field.data_type())?;
            bytes += (self.num_rows() * bits).div_ceil(8) + num_batches * buffers * alignment;
            // A bit for each item.
            let items = item_width(&column.value_type).map_or(0, |width| text_bytes / width);
            bytes += items / 8 + num_batches;
        }
        // The rows of a batch end within a byte, and there is one more offset than rows.
        Some(bytes + num_batches * layout.columns().len() * size_of::<u64>())
    }

    /// Checks that the rows that were handed on are those that the maps sent.
    pub(crate) fn check(&self, mut handed_on: Tally) -> Result<(), CheckError> {
        for (slice, range) in &self.encoded {
            handed_on.add_beside(&self.sections.slices()[*slice][range.clone()]);
        }
        self.sections.compare(self.tag, handed_on, |section| {
            recount(&self.layout, &self.sections, section).ok()
        })
    }

    /// Returns the schema of batches: strings and binary as views, dictionaries as plain values, all other types as
    /// declared.
    pub fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Returns these rows in order, or as many as there are, and adds them to `handed_on`. The schema is
    /// `output_schema`, whose views point into the slices, or that with strings as declared, which own their bytes.
    ///
    /// # Errors
    /// Nested columns that Arrow cannot put together again.
    ///
    /// # Cost
    /// Rows are fetched from memory once, together. A reader that takes the strings of a batch of up to about 8192 rows
    /// next finds them in the cache.
    pub(crate) fn batch(
        &self,
        (schema, strings): (&SchemaRef, Strings),
        rows: Range<usize>,
        handed_on: &mut Tally,
    ) -> Result<RecordBatch> {
        let end = rows.end.min(self.locs.len());
        let locs = &self.locs[rows.start.min(end)..end];
        let columns = self.layout.columns();
        let capacity = (locs.len(), self.string_bytes(locs.len()));
        let mut decoders: Vec<Decoder<'_>> = columns
            .iter()
            .zip(schema.fields())
            .map(|(c, field)| Decoder::new(c, field.data_type(), strings, capacity))
            .collect();
        let mut rows = Vec::with_capacity(CHUNK_ROWS.min(locs.len()));
        let mut tails = Vec::with_capacity(rows.capacity());
        let mut null_bits = vec![0; self.layout.null_bytes()];
        for locs in locs.chunks(CHUNK_ROWS) {
            rows.clear();
            rows.extend(locs.iter().map(|&loc| self.row_on(loc)));
            read_ahead(
                rows.iter()
                    .map(|row| &row[..row.len().min(self.mean_bytes)]),
            );
            tails.clear();
            tails.resize(rows.len(), self.layout.fixed_bytes());
            merge_null_bits(&rows, &mut null_bits);
            let chunk = Chunk {
                rows: &rows,
                locs,
                null_bits: &null_bits,
                views: &self.views,
            };
            append_all(&mut decoders, &self.layout, &chunk, &mut tails)
                .map_err(|e| blame(&self.layout, &self.sections, self.tag, e))?;
            // The end of the last string is the end of the row.
            handed_on.add_rows(rows.iter().zip(&tails).map(|(row, &end)| &row[..end]));
        }
        let places = self.framed.as_ref().map(|framed| framed.places(locs));
        let mut arrays = Vec::with_capacity(columns.len());
        for (decoder, column) in decoders.into_iter().zip(columns) {
            arrays.push(match (column.slot, &self.framed, &places) {
                (Slot::Framed { index }, Some(framed), Some(places)) => {
                    let array = framed.take(index, places);
                    array
                        .and_then(|a| undo_wire(&a, schema.field(arrays.len()).data_type()))
                        .map_err(|e| {
                            let action = format!("decoding column '{}'", column.name);
                            let error = KernelError::arrow(action, e);
                            blame(&self.layout, &self.sections, self.tag, error)
                        })?
                }
                // Without any frame there are no rows.
                (Slot::Framed { .. }, ..) => {
                    new_empty_array(schema.field(arrays.len()).data_type())
                }
                _ => decoder.finish(&self.views)?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(locs.len()));
        RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)
            .map_err(|e| KernelError::arrow("putting an output batch together", e))
    }

    /// Returns the memory to take for the variable bytes of a column in so many rows.
    ///
    /// Where few columns have such bytes it is enough for all of them: memory that is not touched costs nothing. Of
    /// many, each gets a share: 2,500 columns of 2 kB took 33 GB of addresses for each batch.
    fn string_bytes(&self, num_rows: usize) -> usize {
        let variable = |c: &&Column| matches!(c.slot, Slot::Variable { .. });
        let num_columns = self.layout.columns().iter().filter(variable).count();
        // An eighth more, as batches differ.
        let of_all = self.mean_bytes.saturating_sub(self.layout.fixed_bytes()) * num_rows / 8 * 9;
        of_all / num_columns.div_ceil(ROOMY_COLUMNS).max(1)
    }

    /// Returns a row and the bytes behind it in its slice.
    #[inline]
    fn row_on(&self, loc: u64) -> &[u8] {
        let (slice, offset) = slice_and_offset(loc);
        &self.sections.slices()[slice][offset..]
    }
}

/// Replaces `null_bits` by the bits that are set in any of the rows.
fn merge_null_bits(rows: &[&[u8]], null_bits: &mut [u8]) {
    null_bits.fill(0);
    for row in rows {
        for (all, bits) in null_bits.iter_mut().zip(*row) {
            *all |= bits;
        }
    }
}

/// Returns the schema with only its first columns.
fn leading(schema: &SchemaRef, num_columns: usize) -> SchemaRef {
    let fields = schema.fields()[..num_columns].to_vec();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Returns whether rows with this layout have known `GatheredRows::declared_bytes`.
pub fn has_declared_bytes(layout: &RowLayout, declared: &Schema) -> bool {
    let mut columns = layout.columns().iter().zip(declared.fields());
    columns.all(|(column, field)| declared_width(column, field.data_type()).is_some())
}

/// Returns the bits for each row of a column beside the values of variable length, null bits included, and the number
/// of its buffers.
fn declared_width(column: &Column, declared: &DataType) -> Option<(usize, usize)> {
    match (column.slot, declared) {
        _ if declared != &column.value_type => None,
        (Slot::Nothing, _) => Some((0, 0)),
        (Slot::Bool { .. }, _) => Some((1 + 1, 2)),
        (Slot::Fixed { width, .. }, _) => Some((1 + 8 * width, 2)),
        (Slot::Variable { .. }, DataType::Utf8 | DataType::Binary) => Some((1 + 32, 3)),
        (Slot::Variable { .. }, DataType::LargeUtf8 | DataType::LargeBinary) => Some((1 + 64, 3)),
        (Slot::Variable { .. }, DataType::Utf8View | DataType::BinaryView) => Some((1 + 128, 3)),
        (Slot::Variable { .. }, DataType::List(_)) => Some((1 + 32, 4)),
        (Slot::Variable { .. }, DataType::LargeList(_)) => Some((1 + 64, 4)),
        (Slot::Variable { .. }, DataType::FixedSizeList(..)) => Some((1, 3)),
        (Slot::Variable { .. } | Slot::Framed { .. }, _) => None,
    }
}

/// Returns the error for rows that could not be read; it names the map whose rows were changed, if that is the cause.
fn blame(layout: &RowLayout, sections: &Sections, tag: u8, error: KernelError) -> KernelError {
    let intact = sections.intact(tag, |section| recount(layout, sections, section).ok());
    intact.err().map_or(error, KernelError::from)
}

/// Returns how many rows there are. The count that the maps sent holds unless a header is damaged. Then the bytes limit
/// it, since no row is shorter than its fixed part.
///
/// Vectors that grow by doubling end up to twice as large, and jemalloc returns an excess over 8 MB to the system at
/// once. Grouping 40 million rows then touched 500 MB of fresh memory more.
fn expected_rows(layout: &RowLayout, sent: Tally, pieces: &[Piece]) -> usize {
    let bytes: usize = pieces.iter().map(|piece| piece.rows.len()).sum();
    let most = bytes / layout.fixed_bytes().max(1);
    usize::try_from(sent.rows()).map_or(most, |rows| rows.min(most))
}

/// Finds the locations of so many rows in the order they are wanted, and the columns beside them if there are any. Counts
/// the bytes that views will hold.
type Find = fn(
    &RowLayout,
    &[&[u8]],
    (&[Piece], usize),
    &mut InlineBytes,
) -> Result<(Vec<u64>, Option<FramedRows>)>;

fn sorted_locs<P: Prefix>(
    layout: &RowLayout,
    slices: &[&[u8]],
    (pieces, rows): (&[Piece], usize),
    inline: &mut InlineBytes,
) -> Result<(Vec<u64>, Option<FramedRows>)> {
    let mut entries: Vec<Entry<P>> = Vec::with_capacity(rows);
    let mut prefixes = [P::default(); CHUNK_ROWS];
    for piece in pieces {
        let slice = slices[piece.slice];
        walk(layout, slice, piece, |starts, _| {
            inline.add(slice, starts);
            let prefixes = &mut prefixes[..starts.len()];
            layout.prefix().fill(|i| &slice[starts[i]..], prefixes);
            entries.extend(prefixes.iter().zip(starts).map(|(&prefix, &start)| Entry {
                prefix,
                loc: location(piece.slice, start),
            }));
        })?;
    }
    let framed = FramedRows::new(pieces, || entries.iter().map(|e| e.loc).collect());
    let ties = TieBreaker::new(layout, slices);
    sort_entries(&mut entries, |run| ties.resolve(run));
    // Collecting reuses the memory of the entries.
    Ok((entries.into_iter().map(|e| e.loc).collect(), framed))
}

fn locs_in_order(
    layout: &RowLayout,
    slices: &[&[u8]],
    (pieces, rows): (&[Piece], usize),
    inline: &mut InlineBytes,
) -> Result<(Vec<u64>, Option<FramedRows>)> {
    let mut locs = Vec::with_capacity(rows);
    for piece in pieces {
        let slice = slices[piece.slice];
        walk(layout, slice, piece, |starts, _| {
            inline.add(slice, starts);
            locs.extend(starts.iter().map(|&start| location(piece.slice, start)));
        })?;
    }
    let framed = FramedRows::new(pieces, || locs.clone());
    Ok((locs, framed))
}
