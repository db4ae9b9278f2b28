//! Tests through the C ABI: the header, a C program, drives that cannot be opened, stores.
#![expect(clippy::unwrap_used, reason = "a helper fails as its test does")]

#[path = "../../../imbrex/tests/it/bad_paths.rs"]
mod bad_paths;
mod c_program;
mod drives;
mod header;
mod stores;
