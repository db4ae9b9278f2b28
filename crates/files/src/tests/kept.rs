//! What is kept for cleaning, on a drive where nothing is worth cleaning.

use super::stage::{assert_honest, assert_sound, put, put_upkeep, remove, shingled, verify};
use crate::{FileLayer, Files, FilesError};

/// Puts tables until one is refused. Returns how many there are.
fn fill(
    files: &FileLayer,
    kind: &str,
    blocks: u64,
    put: impl Fn(&FileLayer, &str, u64) -> Result<(), FilesError>,
) -> u64 {
    for count in 0.. {
        if let Err(error) = put(files, &format!("{kind}{count}"), blocks) {
            assert!(matches!(error, FilesError::NoSpace { .. }), "{error}");
            assert_honest(&error);
            return count;
        }
    }
    unreachable!("a drive is full in the end")
}

/// A full drive on which no two islands are worth moving takes what a compaction writes, and so comes back.
/// What a flush writes replaces nothing that takes as much, and stays out.
#[test]
fn tables_of_a_compaction_take_what_is_kept_for_cleaning() {
    let stage = shingled(1600, 8, 2, 0);
    let files = stage.format_small("dynamic-bands").unwrap();
    // Without holes there is nothing to empty.
    let put_count = fill(&files, "put", 16, |files, name, blocks| put(files, name, blocks, 1));
    fill(&files, "flush", 1, |files, name, blocks| put_upkeep(files, name, blocks, 0));
    let kept_bytes = files.space().free_bytes;
    let merged =
        fill(&files, "merged", 16, |files, name, blocks| put_upkeep(files, name, blocks, 1));
    assert!(merged > 0, "{kept_bytes} bytes were kept");
    assert!(files.space().free_bytes < kept_bytes);
    assert!(put_upkeep(&files, "late", 1, 0).is_err());
    // The inputs are given back.
    let inputs: Vec<_> = (0..put_count).map(|n| format!("put{n}")).collect();
    remove(&files, &inputs.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    put_upkeep(&files, "late", 1, 0).unwrap();
    for n in 0..merged {
        let name = format!("merged{n}");
        verify(&files, &name, &name).unwrap();
    }
    assert_sound(&files);
}
