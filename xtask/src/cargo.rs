//! Calls of `cargo` that several chores share: the gate's one build, torture, the fuzzers.
//!
//! Not here: how a call is made and where its programs are (`imbrex_system_tests::cargo`).

use anyhow::{Context, Result, bail};
pub(crate) use imbrex_system_tests::cargo::{
    BUILT, Cargo, TESTED_FEATURES, be_gate, build, imbrex, target,
};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The gate's one build: every library, program and test. Whatever else the gate asks of cargo chooses the same packages
/// and the same profile, because cargo builds a crate once for each choice of features and each profile.
pub(crate) fn whole_build(cargo: Cargo) -> Cargo {
    let build = ["build", "--workspace", "--lib", "--bins", "--tests", "--profile", "ci"];
    cargo.args(build).args(["--features", TESTED_FEATURES])
}

/// The directory that holds the root `Cargo.toml`.
pub(crate) fn workspace_root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here.parent().context("xtask lies in the workspace's root")?.to_path_buf())
}

/// The torture program, built as the gate builds it.
pub(crate) fn torture(root: &Path) -> Cargo {
    let run = ["run", "--profile", "ci", "--features", TESTED_FEATURES];
    Cargo::new(root).args(run).args(["--bin", "imbrex-torture", "--"])
}

/// Runs one fuzz target for a while, or lists them all.
pub(crate) fn fuzz(root: &Path, target: Option<&str>, seconds: u64) -> Result<()> {
    let Some(target) = target else {
        for target in fuzz_targets(root)? {
            println!("{target}");
        }
        return Ok(());
    };
    if !fuzz_targets(root)?.iter().any(|known| known == target) {
        bail!("no fuzz target {target:?}; `cargo xtask fuzz` lists them");
    }
    let installed = Command::new("cargo")
        .args(["fuzz", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !installed {
        bail!(
            "cargo-fuzz is missing, so nothing was fuzzed; install it with\n\
             \x20   rustup toolchain install nightly\n\
             \x20   cargo install cargo-fuzz\n\
             (the saved inputs run without it: cargo test --package imbrex-fuzz-corpus)"
        );
    }
    let seeds = format!("fuzz/seeds/{target}");
    let corpus = format!("fuzz/corpus/{target}");
    std::fs::create_dir_all(root.join(&corpus)).context("cannot create fuzz/corpus")?;
    let time = format!("-max_total_time={seconds}");
    Cargo::of_toolchain(root, "nightly")
        .args(["fuzz", "run", target, &corpus, &seeds, "--", &time])
        .run()
}

fn fuzz_targets(root: &Path) -> Result<Vec<String>> {
    let dir = root.join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in
        std::fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))?
    {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "rs") {
            names.extend(path.file_stem().and_then(|s| s.to_str()).map(str::to_owned));
        }
    }
    names.sort();
    Ok(names)
}
