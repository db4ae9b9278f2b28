//! The command `imbrex`.

fn main() {}
