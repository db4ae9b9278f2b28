//! The header matches the code; `REWRITE=1` rewrites it.

use std::path::Path;

#[test]
fn the_header_matches_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    config.header = Some(std::fs::read_to_string(root.join("src/conventions.txt")).unwrap());
    // cbindgen follows the modules of lib.rs; naming them too would print every export twice.
    let builder = cbindgen::Builder::new().with_src(root.join("src/lib.rs"));
    let mut text = Vec::new();
    builder.with_config(config).generate().unwrap().write(&mut text);
    let text = String::from_utf8(text).unwrap();
    let path = root.join("include/imbrex.h");
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let first = committed.lines().zip(text.lines()).position(|(a, b)| a != b);
    assert!(
        committed == text,
        "include/imbrex.h differs from line {first:?} on; REWRITE=1 cargo test -p imbrex-capi"
    );
}
