//! Random tables, and a naive oracle for their order.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod columns;
pub mod oracle;
pub mod tables;
