//! Sizes: a file that no one can hold in the head is a file that no one changes gladly.

use super::tree::{Finding, Tree};

const LINES_MAX: usize = 800;

/// Files that may be longer, each with its reason.
const LONGER: &[(&str, &str)] = &[];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.ending(".rs")
        .filter(|(path, _)| !LONGER.iter().any(|(longer, _)| longer == path))
        .filter_map(|(path, text)| {
            let count = text.lines().count();
            (count > LINES_MAX).then(|| {
                let what = format!("{count} lines; at most {LINES_MAX}: split it by what changes");
                Finding::new(path, LINES_MAX + 1, "size", what)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_801_is_one_too_many() {
        let long = "//\n".repeat(801);
        let found = check(&Tree::of(&[("a.rs", &long), ("b.rs", &long[3..]), ("c.md", &long)]));
        assert_eq!(
            found.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["a.rs:801: [size] 801 lines; at most 800: split it by what changes"]
        );
    }
}
