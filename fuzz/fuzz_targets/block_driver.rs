//! See `crates/fuzz-corpus/src/block_driver.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| imbrex_fuzz_corpus::feed("block_driver", bytes));
