//! A drive, and programs of this machine that run on it by `imbrex run`.

use super::counters::Counters;
use super::output::last_after;
use crate::cargo;
use crate::program::make_drive;
use anyhow::{Context, Result, bail, ensure};
use regex::Regex;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A drive, and the programs run on it.
pub(crate) struct Session {
    root: PathBuf,
    imbrex: PathBuf,
    /// The directory of the adapters and of the programs for tests.
    adapters: PathBuf,
    pub(super) drive: PathBuf,
    pub(super) layout: &'static str,
    /// A directory of libraries that the system's loader does not search.
    pub(crate) libraries: Option<PathBuf>,
}

impl Session {
    /// Creates an empty drive for `layout` in `dir`, with `options` of `imbrex drive create`.
    pub(crate) fn new(
        root: &Path,
        dir: &Path,
        layout: &'static str,
        options: &[&str],
    ) -> Result<Session> {
        std::fs::create_dir_all(dir).context("cannot make a directory for test drives")?;
        let imbrex = cargo::imbrex(root);
        let drive = dir.join(layout);
        let _ = std::fs::remove_file(&drive);
        make_drive(&imbrex, &drive, layout, options)?;
        let adapters = root.join("target/adapters");
        let root = root.to_owned();
        Ok(Session { root, imbrex, adapters, drive, layout, libraries: None })
    }

    /// Runs a program on the drive; returns its exit code and its output.
    pub(super) fn try_run(&self, options: &[&str], program: &[&str]) -> Result<(i32, String)> {
        let mut command = Command::new(&self.imbrex);
        if let Some(libraries) = &self.libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        let output = command
            .args(["run", "--layout", self.layout, "--drive"])
            .arg(&self.drive)
            .args(options)
            .arg("--")
            .args(program)
            .current_dir(&self.root)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run {}", program.join(" ")))?;
        let said = [output.stdout, output.stderr].concat();
        Ok((output.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned()))
    }

    /// Runs a program that must succeed and print `expected`.
    pub(super) fn run(&self, program: &[&str], expected: &str) -> Result<String> {
        let (code, said) = self.try_run(&["--stats"], program)?;
        if code != 0 || !said.contains(expected) {
            bail!("`{}` ended with {code}, expected {expected:?}:\n{said}", program.join(" "));
        }
        println!("  {:<18} {}", self.layout, program[..program.len().min(4)].join(" "));
        Ok(said)
    }

    /// Runs a program that must succeed; returns what the drive did for it.
    pub(crate) fn measure(&self, program: &[&str]) -> Result<Counters> {
        let report = self.drive.with_extension("report");
        let shown = report.display().to_string();
        let (code, said) = self.try_run(&["--report", &shown], program)?;
        ensure!(code == 0, "`{}` ended with {code}:\n{said}", program.join(" "));
        let text = std::fs::read_to_string(&report);
        Counters::parse(&text.with_context(|| format!("cannot read {shown}"))?)
    }

    /// Like `measure`, for a program that destroys its database. Afterwards the adapter must hold no entry of a table
    /// that is gone or could not be created.
    pub(super) fn destroys(&self, program: &[&str]) -> Result<Counters> {
        let counters = self.measure(program)?;
        let kept = counters.get("kept_in_mind")?;
        ensure!(kept == 0.0, "`{}`: {kept} entries of tables that are gone", program.join(" "));
        Ok(counters)
    }

    /// Removes the drive and its report.
    pub(crate) fn remove_drive(self) -> Result<()> {
        std::fs::remove_file(&self.drive).context("cannot remove a drive")?;
        let _ = std::fs::remove_file(self.drive.with_extension("report"));
        Ok(())
    }

    /// The path of a program for tests.
    pub(crate) fn program(&self, name: &str) -> Result<String> {
        let path = self.adapters.join(name).into_os_string().into_string();
        path.map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))
    }

    /// A database in a catalog full of names can still be opened, compacted and emptied.
    pub(super) fn crowded(&self, program: &str) -> Result<()> {
        let db = format!("/crowded/{program}");
        self.destroys(&[&self.program(program)?, &db, "crowded"])?;
        println!("  {:<18} a crowded catalog: opened and emptied", "");
        Ok(())
    }

    /// A program on an empty drive leaves one table of at least `pieces` pieces, and each piece has the level that the
    /// program prints.
    pub(super) fn placed_by_level(
        &self,
        name: &str,
        arguments: &[&str],
        pieces: usize,
    ) -> Result<()> {
        let program = &self.program(name)?;
        let said = self.run(&[&[program.as_str()], arguments].concat(), "level ")?;
        let level = last_after(&said, "level ").with_context(|| format!("no level in {said}"))?;
        let mut dump = Command::new(&self.imbrex);
        let dump = dump.args(["--format", "json", "dump"]).arg(&self.drive).output();
        let dump = String::from_utf8(dump.context("cannot start imbrex")?.stdout)?;
        let table = Regex::new(r#""kind":\s*"table"[^{}]*?"level":\s*(\d+)"#)?;
        let found: Vec<&str> =
            table.captures_iter(&dump).map(|found| found.extract::<1>().1[0]).collect();
        let is_right = found.len() >= pieces && found.iter().all(|&of_piece| of_piece == level);
        ensure!(is_right, "a table of level {level} is placed as of {found:?}:\n{dump}");
        println!("  {:<18} a table in {} pieces, each of level {level}", "", found.len());
        Ok(())
    }
}
