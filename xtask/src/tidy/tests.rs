//! The tree itself, under all rules.

use super::run;

#[test]
fn the_tree_is_tidy() {
    let root = crate::cargo::workspace_root().unwrap();
    run(&root).unwrap();
}
