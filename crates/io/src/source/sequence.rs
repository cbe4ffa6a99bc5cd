//! Several splits, read one after the other.

use std::borrow::Borrow;
use std::sync::Arc;

use arrow_schema::SchemaRef;

use super::{open_split, BatchStream, ReadOptions, Split};
use crate::error::Result;

/// Streams the rows of splits, in their order: see [`open_split`].
///
/// Opens the first split at once, so that a failure at the beginning happens here, and each other when its turn comes.
pub fn open_splits<S: Borrow<Split> + Send + 'static>(
    splits: Vec<S>,
    schema: SchemaRef,
    options: Arc<ReadOptions>,
    projection: Option<Vec<usize>>,
    batch_rows: usize,
) -> Result<BatchStream> {
    let mut opened = splits.into_iter().map(move |split| {
        let projection = projection.as_deref();
        open_split(split.borrow(), &schema, &options, projection, batch_rows)
    });
    let first = opened.next().transpose()?;
    let others = opened.flat_map(|opened| {
        opened.unwrap_or_else(|error| -> BatchStream { Box::new(std::iter::once(Err(error))) })
    });
    Ok(Box::new(first.into_iter().flatten().chain(others)))
}
