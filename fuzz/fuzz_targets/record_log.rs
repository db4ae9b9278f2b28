//! See `crates/fuzz-corpus/src/record_log.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| imbrex_fuzz_corpus::feed("record_log", bytes));
