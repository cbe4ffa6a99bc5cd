//! Columns by name, and errors that list the names there are.

use arrow_schema::{Schema, SchemaRef};
use exoshuffle_kernels::{KernelError, RowLayout, SortKey};
use pyo3::prelude::*;

use crate::errors::{kernel_error, schema_error};

/// Returns the error; if the column that was asked for cannot be sorted by, it names the columns that can.
pub fn unsortable(schema: &SchemaRef, error: KernelError) -> PyErr {
    let KernelError::UnsortableKey { column: asked, .. } = &error else {
        return kernel_error(error);
    };
    let sortable = |column: &usize| {
        let key = SortKey {
            column: *column,
            descending: false,
            nulls_first: false,
        };
        RowLayout::try_new(schema, &[key]).is_ok()
    };
    let columns = (0..schema.fields().len()).filter(sortable);
    let names: Vec<&str> = columns
        .map(|column| schema.field(column).name().as_str())
        .collect();
    let told: PyResult<String> = Python::attach(|py| {
        let arguments = (asked.as_str(), names);
        errors(py)?.call_method1("candidates", arguments)?.extract()
    });
    match told {
        Ok(told) => schema_error(format!("{error} (sortable here: {told})")),
        Err(failure) => failure,
    }
}

/// Returns the key with the index of its column.
pub fn sort_key(
    schema: &SchemaRef,
    (name, descending, nulls_first): &(String, bool, bool),
) -> PyResult<SortKey> {
    Ok(SortKey {
        column: column_index(schema, name)?,
        descending: *descending,
        nulls_first: *nulls_first,
    })
}

/// Returns the index of a column.
pub fn column_index(schema: &SchemaRef, name: &str) -> PyResult<usize> {
    schema
        .index_of(name)
        .or_else(|_| Err(unknown_column(schema, name)?))
}

/// Returns the error for a missing column, in the words of Python's `unknown`.
fn unknown_column(schema: &SchemaRef, name: &str) -> PyResult<PyErr> {
    let known: Vec<&str> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    Python::attach(|py| {
        let arguments = ("column", name, known);
        let message: String = errors(py)?.call_method1("unknown", arguments)?.extract()?;
        Ok(schema_error(message))
    })
}

/// Returns the module in which Python's errors put lists of names into words.
fn errors(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("exoshuffle.errors")
}

/// Refuses batches whose columns have other names: by position alone, columns of one type could change places unseen.
pub fn check_names(expected: &Schema, actual: &Schema) -> PyResult<()> {
    let own = expected.fields().iter().map(|field| field.name());
    if own.eq(actual.fields().iter().map(|field| field.name())) {
        return Ok(());
    }
    let (found, wanted): (String, String) = Python::attach(|py| {
        let arguments = (names(actual), names(expected));
        errors(py)?.call_method1("differing", arguments)?.extract()
    })?;
    Err(schema_error(format!(
        "the batches have the columns {found} where {wanted} are expected; select these, in this order"
    )))
}

fn names(schema: &Schema) -> Vec<&str> {
    let fields = schema.fields().iter();
    fields.map(|field| field.name().as_str()).collect()
}
