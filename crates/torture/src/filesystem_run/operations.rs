//! The operations of one life.

use super::checks::{check_stores, check_synced};
use super::draw::{draw_dir, draw_hints, draw_path, join};
use super::model::Model;
use super::names::{Change, Entry, FileId, Refusal, children, need_dir, need_file};
use super::room;
use crate::rig::{Ending, Rig, chain, draw_len};
use imbrex_files::{FileKind, FilesError, Hints};
use imbrex_filesystem::{FileSystem, FsError, Reader, Writer};

/// A file that is open for writing.
struct Open {
    writer: Writer,
    file: FileId,
    path: String,
}

/// The objects that a life holds besides the drive.
pub(super) struct Life<'a> {
    pub(super) fs: &'a FileSystem,
    writers: Vec<Open>,
    /// Where each reader's last read ended: databases read most files sequentially.
    readers: Vec<(Reader, FileId, u64)>,
    /// Whether the life fills the drive instead of using it, and how full it then keeps the drive.
    is_filling: bool,
    fill_percent: u64,
    /// A request found no room.
    pub(super) is_full: bool,
    /// A request failed, with unknown effect.
    is_over: bool,
    /// The seed ends it.
    is_done: bool,
}

/// The outcome of a request that the rules allow.
enum Fate<T> {
    Done(T),
    /// There was no room for it, or for the data that it continues.
    NoRoom,
    /// The weather made it fail.
    Failed,
}

impl<'a> Life<'a> {
    pub(super) fn new(fs: &'a FileSystem) -> Life<'a> {
        Life {
            fs,
            writers: Vec::new(),
            readers: Vec::new(),
            is_filling: false,
            fill_percent: 0,
            is_full: false,
            is_over: false,
            is_done: false,
        }
    }

    /// Runs until the weather or the seed ends the life.
    pub(super) fn live(&mut self, rig: &mut Rig, model: &mut Model) -> Result<Ending, String> {
        self.is_filling = rig.prng.chance(1, 2);
        self.fill_percent = 50 + rig.prng.below(70);
        // Short lives show what a process owes that only syncs after opening.
        let operation_count = match rig.prng.below(6) {
            0 | 1 => rig.prng.below(4),
            _ => rig.prng.below(if self.is_filling { 400 } else { 150 }),
        };
        for _ in 0..operation_count {
            rig.runtime.scheduler.yield_now();
            self.operate(rig, model)?;
            if self.is_full && rig.prng.chance(1, 3) {
                self.is_full = false;
                room::make(self, rig, model)?;
            }
            if rig.is_dark() || self.is_over || self.is_done {
                break;
            }
        }
        if self.is_over && !rig.is_dark() {
            self.go_on_after_failure(rig, model)?;
        }
        Ok(rig.ending())
    }

    fn operate(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let is_too_full = self.is_filling && {
            let space = self.fs.files().space();
            space.live_bytes * 100 / space.capacity_bytes > self.fill_percent
        };
        if is_too_full && rig.prng.chance(2, 3) {
            return self.unlink(rig, model);
        }
        if self.is_filling && rig.prng.chance(1, 3) {
            return self.fill(rig, model);
        }
        match rig.prng.below(46) {
            0..=4 => self.create(rig, model),
            5..=12 => self.append(rig, model),
            13..=17 => self.sync(rig, model),
            18 => self.sync_names(rig, model),
            19 => self.sync_all(rig, model),
            20..=21 => self.close(rig, model),
            22..=23 => self.write_at(rig, model),
            24..=25 => self.truncate(rig, model),
            26..=27 => self.rename(rig, model),
            28..=29 => self.unlink(rig, model),
            30 => self.link(rig, model),
            31 => self.make_dir(rig, model),
            32 => self.remove_dir(rig, model),
            33..=37 => self.read(rig, model),
            38 => self.hold(rig, model),
            39..=40 => self.look_around(rig, model),
            41 => self.write_pieces(rig, model),
            42 => self.truncate_under_reader(rig, model),
            _ => self.replace_current(rig, model),
        }
    }

    /// The outcome of a request to `file`, or to any object.
    fn fate<T>(
        &mut self,
        rig: &mut Rig,
        model: &mut Model,
        file: Option<FileId>,
        doing: &str,
        result: Result<T, FsError>,
    ) -> Result<Fate<T>, String> {
        let error = match result {
            Ok(value) => return Ok(Fate::Done(value)),
            Err(error) => error,
        };
        let is_lost = matches!(error, FsError::Lost { .. });
        if is_lost && file.is_none_or(|file| model.file(file).may_be_lost) && model.excuses(&error)
        {
            rig.say(format!("{doing}: lost, as reported earlier"));
            return Ok(Fate::NoRoom);
        }
        if !error.is_no_space() {
            rig.excuse(doing, &error)?;
            self.is_over = true;
            return Ok(Fate::Failed);
        }
        rig.no_space_count += 1;
        rig.say(format!("{doing}: {}", chain(&error)));
        self.is_full = true;
        match error {
            FsError::Files { source: FilesError::NoSpace { needed_bytes, free_bytes }, .. }
                if needed_bytes <= free_bytes =>
            {
                Err(format!("no space for {needed_bytes} bytes, but {free_bytes} are free"))
            }
            _ => Ok(Fate::NoRoom),
        }
    }

    /// Whether the request succeeded. Only the weather may keep it from doing so.
    pub(super) fn is_done<T>(
        &mut self,
        rig: &mut Rig,
        doing: &str,
        result: Result<T, FsError>,
    ) -> Result<bool, String> {
        let Err(error) = result else { return Ok(true) };
        rig.excuse(doing, &error)?;
        self.is_over = true;
        Ok(false)
    }

    /// Changes names. Does nothing if that was rightly refused.
    pub(super) fn change<T>(
        &mut self,
        rig: &mut Rig,
        model: &mut Model,
        change: Change,
        ask: impl FnOnce(&FileSystem) -> Result<T, FsError>,
    ) -> Result<Option<T>, String> {
        let doing = format!("{change:?}");
        rig.say(doing.clone());
        let moved = match &change {
            Change::Rename { from, .. } => need_file(model.names(), from).ok(),
            _ => None,
        };
        let expected = model.change(&change);
        let result = ask(self.fs);
        if let Err(refusal) = expected {
            return match result {
                Ok(_) => Err(format!("{doing} happened, but should be refused: {refusal:?}")),
                Err(error) if Refusal::of(&error) == Some(refusal) => Ok(None),
                result => self.fate(rig, model, moved, &doing, result).map(|_| None),
            };
        }
        match self.fate(rig, model, moved, &doing, result)? {
            Fate::Done(value) => Ok(Some(value)),
            Fate::Failed => {
                model.change_failed();
                Ok(None)
            }
            Fate::NoRoom => {
                if let Change::Unlink { .. } | Change::RemoveDir { .. } = change {
                    return Err(format!("{doing} was refused for lack of room"));
                }
                model.take_back();
                moved.into_iter().for_each(|file| model.file(file).may_be_lost = true);
                Ok(None)
            }
        }
    }

    /// A file that takes a large part of the drive, like the output of a compaction.
    fn fill(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let dir = draw_dir(rig);
        let path = join(&dir, &format!("{:02}.sst", rig.prng.below(40)));
        let hints = draw_hints(rig);
        let Some(at) = self.create_at(rig, model, path, hints)? else { return Ok(()) };
        let capacity_bytes = self.fs.files().space().capacity_bytes;
        let mut left = (capacity_bytes / (20 + rig.prng.below(60))) as usize;
        while left > 0 {
            let len = left.min(1 + draw_len(&mut rig.prng, 10, 19) as usize);
            if !self.append_at(rig, model, at, len)? {
                return Ok(());
            }
            left -= len;
        }
        match rig.prng.below(3) {
            0 => self.close_at(rig, model, at),
            1 => self.sync_at(rig, model, at).map(drop),
            _ if self.sync_at(rig, model, at)? => self.close_at(rig, model, at),
            _ => Ok(()),
        }
    }

    fn create(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let path = draw_path(rig, model);
        let hints = draw_hints(rig);
        self.create_at(rig, model, path, hints).map(drop)
    }

    /// Creates a file and opens it. Returns its index among the open ones.
    fn create_at(
        &mut self,
        rig: &mut Rig,
        model: &mut Model,
        path: String,
        hints: Hints,
    ) -> Result<Option<usize>, String> {
        let file = model.new_file();
        rig.say(format!("as {:?}, level {}", hints.kind, hints.level));
        let change = Change::Create { path: path.clone(), file };
        let made = self.change(rig, model, change, |fs| fs.create(&path, hints))?;
        let Some(writer) = made else { return Ok(None) };
        let reader = self.fs.open_read(&path).map_err(|error| chain(&error))?;
        model.file(file).unique_id = Some(reader.unique_id());
        self.writers.push(Open { writer, file, path });
        Ok(Some(self.writers.len() - 1))
    }

    /// A file that is open for writing, or is opened now. Returns its index among those.
    fn draw_writer(&mut self, rig: &mut Rig, model: &mut Model) -> Result<Option<usize>, String> {
        if !self.writers.is_empty() && rig.prng.chance(3, 4) {
            return Ok(Some(rig.prng.below(self.writers.len() as u64) as usize));
        }
        let path = draw_path(rig, model);
        self.open_to_write(model, &path)
    }

    fn open_to_write(&mut self, model: &Model, path: &str) -> Result<Option<usize>, String> {
        match (need_file(model.names(), path), self.fs.append_to(path)) {
            (Ok(file), Ok(writer)) => {
                self.writers.push(Open { writer, file, path: path.to_owned() });
                Ok(Some(self.writers.len() - 1))
            }
            (Err(refusal), Err(error)) if Refusal::of(&error) == Some(refusal) => Ok(None),
            (expected, got) => Err(format!("opening {path}: {got:?}, expected {expected:?}")),
        }
    }

    fn append(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let Some(index) = self.draw_writer(rig, model)? else { return Ok(()) };
        let len = self.draw_append_len(rig);
        self.append_at(rig, model, index, len).map(drop)
    }

    fn draw_append_len(&self, rig: &mut Rig) -> usize {
        let prng = &mut rig.prng;
        let near = prng.below(40) as usize;
        match prng.below(10) {
            0 => 4096 * (1 + prng.below(8) as usize),
            // A length that still fits the tree, and one whose frame just fills its blocks.
            1 => 4076 + near,
            // A piece of a log, which is written before any sync.
            2 if self.is_filling => (256 << 10) - 20 + near,
            3 => (60 << 10) + draw_len(prng, 8, 19) as usize,
            _ => 1 + draw_len(prng, 2, 16) as usize,
        }
    }

    /// Returns whether the bytes were appended.
    fn append_at(
        &mut self,
        rig: &mut Rig,
        model: &mut Model,
        index: usize,
        len: usize,
    ) -> Result<bool, String> {
        let Open { file, path, .. } = &self.writers[index];
        let (file, doing) = (*file, format!("append {len} bytes to {path}"));
        rig.say(doing.clone());
        let bytes = model.new_bytes(len);
        let len_before = model.file(file).bytes().len();
        model.file(file).append(&bytes);
        let result = self.writers[index].writer.append(&bytes);
        match self.fate(rig, model, Some(file), &doing, result)? {
            Fate::Done(()) => return Ok(true),
            Fate::NoRoom => model.file(file).cut(len_before),
            Fate::Failed => model.file(file).is_doubtful = true,
        }
        Ok(false)
    }

    fn sync(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let Some(index) = self.draw_writer(rig, model)? else { return Ok(()) };
        self.sync_at(rig, model, index).map(drop)
    }

    /// Returns whether the file was synced.
    fn sync_at(&mut self, rig: &mut Rig, model: &mut Model, at: usize) -> Result<bool, String> {
        let Open { writer, file, path } = &self.writers[at];
        let (file, doing) = (*file, format!("sync {path}"));
        rig.say(doing.clone());
        let result = writer.sync();
        match self.fate(rig, model, Some(file), &doing, result)? {
            Fate::Done(()) => {
                model.synced(file);
                return Ok(true);
            }
            Fate::NoRoom => model.file(file).may_be_lost = true,
            Fate::Failed => {}
        }
        Ok(false)
    }

    fn sync_names(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        rig.say("sync names".to_string());
        let result = self.fs.sync_names();
        if let Fate::Done(()) = self.fate(rig, model, None, "sync names", result)? {
            model.names_synced();
            self.is_done = rig.prng.chance(1, 10);
        }
        Ok(())
    }

    fn sync_all(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        rig.say("sync all".to_string());
        let result = self.fs.sync_all();
        match self.fate(rig, model, None, "sync all", result)? {
            Fate::Done(()) => {
                model.all_synced();
                if !rig.is_foul() {
                    check_stores(self.fs, model)?;
                    let again = check_synced(self.fs)?;
                    self.is_done(rig, "a second sync", again)?;
                }
            }
            Fate::NoRoom => model.any_may_be_lost(),
            Fate::Failed => {}
        }
        Ok(())
    }

    fn close(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        if self.writers.is_empty() {
            return Ok(());
        }
        let nth = rig.prng.below(self.writers.len() as u64) as usize;
        self.close_at(rig, model, nth)
    }

    fn close_at(&mut self, rig: &mut Rig, model: &mut Model, at: usize) -> Result<(), String> {
        let Open { writer, file, path } = self.writers.remove(at);
        let doing = format!("close {path}");
        rig.say(doing.clone());
        let result = writer.close();
        match self.fate(rig, model, Some(file), &doing, result)? {
            Fate::Done(()) if rig.prng.chance(1, 3) => self.sync_names(rig, model)?,
            Fate::NoRoom => model.file(file).may_be_lost = true,
            Fate::Done(()) | Fate::Failed => {}
        }
        Ok(())
    }

    fn write_at(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let Some(index) = self.draw_writer(rig, model)? else { return Ok(()) };
        let Open { writer, file, path } = &self.writers[index];
        let (file, len_before) = (*file, model.file(*file).bytes().len());
        let offset = match rig.prng.below(6) {
            0 => len_before,
            1 => len_before + rig.prng.below(5000) as usize,
            _ => rig.prng.below(len_before as u64 + 1) as usize,
        };
        let bytes = model.new_bytes(1 + draw_len(&mut rig.prng, 2, 14) as usize);
        let doing = format!("write {} bytes at {offset} of {path}", bytes.len());
        rig.say(doing.clone());
        let is_append = offset == len_before;
        if is_append {
            model.file(file).append(&bytes);
        } else {
            model.file(file).rewrite(|all| {
                all.resize(all.len().max(offset + bytes.len()), 0);
                all[offset..offset + bytes.len()].copy_from_slice(&bytes);
            });
        }
        let result = writer.write_at(offset as u64, &bytes);
        match self.fate(rig, model, Some(file), &doing, result)? {
            Fate::Done(()) => {}
            Fate::NoRoom if is_append => model.file(file).cut(len_before),
            Fate::NoRoom => model.file(file).unrewrite(),
            Fate::Failed => model.file(file).is_doubtful = true,
        }
        Ok(())
    }

    fn truncate(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let Some(index) = self.draw_writer(rig, model)? else { return Ok(()) };
        self.truncate_at(rig, model, index)
    }

    fn truncate_at(&mut self, rig: &mut Rig, model: &mut Model, at: usize) -> Result<(), String> {
        let Open { writer, file, path } = &self.writers[at];
        let (file, len_before) = (*file, model.file(*file).bytes().len());
        let len = match rig.prng.below(6) {
            0 => 0,
            1 => len_before,
            2 => len_before + rig.prng.below(9000) as usize,
            _ => rig.prng.below(len_before as u64 + 1) as usize,
        };
        let doing = format!("truncate {path} from {len_before} to {len}");
        rig.say(doing.clone());
        if len != len_before {
            model.file(file).rewrite(|all| all.resize(len, 0));
        }
        let result = writer.truncate(len as u64);
        match self.fate(rig, model, Some(file), &doing, result)? {
            Fate::NoRoom if len != len_before => model.file(file).unrewrite(),
            Fate::Failed => model.file(file).is_doubtful = true,
            _ => {}
        }
        Ok(())
    }

    /// Data that a reader has read ahead is no longer part of the file once it is truncated and
    /// continued.
    fn truncate_under_reader(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let path = draw_path(rig, model);
        let Some((reader, file)) = self.open_read(model, &path)? else { return Ok(()) };
        compare(rig, model, &reader, file, Some(0))?;
        let Some(at) = self.open_to_write(model, &path)? else { return Ok(()) };
        self.truncate_at(rig, model, at)?;
        if self.is_over
            || !self.append_at(rig, model, at, 5000)?
            || !self.sync_at(rig, model, at)?
        {
            return Ok(());
        }
        for _ in 0..3 {
            compare(rig, model, &reader, file, None)?;
        }
        Ok(())
    }

    /// Threads write a log in any order, each byte once: data behind a hole waits for it.
    fn write_pieces(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let Some(index) = self.draw_writer(rig, model)? else { return Ok(()) };
        let Open { writer, file, path } = &self.writers[index];
        let (file, len_before) = (*file, model.file(*file).bytes().len());
        // A file that has lost bytes is shorter than in the model.
        let start = writer.len_bytes() as usize;
        let bytes = model.new_bytes(1 + draw_len(&mut rig.prng, 3, 17) as usize);
        let doing = format!("write {} bytes behind {path} in pieces", bytes.len());
        rig.say(doing.clone());
        let piece_len = 1 + bytes.len() / (1 + rig.prng.below(6) as usize);
        let mut pieces: Vec<(usize, &[u8])> = bytes
            .chunks(piece_len)
            .enumerate()
            .map(|(nth, piece)| (start + nth * piece_len, piece))
            .collect();
        model.file(file).append(&bytes);
        let mut result = Ok(());
        while result.is_ok() && !pieces.is_empty() {
            let nth = rig.prng.below(pieces.len() as u64) as usize;
            let (offset, piece) = pieces.swap_remove(nth);
            result = writer.fill_at(offset as u64, piece);
        }
        match self.fate(rig, model, Some(file), &doing, result)? {
            Fate::Done(()) => {}
            Fate::NoRoom => {
                // Nothing fills the hole any more. The pieces before it are in the file.
                let len = self.writers[index].writer.len_bytes() as usize;
                model.file(file).cut(len.max(len_before));
                model.file(file).may_be_lost = true;
            }
            Fate::Failed => model.file(file).is_doubtful = true,
        }
        Ok(())
    }

    fn rename(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let from = if rig.prng.chance(1, 5) { draw_dir(rig) } else { draw_path(rig, model) };
        let to = if rig.prng.chance(1, 5) { draw_dir(rig) } else { draw_path(rig, model) };
        let is_moved = self.rename_to(rig, model, from, to.clone())?;
        if is_moved && need_file(model.names(), &to).is_ok() && rig.prng.chance(1, 4) {
            return self.sync_named(rig, model, &to);
        }
        Ok(())
    }

    fn rename_to(
        &mut self,
        rig: &mut Rig,
        model: &mut Model,
        from: String,
        to: String,
    ) -> Result<bool, String> {
        if from.is_empty() || to.is_empty() {
            return Ok(false);
        }
        let change = Change::Rename { from: from.clone(), to: to.clone() };
        Ok(self.change(rig, model, change, |fs| fs.rename(&from, &to))?.is_some())
    }

    fn unlink(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let path = draw_path(rig, model);
        let change = Change::Unlink { path: path.clone() };
        self.change(rig, model, change, |fs| fs.unlink(&path)).map(drop)
    }

    fn link(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let (existing, path) = (draw_path(rig, model), draw_path(rig, model));
        let change = Change::Link { existing: existing.clone(), path: path.clone() };
        let made = self.change(rig, model, change, |fs| fs.link(&existing, &path))?;
        if made.is_some() && rig.prng.chance(1, 2) {
            return self.sync_named(rig, model, &path);
        }
        Ok(())
    }

    /// Syncs the file that has just got a name, perhaps as the last operation (N4).
    fn sync_named(&mut self, rig: &mut Rig, model: &mut Model, path: &str) -> Result<(), String> {
        if let Some(at) = self.open_to_write(model, path)? {
            self.sync_at(rig, model, at)?;
            self.is_done = rig.prng.chance(1, 4);
        }
        Ok(())
    }

    fn make_dir(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let path = draw_dir(rig);
        if path.is_empty() {
            return Ok(());
        }
        if rig.prng.chance(1, 2) {
            let change = Change::MakeDir { path: path.clone() };
            return self.change(rig, model, change, |fs| fs.make_dir(&path)).map(drop);
        }
        let change = Change::MakeDirs { path: path.clone() };
        self.change(rig, model, change, |fs| fs.make_dirs(&path)).map(drop)
    }

    fn remove_dir(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let path = draw_dir(rig);
        if path.is_empty() {
            return Ok(());
        }
        let change = Change::RemoveDir { path: path.clone() };
        self.change(rig, model, change, |fs| fs.remove_dir(&path)).map(drop)
    }

    /// As databases name their manifest: a short file, synced or not, renamed over the previous
    /// one.
    fn replace_current(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let dir = draw_dir(rig);
        if need_dir(model.names(), &dir).is_err() {
            return Ok(());
        }
        let (tmp, current) = (join(&dir, "d"), join(&dir, "CURRENT"));
        let hints = draw_hints(rig);
        let Some(at) = self.create_at(rig, model, tmp.clone(), hints)? else { return Ok(()) };
        let len = if rig.prng.chance(3, 4) { 16 } else { 9000 };
        let is_synced = rig.prng.chance(1, 2);
        let is_written =
            self.append_at(rig, model, at, len)? && (!is_synced || self.sync_at(rig, model, at)?);
        if self.is_over || !is_written {
            return Ok(());
        }
        if rig.prng.chance(1, 2) {
            self.close_at(rig, model, at)?;
        }
        if !self.is_over && self.rename_to(rig, model, tmp, current)? && rig.prng.chance(1, 2) {
            self.sync_names(rig, model)?;
        }
        Ok(())
    }

    fn read(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        if !self.readers.is_empty() && rig.prng.chance(1, 2) {
            return self.read_held(rig, model);
        }
        let path = draw_path(rig, model);
        match self.open_read(model, &path)? {
            Some((reader, file)) => compare(rig, model, &reader, file, None).map(drop),
            None => Ok(()),
        }
    }

    fn read_held(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        if self.readers.is_empty() {
            return Ok(());
        }
        let nth = rig.prng.below(self.readers.len() as u64) as usize;
        let (reader, file, next) = &mut self.readers[nth];
        let offset = if rig.prng.chance(2, 3) { Some(*next) } else { None };
        *next = compare(rig, model, reader, *file, offset)?;
        if rig.prng.chance(1, 4) {
            self.readers.swap_remove(nth);
        }
        Ok(())
    }

    fn open_read(&self, model: &Model, path: &str) -> Result<Option<(Reader, FileId)>, String> {
        match (need_file(model.names(), path), self.fs.open_read(path)) {
            (Ok(file), Ok(reader)) => Ok(Some((reader, file))),
            (Err(refusal), Err(error)) if Refusal::of(&error) == Some(refusal) => Ok(None),
            (expected, got) => Err(format!("opening {path}: {got:?}, expected {expected:?}")),
        }
    }

    fn hold(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let path = draw_path(rig, model);
        let opened = self.open_read(model, &path)?;
        self.readers.extend(opened.map(|(reader, file)| (reader, file, 0)));
        if self.readers.len() > 5 {
            self.readers.remove(0);
        }
        Ok(())
    }

    fn look_around(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        let dir = draw_dir(rig);
        let expected = need_dir(model.names(), &dir).map(|()| children(model.names(), &dir));
        let listed = self.fs.list(&dir).map_err(|error| Refusal::of(&error));
        let got = listed.map(|list| {
            list.into_iter().map(|entry| (entry.name, entry.is_dir)).collect::<Vec<_>>()
        });
        if got != expected.map_err(Some) {
            return Err(format!("list {dir:?} gave {got:?}; there are {:?}", model.names()));
        }
        let path = draw_path(rig, model);
        if let Ok(file) = need_file(model.names(), &path) {
            self.check_metadata(model, &path, file)?;
            let (level, is_level_told) = (rig.prng.below(5) as u8, rig.prng.chance(1, 2));
            if is_level_told {
                rig.say(format!("{path} belongs to level {level}"));
                self.fs.set_level(&path, level).map_err(|error| chain(&error))?;
            }
        }
        if rig.prng.chance(1, 4) {
            rig.say("run until idle".to_string());
            rig.world.run_until_idle();
        }
        Ok(())
    }

    fn check_metadata(&self, model: &mut Model, path: &str, file: FileId) -> Result<(), String> {
        let got = self.fs.metadata(path).map_err(|error| chain(&error))?;
        let link_count = model.names().values().filter(|e| **e == Entry::File(file)).count();
        let told = model.file(file);
        let is_known = !told.is_doubtful && !told.may_be_lost;
        let len_is_right = !is_known || got.len_bytes == told.bytes().len() as u64;
        if got.is_dir || got.link_count as usize != link_count || !len_is_right {
            let len = told.bytes().len();
            return Err(format!("{path} has {got:?}, expected {len} bytes, {link_count} links"));
        }
        Ok(())
    }

    /// A request failed: everything readable is right, and a sync that succeeds is real (N9).
    fn go_on_after_failure(&mut self, rig: &mut Rig, model: &mut Model) -> Result<(), String> {
        for at in 0..self.writers.len() {
            let Open { writer, file, path } = &self.writers[at];
            if model.file(*file).is_doubtful {
                continue;
            }
            let synced = writer.sync();
            rig.say(format!("sync {path} once more: {}", told(&synced)));
            if synced.is_ok() {
                model.synced(*file);
            }
        }
        let synced = self.fs.sync_names();
        rig.say(format!("sync names once more: {}", told(&synced)));
        match synced {
            Ok(()) => model.names_synced(),
            Err(FsError::Poisoned { .. }) => {
                let hints = Hints::new(FileKind::Log);
                if self.fs.create("late", hints).is_ok() || self.fs.make_dir("later").is_ok() {
                    return Err("a change was accepted after a failed commit".to_string());
                }
            }
            Err(_) => {}
        }
        // What a path leads to may be unknown.
        for _ in 0..rig.prng.below(6) {
            self.read_held(rig, model)?;
        }
        Ok(())
    }

    /// Requests syncs while the process is being killed. A sync that reports success is real.
    pub(super) fn die_in_a_sync(&mut self, rig: &mut Rig, model: &mut Model) {
        for Open { writer, file, path } in self.writers.iter().take(2) {
            let synced = if model.file(*file).is_doubtful { continue } else { writer.sync() };
            rig.say(format!("sync {path}: {}", told(&synced)));
            if synced.is_ok() {
                model.synced(*file);
            }
        }
        let synced = self.fs.sync_names();
        rig.say(format!("sync names: {}", told(&synced)));
        if synced.is_ok() {
            model.names_synced();
        }
    }

    /// Closes everything, whatever the result.
    pub(super) fn give_up_handles(&mut self, model: &mut Model) {
        for Open { writer, file, .. } in self.writers.drain(..) {
            model.file(file).may_be_lost |= writer.close().is_err();
        }
        self.readers.clear();
    }
}

fn told(result: &Result<(), FsError>) -> String {
    result.as_ref().map_or_else(|error| chain(error), |()| "done".to_string())
}

/// Reads from `at`, or at random, and compares. Returns where the read ended.
fn compare(
    rig: &mut Rig,
    model: &mut Model,
    reader: &Reader,
    file: FileId,
    at: Option<u64>,
) -> Result<u64, String> {
    let told = model.file(file);
    let (is_doubtful, may_be_lost) = (told.is_doubtful, told.may_be_lost);
    let expected = told.bytes();
    let offset = match rig.prng.below(5) {
        _ if at.is_some_and(|at| at <= expected.len() as u64) => at.unwrap_or_default(),
        0 => 0,
        1 => expected.len() as u64 + rig.prng.below(3),
        _ => rig.prng.below(expected.len() as u64 + 1),
    };
    let mut buf = vec![0xEE; draw_len(&mut rig.prng, 1, 19) as usize];
    rig.say(format!("read {} bytes at {offset} of file {file}", buf.len()));
    let got = match reader.read_at(offset, &mut buf) {
        Ok(len) => &buf[..len],
        Err(FsError::Lost { .. }) if may_be_lost => return Ok(offset),
        Err(error) => return rig.excuse("read", &error).map(|()| offset),
    };
    let start = expected.len().min(offset as usize);
    let end = expected.len().min(start + buf.len());
    if is_doubtful || got == &expected[start..end] {
        return Ok(offset + got.len() as u64);
    }
    let same = got.iter().zip(&expected[start..]).take_while(|(a, b)| a == b).count();
    let (got, len) = (got.len(), expected.len());
    Err(format!("{got} bytes at {offset} differ after {same} from the file's {len}"))
}
