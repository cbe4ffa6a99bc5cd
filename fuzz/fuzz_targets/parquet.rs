//! The bytes as a Parquet file: its footer, and its pages.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exoshuffle_fuzz::read_file("x.parquet", bytes));
