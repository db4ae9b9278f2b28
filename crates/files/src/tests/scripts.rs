//! The interpreter of `testdata/`: one drive, one file layer, commands in words.
//!
//! The commands are `disk zones=N len=N [conventional=N] [active=N] [cache=N]`, `disk blocks=N
//! [cache=N]`, `disk blocks=N track=N overlap=N [cache=N]` or `disk blocks=N bottom=N top=N
//! [cache=N]`; then `format NAME [unit=N] [free=N]`, `persist` and `commit` (a line for each operation),
//! `log`, `append`, `finish`, `hold`, `release`, `clean`, `reopen`, `power-cut`. Each prints a
//! picture of the drive. The others are `list`, `space`, `report`, `catalog`, `stats`, `verify`,
//! `check`.

use super::stage::{
    Stage, Zones, content, conventional, interlaced, shingled, table, verify, zoned,
};
use crate::CommitKind;
use crate::inspect::ZoneUseKind;
use crate::{
    AppRecord, Commit, FileBuffer, FileKind, FileLayer, FileReader, Files, FilesError, GroupId,
    Hints, LogWriter, Persisted, PlacementOptions,
};
use imbrex_disk::{Blocks, Disk, Lba, TrackId, ZoneState};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

#[derive(Default)]
struct Script {
    stage: Option<Stage>,
    files: Option<FileLayer>,
    persisted: BTreeMap<String, Box<dyn Persisted>>,
    logs: BTreeMap<String, Arc<dyn LogWriter>>,
    held: BTreeMap<String, Arc<dyn FileReader>>,
    seed: u64,
}

#[test]
fn scripts() {
    for folder in std::fs::read_dir("testdata").unwrap() {
        let folder = folder.unwrap();
        // Pairs of drives have an interpreter of their own.
        if folder.file_name() == "pairs" {
            continue;
        }
        datadriven::walk(folder.path().to_str().unwrap(), |file| {
            let mut script = Script::default();
            file.run(|case| match script.run(case) {
                Ok(text) => text,
                Err(error) => format!("error: {error}\n"),
            });
        });
    }
}

impl Script {
    fn files(&self) -> &FileLayer {
        self.files.as_ref().expect("`format` comes first")
    }

    fn stage(&self) -> &Stage {
        self.stage.as_ref().expect("`disk` comes first")
    }

    fn run(&mut self, case: &datadriven::TestCase) -> Result<String, FilesError> {
        let word = |name: &str| case.args.get(name).and_then(|v| v.first()).cloned();
        let number = |name: &str| word(name).map(|v| v.parse::<u64>().expect("a number"));
        // A word without `=` is an argument without values.
        let bare = || {
            let mut names: Vec<&String> =
                case.args.iter().filter(|(_, v)| v.is_empty()).map(|(k, _)| k).collect();
            names.sort();
            names.first().map(|name| (*name).clone()).expect("a name")
        };
        match case.directive.as_str() {
            "disk" => {
                self.stage = Some(script_stage(&number));
                return Ok("ok\n".to_owned());
            }
            "format" => {
                let unit_len = Blocks::new(number("unit").unwrap_or(0));
                let free_percent_least = number("free").unwrap_or(0) as u8;
                self.format(&bare(), PlacementOptions { unit_len, free_percent_least })?;
            }
            "persist" => self.persist(&case.input)?,
            "abandon" => self.persisted.clear(),
            "commit" => self.commit(&case.input)?,
            "log" => {
                let mut hints = Hints::new(FileKind::Log);
                hints.purpose =
                    number("reserve").map_or(CommitKind::Ordinary, |_| CommitKind::Upkeep);
                let name = bare();
                let log = self.files().create_log(&name, hints)?;
                self.logs.insert(name, log);
            }
            "append" => {
                let name = bare();
                let log = &self.logs[&name];
                let len_bytes = Blocks::new(number("blocks").unwrap_or(1)).bytes() as usize;
                let before = log.len_bytes() as usize;
                log.append(&content(&name, before + len_bytes)[before..])?;
                if number("sync") != Some(0) {
                    log.sync()?;
                }
            }
            "finish" => self.logs[&bare()].finish()?,
            "drop-log" => drop(self.logs.remove(&bare())),
            "hold" => {
                let name = bare();
                let reader = self.files().open(&name)?;
                self.held.insert(name, reader);
            }
            "release" => drop(self.held.remove(&bare())),
            "read-held" => return Ok(self.read_held(&bare())),
            "clean" => {
                self.stage().runtime.scheduler.notify();
                self.stage().world.run_until_idle();
            }
            "reopen" => self.reopen(None)?,
            "power-cut" => self.reopen(Some(number("seed").unwrap_or(0)))?,
            "list" => return Ok(self.list()),
            "space" => return Ok(self.space()),
            "report" => return Ok(self.report(number("set"))),
            "verify" => return Ok(self.verify()),
            "catalog" => return Ok(self.files().describe_catalog()?.join("\n") + "\n"),
            "app" => return Ok(self.app()),
            "stats" => return Ok(self.stats()),
            "zones" => {}
            other => panic!("no such command: {other}"),
        }
        let report = self.files().check()?;
        let mut out = picture(self.files());
        for finding in report.findings {
            let _ = writeln!(out, "WRONG: {finding}");
        }
        Ok(out)
    }

    fn format(&mut self, placement: &str, options: PlacementOptions) -> Result<(), FilesError> {
        self.files = None;
        self.files = Some(self.stage().format_with(placement, options)?);
        let job = self.files().clean_job();
        self.stage().runtime.scheduler.spawn(job);
        Ok(())
    }

    /// Lines `NAME blocks=N [bytes=N] [level=N] [stream=N] [position=N] [group=N] [reserve]`, written
    /// together.
    fn persist(&mut self, input: &str) -> Result<(), FilesError> {
        let mut buffers = Vec::new();
        for line in input.lines() {
            let mut words = line.split_whitespace();
            let name = words.next().expect("a name");
            let mut buffer = table(name, 0, 0);
            let mut hints = *buffer.hints();
            let mut len_bytes = 0;
            for word in words {
                match word.split_once('=').unwrap_or((word, "")) {
                    ("blocks", n) => len_bytes += Blocks::new(n.parse().unwrap()).bytes() as usize,
                    ("bytes", n) => len_bytes += n.parse::<usize>().unwrap(),
                    ("level", n) => hints.level = n.parse().unwrap(),
                    ("stream", n) => hints.stream = n.parse().unwrap(),
                    ("position", n) => hints.position = Some(n.parse().unwrap()),
                    ("group", n) => hints.group = Some(GroupId(n.parse().unwrap())),
                    ("reserve", _) => hints.purpose = CommitKind::Upkeep,
                    other => panic!("no such hint: {other:?}"),
                }
            }
            buffer = FileBuffer::new(name, hints);
            buffer.append(&content(name, len_bytes));
            buffers.push(buffer);
        }
        for file in self.files().persist(buffers)? {
            self.persisted.insert(file.name().to_owned(), file);
        }
        Ok(())
    }

    /// Lines `add NAME`, `remove NAME`, `rename A B`, `link A B`, `level NAME N`, `app TEXT`,
    /// `app-replace TEXT`, all in one commit.
    fn commit(&mut self, input: &str) -> Result<(), FilesError> {
        let mut commit = Commit::default();
        for line in input.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["add", name] => commit.add.push(self.persisted.remove(*name).expect("persisted")),
                ["remove", name] => commit.remove.push((*name).to_owned()),
                ["rename", a, b] => commit.rename.push(((*a).to_owned(), (*b).to_owned())),
                ["link", a, b] => commit.link.push(((*a).to_owned(), (*b).to_owned())),
                ["level", name, n] => commit.level.push(((*name).to_owned(), n.parse().unwrap())),
                ["app", text] => commit.app = Some(AppRecord::Append(text.as_bytes().to_vec())),
                ["app-replace", text] => {
                    commit.app = Some(AppRecord::Replace(text.as_bytes().to_vec()));
                }
                other => panic!("no such operation: {other:?}"),
            }
        }
        self.files().commit(commit)
    }

    fn reopen(&mut self, cut_seed: Option<u64>) -> Result<(), FilesError> {
        if let Some(seed) = cut_seed {
            self.stage().disk.cut_power();
            self.seed = seed;
        }
        self.persisted.clear();
        self.logs.clear();
        self.held.clear();
        self.files = None;
        self.stage().world.drop_jobs();
        if cut_seed.is_some() {
            self.stage().power_cycle(self.seed);
        }
        self.files = Some(self.stage().open()?);
        let job = self.files().clean_job();
        self.stage().runtime.scheduler.spawn(job);
        Ok(())
    }

    fn list(&self) -> String {
        let mut out = String::new();
        for file in self.files().list("") {
            let extents: Vec<String> = file.extents.iter().map(ToString::to_string).collect();
            let _ = writeln!(
                out,
                "{} level {} {} bytes at {}",
                file.name,
                file.level,
                file.len_bytes,
                extents.join(" ")
            );
        }
        if out.is_empty() { "nothing\n".to_owned() } else { out }
    }

    fn space(&self) -> String {
        let space = self.files().space();
        let blocks = |bytes: u64| bytes / 4096;
        format!(
            "capacity {} live {} dead {} free {} reserve {}\n",
            blocks(space.capacity_bytes),
            blocks(space.live_bytes),
            blocks(space.dead_bytes),
            blocks(space.free_bytes),
            blocks(space.reserve_bytes)
        )
    }

    fn report(&self, set_blocks: Option<u64>) -> String {
        let report = self.files().space_report(set_blocks.map(|n| Blocks::new(n).bytes()));
        let blocks = |bytes: u64| bytes / 4096;
        let mut out = format!(
            "valid {} dead but held {} fragments {} in {} guards {} free {} of {}, {} addresses\n",
            blocks(report.valid_bytes),
            blocks(report.dead_held_bytes),
            blocks(report.fragment_bytes),
            report.fragment_count,
            blocks(report.guard_bytes),
            blocks(report.free_bytes),
            blocks(report.capacity_bytes),
            blocks(report.address_bytes),
        );
        if report.set_count > 0 {
            let mean = blocks(report.set_len_bytes_mean);
            let _ = writeln!(out, "sets {}, mean {mean}", report.set_count);
        }
        if !report.zone_utilisation_ratios.is_empty() {
            let percent = |ratio: &f64| format!("{:.0}", ratio * 100.0);
            let percents: Vec<_> = report.zone_utilisation_ratios.iter().map(percent).collect();
            let _ = writeln!(out, "zones {} %", percents.join(" "));
        }
        out
    }

    /// Compares every file with its content. The tag of a renamed or linked file follows `was:` in
    /// its name.
    fn verify(&self) -> String {
        let mut out = String::new();
        for file in self.files().list("") {
            let tag = file.name.split("-was-").last().unwrap_or_default();
            let verdict = match verify(self.files(), &file.name, tag) {
                Ok(()) => "ok".to_owned(),
                Err(error) => error,
            };
            let _ = writeln!(out, "{}: {verdict}", file.name);
        }
        out
    }

    fn read_held(&self, name: &str) -> String {
        let reader = &self.held[name];
        let len_bytes = reader.len_bytes() as usize;
        let mut scratch = Vec::new();
        match reader.read_at(0, len_bytes, &mut scratch) {
            Ok(got) if got == content(name, len_bytes) => "ok\n".to_owned(),
            Ok(_) => "content differs\n".to_owned(),
            Err(error) => format!("error: {error}\n"),
        }
    }

    fn app(&self) -> String {
        let text = |record: &Vec<u8>| String::from_utf8_lossy(record).into_owned();
        let records: Vec<String> = self.files().app_records().iter().map(text).collect();
        format!("[{}]\n", records.join(", "))
    }

    fn stats(&self) -> String {
        let stats = self.files().stats();
        if self.stage().disk.geometry().interlaced().is_some() {
            return format!(
                "rewrites {} of {} tracks, {} blocks; syncs {} besides those of commits\n",
                stats.rewrites,
                stats.rewritten_tracks,
                stats.rewritten_bytes / 4096,
                stats.track_syncs
            );
        }
        format!(
            "commits {} checkpoints {} cleaned zones {} moved blocks {} reset zones {}\n",
            stats.commits,
            stats.catalog_checkpoints,
            stats.cleaned_zones,
            stats.cleaning_moved_bytes / 4096,
            stats.reset_zones
        )
    }
}

fn script_stage(number: &dyn Fn(&str) -> Option<u64>) -> Stage {
    let cache = number("cache").unwrap_or(0);
    if let (Some(bottom), Some(top)) = (number("bottom"), number("top")) {
        return interlaced(number("blocks").expect("tracks have blocks"), bottom, top, cache);
    }
    if let Some(track_len) = number("track") {
        let blocks = number("blocks").expect("tracks have blocks");
        return shingled(blocks, track_len, number("overlap").unwrap_or(1) as u32, cache);
    }
    let Some(count) = number("zones") else {
        return conventional(number("blocks").expect("blocks or zones"), cache);
    };
    let zones = Zones {
        count,
        len: number("len").expect("zones have a len"),
        conventional: number("conventional").unwrap_or(0) as u32,
        active_limit: number("active").map(|n| n as u32),
    };
    zoned(zones, cache)
}

/// A line for each zone that is not empty: its live files, and its dead blocks.
fn picture(files: &FileLayer) -> String {
    let uses = files.zone_map();
    let mut out = String::new();
    if files.disk().geometry().interlaced().is_some() {
        return picture_of_tracks(files);
    }
    if files.disk().geometry().zones().is_none() {
        return picture_of_runs(files);
    }
    for zone in &uses {
        let blocks = |bytes: u64| bytes / 4096;
        if zone.live_bytes + zone.dead_bytes == 0 || zone.kind == ZoneUseKind::Catalog {
            continue;
        }
        let pointer = match zone.state {
            ZoneState::Open { write_pointer, .. } | ZoneState::Closed { write_pointer } => {
                format!("written to {}", write_pointer.get())
            }
            state => state.to_string(),
        };
        let _ = write!(out, "{} [{}] {pointer}:", zone.zone, zone.range);
        for (level, bytes) in &zone.levels {
            let _ = write!(out, " L{level} {}", blocks(*bytes));
        }
        if zone.log_bytes > 0 {
            let _ = write!(out, " log {}", blocks(zone.log_bytes));
        }
        let _ = writeln!(out, " dead {}", blocks(zone.dead_bytes));
    }
    if out.is_empty() { "nothing\n".to_owned() } else { out }
}

/// The top tracks above the bottom ones: the files in each, or a dot.
fn picture_of_tracks(files: &FileLayer) -> String {
    let geometry = *files.disk().geometry();
    let mut holds: BTreeMap<TrackId, String> = BTreeMap::new();
    for file in files.list("") {
        let mut tracks: Vec<TrackId> =
            file.extents.iter().filter_map(|range| geometry.track_of(range.start)).collect();
        tracks.dedup();
        for track in tracks {
            holds.entry(track).or_default().push_str(&file.name);
        }
    }
    let start = files.inner.rewriter.as_ref().expect("tracks are rewritten").files_start();
    let first = geometry.track_of(start).expect("it is on the disk").0;
    let row = |is_top: bool| {
        let tracks = (first..geometry.track_count()).map(TrackId);
        let cells = tracks.filter(|track| track.is_top() == is_top).map(|track| {
            let held = holds.get(&track).map_or(".", String::as_str);
            format!("{:>3} {held:<3}", track.0)
        });
        cells.collect::<Vec<_>>().join("").trim_end().to_owned()
    };
    format!("top     {}\nbottom     {}\n", row(true), row(false))
}

/// A line for each run on a disk without zones: a set, a file, or a free run with its writable
/// length.
fn picture_of_runs(files: &FileLayer) -> String {
    let mut map = files.inner.space.with(|map| map.clone());
    let back = map.begin_discard();
    map.was_discarded(&back);
    let mut lines: Vec<(Lba, u8, String)> = Vec::new();
    let mut sets: BTreeMap<Lba, String> = BTreeMap::new();
    let set_ranges: Vec<_> = map.spans().collect();
    for file in files.list("") {
        for range in &file.extents {
            let inside = set_ranges.iter().find(|(set, _)| set.contains(range.start));
            match inside {
                Some((set, _)) => {
                    let _ = write!(sets.entry(set.start).or_default(), " {} {range}", file.name);
                }
                None => lines.push((range.start, 1, format!("{range} {}", file.name))),
            }
        }
    }
    for (set, dead) in &set_ranges {
        let members = sets.remove(&set.start).unwrap_or_default();
        let line = format!("{set} set:{members}, dead {}", dead.get());
        lines.push((set.start, 0, line));
    }
    for run in map.runs().iter() {
        let size = map.runs().size_of(run).get();
        lines.push((run.start, 2, format!("{run} free, {size} fit")));
    }
    lines.sort();
    lines.into_iter().fold(String::new(), |out, (.., line)| out + &line + "\n")
}
