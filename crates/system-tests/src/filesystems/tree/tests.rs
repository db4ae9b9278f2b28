//! What is found wrong, and what is not.

use super::*;
use tempfile::TempDir;

/// A directory with a file that was synced and one that was not, and what is expected of it.
fn story() -> (TempDir, Tree) {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = Tree::new(1, "w".to_owned(), 4096);
    let (synced, _) = tree.create(ROOT, "synced");
    let bytes = tree.content(synced).append(5000);
    std::fs::write(dir.path().join("synced"), bytes).unwrap();
    tree.synced(synced, "synced", true);
    let (loose, _) = tree.create(ROOT, "loose");
    let bytes = tree.content(loose).append(100);
    std::fs::write(dir.path().join("loose"), bytes).unwrap();
    (dir, tree)
}

#[track_caller]
fn wrong(tree: &Tree, dir: &TempDir, part: &str) {
    let error = tree.judge(dir.path()).expect_err("something is wrong");
    assert!(format!("{error:#}").contains(part), "{error:#}");
}

#[test]
fn what_was_not_synced_may_be_gone_and_then_stays_so() {
    let (dir, tree) = story();
    assert_eq!(tree.judge(dir.path()).unwrap().1.files, 2);
    let loose = dir.path().join("loose");
    let bytes = std::fs::read(&loose).unwrap();
    std::fs::remove_file(&loose).unwrap();
    let (tree, found) = tree.judge(dir.path()).unwrap();
    assert_eq!(found.files, 1);
    std::fs::write(&loose, bytes).unwrap();
    wrong(&tree, &dir, "\"loose\" was never made");
    std::fs::remove_file(&loose).unwrap();
    std::fs::remove_file(dir.path().join("synced")).unwrap();
    wrong(&tree, &dir, "is missing");
}

#[test]
fn a_renamed_file_has_one_name_of_the_two() {
    let (dir, mut tree) = story();
    let path = |name: &str| dir.path().join(name);
    tree.rename(ROOT, "synced", "loose");
    // As it was before, and as it is after.
    assert!(tree.judge(dir.path()).is_ok());
    std::fs::copy(path("synced"), path("loose")).unwrap();
    wrong(&tree, &dir, "which has another name too");
    std::fs::remove_file(path("synced")).unwrap();
    assert!(tree.judge(dir.path()).is_ok());
    // Under neither: the old one under the new name, and nothing under the old name.
    std::fs::write(path("loose"), []).unwrap();
    wrong(&tree, &dir, "is gone");
    tree.synced_dir(ROOT);
    wrong(&tree, &dir, "5000 were synced");
}

#[test]
fn what_was_deleted_durably_does_not_return() {
    let (dir, mut tree) = story();
    tree.remove(ROOT, "synced");
    assert!(tree.judge(dir.path()).is_ok());
    tree.synced_dir(ROOT);
    wrong(&tree, &dir, "\"synced\" was never made");
}

#[test]
fn a_directory_is_found_with_what_was_synced_in_it() {
    let (dir, mut tree) = story();
    let (inner, name) = tree.create_dir();
    std::fs::create_dir(dir.path().join(&name)).unwrap();
    let (member, file) = tree.create(inner, "member-#");
    let bytes = tree.content(member).append(10);
    let path = dir.path().join(&name).join(&file);
    std::fs::write(&path, bytes).unwrap();
    tree.synced(member, &file, true);
    assert!(tree.judge(dir.path()).is_ok());
    std::fs::remove_file(&path).unwrap();
    wrong(&tree, &dir, "is missing");
    std::fs::remove_dir(dir.path().join(&name)).unwrap();
    assert!(tree.judge(dir.path()).is_ok(), "nobody synced its own name");
    tree.synced_dir(ROOT);
    wrong(&tree, &dir, "is missing");
}
