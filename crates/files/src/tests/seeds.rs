//! Random runs on small drives that fill up: writes, removals, logs, readers, cleaning and power
//! cuts, compared with a model.

use super::stage::{
    Stage, assert_honest, assert_sound, content, interlaced, member, shingled, stage,
};
use crate::CommitKind;
use crate::placement::Urgency;
use crate::space::Claim;
use crate::{
    AppRecord, Commit, FileBuffer, FileKind, FileLayer, FileRange, FileReader, Files, FilesError,
    Hints, LogWriter, Persisted, read_together,
};
use imbrex_clockwork::{Budget, Job, Prng, Step};
use imbrex_disk::{BLOCK_LEN_BYTES, Blocks, Disk, DiskError, Lba, Rule, ZoneSpec};
use imbrex_disk_sim::FaultPlan;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A file that must be there: its content, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Expected {
    tag: String,
    blocks: u64,
    is_log: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model {
    files: BTreeMap<String, Expected>,
    app: Vec<Vec<u8>>,
}

struct Run {
    stage: Stage,
    files: FileLayer,
    job: Box<dyn Job>,
    prng: Prng,
    model: Model,
    persisted: Vec<(Box<dyn Persisted>, u64)>,
    logs: BTreeMap<String, Arc<dyn LogWriter>>,
    readers: Vec<(Arc<dyn FileReader>, Expected)>,
    name_count: u64,
}

const DRIVE_COUNT: u64 = 17;

fn drive(kind: u64) -> (Stage, &'static str) {
    let zoned = |conventional: u32, capacity: u64, limit: Option<u32>| {
        let spec = ZoneSpec {
            zone_len: Blocks::new(64),
            zone_capacity: Blocks::new(capacity),
            conventional_zone_count: conventional,
            open_zone_limit: limit,
            active_zone_limit: limit,
            strict_reads: true,
        };
        stage(18 * 64, Rule::AtPointer(spec), 256)
    };
    match kind {
        0 => (stage(900, Rule::Anywhere, 256), "first-fit"),
        1 => (zoned(1, 64, None), "zone-per-level"),
        2 => (zoned(0, 50, Some(7)), "zone-per-level"),
        3 => (zoned(3, 64, Some(5)), "log-structured"),
        4 => (zoned(0, 64, None), "log-structured"),
        5 => (zoned(2, 64, None), "log-cost-benefit"),
        6 => (stage(900, Rule::Anywhere, 256), "sets"),
        7 => (shingled(1500, 8, 2, 256), "dynamic-bands"),
        8 => (shingled(1300, 5, 1, 0), "dynamic-bands"),
        9 => (shingled(1700, 16, 3, 256), "dynamic-bands"),
        10 => (zoned(1, 64, None), "band-per-table"),
        11 => (zoned(0, 50, Some(7)), "band-per-table"),
        12 => (interlaced(1500, 10, 8, 256), "track-sequential"),
        13 => (interlaced(1500, 10, 8, 256), "track-three-phase"),
        14 => (interlaced(1500, 12, 12, 0), "track-tiers-naive"),
        15 => (interlaced(1700, 16, 13, 256), "track-tiers"),
        _ => (interlaced(1300, 6, 5, 64), "track-tiers"),
    }
}

impl Run {
    fn new(seed: u64) -> Run {
        let (stage, placement) = drive(seed % DRIVE_COUNT);
        let files = stage.format_small(placement).unwrap();
        Run {
            job: files.clean_job(),
            stage,
            files,
            prng: Prng::new(seed),
            model: Model::default(),
            persisted: Vec::new(),
            logs: BTreeMap::new(),
            readers: Vec::new(),
            name_count: 0,
        }
    }

    fn new_name(&mut self, prefix: &str) -> String {
        self.name_count += 1;
        format!("{prefix}{}", self.name_count)
    }

    fn pick(&mut self, names: &[String]) -> Option<String> {
        let count = names.len() as u64;
        (count > 0).then(|| names[self.prng.below(count) as usize].clone())
    }

    fn any_file(&mut self) -> Option<String> {
        let names: Vec<String> = self.model.files.keys().cloned().collect();
        self.pick(&names)
    }

    /// Performs one step. Returns the model after a success, and the outcome.
    fn step(&mut self) -> (Model, Result<(), FilesError>) {
        let mut next = self.model.clone();
        let result = match self.prng.below(20) {
            0..6 => self.persist(),
            6..9 => self.commit(&mut next),
            9 | 10 => self.remove(&mut next),
            11 => self.create_log(&mut next),
            12..15 => self.append(&mut next),
            15 => self.finish(),
            16 => self.hold(),
            17 => self.rename(&mut next),
            _ => {
                let io_bytes = self.prng.below(1 << 18);
                let is_over = self.job.step(Budget { io_bytes }) == Step::Done;
                assert!(!is_over || self.is_dark(), "cleaning ends with the power only");
                Ok(())
            }
        };
        (next, result)
    }

    fn persist(&mut self) -> Result<(), FilesError> {
        let count = 1 + self.prng.below(3);
        let mut buffers = Vec::new();
        for _ in 0..count {
            let name = self.new_name("t");
            let (blocks, level) = (self.prng.below(40), self.prng.below(4) as u8);
            buffers.push(member(&name, blocks, level, self.name_count / 4));
        }
        let lens: Vec<u64> = buffers.iter().map(|b| b.len_bytes() / 4096).collect();
        let persisted = self.files.persist(buffers)?;
        self.persisted.extend(persisted.into_iter().zip(lens));
        Ok(())
    }

    fn commit(&mut self, next: &mut Model) -> Result<(), FilesError> {
        let mut commit = Commit::default();
        if self.prng.chance(1, 8) {
            self.persisted.clear();
        }
        for (file, blocks) in std::mem::take(&mut self.persisted) {
            let tag = file.name().to_owned();
            next.files.insert(tag.clone(), Expected { tag, blocks, is_log: false });
            commit.add.push(file);
        }
        if self.prng.chance(1, 2)
            && let Some(name) = self.any_file()
        {
            next.files.remove(&name);
            self.logs.remove(&name);
            commit.remove.push(name);
        }
        let mut record = vec![0; self.prng.below(2000) as usize];
        self.prng.fill(&mut record);
        commit.app = Some(if next.app.len() > 10 || self.prng.chance(1, 10) {
            next.app = vec![record.clone()];
            AppRecord::Replace(record)
        } else {
            next.app.push(record.clone());
            AppRecord::Append(record)
        });
        self.files.commit(commit)
    }

    fn remove(&mut self, next: &mut Model) -> Result<(), FilesError> {
        let mut commit = Commit::default();
        for _ in 0..=self.prng.below(3) {
            if let Some(name) = self.any_file()
                && next.files.remove(&name).is_some()
            {
                self.logs.remove(&name);
                commit.remove.push(name);
            }
        }
        let result = self.files.commit(commit);
        assert!(!matches!(result, Err(FilesError::NoSpace { .. })), "a removal needs no space");
        result
    }

    fn rename(&mut self, next: &mut Model) -> Result<(), FilesError> {
        let Some(from) = self.any_file() else { return Ok(()) };
        if self.logs.contains_key(&from) {
            return Ok(());
        }
        let to = self.new_name("r");
        let file = next.files[&from].clone();
        next.files.insert(to.clone(), file);
        let mut commit = Commit::default();
        if self.prng.chance(1, 2) {
            next.files.remove(&from);
            commit.rename.push((from, to));
        } else {
            commit.link.push((from, to));
        }
        self.files.commit(commit)
    }

    fn create_log(&mut self, next: &mut Model) -> Result<(), FilesError> {
        let name = self.new_name("w");
        next.files.insert(name.clone(), Expected { tag: name.clone(), blocks: 0, is_log: true });
        let hints = Hints { purpose: CommitKind::Upkeep, ..Hints::new(FileKind::Log) };
        let log = self.files.create_log(&name, hints)?;
        self.logs.insert(name, log);
        Ok(())
    }

    fn append(&mut self, next: &mut Model) -> Result<(), FilesError> {
        let names: Vec<String> = self.logs.keys().cloned().collect();
        let Some(name) = self.pick(&names) else { return Ok(()) };
        let blocks = 1 + self.prng.below(20);
        let log = &self.logs[&name];
        let before = log.len_bytes() as usize;
        let len_bytes = before + Blocks::new(blocks).bytes() as usize;
        log.append(&content(&name, len_bytes)[before..])?;
        if self.prng.chance(1, 2) {
            log.sync()?;
            if let Some(file) = next.files.get_mut(&name) {
                file.blocks = len_bytes as u64 / 4096;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), FilesError> {
        let names: Vec<String> = self.logs.keys().cloned().collect();
        let Some(name) = self.pick(&names) else { return Ok(()) };
        // Dropped instead of finished, a log ends as well.
        self.logs
            .remove(&name)
            .map_or(Ok(()), |log| if self.prng.chance(1, 2) { log.finish() } else { Ok(()) })
    }

    fn hold(&mut self) -> Result<(), FilesError> {
        if self.prng.chance(1, 3) && !self.readers.is_empty() {
            self.readers.remove(0);
        }
        if let Some(name) = self.any_file() {
            self.readers.push((self.files.open(&name)?, self.model.files[&name].clone()));
        }
        self.readers.iter().try_for_each(|(reader, expected)| reads(&**reader, expected))?;
        read_parts_together(&self.readers)
    }

    /// Leftovers of a power cut take no room permanently: operations that make room succeed if
    /// anything is free for them or can be cleaned.
    fn assert_upkeep_continues(&self) {
        let hints = Hints { purpose: CommitKind::Upkeep, ..Hints::new(FileKind::Table) };
        let mut buffer = FileBuffer::new("upkeep", hints);
        buffer.append(&content("upkeep", 4096));
        let inner = &self.files.inner;
        let is_tracks = self.stage.disk.geometry().interlaced().is_some();
        let is_room = inner.space.with(|map| {
            let is_worth = inner.placement.plan_reclaim(map, Urgency::NoSpace).is_some();
            is_worth || !map.free_for(Claim::Reserve).is_zero()
        });
        let can_move = self.files.space().catalog.free_bytes(CommitKind::Upkeep) > 4096;
        let written = self.files.persist(vec![buffer]);
        let is_promised = is_room && can_move && !is_tracks && !inner.placement.keeps_files_apart();
        assert!(written.is_ok() || !is_promised, "{written:?}");
    }

    /// Cycles the power. The drive must have one of `states`.
    fn recover(&mut self, states: &[Model]) {
        self.persisted.clear();
        self.logs.clear();
        self.readers.clear();
        let seed = self.prng.next_u64();
        self.stage.power_cycle(seed);
        self.files = self.stage.open().unwrap();
        self.job = self.files.clean_job();
        assert_sound(&self.files);
        let found = states.iter().find(|state| is_on(state, &self.files));
        let found = found.unwrap_or_else(|| panic!("{:#?}: none of {states:#?}", self.names()));
        self.model = found.clone();
        for (name, file) in &self.model.files {
            reads(&*self.files.open(name).unwrap(), file).unwrap();
        }
        self.assert_upkeep_continues();
    }

    /// Whether the power is off.
    fn is_dark(&self) -> bool {
        let read = self.stage.disk.read(Lba::new(0), &mut [0; BLOCK_LEN_BYTES]);
        matches!(read, Err(DiskError::PowerLost))
    }

    fn names(&self) -> Vec<String> {
        self.files.list("").into_iter().map(|file| file.name).collect()
    }
}

fn is_on(model: &Model, files: &FileLayer) -> bool {
    let list = files.list("");
    list.iter().map(|file| &file.name).eq(model.files.keys())
        && files.app_records() == model.app
        && list.iter().zip(model.files.values()).all(|(file, expected)| {
            let blocks = file.len_bytes / 4096;
            blocks == expected.blocks || (expected.is_log && expected.blocks <= blocks)
        })
}

fn reads(reader: &dyn FileReader, expected: &Expected) -> Result<(), FilesError> {
    let len_bytes = Blocks::new(expected.blocks).bytes() as usize;
    let mut scratch = Vec::new();
    let got = reader.read_at(0, len_bytes, &mut scratch)?;
    assert!(got == content(&expected.tag, len_bytes), "{}: content differs", reader.name());
    Ok(())
}

/// Reads a part of each file, all at once.
fn read_parts_together(readers: &[(Arc<dyn FileReader>, Expected)]) -> Result<(), FilesError> {
    let part = |(reader, expected): &(Arc<dyn FileReader>, Expected)| {
        let len_bytes = Blocks::new(expected.blocks).bytes() as usize;
        let bytes = content(&expected.tag, len_bytes);
        let offset = len_bytes / 3;
        (Arc::clone(reader), offset, bytes[offset..len_bytes - len_bytes / 5].to_vec())
    };
    let parts: Vec<_> = readers.iter().map(part).collect();
    let ranges: Vec<_> = parts
        .iter()
        .map(|(file, offset, bytes)| FileRange {
            file: &**file,
            offset: *offset as u64,
            len_bytes: bytes.len(),
        })
        .collect();
    let got = read_together(&ranges)?;
    assert!(got.iter().eq(parts.iter().map(|(_, _, bytes)| bytes)), "a part differs");
    Ok(())
}

fn is_power_loss(error: &FilesError) -> bool {
    matches!(
        error,
        FilesError::Poisoned { .. } | FilesError::Disk { source: DiskError::PowerLost, .. }
    )
}

fn run(seed: u64) {
    let mut run = Run::new(seed);
    for _ in 0..3 {
        let cut = 5 + run.prng.below(150);
        run.stage.disk.set_faults(FaultPlan { power_cut_after: Some(cut), ..FaultPlan::default() });
        let states = loop {
            let (next, result) = run.step();
            match result {
                Ok(()) => run.model = next,
                Err(error @ FilesError::NoSpace { .. }) => {
                    assert_honest(&error);
                    let (next, result) = {
                        let mut next = run.model.clone();
                        let result = run.remove(&mut next);
                        (next, result)
                    };
                    match result {
                        Ok(()) => run.model = next,
                        Err(error) if is_power_loss(&error) => break vec![run.model.clone(), next],
                        Err(error) => panic!("{error}"),
                    }
                }
                Err(error) if is_power_loss(&error) => break vec![run.model.clone(), next],
                Err(error) => panic!("{error}"),
            }
        };
        run.recover(&states);
    }
}

#[test]
fn seeded_stories_with_power_cuts() {
    let seeds = std::env::var("FILES_SEEDS").ok().and_then(|text| text.parse().ok());
    for seed in imbrex_clockwork::seeds(seeds.unwrap_or(120)) {
        let result = std::panic::catch_unwind(|| run(seed));
        if let Err(panic) = result {
            eprintln!("failed with seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
