//! The interpreter of `testdata/pairs`: a zoned drive and a flash drive, commands in words.
//!
//! The commands are `drives zones=N len=N flash=N`, `format`, `log NAME [fast]`, `append NAME
//! blocks=N [sync=0]`, `finish NAME`, `commit` (a line for each operation), `pull main|flash
//! after=N` (cuts the power at the Nth write from now), `power-on main|flash|both`, `reopen`,
//! `without-flash`, `other-flash`. Each prints the content of the pair, and the names on flash.

use super::stage::{Pair, Side, hints};
use crate::tests::stage::{Zones, content};
use crate::tiers::TieredFiles;
use crate::tiers::format::parse_name;
use crate::{AppRecord, Commit, FileBuffer, FileKind, Files, FilesError, LogWriter, Tier};
use imbrex_disk::Blocks;
use imbrex_disk_sim::FaultPlan;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

#[derive(Default)]
struct Script {
    pair: Option<Pair>,
    files: Option<TieredFiles>,
    logs: BTreeMap<String, Arc<dyn LogWriter>>,
}

#[test]
fn scripts() {
    datadriven::walk("testdata/pairs", |file| {
        let mut script = Script::default();
        file.run(|case| match script.run(case) {
            Ok(()) => script.picture(),
            Err(error) => format!("error: {error}\n"),
        });
    });
}

impl Script {
    fn pair(&mut self) -> &mut Pair {
        self.pair.as_mut().expect("`drives` comes first")
    }

    fn files(&self) -> &TieredFiles {
        self.files.as_ref().expect("`format` comes first")
    }

    fn run(&mut self, case: &datadriven::TestCase) -> Result<(), FilesError> {
        let word = |name: &str| case.args.get(name).and_then(|v| v.first()).cloned();
        let number = |name: &str| word(name).map(|v| v.parse::<u64>().expect("a number"));
        let mut bare: Vec<&str> =
            case.args.iter().filter(|(_, v)| v.is_empty()).map(|(k, _)| k.as_str()).collect();
        let tier = if bare.contains(&"fast") { Tier::Fast } else { Tier::Main };
        bare.retain(|word| *word != "fast");
        let name = bare.first().copied().unwrap_or_default().to_owned();
        let side = if name == "main" { Side::Main } else { Side::Flash };
        match case.directive.as_str() {
            "drives" => {
                let of = |name| number(name).expect("`zones`, `len` and `flash` are given");
                let count = of("zones");
                let zones = Zones { count, len: of("len"), conventional: 1, active_limit: None };
                self.pair = Some(Pair::new(zones, of("flash"), 256));
            }
            "format" => self.files = Some(self.pair().format()?),
            "log" => {
                let log = self.files().create_log(&name, hints(FileKind::Log, tier))?;
                self.logs.insert(name, log);
            }
            "append" => {
                let log = &self.logs[&name];
                let len_bytes = Blocks::new(number("blocks").unwrap_or(1)).bytes() as usize;
                let before = log.len_bytes() as usize;
                log.append(&content(&name, before + len_bytes)[before..])?;
                if number("sync") != Some(0) {
                    log.sync()?;
                }
            }
            "finish" => self.logs.remove(&name).expect("a log").finish()?,
            "commit" => self.commit(&case.input)?,
            "pull" => {
                let power_cut_after = number("after");
                let plan = FaultPlan { power_cut_after, ..FaultPlan::default() };
                self.pair().disk(side).set_faults(plan);
            }
            "power-on" => {
                let sides = if name == "both" { vec![Side::Main, Side::Flash] } else { vec![side] };
                self.close();
                sides.iter().for_each(|&side| self.pair().power_cycle(side, 1));
                self.files = Some(self.pair().open()?);
            }
            "reopen" => {
                self.close();
                self.files = Some(self.pair().open()?);
            }
            "without-flash" => {
                self.close();
                let (disk, runtime) = (self.pair().main.disk(), self.pair().main.runtime.clone());
                self.files = Some(TieredFiles::open_without_flash(disk, &runtime)?);
            }
            "other-flash" => {
                self.close();
                let zones = Zones { count: 8, len: 64, conventional: 1, active_limit: None };
                let other = Pair::new(zones, 300, 0);
                drop(other.format()?);
                drop(other.format()?);
                let ours = std::mem::replace(&mut self.pair().flash, other.flash);
                let opened = self.pair().open();
                self.pair().flash = ours;
                self.files = Some(opened?);
            }
            other => panic!("no such command: {other}"),
        }
        Ok(())
    }

    fn close(&mut self) {
        self.logs.clear();
        self.files = None;
        self.pair().main.world.drop_jobs();
    }

    /// Lines `put NAME blocks=N [fast]`, `remove NAME`, `rename A B`, `app TEXT`, all in one commit.
    fn commit(&mut self, input: &str) -> Result<(), FilesError> {
        let mut commit = Commit::default();
        let mut buffers = Vec::new();
        for line in input.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["put", name, blocks, rest @ ..] => {
                    let tier = if rest == ["fast"] { Tier::Fast } else { Tier::Main };
                    let mut buffer = FileBuffer::new(*name, hints(FileKind::Table, tier));
                    let blocks = blocks.trim_start_matches("blocks=").parse().unwrap();
                    buffer.append(&content(name, Blocks::new(blocks).bytes() as usize));
                    buffers.push(buffer);
                }
                ["remove", name] => commit.remove.push((*name).to_owned()),
                ["rename", a, b] => commit.rename.push(((*a).to_owned(), (*b).to_owned())),
                ["app", text] => commit.app = Some(AppRecord::Append(text.as_bytes().to_vec())),
                other => panic!("no such operation: {other:?}"),
            }
        }
        commit.add = self.files().persist(buffers)?;
        self.files().commit(commit)
    }

    fn picture(&self) -> String {
        let Some(files) = &self.files else { return "ok\n".to_owned() };
        let mut out = String::new();
        let mut left: Vec<_> = files.flash().map(|flash| flash.list("")).unwrap_or_default();
        for info in files.list("") {
            let blocks = info.len_bytes / 4096;
            let is_it =
                |other: &crate::FileInfo| info.tier == Tier::Fast && other.extents == info.extents;
            let on_flash = left.iter().position(is_it).map(|index| left.remove(index).name);
            let _ = match (info.tier, on_flash) {
                (Tier::Main, _) => writeln!(out, "main   {} of {blocks} blocks", info.name),
                (Tier::Fast, Some(as_name)) => {
                    writeln!(out, "flash  {} of {blocks} blocks, as {as_name:?}", info.name)
                }
                (Tier::Fast, None) => writeln!(out, "flash  {}, which is not there", info.name),
            };
        }
        for info in left {
            let is_known = parse_name(&info.name).is_some();
            assert!(is_known);
            let _ = writeln!(out, "       left over on flash: {:?}", info.name);
        }
        for finding in files.check().map(|report| report.findings).unwrap_or_default() {
            let _ = writeln!(out, "WRONG: {finding}");
        }
        if out.is_empty() { "nothing\n".to_owned() } else { out }
    }
}
