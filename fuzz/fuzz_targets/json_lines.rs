//! The bytes as a file of JSON lines.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exoshuffle_fuzz::read_file("x.jsonl", bytes));
