//! One step of the gate, as a process of its own: its output in one piece, its processor time, its log.
//!
//! ```text
//!   gate  --starts-->  xtask ci --step NAME  --starts-->  cargo, servers, databases, ...
//!     ^                       |    |
//!     +------ output ---------+    +--> target/ci/steps/NAME.cpu     what all of them used
//!     +--> target/ci/steps/NAME.log
//! ```
//!
//! A step that runs alone shows its output as it comes; of two that run side by side each shows its own when it
//! ends.

use super::times::Time;
use anyhow::{Context, Result, bail};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// How a step that ended in time went.
pub(super) struct Done {
    pub(super) time: Time,
    /// What it could not test, as it said.
    pub(super) skipped: Vec<String>,
}

/// When a step's output is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    AsItComes,
    AtTheEnd,
}

/// Runs the step called `name` in a process of its own, with `scratch` for temporary files.
pub(super) fn run(root: &Path, name: &str, scratch: &Path, shown: Shown) -> Result<Done> {
    let dir = directory(root);
    std::fs::create_dir_all(&dir).context("cannot make a directory for logs")?;
    let start = now();
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    // Not by its path: the step `build` may put another program there.
    let mut command = Command::new("/proc/self/exe");
    command.args(["ci", "--step", name]).current_dir(root).env("TMPDIR", scratch);
    command.stdout(writer.try_clone().context("cannot share a pipe")?).stderr(writer);
    let mut child = command.spawn().context("cannot start xtask")?;
    // It holds the writing end: the output would never end.
    drop(command);
    let mut log = std::fs::File::create(dir.join(format!("{name}.log"))).context("no log")?;
    let (mut said, mut skipped) = (Vec::new(), Vec::new());
    show(&format!("\n=== {name} ===\n"), shown, &mut said)?;
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.context("cannot read what a step says")?;
        let line = format!("{}\n", String::from_utf8_lossy(&line));
        log.write_all(line.as_bytes()).context("cannot write a log")?;
        skipped.extend(line.trim_end().strip_prefix("SKIPPED: ").map(str::to_owned));
        show(&line, shown, &mut said)?;
    }
    let status = child.wait().context("cannot wait for a step")?;
    std::io::stdout().lock().write_all(&said).context("cannot show what a step said")?;
    if !status.success() {
        bail!("step {name:?} failed ({status}); again: cargo xtask ci --step {name}");
    }
    let wall_s = start.elapsed().as_secs_f64();
    let cpu = std::fs::read_to_string(dir.join(format!("{name}.cpu")));
    let cpu_s = cpu.context("a step left no processor time")?.trim().parse()?;
    Ok(Done { time: Time { cpu_s, wall_s }, skipped })
}

fn show(text: &str, shown: Shown, said: &mut Vec<u8>) -> Result<()> {
    match shown {
        Shown::AsItComes => {
            std::io::stdout().lock().write_all(text.as_bytes()).context("cannot print")
        }
        Shown::AtTheEnd => {
            said.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
}

/// In the process of a step, at its end: leaves the processor time of this process and of all that it waited for.
pub(super) fn leave_time(root: &Path, name: &str) -> Result<()> {
    let mut cpu_s = 0.0;
    for whose in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
        cpu_s += seconds(&getrusage(whose).context("cannot ask for processor times")?);
    }
    let path = directory(root).join(format!("{name}.cpu"));
    std::fs::create_dir_all(directory(root)).context("cannot make a directory for logs")?;
    std::fs::write(path, format!("{cpu_s:.2}\n")).context("cannot leave a processor time")
}

fn seconds(usage: &Usage) -> f64 {
    let times = [usage.user_time(), usage.system_time()];
    times.iter().map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6).sum()
}

fn directory(root: &Path) -> PathBuf {
    root.join("target/ci/steps")
}

#[expect(clippy::disallowed_methods, reason = "how long a chore took, for a person to read")]
pub(super) fn now() -> Instant {
    Instant::now()
}
