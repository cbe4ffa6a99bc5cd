//! The bytes as a CSV file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exoshuffle_fuzz::read_file("x.csv", bytes));
