//! See `crates/fuzz-corpus/src/store.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| imbrex_fuzz_corpus::feed("wal_batch", bytes));
