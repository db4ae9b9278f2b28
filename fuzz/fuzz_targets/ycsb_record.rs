//! See `crates/fuzz-corpus/src/ycsb_record.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| imbrex_fuzz_corpus::feed("ycsb_record", bytes));
