//! See `crates/fuzz-corpus/src/objects.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| imbrex_fuzz_corpus::feed("objects", bytes));
