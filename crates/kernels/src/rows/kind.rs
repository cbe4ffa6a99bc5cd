//! The differences between rows of tables, fixed-length records and rows in random order.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};

use super::partition::{gathered, reported, Found, PartitionRows};
use super::placed::{placed, Placed};
use super::planned::Planned;
use super::records::{record_batch, record_bytes, record_chunks, recount};
use super::side::Side;
use crate::error::{KernelError, Result};
use crate::layout::RowLayout;
use crate::map::assignment::Assignment;
use crate::map::boundaries::choose_boundaries;
use crate::map::key_rows::Position;
use crate::map::sample::{joined_samples, sample, sample_rows};
use crate::map::scatter::Planner;
use crate::permutation::Permutation;
use crate::records::{self, RecordShape};
use crate::reduce::gather::{has_declared_bytes, GatheredRows};

/// Rows of a kind, with the layout or shape that is needed to compare them.
pub enum RowKind {
    /// Rows of a table.
    Table(RowLayout),
    /// Fixed-length records, and the schema of their one column.
    Records(RecordShape, SchemaRef),
    /// Rows of a table in random order.
    Permutation(Permutation),
}

/// Returns the position of the first row of a map.
pub(super) fn first_of(map_index: u32) -> Position {
    Position {
        split: map_index,
        row: 0,
    }
}

impl RowKind {
    /// Returns the layout of table rows; other kinds can only be sorted.
    pub fn table(&self) -> Result<&RowLayout> {
        match self {
            Self::Table(layout) => Ok(layout),
            Self::Records(..) | Self::Permutation(_) => Err(KernelError::OnlySorts),
        }
    }

    /// Returns whether the size of an Arrow stream with this schema follows from that of its rows.
    pub fn streams_in_place(&self, schema: &Schema) -> bool {
        match self {
            Self::Records(..) => false,
            Self::Table(layout) => has_declared_bytes(layout, schema),
            Self::Permutation(permutation) => has_declared_bytes(permutation.layout(), schema),
        }
    }

    /// Returns the columns that a sample needs, `None` for all.
    pub fn key_columns(&self) -> Option<&[usize]> {
        match self {
            Self::Table(layout) => Some(layout.key_columns()),
            Self::Records(..) => None,
            // The boundaries of random numbers need no sample.
            Self::Permutation(_) => Some(&[]),
        }
    }

    /// Returns the keys of sampled rows, serialised; `rows` are their numbers in split `split`.
    fn sample(&self, batch: &RecordBatch, rows: &[u64], split: u32) -> Result<Vec<u8>> {
        let positions = rows.iter().map(|&row| Position { split, row });
        match self {
            Self::Table(layout) => {
                let positions: Vec<Position> = positions.collect();
                sample(&layout.key_layout(), batch, &positions)
            }
            Self::Records(shape, _) => {
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
    pub fn sample_all(&self, samples: &[(RecordBatch, Vec<u64>)], split: u32) -> Result<Vec<u8>> {
        let samples = samples
            .iter()
            .map(|(batch, rows)| self.sample(batch, rows, split));
        let samples = samples.collect::<Result<Vec<_>>>()?;
        match self {
            Self::Table(layout) => joined_samples(&layout.key_layout(), &samples),
            Self::Records(..) | Self::Permutation(_) => Ok(samples.concat()),
        }
    }

    /// Returns the keys of some rows of batches, serialised; the batches take the place of split `split`.
    ///
    /// # Errors
    /// Those of the batches; another number of columns, or other types, than the schema has.
    pub fn sample_batches<E: From<KernelError>>(
        &self,
        batches: impl Iterator<Item = Result<RecordBatch, E>>,
        split: u32,
        num_rows: usize,
        seed: u64,
    ) -> Result<Vec<u8>, E> {
        let mut keys = Vec::new();
        for batch in batches {
            let batch = batch?;
            let key = match self.key_columns() {
                Some(columns) => key_columns(&batch, columns)?,
                None => batch,
            };
            // Copies all keys, since a column of another library keeps the whole batch, which may be large.
            let all = std::slice::from_ref(&key);
            let (copy, _) = sample_rows(&key.schema(), all, key.num_rows(), 0)?;
            keys.push(copy);
        }
        let sampled = match self {
            Self::Table(layout) => self.sample_keys(Some(layout), &keys, split, num_rows, seed),
            Self::Records(..) => self.sample_keys(None, &keys, split, num_rows, seed),
            Self::Permutation(_) => Ok(Vec::new()),
        };
        Ok(sampled?)
    }

    /// Returns the keys of some rows of sections, serialised; the sections take the place of split `split`.
    ///
    /// # Errors
    /// Sections that are damaged, or hold no rows of this kind.
    pub fn sample_sections(
        &self,
        side: &Side,
        split: u32,
        num_rows: usize,
        seed: u64,
    ) -> Result<Vec<u8>> {
        let mut batches = self.section_batches(side)?;
        let layout = match self {
            Self::Records(..) => None,
            Self::Table(layout) => Some(layout),
            Self::Permutation(permutation) => Some(permutation.layout()),
        };
        if let Some(layout) = layout {
            for batch in &mut batches {
                *batch = key_columns(batch, layout.key_columns())?;
            }
        }
        self.sample_keys(layout, &batches, split, num_rows, seed)
    }

    /// Returns some of the keys, serialised, as those of rows with this layout; records have none.
    fn sample_keys(
        &self,
        layout: Option<&RowLayout>,
        keys: &[RecordBatch],
        split: u32,
        num_rows: usize,
        seed: u64,
    ) -> Result<Vec<u8>> {
        let Some(schema) = keys.first().map(RecordBatch::schema) else {
            return match layout {
                Some(layout) => {
                    let nothing = RecordBatch::new_empty(layout.key_layout().schema().clone());
                    sample(&layout.key_layout(), &nothing, &[])
                }
                None => Ok(Vec::new()),
            };
        };
        let (batch, rows) = sample_rows(&schema, keys, num_rows, seed)?;
        match layout {
            None => self.sample(&batch, &rows, split),
            Some(layout) => {
                let positions: Vec<_> = rows.iter().map(|&row| Position { split, row }).collect();
                sample(&layout.key_layout(), &batch, &positions)
            }
        }
    }

    /// Finds where the rows of sections go; the sections take the place of split `split`.
    pub fn plan_sections(&self, side: &Side, split: u32, assignment: &[u8]) -> Result<Planned> {
        let batches = self.section_batches(side)?.into_iter();
        let batches = batches.map(Ok::<_, KernelError>);
        match self {
            // The rows have their numbers already.
            Self::Permutation(permutation) => {
                plan_table(permutation.layout(), batches, split, assignment)
            }
            Self::Table(_) | Self::Records(..) => {
                self.plan(placed(batches, split), split, assignment)
            }
        }
    }

    /// Returns the rows of sections as they travel: with their random numbers, if they have any.
    fn section_batches(&self, side: &Side) -> Result<Vec<RecordBatch>> {
        match self {
            Self::Records(shape, schema) => {
                let sections = &side.sections;
                sections.intact(side.tag, recount(*shape, side))?;
                side.conserved();
                sections
                    .tagged(side.tag)
                    .map(|section| record_batch(*shape, schema, sections.buffer(section)))
                    .collect()
            }
            Self::Table(layout) => gathered_batches(layout, side),
            Self::Permutation(permutation) => gathered_batches(permutation.layout(), side),
        }
    }

    /// Returns the assignment by boundaries out of samples, serialised.
    pub fn choose_boundaries(&self, samples: &[&[u8]], num_partitions: usize) -> Result<Vec<u8>> {
        match self {
            Self::Table(layout) => {
                let boundaries = choose_boundaries(&layout.key_layout(), samples, num_partitions);
                Ok(Assignment::Range(boundaries?).to_bytes())
            }
            Self::Records(shape, _) => {
                let boundaries = records::choose_boundaries(*shape, samples, num_partitions)?;
                Ok(boundaries.to_bytes())
            }
            // The numbers of a part of the input need not be even.
            Self::Permutation(permutation) if samples.iter().any(|keys| !keys.is_empty()) => {
                let key_layout = permutation.layout().key_layout();
                let boundaries = choose_boundaries(&key_layout, samples, num_partitions);
                Ok(Assignment::Range(boundaries?).to_bytes())
            }
            Self::Permutation(_) => self.even_assignment(num_partitions),
        }
    }

    /// Returns the assignment by equal ranges of the key, a number, serialised.
    pub fn even_assignment(&self, num_partitions: usize) -> Result<Vec<u8>> {
        let layout = match self {
            Self::Permutation(permutation) => permutation.layout(),
            Self::Table(_) | Self::Records(..) => self.table()?,
        };
        let assignment = Assignment::even(layout, num_partitions)?;
        Ok(assignment.to_bytes())
    }

    /// Finds where the rows of map number `map_index` go; the rows come batch after batch.
    ///
    /// # Errors
    /// Those of the batches; another number of columns, or other types, than the schema has; a damaged assignment.
    pub fn plan<E: From<KernelError>>(
        &self,
        batches: impl Iterator<Item = Result<Placed, E>>,
        map_index: u32,
        assignment: &[u8],
    ) -> Result<Planned, E> {
        let rows = |batch: Result<Placed, E>| batch.map(|(_, rows)| rows);
        match self {
            Self::Table(layout) => plan_table(layout, batches.map(rows), map_index, assignment),
            Self::Permutation(permutation) => {
                let numbered = batches.map(|batch| {
                    let (origin, batch) = batch?;
                    Ok(permutation.number(&batch, origin.source, origin.row)?)
                });
                plan_table(permutation.layout(), numbered, map_index, assignment)
            }
            Self::Records(shape, _) => {
                let batches = batches.map(rows).collect::<Result<Vec<_>, E>>()?;
                let boundaries = records::Boundaries::from_bytes(*shape, assignment);
                let boundaries = boundaries.map_err(KernelError::from)?;
                let chunks = record_chunks(*shape, &batches)?;
                let scatter = records::Scatter::plan(&chunks, &boundaries, first_of(map_index));
                let scatter = scatter.map_err(KernelError::from)?;
                Ok(Planned::Records(*shape, scatter, batches))
            }
        }
    }

    /// Returns the rows of sections by key, equal keys in the order of the sections.
    ///
    /// # Errors
    /// Sections that are damaged, or hold no rows of this kind.
    pub fn sorted(&self, side: Side) -> Result<PartitionRows> {
        let sorted = |layout| GatheredRows::sorted(layout, Arc::clone(&side.sections), side.tag);
        let rows = match self {
            Self::Table(layout) => Found::Table(found(sorted(layout), &side)?),
            Self::Records(shape, schema) => Found::Records(*shape, Arc::clone(schema)),
            Self::Permutation(permutation) => {
                let rows = sorted(permutation.layout()).map(GatheredRows::without_last_column);
                Found::Table(found(rows, &side)?)
            }
        };
        Ok(PartitionRows { rows, side })
    }

    /// Returns the rows of sections in the order of the sections.
    ///
    /// # Errors
    /// Rows that are not of a table; sections that are damaged.
    pub fn gathered(&self, side: Side) -> Result<PartitionRows> {
        let rows = GatheredRows::in_order(self.table()?, Arc::clone(&side.sections), side.tag);
        let rows = Found::Table(found(rows, &side)?);
        Ok(PartitionRows { rows, side })
    }
}

/// Returns the batch with the key columns alone.
fn key_columns(batch: &RecordBatch, columns: &[usize]) -> Result<RecordBatch> {
    let keys = batch.project(columns);
    keys.map_err(|e| KernelError::arrow("selecting the key columns", e))
}

/// Returns the rows of sections, or the error; tells the sections if they are damaged.
fn found(rows: Result<GatheredRows>, side: &Side) -> Result<Arc<GatheredRows>> {
    rows.inspect_err(|error| side.failed(error)).map(Arc::new)
}

/// Returns all rows of sections in their order, and tells the sections whether they were conserved.
fn gathered_batches(layout: &RowLayout, side: &Side) -> Result<Vec<RecordBatch>> {
    let rows = GatheredRows::in_order(layout, Arc::clone(&side.sections), side.tag);
    reported(gathered(&found(rows, side)?), side).collect()
}

fn plan_table<E: From<KernelError>>(
    layout: &RowLayout,
    mut batches: impl Iterator<Item = Result<RecordBatch, E>>,
    map_index: u32,
    assignment: &[u8],
) -> Result<Planned, E> {
    let assignment = Assignment::from_bytes(layout, assignment)?;
    let mut planner = Planner::new(layout, &assignment, first_of(map_index));
    batches.try_for_each(|batch| Ok::<_, E>(planner.add(&batch?)?))?;
    Ok(Planned::Table(planner.end()?))
}
