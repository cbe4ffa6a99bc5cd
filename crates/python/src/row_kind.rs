//! The differences of a sorter between tables, fixed-length records and rows in random order.

use std::collections::BinaryHeap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use exoshuffle_kernels::records::{self, RecordShape};
use exoshuffle_kernels::{
    choose_boundaries, has_declared_bytes, joined_samples, sample, sample_rows, Assignment,
    GatheredRows, KernelError, Permutation, Planner, Position, RowLayout, Scatter,
};
use pyo3::prelude::*;

use crate::errors::{
    arrow_error, check_error, kernel_error, options_error, record_error, RowError,
};
use crate::row_source::{gathered, recount, reported, RowSource};
use crate::scattered::{record_batch, record_bytes, record_chunks, Planned};
use crate::sections::TaggedSections;

/// Rows of a kind, with the layout or shape that is needed to compare them.
pub enum RowKind {
    /// Rows of a table.
    Table(RowLayout),
    /// Fixed-length records.
    Records(RecordShape),
    /// Rows of a table in random order.
    Permutation(Permutation),
}

/// Says which row of the input a row is.
#[derive(Clone, Copy)]
pub struct Origin {
    /// Number of the file, or of the other source of the rows.
    pub source: u64,
    /// Number of the row in that source.
    pub row: u64,
}

/// Some rows, and the origin of the first of them.
pub type Placed = (Origin, RecordBatch);

/// Gives batches map number `map_index` as their only origin.
pub fn placed(
    batches: impl Iterator<Item = PyResult<RecordBatch>>,
    map_index: u32,
) -> impl Iterator<Item = PyResult<Placed>> {
    let source = u64::from(map_index);
    follow(batches, Origin { source, row: 0 })
}

/// Gives batches their origins: the first row has this one, and the others follow.
pub fn follow(
    batches: impl Iterator<Item = PyResult<RecordBatch>>,
    first: Origin,
) -> impl Iterator<Item = PyResult<Placed>> {
    let mut next = first;
    batches.map(move |batch| {
        let (batch, origin) = (batch?, next);
        next.row += batch.num_rows() as u64;
        Ok((origin, batch))
    })
}

/// Returns the position of the first row of a map.
fn first_of(map_index: u32) -> Position {
    Position {
        split: map_index,
        row: 0,
    }
}

impl RowKind {
    /// Returns the layout of table rows; other kinds can only be sorted.
    pub fn table(&self) -> PyResult<&RowLayout> {
        match self {
            Self::Table(layout) => Ok(layout),
            Self::Records(_) | Self::Permutation(_) => Err(options_error(
                "a sorter of records and one of random order can only sort; make one with Sorter.table"
                    .to_owned(),
            )),
        }
    }

    /// Returns whether the size of an Arrow stream with this schema follows from that of its rows.
    pub fn streams_in_place(&self, schema: &Schema) -> bool {
        match self {
            Self::Records(_) => false,
            Self::Table(layout) => has_declared_bytes(layout, schema),
            Self::Permutation(permutation) => has_declared_bytes(permutation.layout(), schema),
        }
    }

    /// Returns the columns that a sample needs, `None` for all.
    pub fn key_columns(&self) -> Option<&[usize]> {
        match self {
            Self::Table(layout) => Some(layout.key_columns()),
            Self::Records(_) => None,
            // The boundaries of random numbers need no sample.
            Self::Permutation(_) => Some(&[]),
        }
    }

    /// Returns the batches with the key columns alone.
    pub fn project(&self, batches: &[RecordBatch]) -> PyResult<Vec<RecordBatch>> {
        let project = |batch: &RecordBatch| match self.key_columns() {
            Some(columns) => batch.project(columns).map_err(arrow_error),
            None => Ok(batch.clone()),
        };
        batches.iter().map(project).collect()
    }

    /// Returns the bytes that a batch takes in a block.
    pub fn row_bytes(&self, batch: &RecordBatch) -> PyResult<u64> {
        match self {
            Self::Records(shape) => Ok((batch.num_rows() * shape.record_bytes()) as u64),
            Self::Table(layout) => block_bytes(layout, std::slice::from_ref(batch)),
            Self::Permutation(permutation) => {
                let numbered = permutation.number(batch, 0, 0).map_err(kernel_error)?;
                block_bytes(permutation.layout(), &[numbered])
            }
        }
    }

    /// Returns the most bytes that a row takes in a block. The heaviest of all ranges of rows is halved again and again: of
    /// 80,000 rows with a few large ones, a few hundred ranges are measured.
    pub fn largest_row_bytes(&self, batch: &RecordBatch) -> PyResult<u64> {
        let weighed = |first: usize, count: usize| -> PyResult<_> {
            Ok((self.row_bytes(&batch.slice(first, count))?, first, count))
        };
        let mut heaviest_first = BinaryHeap::new();
        if batch.num_rows() > 0 {
            heaviest_first.push(weighed(0, batch.num_rows())?);
        }
        while let Some((bytes, first, count)) = heaviest_first.pop() {
            if count == 1 {
                return Ok(bytes);
            }
            let half = count / 2;
            heaviest_first.push(weighed(first, half)?);
            heaviest_first.push(weighed(first + half, count - half)?);
        }
        Ok(0)
    }

    /// Returns the keys of sampled rows, serialised; `rows` are their numbers in split `split`.
    pub fn sample(&self, batch: &RecordBatch, rows: &[u64], split: u32) -> PyResult<Vec<u8>> {
        let positions = rows.iter().map(|&row| Position { split, row });
        match self {
            Self::Table(layout) => {
                let positions: Vec<Position> = positions.collect();
                sample(&layout.key_layout(), batch, &positions).map_err(kernel_error)
            }
            Self::Records(shape) => {
                let records = record_bytes(*shape, batch)?.chunks_exact(shape.record_bytes());
                let samples = records
                    .zip(positions)
                    .map(|(record, position)| records::sample(*shape, record, position, &[0]));
                Ok(samples.flatten().collect())
            }
            Self::Permutation(_) => Ok(Vec::new()),
        }
    }

    /// Returns the keys of several samples of the split, serialised.
    pub fn sample_all(&self, samples: &[(RecordBatch, Vec<u64>)], split: u32) -> PyResult<Vec<u8>> {
        let samples = samples
            .iter()
            .map(|(batch, rows)| self.sample(batch, rows, split));
        let samples = samples.collect::<PyResult<Vec<_>>>()?;
        match self {
            Self::Table(layout) => {
                joined_samples(&layout.key_layout(), &samples).map_err(kernel_error)
            }
            Self::Records(_) | Self::Permutation(_) => Ok(samples.concat()),
        }
    }

    /// Returns the keys of some rows of sections, serialised; the sections take the place of split `split`.
    pub fn sample_sections(
        &self,
        side: &TaggedSections,
        split: u32,
        num_rows: usize,
        seed: u64,
    ) -> PyResult<Vec<u8>> {
        let mut batches = self.section_batches(side)?;
        let layout = match self {
            Self::Records(_) => None,
            Self::Table(layout) => Some(layout),
            Self::Permutation(permutation) => Some(permutation.layout()),
        };
        if let Some(layout) = layout {
            for batch in &mut batches {
                *batch = batch.project(layout.key_columns()).map_err(arrow_error)?;
            }
        }
        let Some(schema) = batches.first().map(RecordBatch::schema) else {
            return match layout {
                Some(layout) => {
                    let nothing = RecordBatch::new_empty(layout.key_layout().schema().clone());
                    sample(&layout.key_layout(), &nothing, &[]).map_err(kernel_error)
                }
                None => Ok(Vec::new()),
            };
        };
        let picked = sample_rows(&schema, &batches, num_rows, seed);
        let (batch, rows) = picked.map_err(kernel_error)?;
        match layout {
            None => self.sample(&batch, &rows, split),
            Some(layout) => {
                let positions: Vec<_> = rows.iter().map(|&row| Position { split, row }).collect();
                sample(&layout.key_layout(), &batch, &positions).map_err(kernel_error)
            }
        }
    }

    /// Finds where the rows of sections go; the sections take the place of split `split`.
    pub fn plan_sections(
        &self,
        side: &TaggedSections,
        split: u32,
        assignment: &[u8],
    ) -> PyResult<Planned> {
        let batches = self.section_batches(side)?.into_iter().map(Ok);
        match self {
            // The rows have their numbers already.
            Self::Permutation(permutation) => {
                plan_table(permutation.layout(), batches, split, assignment)
            }
            Self::Table(_) | Self::Records(_) => {
                self.plan(placed(batches, split), split, assignment)
            }
        }
    }

    /// Returns the rows of sections as they travel: with their random numbers, if they have any.
    fn section_batches(&self, side: &TaggedSections) -> PyResult<Vec<RecordBatch>> {
        match self {
            Self::Records(shape) => {
                let sections = &side.sections;
                let intact = sections.intact(side.tag, recount(*shape, side));
                intact.map_err(check_error)?;
                side.conserved();
                sections
                    .tagged(side.tag)
                    .map(|section| record_batch(*shape, sections.buffer(section)))
                    .collect()
            }
            Self::Table(layout) => gathered_batches(layout, side),
            Self::Permutation(permutation) => gathered_batches(permutation.layout(), side),
        }
    }

    /// Returns the assignment by boundaries out of samples, serialised.
    pub fn choose_boundaries(&self, samples: &[&[u8]], num_partitions: usize) -> PyResult<Vec<u8>> {
        match self {
            Self::Table(layout) => {
                let boundaries = choose_boundaries(&layout.key_layout(), samples, num_partitions);
                Ok(Assignment::Range(boundaries.map_err(kernel_error)?).to_bytes())
            }
            Self::Records(shape) => records::choose_boundaries(*shape, samples, num_partitions)
                .map(|boundaries| boundaries.to_bytes())
                .map_err(record_error),
            // The numbers of a part of the input need not be even.
            Self::Permutation(permutation) if samples.iter().any(|keys| !keys.is_empty()) => {
                let key_layout = permutation.layout().key_layout();
                let boundaries = choose_boundaries(&key_layout, samples, num_partitions);
                Ok(Assignment::Range(boundaries.map_err(kernel_error)?).to_bytes())
            }
            Self::Permutation(_) => self.even_assignment(num_partitions),
        }
    }

    /// Returns the assignment by equal ranges of the key, a number, serialised.
    pub fn even_assignment(&self, num_partitions: usize) -> PyResult<Vec<u8>> {
        let layout = match self {
            Self::Permutation(permutation) => permutation.layout(),
            Self::Table(_) | Self::Records(_) => self.table()?,
        };
        let assignment = Assignment::even(layout, num_partitions).map_err(kernel_error)?;
        Ok(assignment.to_bytes())
    }

    /// Finds where the rows of map number `map_index` go; the rows come batch after batch.
    pub fn plan(
        &self,
        batches: impl Iterator<Item = PyResult<Placed>>,
        map_index: u32,
        assignment: &[u8],
    ) -> PyResult<Planned> {
        let rows = |batch: PyResult<Placed>| batch.map(|(_, rows)| rows);
        match self {
            Self::Table(layout) => plan_table(layout, batches.map(rows), map_index, assignment),
            Self::Permutation(permutation) => {
                let numbered = batches.map(|batch| {
                    let (origin, batch) = batch?;
                    let numbered = permutation.number(&batch, origin.source, origin.row);
                    numbered.map_err(kernel_error)
                });
                plan_table(permutation.layout(), numbered, map_index, assignment)
            }
            Self::Records(shape) => {
                let batches = batches.map(rows).collect::<PyResult<Vec<_>>>()?;
                let boundaries =
                    records::Boundaries::from_bytes(*shape, assignment).map_err(record_error)?;
                let chunks = record_chunks(*shape, &batches)?;
                let scatter = records::Scatter::plan(&chunks, &boundaries, first_of(map_index))
                    .map_err(record_error)?;
                Ok(Planned::Records(*shape, scatter, batches))
            }
        }
    }

    /// Returns the rows of sections by key, equal keys in the order of the sections.
    pub fn sorted(&self, side: TaggedSections, schema: &SchemaRef) -> PyResult<RowSource> {
        match self {
            Self::Table(layout) => {
                let rows = GatheredRows::sorted(layout, Arc::clone(&side.sections), side.tag);
                Ok(RowSource::Table(found(rows, &side)?, side))
            }
            Self::Records(shape) => Ok(RowSource::Records {
                shape: *shape,
                schema: SchemaRef::clone(schema),
                side,
            }),
            Self::Permutation(permutation) => {
                let sections = Arc::clone(&side.sections);
                let rows = GatheredRows::sorted(permutation.layout(), sections, side.tag);
                Ok(RowSource::Permuted(found(rows, &side)?, side))
            }
        }
    }

    /// Returns the rows of sections in the order of the sections.
    pub fn gathered(&self, side: TaggedSections) -> PyResult<RowSource> {
        let rows = GatheredRows::in_order(self.table()?, Arc::clone(&side.sections), side.tag);
        Ok(RowSource::Table(found(rows, &side)?, side))
    }
}

/// Returns the rows of sections, or the error; tells the sections if they are damaged.
fn found(
    rows: Result<GatheredRows, KernelError>,
    side: &TaggedSections,
) -> PyResult<Arc<GatheredRows>> {
    let rows = rows.map_err(RowError::Kernel);
    Ok(Arc::new(rows.inspect_err(|error| side.failed(error))?))
}

/// Returns all rows of sections in their order, and tells the sections whether they were conserved.
fn gathered_batches(layout: &RowLayout, side: &TaggedSections) -> PyResult<Vec<RecordBatch>> {
    let rows = GatheredRows::in_order(layout, Arc::clone(&side.sections), side.tag);
    let batches = reported(gathered(&found(rows, side)?), side).collect::<Result<_, _>>();
    Ok(batches?)
}

fn plan_table(
    layout: &RowLayout,
    mut batches: impl Iterator<Item = PyResult<RecordBatch>>,
    map_index: u32,
    assignment: &[u8],
) -> PyResult<Planned> {
    let assignment = Assignment::from_bytes(layout, assignment).map_err(kernel_error)?;
    let mut planner = Planner::new(layout, &assignment, first_of(map_index));
    batches.try_for_each(|batch| planner.add(&batch?).map_err(kernel_error))?;
    Ok(Planned::Table(planner.end().map_err(kernel_error)?))
}

/// Returns the bytes that batches take in a block.
fn block_bytes(layout: &RowLayout, batches: &[RecordBatch]) -> PyResult<u64> {
    let all = Assignment::round_robin(1).map_err(kernel_error)?;
    let scatter = Scatter::plan(layout, batches, &all, first_of(0)).map_err(kernel_error)?;
    Ok(scatter.row_bytes())
}
