//! See `crates/fuzz-corpus/src/image.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| imbrex_fuzz_corpus::feed("image", bytes));
