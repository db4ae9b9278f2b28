//! Small programs, one idea each. `cargo run --package imbrex-examples --bin NAME` runs one.
