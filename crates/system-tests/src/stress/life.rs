//! One life of the program: its planned end, and its outcome.

use crate::random::Random;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// The planned end of a life.
#[derive(Clone, Debug)]
pub(super) enum Death {
    /// Killed after this many batches, 0 while it opens the database; with or without the loss of the drive's cache.
    Killed { after_batches: u64, has_cache: bool },
    /// The power fails at this device event.
    Cut { after_events: u64, seed: u64, cache_bytes: u64 },
    /// The program ends by itself.
    Closed { batches: u64 },
    /// The program only judges the database and closes it.
    AtOnce,
}

impl Death {
    pub(super) fn draw(random: &mut Random) -> Death {
        let cache_bytes = 4096 << (2 * random.below(8));
        match random.below(20) {
            0..=7 => Death::Killed {
                after_batches: random.below_some(13),
                has_cache: random.below(2) == 0,
            },
            8..=17 => Death::Cut {
                after_events: random.below_some(13),
                seed: random.next() >> 1,
                cache_bytes,
            },
            _ => Death::Closed { batches: random.below_some(12) },
        }
    }

    /// The name in a list.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Death::Killed { has_cache: false, .. } => "killed",
            Death::Killed { has_cache: true, .. } => "killed with the cache",
            Death::Cut { .. } => "cut",
            Death::Closed { .. } | Death::AtOnce => "closed",
        }
    }

    /// The drive's address, with its cache and the planned power cut.
    fn uri(&self, drive: &Path, layout: &str) -> String {
        let uri = format!("imbrex://{}?layout={layout}", drive.display());
        match self {
            Death::Cut { after_events, seed, cache_bytes } => {
                format!("{uri}&cut-after={after_events}&cut-seed={seed}&cache={cache_bytes}")
            }
            Death::Killed { has_cache: true, .. } => format!("{uri}&cut-after={}", u64::MAX),
            Death::Killed { .. } | Death::Closed { .. } | Death::AtOnce => uri,
        }
    }

    /// The number of batches without an earlier end.
    fn batches(&self) -> u64 {
        match self {
            Death::Killed { .. } => u64::MAX,
            Death::Cut { .. } => 30_000,
            Death::Closed { batches } => *batches,
            Death::AtOnce => 0,
        }
    }
}

/// The outcome of a life.
pub(super) struct End {
    /// Why it did not end as planned.
    pub(super) failure: Option<String>,
    /// Its last lines of output.
    pub(super) said: String,
    /// Whether it closed the database and the drive.
    pub(super) is_closed: bool,
    /// Whether it ended because the drive was full: while it opened the database if `verified` is `None`.
    pub(super) is_full: bool,
    /// The number of batches found, if it judged the database.
    pub(super) verified: Option<u64>,
}

/// A planned life.
pub(super) struct Life<'a> {
    pub(super) root: &'a Path,
    pub(super) dir: &'a Path,
    pub(super) layout: &'a str,
    /// The program, and the library to preload.
    pub(super) programs: (&'a str, &'a str),
    pub(super) seed: u64,
    pub(super) death: Death,
}

/// Whether a database failed for lack of space, by its messages. Then no thread may report damage. A life that only
/// reads needs no space, so an error in it has another cause.
fn is_full(said: &str) -> bool {
    let only_reads = said.lines().any(|line| line.starts_with("too full to open, and only read: "));
    let is_hidden =
        |line: &str| line.starts_with("error: ") && (only_reads || line.contains("Corruption"));
    said.contains("no space: ") && !said.lines().any(is_hidden)
}

impl Life<'_> {
    pub(super) fn live(&self) -> Result<End> {
        let adapters = self.root.join("target/adapters");
        let (expected, errors) = (self.dir.join("expected"), self.dir.join("errors"));
        let mut child = Command::new(adapters.join(self.programs.0))
            .arg("/db")
            .arg(&expected)
            .arg(self.seed.to_string())
            .arg(self.death.batches().to_string())
            .env("LD_PRELOAD", adapters.join(self.programs.1))
            .env("IMBREX_URI", self.death.uri(&self.dir.join("drive"), self.layout))
            .env("IMBREX_RUN", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&errors).context("cannot make a file")?)
            .spawn()
            .context("cannot start the program")?;
        let stdout = child.stdout.take().context("its output is a pipe")?;
        let (mut said, mut verified) = (Vec::new(), None);
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.context("reading what it says")?;
            // A damaged value may not be text.
            let line = String::from_utf8_lossy(&line).into_owned();
            if self.is_due(&line) {
                child.kill().context("cannot kill it")?;
            }
            if let Some(count) = line.strip_prefix("verified ") {
                verified = count.split(' ').next().and_then(|count| count.parse().ok());
            }
            if !line.starts_with("at ") {
                said.push(line);
            }
        }
        let status = child.wait().context("cannot wait for it")?;
        said.push(std::fs::read_to_string(&errors).context("reading its errors")?);
        let said = said.join("\n");
        let is_full = matches!(status.code(), Some(0 | 3)) && is_full(&said);
        let is_closed = status.success() && !said.contains("imbrex: cannot sync");
        if is_closed {
            File::create(expected.join("whole")).context("cannot make a file")?;
        }
        let is_at_its_end = is_full && !said.contains("a bug in imbrex");
        let failure = if is_at_its_end { None } else { self.judge(status, &said) };
        Ok(End { failure, said, is_closed, is_full, verified })
    }

    /// Whether the line is the signal to kill the program.
    fn is_due(&self, line: &str) -> bool {
        let Death::Killed { after_batches, .. } = self.death else { return false };
        match line.strip_prefix("at ").map(str::parse::<u64>) {
            Some(Ok(at)) => after_batches > 0 && at >= after_batches,
            _ => after_batches == 0 && line == "opening",
        }
    }

    fn judge(&self, status: ExitStatus, said: &str) -> Option<String> {
        // Messages of the file layer about a drive without power, and about itself afterwards.
        let signs = ["the disk has no power", "refused: a", "what is durable is unknown"];
        let is_cut = signs.iter().any(|sign| said.contains(sign));
        // Debian's RocksDB is built with assertions, some of which claim that no write ever fails. It also crashes in
        // the destructor of an iterator that could not read. Crashes with another cause show in lives without a cut.
        let is_its_own = match status.signal() {
            Some(6) => said.contains("stress_program: ./"),
            Some(11) => said.contains("librocksdb.so") && !said.contains("libimbrex"),
            _ => false,
        };
        let is_expected = match self.death {
            _ if said.contains("WRONG") || said.contains("a bug in imbrex") => false,
            Death::Killed { .. } => status.signal() == Some(9),
            Death::Cut { .. } => {
                status.success() || is_its_own || (is_cut && status.code().is_some())
            }
            Death::Closed { .. } | Death::AtOnce => {
                status.success() && !said.contains("imbrex: cannot sync")
            }
        };
        (!is_expected).then(|| format!("it ended with {status}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of four threads found the drive full and another a damaged block; the life counted as a full drive.
    #[test]
    fn damage_is_no_want_of_space() {
        let full =
            "error: thread 1: write: IO error: No space left on device: no space: 4096 bytes";
        let later = "error: thread 2: flush: IO error: refused after an earlier failure";
        let damage = "error: thread 3: read: Corruption: block checksum mismatch";
        assert!(is_full(full));
        assert!(is_full(&[full, later].join("\n")));
        assert!(!is_full(&[full, damage].join("\n")));
        assert!(!is_full(later));
        let read = "too full to open, and only read: IO error: no space: 4096 bytes";
        assert!(is_full(&[read, "verified 7 batches"].join("\n")));
        assert!(!is_full(&[read, "error: open: IO error: No such file"].join("\n")));
    }
}
