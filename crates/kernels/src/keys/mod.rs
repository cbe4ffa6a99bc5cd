//! Sort keys: the parts of a key in a row, and the prefixes by which rows are compared first.

pub(crate) mod key;
pub(crate) mod prefix;
pub(crate) mod segment;
