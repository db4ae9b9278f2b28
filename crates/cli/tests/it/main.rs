//! The command `imbrex` as a user runs it: a process, its output, its exit code.
#![expect(clippy::unwrap_used, reason = "a helper fails as its test does")]

mod arrivals;
mod bad_input;
#[path = "../../../imbrex/tests/it/bad_paths.rs"]
mod bad_paths;
mod closed_pipes;
mod control;
mod copies;
mod crash;
mod data_files;
mod demo;
mod drives;
mod entries;
mod figures;
mod foreign;
mod foreign_damage;
mod formatting;
mod full;
mod interrupts;
mod layouts;
mod loading;
mod manual;
mod measuring;
mod objects;
mod output_files;
mod read_only;
mod replay;
mod salvage;
mod scrub;
mod serving;
mod serving_read_only;
mod watching;
mod ycsb;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The outcome of a run of the command.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: String,
}

impl Ran {
    /// Checks that it succeeded; returns its output.
    #[track_caller]
    fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        String::from_utf8(self.stdout).unwrap()
    }

    /// Checks that it failed with `code` and a last line that contains all of `parts`.
    #[track_caller]
    fn fails(self, code: i32, parts: &[&str]) -> String {
        let stderr = self.stderr;
        assert_eq!(self.code, Some(code), "stderr: {stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
        let last = stderr.lines().last().unwrap_or_default().to_owned();
        assert!(last.starts_with("imbrex: "), "{stderr}");
        for part in parts {
            assert!(last.contains(part), "{part:?} is missing in: {last}");
        }
        last
    }

    fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.ok()).unwrap()
    }
}

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_imbrex"));
    command.stdin(Stdio::null());
    command
}

fn imbrex(args: &[&str]) -> Ran {
    ran(command().args(args).output().unwrap())
}

/// Like [`imbrex`], with `input` on standard input.
fn imbrex_with(input: &[u8], args: &[&str]) -> Ran {
    let mut child = command()
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A command that fails early closes its end; the test checks its messages.
    let _ = stdin.write_all(input);
    drop(stdin);
    ran(child.wait_with_output().unwrap())
}

fn ran(output: std::process::Output) -> Ran {
    Ran {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A drive in a temporary directory.
struct Drive {
    dir: tempfile::TempDir,
}

impl Drive {
    /// A small zoned drive with an empty store.
    fn new() -> Drive {
        let drive = Drive { dir: tempfile::tempdir().unwrap() };
        imbrex(&["drive", "create", drive.path_str(), "--capacity", "4GiB", "--no-timing"]).ok();
        drive
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("d.imbrex")
    }

    fn path_str(&self) -> &'static str {
        // The path is leaked, which keeps the calls readable; the process ends with its tests.
        Box::leak(self.path().to_str().unwrap().to_owned().into_boxed_str())
    }

    /// `imbrex COMMAND DRIVE ARGS`.
    fn run(&self, command: &str, args: &[&str]) -> Ran {
        imbrex(&[&[command, self.path_str()], args].concat())
    }

    fn run_with(&self, input: &[u8], command: &str, args: &[&str]) -> Ran {
        imbrex_with(input, &[&[command, self.path_str()], args].concat())
    }

    /// The path of another file in the test's directory.
    fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// Copies a sparse file without its holes.
fn copy_sparse(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("--sparse=always").args([from, to]).status().unwrap();
    assert!(status.success());
}

/// `count` records as JSON lines; the value of a key depends on `round`.
fn json_lines(count: usize, round: usize) -> String {
    (0..count)
        .map(|n| format!("{{\"key\": \"key{n:06}\", \"value\": \"{}\"}}\n", value(n, round)))
        .collect()
}

fn value(n: usize, round: usize) -> String {
    format!("round {round} of {n} {}", "x".repeat(n * 7 % 300))
}

impl Ran {
    /// Checks that the command line was refused.
    #[track_caller]
    fn fails_usage(self) {
        assert_eq!(self.code, Some(2), "{}", self.stderr);
        assert!(self.stderr.contains("Usage: imbrex"), "{}", self.stderr);
    }
}
