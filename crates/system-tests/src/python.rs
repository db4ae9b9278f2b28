//! The Python package `imbrex`: its own tests (`crates/python/tests`), in the system's Python and in a newer one.
//!
//! ```text
//!   target/ci/libimbrex_python.so --+
//!   crates/python/python/imbrex ----+--> SCRATCH/imbrex/     the package as a wheel has it
//!   python3 -m unittest  <--------------- PYTHONPATH
//! ```
//!
//! Nothing is installed but Python itself, and nothing comes from the network.

use crate::cargo;
use crate::packages::{self, Need};
use crate::scratch::Scratch;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NEEDS: [Need; 1] = [("/usr/bin/python3", "python3")];

/// The oldest Python that the package is for.
const MINOR_MIN: u32 = 11;

/// An interpreter.
struct Python {
    program: PathBuf,
    /// Of its version 3.x.
    minor: u32,
}

impl Python {
    /// The interpreter `program`, if it runs and is one of version 3.
    fn at(program: PathBuf) -> Option<Python> {
        let version =
            "import sys; print(sys.version_info.minor if sys.version_info.major == 3 else 0)";
        let output = Command::new(&program).args(["-c", version]).stderr(Stdio::null()).output();
        let text = String::from_utf8(output.ok().filter(|o| o.status.success())?.stdout).ok()?;
        Some(Python { program, minor: text.trim().parse().ok()? })
    }

    /// The newest interpreter of this machine: on the path, or one that pyenv keeps.
    fn newest() -> Option<Python> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
        let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv"));
        let pyenv = std::env::var_os("PYENV_ROOT").map(PathBuf::from).or(home);
        let kept = pyenv.and_then(|root| std::fs::read_dir(root.join("versions")).ok());
        dirs.extend(kept.into_iter().flatten().flatten().map(|kept| kept.path().join("bin")));
        let programs = dirs
            .iter()
            .flat_map(|dir| (MINOR_MIN..30).map(|minor| dir.join(format!("python3.{minor}"))));
        programs.filter(|p| p.exists()).filter_map(Python::at).max_by_key(|python| python.minor)
    }
}

/// Tests the package; `may_skip` decides whether a missing Python ends the run.
pub fn run(root: &Path, may_skip: bool) -> Result<()> {
    if !packages::provide(&NEEDS, "the Python package was not tested", may_skip)? {
        return Ok(());
    }
    cargo::build(root)?;
    let scratch = Scratch::new(root, "python")?;
    lay_out(root, scratch.path())?;
    let system = Python::at("/usr/bin/python3".into()).context("/usr/bin/python3 does not run")?;
    let mut pythons = Vec::new();
    match system.minor {
        MINOR_MIN.. => pythons.push(system),
        minor => {
            let what = format!(
                "the system's Python is 3.{minor}; the package is for 3.{MINOR_MIN} and later"
            );
            ensure!(may_skip, "{what}");
            packages::skip(&what, "");
        }
    }
    let tested = pythons.first().map_or(MINOR_MIN - 1, |system| system.minor);
    match Python::newest().filter(|newest| newest.minor > tested) {
        Some(newest) => pythons.push(newest),
        None => packages::skip("the Python package was not tested on a newer Python", ""),
    }
    let ends: Vec<Result<()>> = std::thread::scope(|scope| {
        let test = |python| test(root, scratch.path(), python);
        let threads: Vec<_> =
            pythons.iter().map(|python| scope.spawn(move || test(python))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| bail!("a thread panicked")))
            .collect()
    });
    ends.into_iter().collect()
}

/// Lays the package out in `dir`.
pub(crate) fn lay_out(root: &Path, dir: &Path) -> Result<()> {
    let package = dir.join("imbrex");
    std::fs::create_dir(&package).context("cannot make the package's directory")?;
    let sources = root.join("crates/python/python/imbrex");
    let entries = std::fs::read_dir(&sources).context("cannot list the package")?;
    for entry in entries {
        let path = entry?.path();
        if let Some(name) = path.file_name().filter(|_| path.is_file()) {
            std::fs::copy(&path, package.join(name))
                .with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    let library = cargo::target(root).join("libimbrex_python.so");
    std::fs::copy(&library, package.join("_imbrex.abi3.so"))
        .with_context(|| format!("cannot copy {}: build it first", library.display()))?;
    Ok(())
}

/// Runs the tests in one interpreter, and shows what it printed in one piece.
fn test(root: &Path, package: &Path, python: &Python) -> Result<()> {
    let output = Command::new(&python.program)
        .args(["-X", "dev", "-m", "unittest", "discover", "--start-directory"])
        .arg(root.join("crates/python/tests"))
        .env("PYTHONPATH", package)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("IMBREX_ROOT", root)
        .output()
        .with_context(|| format!("cannot start {}", python.program.display()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    println!("Python 3.{} ({})\n{}", python.minor, python.program.display(), text.trim_end());
    ensure!(output.status.success(), "the Python package failed in Python 3.{}", python.minor);
    Ok(())
}
