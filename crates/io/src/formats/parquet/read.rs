//! Reads the row range of a split, or a sample of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow_schema::Schema;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use parquet::arrow::ProjectionMask;
use parquet::basic::{ConvertedType, Encoding, Type};
use parquet::file::metadata::ParquetMetaData;

use super::batches::{Arrangement, Batches, Cut};
use super::located::Located;
use super::page_limits::PageLimits;
use super::pages::shares;
use super::regions::regions;
use super::row_groups::RowGroups;
use super::shared_prefixes::{decoded, Scope};
use super::windows::{Access, Windows};
use super::{columns, footer, types, HELD_COPIES};
use crate::error::{IoError, Result};
use crate::long_rows::LongRows;
use crate::source::{pick_rows, BatchStream, Pick, Request};
use crate::turns::Turn;
use crate::views::compact;

/// Size of windows for samples: pages between the stretches are skipped, so large reads would be wasted.
const SAMPLE_WINDOW: usize = 64 << 10;
const SAMPLE_REGIONS: u64 = 16;
/// Most bytes of a sample; with more, it gets fewer rows. Footers do not always tell that rows are large: a sample of 256
/// rows took 330 MB.
const SAMPLE_BYTES: usize = 16 << 20;
/// Rows of a sample that are decoded at once.
const SAMPLE_ROWS: usize = 8;

/// Most rows that are decoded at once where columns are decoded in turn: the footer is not trusted for more.
const MAX_ROWS: usize = 1 << 16;
/// Planned bytes of a batch.
const PLANNED_BYTES: u64 = 4 << 20;

pub(super) fn open(request: &Request<'_>, batch_rows: usize) -> Result<BatchStream> {
    let reading = Reading::new(request)?;
    let groups = &reading.groups;
    let batch_rows = reading.rows_within(batch_rows)?;
    let arrange = reading.arrangement();
    if let [columns] = &reading.together()[..] {
        let how = How {
            access: groups.access(),
            batch_rows,
        };
        let parts = reading.parts(groups, columns, how)?.into_iter();
        let parts: Vec<_> = parts.map(|part| part.with_turns(request.options)).collect();
        let batches = parts.into_iter().flatten();
        let batches = batches.map(move |batch| arrange.apply(batch?));
        return Ok(Box::new(Cut::new(batches, batch_rows)));
    }
    let how = How {
        access: groups.access(),
        batch_rows: groups.num_rows().clamp(1, MAX_ROWS),
    };
    let whole = reading.columns_in_turn(groups, how, usize::MAX)?;
    let turn = whole
        .as_ref()
        .map(|rows| reading.turn_for(rows))
        .transpose()?;
    let whole = whole.into_iter().map(move |rows| {
        let _held = &turn;
        arrange.apply(rows)
    });
    Ok(Box::new(Cut::new(whole, batch_rows)))
}

pub(super) fn sample(request: &Request<'_>, pick: Pick) -> Result<(RecordBatch, Vec<u64>)> {
    let reading = Reading::new(request)?;
    let wanted = reading.groups.num_rows() as u64;
    let mut pick = pick;
    loop {
        let picked = pick_rows(wanted, pick, SAMPLE_REGIONS, 1);
        if picked.is_empty() {
            return Ok((RecordBatch::new_empty(request.wanted.clone()), picked));
        }
        // A single row is sampled however large it is.
        let most_bytes = if picked.len() > 1 {
            SAMPLE_BYTES
        } else {
            usize::MAX
        };
        if let Some(sample) = reading.rows(&picked, most_bytes)? {
            return Ok((reading.arrangement().apply(sample)?, picked));
        }
        pick.num_rows = picked.len() / 4;
    }
}

/// How columns are read.
#[derive(Clone, Copy)]
struct How {
    access: Access,
    /// Rows that are decoded at once.
    batch_rows: usize,
}

/// A range of rows of a file, and columns of it.
struct Reading<'a> {
    request: &'a Request<'a>,
    metadata: Arc<ParquetMetaData>,
    arrow: ArrowReaderMetadata,
    groups: RowGroups,
    located: Located,
    /// The top-level columns that are read, in the order of the file.
    roots: Vec<usize>,
    /// The place of each requested column among those.
    order: Option<Vec<usize>>,
}

impl<'a> Reading<'a> {
    fn new(request: &'a Request<'a>) -> Result<Self> {
        let metadata = footer::load(&request.file)?;
        let declared = types::declared(&request.file, &metadata)?;
        let (roots, order) = match request.places_in(declared.schema())? {
            None => ((0..declared.schema().fields().len()).collect(), None),
            Some(places) => {
                let mut roots = places.clone();
                roots.sort_unstable();
                roots.dedup();
                let among = |place: &usize| roots.partition_point(|root| root < place);
                let order = places.iter().map(among).collect();
                (roots, Some(order))
            }
        };
        let groups = RowGroups::holding(&metadata, &request.split.ranges());
        let schema = metadata.file_metadata().schema_descr_ptr();
        let leaves = (0..schema.num_columns()).filter(|&leaf| {
            let root = schema.get_column_root_idx(leaf);
            roots.binary_search(&root).is_ok()
        });
        let limits = PageLimits::of(request.options);
        let located = Located::find(&request.file, &metadata, groups.parts(), leaves, limits);
        let metadata = located.with_index(metadata);
        Ok(Self {
            groups,
            located,
            arrow: types::cheapest(&metadata, declared),
            request,
            metadata,
            roots,
            order,
        })
    }

    /// Returns `batch_rows`, or fewer rows where the read columns have large rows.
    fn rows_within(&self, batch_rows: usize) -> Result<usize> {
        let split = self.request.split;
        let of_all = split.bytes / split.rows.unwrap_or(1).max(1);
        let row_bytes = match self.order {
            None => of_all,
            // The mean of the row groups tells little about these rows where some are far larger than others.
            Some(_) if self.may_be_uneven() || !self.sharing().is_empty() => {
                of_all.max(self.mean_row_bytes())
            }
            Some(_) => self.mean_row_bytes(),
        };
        let largest = if split.hides_sizes {
            self.largest_shared()?
        } else {
            0
        };
        let fitting = PLANNED_BYTES / row_bytes.max(largest).max(1);
        Ok(batch_rows.min(fitting.max(1) as usize))
    }

    /// The column chunks that are read and whose values have sizes that no footer tells: leaves, and places of groups.
    fn sharing(&self) -> Vec<(usize, usize)> {
        let schema = self.metadata.file_metadata().schema_descr();
        let is_read = |leaf: usize| {
            let root = schema.get_column_root_idx(leaf);
            self.roots.binary_search(&root).is_ok()
        };
        let mut sharing = Vec::new();
        for (place, &group) in self.groups.indices.iter().enumerate() {
            let columns = self.metadata.row_group(group).columns().iter().enumerate();
            let chunks = columns.filter(|(leaf, column)| shares(column) && is_read(*leaf));
            sharing.extend(chunks.map(|(leaf, _)| (leaf, place)));
        }
        sharing
    }

    /// The most bytes of a row in all these columns.
    ///
    /// # Errors
    /// All rows together have far more bytes than were planned for.
    fn largest_shared(&self) -> Result<u64> {
        let (split, options) = (self.request.split, self.request.options);
        let (mut largest, mut bytes) = (BTreeMap::new(), 0_u64);
        for (leaf, place) in self.sharing() {
            let scope = Scope {
                one_of: 1,
                max_page_bytes: options.page_limit(),
                rows: self.groups.rows[place].clone(),
            };
            let chunk = (self.groups.indices[place], leaf);
            let found = decoded(&self.request.file, &self.metadata, chunk, scope)?;
            let of_leaf: &mut u64 = largest.entry(leaf).or_default();
            *of_leaf = found.largest.max(*of_leaf);
            bytes = bytes.saturating_add(found.bytes);
        }
        // Twice the mean is not unusual, and memory has room for one more page.
        let most = split.bytes.saturating_mul(2);
        if bytes > most.saturating_add(options.page_limit()) {
            return Err(IoError::LargeRows {
                path: split.path.clone(),
                start: split.start,
                end: split.end,
                bytes,
                planned_bytes: split.bytes,
                enough_bytes: PageLimits::of(options).enough_bytes(bytes),
            });
        }
        Ok(largest.values().copied().fold(0, u64::saturating_add))
    }

    /// The first of these leaves that has steps between numbers of 32 bits without a sign.
    fn with_packed_steps(&self, leaves: &[usize]) -> Option<String> {
        let groups = self.groups.indices.iter();
        let chunks = groups.flat_map(|&group| {
            let columns = self.metadata.row_group(group).columns();
            leaves.iter().filter_map(|&leaf| columns.get(leaf))
        });
        let mut packed = chunks.filter(|chunk| {
            let column = chunk.column_descr();
            column.converted_type() == ConvertedType::UINT_32
                && chunk
                    .encodings()
                    .any(|one| one == Encoding::DELTA_BINARY_PACKED)
        });
        packed.next().map(|chunk| chunk.column_path().string())
    }

    /// Whether a column is read whose values differ in size, and which is so large that its pages were inspected.
    fn may_be_uneven(&self) -> bool {
        let schema = self.metadata.file_metadata().schema_descr();
        let known = self.request.split.pages.iter();
        known.map(|pages| pages.leaf as usize).any(|leaf| {
            let column = schema.column(leaf);
            let differ = column.physical_type() == Type::BYTE_ARRAY || column.max_rep_level() > 0;
            let root = schema.get_column_root_idx(leaf);
            differ && self.roots.binary_search(&root).is_ok()
        })
    }

    /// Mean decoded bytes of a row of the row groups, in the columns that are read.
    fn mean_row_bytes(&self) -> u64 {
        let (mut rows, mut bytes) = (0_u64, 0_u64);
        let schema = self.metadata.file_metadata().schema_descr();
        for &group in &self.groups.indices {
            rows = rows.saturating_add(self.metadata.row_group(group).num_rows() as u64);
            for leaf in 0..schema.num_columns() {
                let root = schema.get_column_root_idx(leaf);
                if self.roots.binary_search(&root).is_ok() {
                    let column = self.metadata.row_group(group).column(leaf);
                    let told = footer::told_bytes(&self.request.file, column);
                    bytes = bytes.saturating_add(told);
                }
            }
        }
        bytes / rows.max(1)
    }

    fn arrangement(&self) -> Arrangement {
        Arrangement {
            order: self.order.clone(),
            wanted: self.request.wanted.clone(),
            path: self.request.split.path.clone(),
        }
    }

    /// The columns, in groups that are decoded together; at least one group, which may be empty.
    fn together(&self) -> Vec<Vec<usize>> {
        let groups = &self.groups.indices;
        let known = &self.request.split.pages;
        let (file, metadata) = (&self.request.file, &self.metadata);
        let together = columns::together(file, metadata, groups, &self.roots, known);
        if together.is_empty() {
            return vec![Vec::new()];
        }
        together
    }

    /// Reads these rows of the split; returns `None` if they have more than `most_bytes`.
    fn rows(&self, picked: &[u64], most_bytes: usize) -> Result<Option<RecordBatch>> {
        // The size of a page does not bound the bytes of several values that share prefixes.
        let at_once = if self.sharing().is_empty() {
            SAMPLE_ROWS
        } else {
            1
        };
        let how = How {
            access: Access::Sparse(SAMPLE_WINDOW),
            batch_rows: at_once,
        };
        self.columns_in_turn(&self.groups.holding_some(picked), how, most_bytes)
    }

    /// Waits for the turn if decoded rows are so long that one task at a time may have them. Their pages are gone.
    fn turn_for(&self, rows: &RecordBatch) -> Result<Option<Turn>> {
        let (bytes, path) = (
            columns::written_out_bytes(rows) as u64,
            &self.request.split.path,
        );
        let long_rows = LongRows::of(self.request.options).without(HELD_COPIES);
        let are_long = long_rows.found(rows, bytes, path, |_| "a row".to_owned())?;
        Ok(are_long.then(Turn::take))
    }

    /// Decodes the rows of some groups, a few columns at a time; `None` if they exceed `most_bytes`.
    fn columns_in_turn(
        &self,
        groups: &RowGroups,
        how: How,
        most_bytes: usize,
    ) -> Result<Option<RecordBatch>> {
        let num_rows = groups.num_rows();
        let (mut arrays, mut fields) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        for roots in self.together() {
            let parts = self.parts(groups, &roots, how)?;
            let Some(schema) = parts.first().map(|part| part.reader.schema()) else {
                continue;
            };
            let mut found = Vec::new();
            for batch in parts.into_iter().flatten() {
                let batch = batch?;
                bytes += columns::written_out_bytes(&batch);
                if bytes > most_bytes {
                    return Ok(None);
                }
                found.push(batch);
            }
            let batch = arrow_select::concat::concat_batches(&schema, &found);
            let batch = batch.map_err(|e| self.request.corrupt(e))?;
            drop(found);
            fields.extend(schema.fields().iter().cloned());
            arrays.extend({ batch.columns().iter() }.map(compact));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(num_rows));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
            .map(Some)
            .map_err(|e| self.request.corrupt(e))
    }

    /// The leaves of some top-level columns.
    fn leaves(&self, roots: &[usize]) -> Vec<usize> {
        let schema = self.arrow.parquet_schema();
        let mask = ProjectionMask::roots(schema, roots.iter().copied());
        { 0..schema.num_columns() }
            .filter(|&leaf| mask.leaf_included(leaf))
            .collect()
    }

    /// The batches of some top-level columns, in parts whose small chunks are read together.
    fn parts(&self, groups: &RowGroups, roots: &[usize], how: How) -> Result<Vec<Batches>> {
        let parts = groups.cut(&self.metadata, &self.leaves(roots));
        { parts.iter() }
            .map(|part| self.batches(part, roots, how))
            .collect()
    }

    /// The batches of some top-level columns of some groups.
    fn batches(&self, groups: &RowGroups, roots: &[usize], how: How) -> Result<Batches> {
        let request = self.request;
        let (missing, selection) = (groups.num_rows(), groups.selection());
        let groups = &groups.indices;
        let mask = ProjectionMask::roots(self.arrow.parquet_schema(), roots.iter().copied());
        let leaves = self.leaves(roots);
        let limits = PageLimits::of(request.options);
        let regions = regions(&self.metadata, groups, &leaves, &self.located, limits);
        let windows = Windows::over(request.file.clone(), regions, how.access);
        let arrow = self.arrow.clone();
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(windows.clone(), arrow)
            .with_row_groups(groups.clone())
            .with_projection(mask)
            .with_batch_size(how.batch_rows)
            .with_row_selection(selection)
            .build();
        let reader = reader.map_err(|e| windows.failure().unwrap_or_else(|| request.corrupt(e)))?;
        Ok(Batches {
            reader,
            windows,
            path: request.split.path.clone(),
            missing,
            may_have_wide_steps: self.with_packed_steps(&leaves),
            are_rows_alone: { groups.iter() }
                .all(|&group| self.metadata.row_group(group).num_rows() == 1),
        })
    }
}
