//! The bytes as sizes of slices, and what a disk makes of the index of their block.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exoshuffle_fuzz::restore(bytes));
