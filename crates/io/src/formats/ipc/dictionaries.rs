//! Which columns need which dictionaries of a file, and how much memory these take.
//!
//! Dictionaries are messages of their own, in front of the batches, and are held as long as batches are read. A
//! dictionary of 435 MB may lie in a file of 61 kB. So dictionaries of columns that nobody asked for are left alone,
//! and the others are planned for.

use std::collections::{BTreeMap, HashSet};

use arrow_ipc::Block;
use arrow_schema::{Field, Schema};

use super::index::{corrupt, decoded_bytes, header_at, Index};
use crate::direct::RangeReader;
use crate::error::Result;
use crate::source::Working;

/// Returns the dictionaries that the columns at these places need, in their order; all of them where all columns are
/// read.
pub(super) fn needed(
    file: &RangeReader,
    schema: &Schema,
    blocks: Vec<Block>,
    places: Option<&[usize]>,
) -> Result<Vec<Block>> {
    let Some(places) = places else {
        return Ok(blocks);
    };
    let fields = places
        .iter()
        .filter_map(|&place| schema.fields().get(place));
    let ids: HashSet<i64> = fields.flat_map(|field| ids(field)).collect();
    let mut needed = Vec::new();
    for block in blocks {
        if ids.contains(&dictionary(file, &block)?.id) {
            needed.push(block);
        }
    }
    Ok(needed)
}

/// Returns the memory that the dictionaries of each column take.
pub(super) fn held(file: &RangeReader, index: &Index) -> Result<Vec<Working>> {
    let mut by_id: BTreeMap<i64, Held> = BTreeMap::new();
    for block in &index.dictionaries {
        let dictionary = dictionary(file, block)?;
        by_id.entry(dictionary.id).or_default().add(&dictionary);
    }
    let bytes = |field: &Field| {
        let ids: HashSet<i64> = ids(field).into_iter().collect();
        let sizes = ids.iter().filter_map(|id| by_id.get(id));
        sizes.fold(0, |sum, held| held.most_bytes.saturating_add(sum))
    };
    let fields = index.schema.fields().iter();
    let sizes = fields.map(|field| Working {
        column: Some(field.name().clone()),
        bytes: bytes(field),
        row_bytes: bytes(field),
    });
    Ok(sizes.filter(|held| held.bytes > 0).collect())
}

/// The memory held of a dictionary, which later messages may replace or extend.
#[derive(Default)]
struct Held {
    bytes: u64,
    most_bytes: u64,
}

impl Held {
    fn add(&mut self, dictionary: &Dictionary) {
        // An addition is copied together with the values before it. A replaced dictionary stays until its successor is
        // read.
        let peak = self.bytes.saturating_add(dictionary.bytes);
        self.bytes = if dictionary.is_delta {
            peak
        } else {
            dictionary.bytes
        };
        let copied = if dictionary.is_delta { self.bytes } else { 0 };
        let most = peak.saturating_add(copied);
        self.most_bytes = self
            .most_bytes
            .max(most.saturating_add(dictionary.stored_bytes));
    }
}

struct Dictionary {
    id: i64,
    is_delta: bool,
    /// Bytes of its values in memory.
    bytes: u64,
    /// Bytes that the values are decoded from; 0 where they are kept as they are.
    stored_bytes: u64,
}

fn dictionary(file: &RangeReader, block: &Block) -> Result<Dictionary> {
    let missing = || corrupt(file, "a dictionary is missing");
    let header = header_at(file, block.offset() as u64)?.ok_or_else(missing)?;
    let message = arrow_ipc::root_as_message(&header.message).map_err(|e| corrupt(file, e))?;
    let dictionary = message.header_as_dictionary_batch().ok_or_else(missing)?;
    let values = dictionary.data().ok_or_else(missing)?;
    let stored = block.bodyLength() as u64;
    let (bytes, stored_bytes) = match values.compression() {
        Some(_) => (decoded_bytes(file, block, &values)?, stored),
        None => (stored, 0),
    };
    Ok(Dictionary {
        id: dictionary.id(),
        is_delta: dictionary.isDelta(),
        bytes,
        stored_bytes,
    })
}

/// Returns the numbers of the dictionaries in a column, at any depth.
fn ids(field: &Field) -> Vec<i64> {
    let alone = Schema::new(vec![field.clone()]);
    let fields = alone.flattened_fields().into_iter();
    #[expect(deprecated, reason = "the decoder finds them so")]
    fields.filter_map(Field::dict_id).collect()
}
