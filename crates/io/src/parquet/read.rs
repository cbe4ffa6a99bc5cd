//! Reads the row range of a split, or a sample of it.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use parquet::arrow::arrow_reader::{
    ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection, RowSelector,
};
use parquet::arrow::ProjectionMask;
use parquet::file::metadata::ParquetMetaData;

use super::footer;
use super::windows::{Access, Chunk, Windows};
use crate::error::{IoError, Result};
use crate::source::{conform, pick_rows, BatchStream, Pick, Request};
use crate::Format;

/// Windows for samples: pages between the stretches are skipped, so large reads would be wasted.
const SAMPLE_WINDOW: usize = 64 << 10;
const SAMPLE_REGIONS: u64 = 16;

pub(crate) fn open(request: &Request<'_>, batch_rows: usize) -> Result<BatchStream> {
    let metadata = footer::load(&request.file)?;
    let wanted = request.split.start..request.split.end;
    let limit = (wanted.end - wanted.start) as usize;
    let groups = RowGroups::overlapping(&metadata, wanted);
    let skip = groups.skip as usize;
    let batches = Batches::start(request, &metadata, groups, Access::Stream, |builder| {
        builder
            .with_batch_size(batch_rows)
            .with_offset(skip)
            .with_limit(limit)
    })?;
    Ok(Box::new(batches.expecting(limit)))
}

pub(crate) fn sample(request: &Request<'_>, pick: Pick) -> Result<(RecordBatch, Vec<u64>)> {
    let metadata = footer::load(&request.file)?;
    let wanted = request.split.start..request.split.end;
    let picked = pick_rows(wanted.end - wanted.start, pick, SAMPLE_REGIONS, 1);
    let groups = RowGroups::overlapping(&metadata, wanted);
    let selection = selection(&picked, groups.skip);
    let access = Access::Sparse(SAMPLE_WINDOW);
    let batches = Batches::start(request, &metadata, groups, access, |builder| {
        builder
            .with_batch_size(picked.len().max(1))
            .with_row_selection(selection)
    })?;
    let batches: Vec<RecordBatch> = batches.expecting(picked.len()).collect::<Result<_>>()?;
    let Some(first) = batches.first() else {
        return Ok((RecordBatch::new_empty(request.wanted.clone()), picked));
    };
    let sample = arrow_select::concat::concat_batches(&first.schema(), &batches);
    Ok((sample.map_err(|e| request.corrupt(e))?, picked))
}

type Builder = ParquetRecordBatchReaderBuilder<Windows>;

/// Decoded batches with the columns in the order they were asked for.
struct Batches {
    reader: ParquetRecordBatchReader,
    windows: Windows,
    order: Option<Vec<usize>>,
    wanted: SchemaRef,
    path: PathBuf,
    /// Rows that are still to come.
    missing: usize,
}

impl Batches {
    fn start(
        request: &Request<'_>,
        metadata: &Arc<ParquetMetaData>,
        groups: RowGroups,
        access: Access,
        configure: impl FnOnce(Builder) -> Builder,
    ) -> Result<Self> {
        let (windows, builder, order) = builder(request, metadata, groups.indices, access)?;
        let reader = configure(builder).build();
        let reader = reader.map_err(|e| windows.failure().unwrap_or_else(|| request.corrupt(e)))?;
        let (path, wanted) = (request.split.path.clone(), request.wanted.clone());
        Ok(Self {
            reader,
            windows,
            order,
            wanted,
            path,
            missing: 0,
        })
    }

    fn expecting(self, rows: usize) -> Self {
        Self {
            missing: rows,
            ..self
        }
    }

    fn arrange(&self, batch: RecordBatch) -> std::result::Result<RecordBatch, ArrowError> {
        match &self.order {
            Some(order) => conform(batch.project(order)?, &self.wanted),
            None => conform(batch, &self.wanted),
        }
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        match self
            .reader
            .next()
            .map(|batch| batch.and_then(|batch| self.arrange(batch)))
        {
            Some(Ok(batch)) => {
                self.missing = self.missing.saturating_sub(batch.num_rows());
                Some(Ok(batch))
            }
            // The decoder passes on what happened to the file as text only.
            Some(Err(e)) => {
                let corrupt = || IoError::corrupt(&self.path, Format::Parquet, e);
                Some(Err(self.windows.failure().unwrap_or_else(corrupt)))
            }
            // It takes a column that is too short for the end of the data.
            None if self.missing > 0 => {
                let reason = format!("{} rows are missing from a row group", self.missing);
                self.missing = 0;
                Some(Err(IoError::corrupt(&self.path, Format::Parquet, reason)))
            }
            None => None,
        }
    }
}

/// The row groups that hold a range of rows.
struct RowGroups {
    indices: Vec<usize>,
    /// Rows before the range in the first group.
    skip: u64,
}

impl RowGroups {
    fn overlapping(metadata: &ParquetMetaData, rows: Range<u64>) -> Self {
        let (mut indices, mut skip, mut first) = (Vec::new(), 0, 0);
        for (index, group) in metadata.row_groups().iter().enumerate() {
            let end = first + group.num_rows() as u64;
            if first < rows.end && end > rows.start {
                if indices.is_empty() {
                    skip = rows.start - first;
                }
                indices.push(index);
            }
            first = end;
        }
        Self { indices, skip }
    }
}

fn selection(picked: &[u64], skip: u64) -> RowSelection {
    let mut selectors = Vec::with_capacity(2 * picked.len());
    let mut at = 0;
    for row in picked.iter().map(|row| row + skip) {
        if row > at {
            selectors.push(RowSelector::skip((row - at) as usize));
        }
        selectors.push(RowSelector::select(1));
        at = row + 1;
    }
    selectors.into()
}

/// A reader of the projected columns, and where each requested column is among those it delivers in file order.
fn builder(
    request: &Request<'_>,
    metadata: &Arc<ParquetMetaData>,
    groups: Vec<usize>,
    access: Access,
) -> Result<(Windows, Builder, Option<Vec<usize>>)> {
    let declared = footer::declared(&request.file, metadata)?;
    let places = request.places_in(declared.schema())?;
    let arrow = footer::cheapest(metadata, declared);
    let schema = arrow.parquet_schema();
    let (mask, order) = match places {
        None => (ProjectionMask::all(), None),
        Some(columns) => {
            let mut delivered = columns.clone();
            delivered.sort_unstable();
            delivered.dedup();
            let order = columns
                .iter()
                .map(|column| delivered.partition_point(|d| d < column))
                .collect();
            (ProjectionMask::roots(schema, delivered), Some(order))
        }
    };
    let leaves: Vec<usize> = (0..schema.num_columns())
        .filter(|&leaf| mask.leaf_included(leaf))
        .collect();
    let mut chunks = Vec::with_capacity(groups.len() * leaves.len());
    for &group in &groups {
        for (lane, &leaf) in leaves.iter().enumerate() {
            let (start, bytes) = metadata.row_group(group).column(leaf).byte_range();
            chunks.push(Chunk {
                start,
                end: start + bytes,
                lane,
            });
        }
    }
    let windows = Windows::new(request.file.clone(), chunks, leaves.len(), access);
    let builder = Builder::new_with_metadata(windows.clone(), arrow);
    Ok((
        windows,
        builder.with_row_groups(groups).with_projection(mask),
        order,
    ))
}
