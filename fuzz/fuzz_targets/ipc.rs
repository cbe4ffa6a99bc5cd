//! The bytes as an Arrow IPC file or stream.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exoshuffle_fuzz::read_file("x.arrow", bytes));
