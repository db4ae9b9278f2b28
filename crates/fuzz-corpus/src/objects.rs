//! The manifest of an object, and the header of a keyspace of objects.

use crate::target::Target;

/// Asserts that a manifest has only one encoding.
pub(crate) const TARGET: Target =
    Target { name: "objects", feed: imbrex_objects::decode_any, seeds };

fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let manifest = |kind: u8, metadata: &[u8], len: u64, upload: u64, chunk: u32, data: &[u8]| {
        let head =
            [&[1, kind, 0, 0][..], &(metadata.len() as u32).to_le_bytes(), &len.to_le_bytes()];
        let place = [&upload.to_le_bytes()[..], &chunk.to_le_bytes(), metadata, data];
        [head.concat(), place.concat()].concat()
    };
    vec![
        ("inline", manifest(1, b"text", 5, 0, 0, b"short")),
        ("chunks", manifest(2, b"film", 5 << 30, 7, 1 << 20, b"")),
        (
            "header",
            [&b"ImbrexOb\x01"[..], &[0; 7], &9_u64.to_le_bytes(), &4097_u64.to_le_bytes()].concat(),
        ),
    ]
}
