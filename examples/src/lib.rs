//! Small programs, one idea each. `cargo run --package imbrex-examples --bin NAME` runs one.

use std::path::PathBuf;

/// Where the example called `name` makes its image: under the system's directory for temporary files. An image that an
/// earlier run left goes first.
pub fn image(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("imbrex-example-{name}.imbrex"));
    _ = std::fs::remove_file(&path);
    path
}
