//! The command `imbrex`.
#![expect(dead_code, reason = "the commands follow")]

mod byte_size;
mod error;
mod interrupt;
mod key;
mod load;
mod output;
mod progress;
mod zones;

fn main() {}
