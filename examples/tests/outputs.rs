//! Runs every example and compares its output with the file of its name, and with the page that quotes it;
//! `REWRITE=1` writes both anew.

use std::path::Path;
use std::process::Command;

macro_rules! examples {
    ($($name:literal),*) => { [$(($name, env!(concat!("CARGO_BIN_EXE_", $name)))),*] };
}

/// An example, and the page that quotes its output between `<!-- NAME -->` and `<!-- end -->`.
const QUOTED: (&str, &str) = ("journey_of_a_put", "../docs/concepts/a_put.md");

#[test]
fn every_example_prints_what_its_file_holds() {
    let examples = examples![
        "journey_of_a_put",
        "open_or_create",
        "batches",
        "scans",
        "snapshots",
        "keyspaces",
        "real_device",
        "virtual_time",
        "power_cut",
        "layout_by_name",
        "backup"
    ];
    let rewrite = std::env::var_os("REWRITE").is_some();
    for (name, program) in examples {
        let dir = tempfile::tempdir().unwrap();
        let output = Command::new(program).env("TMPDIR", dir.path()).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {errors}");
        let got = String::from_utf8(output.stdout).unwrap();
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        check(&here.join(name).with_extension("txt"), &got, rewrite);
        if name == QUOTED.0 {
            let page = here.join(QUOTED.1);
            check(&page, &quoted(&std::fs::read_to_string(&page).unwrap(), name, &got), rewrite);
        }
    }
}

/// Compares the file at `path` with `expected`, or writes it.
fn check(path: &Path, expected: &str, rewrite: bool) {
    if rewrite {
        return std::fs::write(path, expected).expect("an expected output is writable");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(expected, found, "REWRITE=1 writes {} anew", path.display());
}

/// `page` with `output` between the markers of `name`.
fn quoted(page: &str, name: &str, output: &str) -> String {
    let start = format!("<!-- {name} -->\n");
    let (before, rest) = page.split_once(&start).expect("a page that quotes has the start marker");
    let (_, after) = rest.split_once("<!-- end -->").expect("a quotation has an end marker");
    format!("{before}{start}```text\n{output}```\n<!-- end -->{after}")
}
