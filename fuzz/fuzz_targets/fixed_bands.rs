//! See `crates/fuzz-corpus/src/fixed_bands.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| imbrex_fuzz_corpus::feed("fixed_bands", bytes));
