//! Random tables, and a naive oracle for their order.

pub mod oracle;
pub mod tables;
