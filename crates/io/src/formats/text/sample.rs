//! A sample of a text split: a few stretches of its records, parsed for the requested columns only.
//!
//! Text does not tell how many records precede a position. So the positions of sampled rows are estimated from the mean
//! size of the records seen. They serve to break ties between equal keys, where an estimate does as well.

use std::ops::Range;

use arrow_array::{RecordBatch, UInt32Array};

use super::line_starts::line_after;
use super::stream::batches;
use super::Dialect;
use super::Notation;
use crate::error::Result;
use crate::source::{random_below, BatchStream, Pick, Request, Sample};

const REGIONS: u64 = 8;
const STRETCH_BYTES: u64 = 128 << 10;
const BATCH_ROWS: usize = 8192;

pub(super) fn sample(
    notation: Notation,
    request: &Request<'_>,
    pick: Pick,
) -> Result<(RecordBatch, Vec<u64>)> {
    let whole = request.split.start..request.split.end;
    let read = |range| {
        let dialect = Dialect::of(notation, request)?;
        batches(request.file.clone(), range, dialect, BATCH_ROWS)
    };
    let tables = match parse(&stretches(notation, request, pick.seed)?, &read) {
        // A line break within quotes was taken for a record border: read from a true border.
        Err(_) if notation == Notation::Csv => parse(&[whole], &read)?,
        parsed => parsed?,
    };
    choose(request, &tables, pick.num_rows)
}

/// Does the same for text whose lines are rows, which `read` streams.
pub(crate) fn sample_stretches(
    request: &Request<'_>,
    pick: Pick,
    read: &Read<'_>,
) -> Result<Sample> {
    let stretches = stretches(Notation::JsonLines, request, pick.seed)?;
    choose(request, &parse(&stretches, read)?, pick.num_rows)
}

/// Streams the rows of a range.
pub(crate) type Read<'a> = dyn Fn(Range<u64>) -> Result<BatchStream> + 'a;

/// Returns whole lines at a random place of each region; a small split is one stretch.
fn stretches(notation: Notation, request: &Request<'_>, seed: u64) -> Result<Vec<Range<u64>>> {
    let (start, end) = (request.split.start, request.split.end);
    let region = (end - start) / REGIONS;
    let mut stretches: Vec<Range<u64>> = Vec::new();
    if region <= 2 * STRETCH_BYTES {
        stretches.push(start..end);
        return Ok(stretches);
    }
    for i in 0..REGIONS {
        let from = start + i * region + random_below(seed ^ i, region - STRETCH_BYTES);
        let from = line_after(&request.file, from, notation)?
            .max(stretches.last().map_or(start, |last| last.end));
        let to = line_after(&request.file, from + STRETCH_BYTES, notation)?.min(end);
        if from < to {
            stretches.push(from..to);
        }
    }
    Ok(stretches)
}

/// Bytes of a stretch and the batches in it.
type Table = (Range<u64>, Vec<RecordBatch>);

fn parse(stretches: &[Range<u64>], read: &Read<'_>) -> Result<Vec<Table>> {
    let mut tables = Vec::with_capacity(stretches.len());
    for stretch in stretches {
        let batches = read(stretch.clone())?;
        tables.push((stretch.clone(), batches.collect::<Result<Vec<_>>>()?));
    }
    Ok(tables)
}

/// Takes rows at a regular stride from those that were parsed.
fn choose(
    request: &Request<'_>,
    tables: &[Table],
    num_rows: usize,
) -> Result<(RecordBatch, Vec<u64>)> {
    let batches: Vec<RecordBatch> = tables
        .iter()
        .flat_map(|(_, batches)| batches.iter().cloned())
        .collect();
    let schema = batches
        .first()
        .map_or_else(|| request.wanted.clone(), RecordBatch::schema);
    let all =
        arrow_select::concat::concat_batches(&schema, &batches).map_err(|e| request.corrupt(e))?;
    let positions = positions(request.split.start, tables);
    let count = num_rows.min(all.num_rows());
    let indices: Vec<usize> = (0..count)
        .map(|i| (i as u128 * all.num_rows() as u128 / count as u128) as usize)
        .collect();
    let taken = UInt32Array::from_iter_values(indices.iter().map(|&i| i as u32));
    let rows =
        arrow_select::take::take_record_batch(&all, &taken).map_err(|e| request.corrupt(e))?;
    Ok((rows, indices.into_iter().map(|i| positions[i]).collect()))
}

/// Returns the estimated row numbers of all parsed rows, ascending.
fn positions(start: u64, tables: &[Table]) -> Vec<u64> {
    let rows_of = |batches: &[RecordBatch]| {
        batches
            .iter()
            .map(|batch| batch.num_rows() as u64)
            .sum::<u64>()
    };
    let rows: u64 = tables.iter().map(|(_, batches)| rows_of(batches)).sum();
    let bytes: u64 = tables
        .iter()
        .map(|(range, _)| range.end - range.start)
        .sum();
    let mut positions = Vec::with_capacity(rows as usize);
    for (range, batches) in tables {
        let estimate =
            (u128::from(range.start - start) * u128::from(rows) / u128::from(bytes.max(1))) as u64;
        let first = positions
            .last()
            .map_or(estimate, |last| estimate.max(last + 1));
        positions.extend(first..first + rows_of(batches));
    }
    positions
}
