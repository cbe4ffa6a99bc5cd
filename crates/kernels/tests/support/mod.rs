//! Random tables, and a naive oracle for their order.

pub mod columns;
pub mod oracle;
pub mod tables;
