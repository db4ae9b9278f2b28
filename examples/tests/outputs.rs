//! Runs every example and compares what it prints with the file of its name; `REWRITE=1` writes the files anew.

use std::path::Path;
use std::process::Command;

macro_rules! examples {
    ($($name:literal),*) => { [$(($name, env!(concat!("CARGO_BIN_EXE_", $name)))),*] };
}

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
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name).with_extension("txt");
        if rewrite {
            std::fs::write(&path, got).unwrap();
            continue;
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(got, expected, "{name}: REWRITE=1 writes {} anew", path.display());
    }
}
