//! Columns of results: values of rows become Arrow arrays again, of the types that the user declared.

pub(crate) mod decode;
pub(crate) mod lists;
pub(crate) mod output;
pub(crate) mod own_views;
pub(crate) mod plain;
pub(crate) mod quads;
