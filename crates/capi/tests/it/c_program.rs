//! A program in C, compiled by the system's compiler against the header and the shared library.

use super::drives::{make, make_with};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The shared library of this build.
fn library_dir() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let deps = exe.parent().unwrap();
    // The library next to it may be of an earlier build.
    let dirs = [deps, deps.parent().unwrap()];
    let dir = dirs.into_iter().find(|dir| dir.join("libimbrex_capi.so").is_file());
    dir.expect("cargo builds the shared library with the tests").to_owned()
}

fn compiler() -> Option<&'static str> {
    let works = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    ["cc", "gcc", "clang"].into_iter().find(works)
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    said
}

fn compile(compiler: &str, language: &[&str], to: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(compiler);
    command.args(language).args(["-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    command.arg("-I").arg(root.join("include")).arg("-o").arg(to);
    command.args([
        "-x",
        language[0].split_once("=c").map_or(
            "c",
            |(_, rest)| {
                if rest.starts_with("++") { "c++" } else { "c" }
            },
        ),
    ]);
    command.arg(root.join("tests/it/story.c")).arg("-x").arg("none");
    let dir = library_dir();
    command.arg("-L").arg(&dir).arg(format!("-Wl,-rpath,{}", dir.display()));
    run(command.args(["-limbrex_capi", "-lpthread"]));
}

#[test]
fn works_from_c_and_from_cxx() {
    let Some(compiler) = compiler() else {
        println!("SKIPPED: no C compiler here (cc, gcc or clang); the C ABI was not tested");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    for (language, layout) in [("-std=c11", "leveled-zones"), ("-std=c++17", "leveled-first-fit")] {
        let (program, drive) = (dir.path().join("story"), dir.path().join(layout));
        compile(compiler, &[language], &program);
        make(&drive, layout);
        let said = run(Command::new(&program).arg(&drive).arg("write"));
        assert_eq!(said, "written\nthe drive is NULL\n");
        let said = run(Command::new(&program).arg(&drive).arg("read"));
        assert_eq!(said, "read\nthe drive is NULL\n");
        let said = run(Command::new(&program).arg(&drive).arg("fork"));
        assert_eq!(said, "forked\nthe drive is NULL\n");
        let drive = drive.with_extension("store");
        make_with(&drive, layout, true);
        let said = run(Command::new(&program).arg(&drive).arg("store"));
        assert_eq!(said, "stored\nthe drive is NULL\n");
    }
}

/// The library as an installation has it: found by pkg-config, and loaded by the name with the number of its ABI.
#[test]
fn the_example_runs_with_the_installed_library() {
    let needed = ["make", "pkg-config", "readelf"];
    let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let (Some(compiler), true) = (compiler(), needed.iter().all(is_there)) else {
        println!(
            "SKIPPED: a C compiler, make, pkg-config and readelf are needed to test the installation"
        );
        return;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = tempfile::tempdir().unwrap();
    let prefix = dir.path().join("usr");
    let set = |name: &str, path: &Path| format!("{name}={}", path.display());
    let (prefix_is, built_is) = (set("PREFIX", &prefix), set("BUILT", &library_dir()));
    run(Command::new("make").arg("-C").arg(root).args(["install", &prefix_is, &built_is]));
    let flags = run(Command::new("pkg-config")
        .args(["--cflags", "--libs", "imbrex"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
    let program = dir.path().join("hello");
    let mut command = Command::new(compiler);
    command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    run(command.arg(root.join("examples/hello.c")).args(flags.split_whitespace()));
    let needs = run(Command::new("readelf").arg("-d").arg(&program));
    assert!(needs.contains("[libimbrex_capi.so.0]"), "{needs}");
    let image = dir.path().join("d.imbrex");
    let hello = || {
        let mut command = Command::new(&program);
        command.arg(&image).env("LD_LIBRARY_PATH", prefix.join("lib"));
        command
    };
    assert_eq!(run(&mut hello()), "banana\napple\n");
    let again = hello().output().unwrap();
    assert_eq!(again.status.code(), Some(1));
    let told = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(told.contains("it exists already"), "{told}");
}

#[test]
fn the_guide_shows_the_example() {
    let page = include_str!("../../../../docs/guide/c.md");
    assert!(
        page.contains(include_str!("../../examples/hello.c")),
        "docs/guide/c.md differs from examples/hello.c"
    );
}
