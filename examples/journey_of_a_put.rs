//! One put, told by every layer it passes.

fn main() {}
