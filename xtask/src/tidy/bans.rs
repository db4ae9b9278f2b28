//! Bans: what must not stand in the tree, each with its reason.

use super::tree::{Finding, Tree};
use regex::Regex;

const RULE: &str = "ban";

/// Crates that may say `unsafe`, with a `// SAFETY:` argument for each block.
const UNSAFE_ALLOWED: [&str; 4] =
    ["crates/disk-host/", "crates/capi/", "crates/foreign/", "crates/python/src/value.rs"];

/// Names that say nothing about what lies inside.
const DRAWERS: [&str; 5] = ["utils", "common", "helpers", "misc", "types"];

/// A pattern, the files it is looked for in, and why it is banned.
struct Ban {
    pattern: Regex,
    only: fn(&str) -> bool,
    why: &'static str,
}

fn is_rust(path: &str) -> bool {
    path.ends_with(".rs") && !is_this_list(path)
}

/// This file holds what it bans.
fn is_this_list(path: &str) -> bool {
    path.starts_with("xtask/src/tidy")
}

fn bans() -> Vec<Ban> {
    let ban = |pattern: &str, only: fn(&str) -> bool, why: &'static str| Ban {
        pattern: Regex::new(pattern).expect("the patterns are constants and tested"),
        only,
        why,
    };
    vec![
        ban(r"\b(todo|unimplemented|dbg)!", is_rust, "unfinished code; finish it or leave it out"),
        ban(r"#\[ignore\b", is_rust, "a test that does not run; assert today's behaviour instead"),
        ban(
            r"\b(TODO|FIXME|XXX)\b(?:[^(]|\([^#]|$)",
            is_rust,
            "name the issue: TODO(#7): what and why",
        ),
        // A whole crate may allow: a benchmark that compiles some of a library's modules has to.
        ban(r"#\[allow\(", is_rust, "use #[expect(lint, reason = \"...\")]: it says when to go"),
        ban(
            r"^\s*(pub(\([^)]*\))? )?unsafe \b|\bunsafe \{",
            |path| is_rust(path) && !UNSAFE_ALLOWED.iter().any(|dir| path.starts_with(dir)),
            "unsafe lives in disk-host, capi, foreign and one file of python only",
        ),
        ban(
            r#"(^|[\s"'`(=])/(work|root|home|Users)/\w"#,
            |path| !is_this_list(path),
            "a path of one machine; use a relative path or a temporary directory",
        ),
        ban(r"[ \t]+$", |path| !path.ends_with(".md") && !path.contains("testdata"), "blank end"),
    ]
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let bans = bans();
    let mut findings = Vec::new();
    for (path, text) in &tree.files {
        for drawer in DRAWERS {
            let named = path.split('/').any(|part| part.strip_suffix(".rs") == Some(drawer))
                || path.split('/').any(|part| part == drawer);
            if named {
                let what = format!("{drawer:?} names a drawer; name the noun that lies inside");
                findings.push(Finding::new(path, 1, RULE, what));
            }
        }
        for ban in bans.iter().filter(|ban| (ban.only)(path)) {
            for (at, line) in text.lines().enumerate() {
                if let Some(hit) = ban.pattern.find(line) {
                    let what = format!("{:?}: {}", hit.as_str().trim(), ban.why);
                    findings.push(Finding::new(path, at + 1, RULE, what));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_ban_hits_what_it_bans() {
        for bad in [
            "fn f() { todo!() }",
            "    dbg!(x);",
            "#[ignore]",
            "// TODO: later",
            "// FIXME",
            "#[allow(dead_code)]",
            "unsafe { x() }",
            "let p = \"/home/someone/x\";",
            "x ",
        ] {
            assert_eq!(check_one("crates/a/src/lib.rs", bad).len(), 1, "{bad}");
        }
        assert_eq!(check_one("crates/a/src/utils.rs", "").len(), 1);
        assert_eq!(check_one("crates/common/src/lib.rs", "").len(), 1);
    }

    #[test]
    fn what_is_allowed_passes() {
        for good in [
            "// TODO(#7): read ahead once the drive has a queue",
            "#[expect(unused, reason = \"why\")]",
            "let p = \"/var/lib/dpkg/status\"; // not unsafe at all",
            "let todo = 1;",
        ] {
            assert_eq!(check_one("crates/a/src/lib.rs", good), [""; 0]);
        }
        assert_eq!(check_one("crates/capi/src/lib.rs", "unsafe { x() }"), [""; 0]);
    }
}
