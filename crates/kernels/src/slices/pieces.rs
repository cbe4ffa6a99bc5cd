//! Pieces: where the rows of sections lie, with the columns that travelled beside them.

use std::ops::Range;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;

use crate::checks::tally::Tally;
use crate::error::{KernelError, Result};
use crate::layout::{RowLayout, CHUNK_ROWS};
use crate::slices::frames;
use crate::slices::sections::{Section, Sections};
use crate::slices::walk::RowWalker;

/// Rows that lie back to back.
pub(crate) struct Piece {
    /// Number of the slice.
    pub(crate) slice: usize,
    /// Where in the slice the rows lie.
    pub(crate) rows: Range<usize>,
    /// Their other columns, for schemas that have any.
    pub(crate) beside: Option<Beside>,
}

/// Columns that do not fit into rows.
pub(crate) struct Beside {
    pub(crate) columns: RecordBatch,
    /// Where in the slice they lie, encoded.
    pub(crate) range: Range<usize>,
}

/// Finds the rows of all sections with this tag, in order.
pub(crate) fn pieces(layout: &RowLayout, sections: &Sections, tag: u8) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    for section in sections.tagged(tag) {
        add_pieces(
            layout,
            &sections.slices()[section.slice],
            section,
            &mut pieces,
        )?;
    }
    Ok(pieces)
}

fn add_pieces(
    layout: &RowLayout,
    slice: &Buffer,
    section: &Section,
    pieces: &mut Vec<Piece>,
) -> Result<()> {
    if layout.num_framed() == 0 {
        pieces.push(Piece {
            slice: section.slice,
            rows: section.range.clone(),
            beside: None,
        });
        return Ok(());
    }
    let frames = frames::parse(layout, slice, section.range.clone())?;
    pieces.extend(frames.into_iter().map(|frame| Piece {
        slice: section.slice,
        rows: frame.rows,
        beside: Some(frame.beside),
    }));
    Ok(())
}

/// Calls `add` with the starts of the rows of a piece in their slice, and the end of the last one, some at a time.
pub(crate) fn walk(
    layout: &RowLayout,
    slice: &[u8],
    piece: &Piece,
    mut add: impl FnMut(&[usize], usize),
) -> Result<()> {
    let mut starts = Vec::with_capacity(CHUNK_ROWS);
    let mut walker = RowWalker::new(layout, &slice[..piece.rows.end], piece.rows.start);
    let mut count = 0;
    loop {
        walker.next_chunk(&mut starts)?;
        if starts.is_empty() {
            break;
        }
        count += starts.len();
        add(&starts, walker.at());
    }
    match &piece.beside {
        Some(beside) if beside.columns.num_rows() != count => Err(KernelError::CorruptSlice {
            offset: piece.rows.start as u64,
            reason: "a frame lacks rows",
        }),
        _ => Ok(()),
    }
}

/// Counts the rows that a section has now, as its map did.
pub(crate) fn recount(layout: &RowLayout, sections: &Sections, section: &Section) -> Result<Tally> {
    let slice = &sections.slices()[section.slice];
    let mut pieces = Vec::new();
    add_pieces(layout, slice, section, &mut pieces)?;
    let mut tally = Tally::default();
    for piece in &pieces {
        walk(layout, slice, piece, |starts, end| {
            let ends = starts[1..].iter().chain(std::iter::once(&end));
            tally.add_rows(
                starts
                    .iter()
                    .zip(ends)
                    .map(|(&start, &end)| &slice[start..end]),
            );
        })?;
        if let Some(beside) = &piece.beside {
            tally.add_beside(&slice[beside.range.clone()]);
        }
    }
    Ok(tally)
}
