//! The operations of one life.

use super::logs::LogModel;
use super::model::{Change, Content, Inode, Model};
use super::trouble::Trouble;
use super::{bytes_inode, compare, compare_all, compare_batch, content};
use crate::rig::{Ending, Rig, draw_len};
use imbrex_files::{
    AppRecord, Commit, CommitKind, FileBuffer, FileKind, FileLayer, FileReader, Files, FilesError,
    GroupId, Hints, Persisted,
};
use std::sync::Arc;

/// A persisted file that waits for its commit.
type Waiting = (Box<dyn Persisted>, Inode);

/// A reader, and the content it must keep returning whatever happens to the name.
type Held = (Arc<dyn FileReader>, Arc<Vec<u8>>);

/// The objects that a life holds besides the store.
pub(crate) struct Life<'a> {
    files: &'a FileLayer,
    /// Readers that outlive the names of their files (F3).
    held: Vec<Held>,
    waiting: Vec<Waiting>,
    /// Whether the life fills the drive instead of using it.
    is_filling: bool,
    /// How full it then keeps the drive.
    fill_percent: u64,
    /// Whether a commit or a log failed, so that the layer must be opened again.
    is_over: bool,
}

impl<'a> Life<'a> {
    pub(crate) fn new(files: &'a FileLayer) -> Life<'a> {
        Life {
            files,
            held: Vec::new(),
            waiting: Vec::new(),
            is_filling: false,
            fill_percent: 0,
            is_over: false,
        }
    }

    /// Runs until the weather or the seed ends the life.
    pub(crate) fn live(mut self, rig: &mut Rig, model: &mut Model) -> Result<Ending, String> {
        self.is_filling = rig.prng.chance(1, 2);
        self.fill_percent = 50 + rig.prng.below(60);
        let operation_count = rig.prng.below(if self.is_filling { 400 } else { 150 });
        for _ in 0..operation_count {
            rig.runtime.scheduler.yield_now();
            self.operate(rig, model)?;
            if rig.is_dark() || self.is_over {
                break;
            }
        }
        Ok(rig.ending())
    }

    fn operate(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        match rig.prng.below(20) {
            0..=6 => self.write_files(rig, model),
            7..=8 => self.commit_only(rig, model),
            9 => self.create_log(rig, model),
            10..=12 => self.append_to_log(rig, model),
            13..=17 => self.read(rig, model),
            18 => self.hold(rig, model),
            _ => self.look_around(rig, model),
        }
    }

    fn write_files(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let count = 1 + rig.prng.below(4);
        let (mut buffers, mut inodes) = (Vec::new(), Vec::new());
        let group = rig.prng.chance(2, 3).then(|| GroupId(model.new_id()));
        let level = rig.prng.below(5) as u8;
        for _ in 0..count {
            let id = model.new_id();
            let (bits_min, bits_end) = if self.is_filling { (13, 19) } else { (6, 18) };
            let len = 1 + draw_len(&mut rig.prng, bits_min, bits_end);
            let bytes = content(&mut rig.prng, id, len as usize);
            let mut hints = Hints::new(FileKind::Table);
            (hints.level, hints.group) = (level, group);
            hints.stream = rig.prng.below(3) as u32;
            hints.expected_len_bytes = rig.prng.chance(1, 2).then_some(len);
            if rig.prng.chance(1, 8) {
                hints.purpose = CommitKind::Upkeep;
            }
            let mut buffer = FileBuffer::new(format!("t{:03}", rig.prng.below(400)), hints);
            bytes.chunks(10_000).for_each(|chunk| buffer.append(chunk));
            buffers.push(buffer);
            inodes.push(Inode {
                kind: FileKind::Table,
                level,
                group,
                content: Content::Bytes(bytes),
            });
        }
        let names: Vec<&str> = buffers.iter().map(FileBuffer::name).collect();
        rig.say(format!("persist {names:?} level {level}"));
        match self.files.persist(buffers) {
            Ok(persisted) => self.waiting.extend(persisted.into_iter().zip(inodes)),
            Err(error) => return self.cannot_write(rig, "persist", error, model),
        }
        if rig.prng.chance(1, 4) {
            self.read_waiting(rig)?;
        }
        match rig.prng.below(8) {
            0 => Ok(()),
            1 => {
                rig.say(format!("drop {} uncommitted files", self.waiting.len()));
                self.waiting.clear();
                Ok(())
            }
            _ => self.commit_only(rig, model),
        }
    }

    fn read_waiting(&mut self, rig: &mut Rig) -> Result<(), String> {
        let Some((persisted, inode)) = self.waiting.last() else { return Ok(()) };
        let Some(bytes) = bytes_inode(inode) else { return Ok(()) };
        match self.files.open_persisted(&**persisted) {
            Ok(reader) => compare_all(&*reader, bytes).or_else(|trouble| trouble.settle(rig)),
            Err(error) => rig.excuse("open persisted", &error),
        }
    }

    /// Commits the waiting files, with seeded other changes. Sometimes makes a commit that must be
    /// refused.
    fn commit_only(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let space = self.files.space();
        let live_percent = space.live_bytes * 100 / space.capacity_bytes;
        let remove_count = match self.is_filling {
            false => rig.prng.below(5),
            true if live_percent < self.fill_percent => rig.prng.below(2),
            // A drive that stays full while it is overwritten must be cleaned.
            true => 2 + rig.prng.below(6),
        };
        let mut change = draw_change(rig, model, remove_count);
        let kinds = [CommitKind::Ordinary, CommitKind::Upkeep, CommitKind::Recovery];
        let kind = kinds[rig.prng.below(3) as usize];
        let mut commit = Commit {
            remove: change.remove.clone(),
            rename: change.rename.clone(),
            link: change.link.clone(),
            add: Vec::new(),
            level: change.level.clone(),
            app: change.app.clone(),
            kind,
        };
        for (persisted, inode) in std::mem::take(&mut self.waiting) {
            change.add.push((persisted.name().to_string(), inode));
            commit.add.push(persisted);
        }
        rig.say(format!("commit {}", describe(&change)));
        let after = model.after(&change);
        match (self.files.commit(commit), after) {
            (Ok(()), Some(state)) => {
                model.acknowledge(state);
                Ok(())
            }
            (Ok(()), None) => Err("a commit that breaks the rules was accepted".to_string()),
            (Err(FilesError::NotFound { .. } | FilesError::Exists { .. }), None) => {
                rig.say("refused, as it should be".to_string());
                Ok(())
            }
            (Err(error @ FilesError::NoSpace { .. }), _) => {
                self.cannot_write(rig, "commit", error, model)
            }
            (Err(error), after) => {
                rig.excuse("commit", &error)?;
                model.perhaps = after;
                self.is_over = true;
                Ok(())
            }
        }
    }

    /// A write was refused. For a lack of space, makes space; otherwise the weather did it.
    fn cannot_write(
        &mut self,
        rig: &mut Rig,
        doing: &str,
        error: FilesError,
        model: &mut Model,
    ) -> Result<(), String> {
        let FilesError::NoSpace { needed_bytes, free_bytes } = error else {
            return rig.excuse(doing, &error);
        };
        rig.no_space_count += 1;
        rig.say(format!("{doing}: no space, {needed_bytes} needed, {free_bytes} free"));
        if needed_bytes <= free_bytes {
            return Err(format!("no space for {needed_bytes} bytes, but {free_bytes} are free"));
        }
        self.is_filling = false;
        self.waiting.clear();
        self.held.clear();
        // A removal must always succeed.
        let mut change = Change::default();
        let keep = rig.prng.below(4) as usize;
        change.remove = model
            .state
            .names
            .keys()
            .enumerate()
            .filter(|(i, _)| i % 4 != keep)
            .map(|(_, n)| n.clone())
            .collect();
        let commit = Commit { remove: change.remove.clone(), ..Commit::default() };
        rig.say(format!("remove {} files to make room", change.remove.len()));
        let after = model.after(&change).ok_or("names of the model")?;
        match self.files.commit(commit) {
            Ok(()) => {
                model.acknowledge(after);
                Ok(())
            }
            Err(error) => {
                rig.excuse("commit of removals", &error)?;
                model.perhaps = Some(after);
                self.is_over = true;
                Ok(())
            }
        }
    }

    fn create_log(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        // An open log on a zoned drive keeps a zone open.
        if model.logs.values().filter(|log| log.is_open()).count() >= 3 {
            return Ok(());
        }
        let name = format!("log{:02}", rig.prng.below(30));
        let mut hints = Hints::new(FileKind::Log);
        if rig.prng.chance(1, 2) {
            hints.purpose = CommitKind::Upkeep;
        }
        rig.say(format!("create log {name}"));
        let id = model.new_id();
        let inode = Inode { kind: FileKind::Log, level: 0, group: None, content: Content::Log(id) };
        let change = Change { add: vec![(name.clone(), inode)], ..Change::default() };
        let after = model.after(&change);
        match (self.files.create_log(&name, hints), after) {
            (Ok(writer), Some(state)) => {
                model.acknowledge(state);
                model.logs.insert(id, LogModel::new(id, Some(writer)));
                Ok(())
            }
            (Ok(_), None) => Err(format!("log {name} was created twice")),
            (Err(FilesError::Exists { .. }), None) => Ok(()),
            (Err(error @ FilesError::NoSpace { .. }), _) => {
                self.cannot_write(rig, "create log", error, model)
            }
            (Err(error), after) => {
                rig.excuse("create log", &error)?;
                model.logs.insert(id, LogModel::new(id, None));
                model.perhaps = after;
                self.is_over = true;
                Ok(())
            }
        }
    }

    fn append_to_log(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let open: Vec<u64> =
            model.logs.iter().filter(|(_, log)| log.is_open()).map(|(&id, _)| id).collect();
        if open.is_empty() {
            return self.create_log(rig, model);
        }
        let id = open[rig.prng.below(open.len() as u64) as usize];
        let Some(log) = model.logs.get_mut(&id) else { return Ok(()) };
        if rig.prng.chance(1, 12) {
            rig.say(format!("finish log {id}"));
            return match log.finish() {
                Ok(()) => Ok(()),
                Err(error) => rig.excuse("finish", &error),
            };
        }
        let sync = rig.prng.chance(1, 2);
        rig.say(format!("append to log {id}{}", if sync { ", sync" } else { "" }));
        match log.append(&mut rig.prng, sync) {
            Ok(()) => Ok(()),
            Err(error @ FilesError::NoSpace { .. }) => {
                self.cannot_write(rig, "append", error, model)
            }
            Err(error) => {
                rig.excuse("append", &error)?;
                self.is_over = true;
                Ok(())
            }
        }
    }

    fn read(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        if !self.held.is_empty() && rig.prng.chance(1, 3) {
            let index = rig.prng.below(self.held.len() as u64) as usize;
            let (reader, bytes) = &self.held[index];
            rig.say(format!("read held {}", reader.name()));
            let outcome = compare_all(&**reader, bytes);
            if rig.prng.chance(1, 3) {
                self.held.swap_remove(index);
            }
            return outcome.or_else(|trouble| trouble.settle(rig));
        }
        let Some(name) = draw_name(rig, model) else { return Ok(()) };
        rig.say(format!("read {name}"));
        let reader = match self.files.open(&name) {
            Ok(reader) => reader,
            Err(error) => return rig.excuse("open", &error),
        };
        let Some(inode) = model.inode(&name) else { return Ok(()) };
        let outcome = match &inode.content {
            Content::Log(id) => model.logs[id].compare_live(&*reader),
            Content::Bytes(bytes) => {
                let at = rig.prng.below(bytes.len() as u64) as usize;
                let len = 1 + rig.prng.below((bytes.len() - at) as u64) as usize;
                let mut scratch = Vec::new();
                let past = reader.read_at(at as u64, bytes.len() - at + 1, &mut scratch);
                if !matches!(past, Err(FilesError::PastEnd { .. })) {
                    return Err(format!("{name}: a read past the end gave {past:?}"));
                }
                compare(&*reader, bytes, at, len)
                    .and_then(|()| compare_batch(&*reader, bytes, at, len))
            }
        };
        outcome.or_else(|trouble| trouble.settle(rig))
    }

    fn hold(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let Some(name) = draw_name(rig, model) else { return Ok(()) };
        let Some(bytes) = model.inode(&name).and_then(bytes_inode) else { return Ok(()) };
        rig.say(format!("hold {name}"));
        match self.files.open(&name) {
            Ok(reader) => self.held.push((reader, Arc::clone(bytes))),
            Err(error) => return rig.excuse("open", &error),
        }
        if self.held.len() > 4 {
            self.held.remove(0);
        }
        Ok(())
    }

    fn look_around(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let prefix = ["", "t", "t1", "log", "zzz"][rig.prng.below(5) as usize];
        let got: Vec<String> = self.files.list(prefix).into_iter().map(|info| info.name).collect();
        let names = model.state.names.keys();
        let expected: Vec<&String> = names.filter(|name| name.starts_with(prefix)).collect();
        if got.iter().collect::<Vec<_>>() != expected {
            return Err(format!("list {prefix:?}: expected {expected:?}, got {got:?}"));
        }
        let missing = self.files.open("no such file");
        if !matches!(missing, Err(FilesError::NotFound { .. })) {
            return Err(format!("a name that never was: {missing:?}"));
        }
        if rig.prng.chance(1, 4) {
            rig.say("run until idle".to_string());
            rig.world.run_until_idle();
        }
        rig.check_files(self.files)?;
        let space = self.files.space();
        let parts_bytes = space.live_bytes + space.dead_bytes + space.free_bytes;
        // Live data in a zone that was given up counts, but the zone does not.
        if parts_bytes > space.capacity_bytes && !rig.is_foul() {
            return Err(format!("the parts of the space exceed the whole: {space:?}"));
        }
        Ok(())
    }

    /// At the end of a run in fair weather everything is removed, and all space must come back.
    pub(crate) fn empty_the_drive(self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let remove: Vec<String> = model.state.names.keys().cloned().collect();
        rig.say(format!("remove all {} files", remove.len()));
        let fail = |error: FilesError| format!("emptying the drive: {error}");
        self.files.commit(Commit { remove, ..Commit::default() }).map_err(fail)?;
        rig.world.run_until_idle();
        let space = self.files.space();
        if space.live_bytes != 0 {
            return Err(format!("the drive is empty, but {} bytes are live", space.live_bytes));
        }
        let lost = space.capacity_bytes - space.free_bytes;
        if lost * 4 > space.capacity_bytes {
            return Err(format!("the drive is empty, but {lost} bytes are not free: {space:?}"));
        }
        // The space can be used again: a third of it, by files that span zones.
        for n in 0..8 {
            let name = format!("again{n}");
            let mut buffer = FileBuffer::new(&name, Hints::new(FileKind::Table));
            let bytes = content(&mut rig.prng, n, (space.capacity_bytes / 24) as usize);
            buffer.append(&bytes);
            let add = self.files.persist(vec![buffer]).map_err(fail)?;
            self.files.commit(Commit { add, ..Commit::default() }).map_err(fail)?;
            let reader = self.files.open(&name).map_err(fail)?;
            compare_all(&*reader, &bytes).map_err(Trouble::in_words)?;
        }
        Ok(())
    }
}

fn draw_name(rig: &mut Rig, model: &Model) -> Option<String> {
    let count = model.state.names.len() as u64;
    let nth = (count > 0).then(|| rig.prng.below(count) as usize)?;
    model.state.names.keys().nth(nth).cloned()
}

/// Seeded changes, most of them allowed.
fn draw_change(rig: &mut Rig, model: &Model, remove_count: u64) -> Change {
    let mut change = Change::default();
    for _ in 0..remove_count {
        let Some(name) = draw_name(rig, model) else { break };
        if !change.remove.contains(&name) {
            change.remove.push(name);
        }
    }
    if rig.prng.chance(1, 6)
        && let Some(from) = draw_name(rig, model)
    {
        change.rename.push((from, format!("t{:03}", rig.prng.below(400))));
    }
    if rig.prng.chance(1, 8)
        && let Some(existing) = draw_name(rig, model)
        && model.inode(&existing).is_some_and(|inode| bytes_inode(inode).is_some())
    {
        change.link.push((existing, format!("t{:03}", rig.prng.below(400))));
    }
    if rig.prng.chance(1, 6)
        && let Some(name) = draw_name(rig, model)
    {
        change.level.push((name, rig.prng.below(6) as u8));
    }
    change.app = match rig.prng.below(6) {
        0 => None,
        n => {
            let len = draw_len(&mut rig.prng, 0, 12) as usize;
            let mut record = vec![0; len];
            rig.prng.fill(&mut record);
            Some(if n == 1 { AppRecord::Replace(record) } else { AppRecord::Append(record) })
        }
    };
    change
}

fn describe(change: &Change) -> String {
    let names: Vec<&String> = change.add.iter().map(|(name, _)| name).collect();
    let app = match &change.app {
        None => "no record".to_string(),
        Some(AppRecord::Append(record)) => format!("append {} bytes", record.len()),
        Some(AppRecord::Replace(record)) => format!("replace by {} bytes", record.len()),
    };
    format!(
        "remove {:?} rename {:?} link {:?} add {names:?} level {:?}, {app}",
        change.remove, change.rename, change.link, change.level
    )
}
