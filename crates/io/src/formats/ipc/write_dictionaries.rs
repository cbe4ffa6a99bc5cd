//! One dictionary per column of an Arrow IPC file: the file format forbids replacing one, but later batches may extend
//! it.
//!
//! Every batch brings a dictionary of its own. Its new values go behind those that the file has, and its keys become
//! those of the file. Guarantee: the dictionary of a batch begins with that of the batch before it.
//!
//! A batch costs a look at all values of the column in the file, as much as the writer's own comparison of them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{make_array, Array, ArrayRef, RecordBatch};
use arrow_cast::{can_cast_types, cast_with_options, CastOptions};
use arrow_schema::{ArrowError, DataType, Schema};
use arrow_select::{concat::concat, take::take};

/// Overflow is an error, never a null.
const STRICT: CastOptions<'_> = CastOptions {
    safe: false,
    format_options: arrow_cast::display::FormatOptions::new(),
};

/// The dictionary columns of a file so far.
pub(crate) struct Dictionaries {
    /// One for each column; `None` where it is no dictionary.
    columns: Vec<Option<Growing>>,
}

/// The dictionary of a column so far.
struct Growing {
    name: String,
    data_type: DataType,
    values: Option<ArrayRef>,
}

impl Dictionaries {
    pub(crate) fn new(schema: &Schema) -> Self {
        let columns = schema.fields().iter().map(|field| match field.data_type() {
            DataType::Dictionary(_, values) if can_cast_types(values, field.data_type()) => {
                Some(Growing {
                    name: field.name().clone(),
                    data_type: field.data_type().clone(),
                    values: None,
                })
            }
            _ => None,
        });
        Self {
            columns: columns.collect(),
        }
    }

    /// Returns the batch with the dictionaries of the file.
    pub(crate) fn adopt(&mut self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        if self.columns.iter().all(Option::is_none) {
            return Ok(batch.clone());
        }
        let mut arrays = batch.columns().to_vec();
        for (array, growing) in arrays.iter_mut().zip(&mut self.columns) {
            if let Some(growing) = growing {
                *array = growing.adopt(array)?;
            }
        }
        RecordBatch::try_new(batch.schema(), arrays)
    }
}

impl Growing {
    fn adopt(&mut self, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let dictionary = array.as_any_dictionary();
        let own = dictionary.values();
        let all = match &self.values {
            Some(known) => concat(&[known.as_ref(), own.as_ref()])?,
            None => Arc::clone(own),
        };
        let num_known = all.len() - own.len();
        // Values get keys in the order in which they come, so known values keep theirs.
        let numbered = cast_with_options(&all, &self.data_type, &STRICT)
            .map_err(|error| self.overflow(error))?;
        let numbered = numbered.as_any_dictionary();
        let values = match self.values.take() {
            Some(known) if numbered.values().len() == known.len() => known,
            _ => Arc::clone(numbered.values()),
        };
        self.values = Some(Arc::clone(&values));
        let new_keys = make_array(numbered.keys().to_data()).slice(num_known, own.len());
        let keys = take(&new_keys, dictionary.keys(), None)?;
        let data = keys
            .to_data()
            .into_builder()
            .data_type(self.data_type.clone())
            .add_child_data(values.to_data());
        Ok(make_array(data.build()?))
    }

    fn overflow(&self, error: ArrowError) -> ArrowError {
        let (ArrowError::DictionaryKeyOverflowError, DataType::Dictionary(keys, _)) =
            (&error, &self.data_type)
        else {
            return error;
        };
        ArrowError::InvalidArgumentError(format!(
            "column '{}' has more values than dictionary keys of type {keys} can number in a file; declare a wider key \
             type or the plain value type, or begin new files by a target size",
            self.name
        ))
    }
}
