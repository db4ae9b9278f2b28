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

/// A full drive on which no two islands are worth moving takes what a compaction or a flush writes, and so comes
/// back. What a put writes stays out.
#[test]
fn tables_that_replace_others_take_what_is_kept_for_cleaning() {
    let stage = shingled(1600, 8, 2, 0);
    let files = stage.format_small("dynamic-bands").unwrap();
    // Without holes there is nothing to empty.
    let put_count = fill(&files, "put", 1, |files, name, blocks| put(files, name, blocks, 1));
    let kept = files.space().free_bytes;
    let merged_count =
        fill(&files, "merged", 16, |files, name, blocks| put_upkeep(files, name, blocks, 1));
    let left = files.space().free_bytes;
    assert!(0 < left && left < kept / 2, "{left} of {kept} bytes are left");
    assert!(put(&files, "late", 1, 1).is_err());
    // The inputs are given back.
    let inputs: Vec<_> = (0..put_count).map(|n| format!("put{n}")).collect();
    remove(&files, &inputs.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    put(&files, "late", 1, 1).unwrap();
    for n in 0..merged_count {
        let name = format!("merged{n}");
        verify(&files, &name, &name).unwrap();
    }
    assert_sound(&files);
}
