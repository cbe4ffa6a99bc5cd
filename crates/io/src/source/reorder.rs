//! Reads a file of CSV whose columns are in another order than those of the input, by the names in its header.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};

use super::conform::places;
use super::Split;
use crate::error::{IoError, Result};

/// A split of such a file, in the order of the file.
pub(super) struct Reordered {
    /// The split without another order of columns.
    pub(super) split: Split,
    /// The schema in the order of the file.
    pub(super) schema: SchemaRef,
    /// Places of the wanted columns in the file.
    pub(super) columns: Vec<usize>,
}

impl Reordered {
    /// For a split with `columns`; `schema` and `projection` are those of the input.
    pub(super) fn new(
        split: &Split,
        schema: &SchemaRef,
        projection: Option<&[usize]>,
    ) -> Result<Self> {
        let changed = || IoError::changed(&split.path, "its columns".to_owned());
        let mut fields = vec![None; schema.fields().len()];
        for (field, &place) in schema.fields().iter().zip(&split.columns) {
            *fields.get_mut(place).ok_or_else(changed)? = Some(field.clone());
        }
        let fields = fields.into_iter().collect::<Option<Vec<_>>>();
        let fields = fields.ok_or_else(changed)?;
        let columns = match projection {
            None => split.columns.clone(),
            // Reading the columns refuses one that does not exist.
            Some(columns) => { columns.iter() }
                .map(|&column| split.columns.get(column).copied().unwrap_or(column))
                .collect(),
        };
        Ok(Self {
            split: Split {
                columns: Vec::new(),
                ..split.clone()
            },
            schema: Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())),
            columns,
        })
    }
}

/// Places of an input's columns in a file with this schema, if they are in another order there.
pub(crate) fn other_order(schema: &Schema, file: &Schema) -> Vec<usize> {
    let names = schema.fields().iter().map(|field| field.name());
    let places = places(file, names).unwrap_or_default();
    if places.is_sorted() {
        return Vec::new();
    }
    places
}
