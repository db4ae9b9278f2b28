//! A model of what a power cut may leave: every state of the names, and for every file the appended
//! data and the part that was synced.

use super::stage::{content, log, metadata, other, read_all, table};
use crate::{FileSystem, FsError, Writer};
use imbrex_clockwork::Prng;
use imbrex_files::Hints;
use std::collections::BTreeMap;

/// One step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Create(&'static str, Hints),
    Append(&'static str, usize),
    Sync(&'static str),
    Close(&'static str),
    Truncate(&'static str, usize),
    WriteAt(&'static str, usize, usize),
    Rename(&'static str, &'static str),
    Link(&'static str, &'static str),
    Unlink(&'static str),
    MakeDir(&'static str),
    RemoveDir(&'static str),
    SyncNames,
}

type FileIndex = usize;

/// One file's history. A rewrite begins another version.
#[derive(Clone, Debug, Default)]
struct FileModel {
    tag: u64,
    /// The content appended so far, and its length when the version began.
    versions: Vec<(Vec<u8>, usize)>,
    /// From which state of the names on at least this version and length must exist.
    floors: Vec<(usize, usize, usize)>,
}

/// The history so far.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    files: Vec<FileModel>,
    /// Every state of the names: path to file or directory.
    states: Vec<BTreeMap<String, Option<FileIndex>>>,
    /// The oldest state that may be found.
    oldest: usize,
    /// The state in which each file last got or changed a name.
    named: BTreeMap<FileIndex, usize>,
}

/// The file system and its open files.
pub(crate) struct Player<'a> {
    pub(crate) fs: &'a FileSystem,
    writers: BTreeMap<&'static str, (Writer, FileIndex)>,
}

impl<'a> Player<'a> {
    pub(crate) fn new(fs: &'a FileSystem) -> Player<'a> {
        Player { fs, writers: BTreeMap::new() }
    }

    fn writer(
        &mut self,
        path: &'static str,
        model: &Model,
    ) -> Result<(&Writer, FileIndex), FsError> {
        let index = model.now()[path].expect("the story writes to files");
        if self.writers.get(path).is_none_or(|(_, of)| *of != index) {
            self.writers.insert(path, (self.fs.append_to(path)?, index));
        }
        let (writer, index) = &self.writers[path];
        Ok((writer, *index))
    }

    /// Plays one step, on the file system and on the model. A failed step is half done: the model
    /// includes what it may have done already, but not what it promised.
    pub(crate) fn play(&mut self, step: &Step, model: &mut Model) -> Result<(), FsError> {
        let fs = self.fs;
        match *step {
            Step::Create(path, hints) => {
                let index = model.create(path);
                self.writers.insert(path, (fs.create(path, hints)?, index));
            }
            Step::Append(path, len) => {
                let (writer, index) = self.writer(path, model)?;
                let bytes = model.files[index].append(len);
                writer.append(&bytes)?;
            }
            Step::Sync(path) => {
                let (writer, index) = self.writer(path, model)?;
                writer.sync()?;
                model.synced(index);
            }
            Step::Close(path) => {
                if let Some((writer, _)) = self.writers.remove(path) {
                    writer.close()?;
                }
            }
            Step::Truncate(path, len) => {
                let (writer, index) = self.writer(path, model)?;
                model.files[index].rewrite(|bytes| bytes.resize(len, 0));
                writer.truncate(len as u64)?;
            }
            Step::WriteAt(path, offset, len) => {
                let (writer, index) = self.writer(path, model)?;
                let patch = content(99, len);
                model.files[index].rewrite(|bytes| {
                    bytes.resize(bytes.len().max(offset + len), 0);
                    bytes[offset..offset + len].copy_from_slice(&patch);
                });
                writer.write_at(offset as u64, &patch)?;
            }
            _ => self.play_name(step, model)?,
        }
        Ok(())
    }

    /// The steps that change only names.
    fn play_name(&mut self, step: &Step, model: &mut Model) -> Result<(), FsError> {
        let fs = self.fs;
        match *step {
            Step::Rename(from, to) => {
                model.rename(from, to);
                self.writers.remove(to);
                if let Some(moved) = self.writers.remove(from) {
                    self.writers.insert(to, moved);
                }
                fs.rename(from, to)?;
            }
            Step::Link(existing, path) => {
                let file = model.now()[existing];
                model.next(
                    |names| {
                        names.insert(path.to_owned(), file);
                    },
                    file,
                );
                fs.link(existing, path)?;
            }
            Step::Unlink(path) => {
                model.next(
                    |names| {
                        names.remove(path);
                    },
                    None,
                );
                fs.unlink(path)?;
            }
            Step::MakeDir(path) => {
                model.next(
                    |names| {
                        names.insert(path.to_owned(), None);
                    },
                    None,
                );
                fs.make_dir(path)?;
            }
            Step::RemoveDir(path) => {
                model.next(
                    |names| {
                        names.remove(path);
                    },
                    None,
                );
                fs.remove_dir(path)?;
            }
            Step::SyncNames => {
                fs.sync_names()?;
                model.oldest = model.states.len() - 1;
            }
            _ => unreachable!("steps on a file's content are played above"),
        }
        Ok(())
    }
}

impl FileModel {
    fn append(&mut self, len: usize) -> Vec<u8> {
        let tag = self.tag;
        let (bytes, _) = self.versions.last_mut().expect("a file begins with a version");
        let from = bytes.len();
        bytes.extend_from_slice(&content(tag, from + len)[from..]);
        bytes[from..].to_vec()
    }

    fn rewrite(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.versions.last().expect("a file begins with a version").0.clone();
        change(&mut bytes);
        let len = bytes.len();
        self.versions.push((bytes, len));
    }

    fn raise_floor(&mut self, state: usize) {
        let version = self.versions.len() - 1;
        self.floors.push((state, version, self.versions[version].0.len()));
    }

    /// Why `got` cannot be this file's content while the names are those of `state`, if it cannot.
    fn check(&self, state: usize, got: &[u8]) -> Result<(), String> {
        let floors = self.floors.iter().filter(|&&(from, ..)| from <= state);
        let (version, len) =
            floors.map(|&(_, version, len)| (version, len)).max().unwrap_or_default();
        let fits = |index: usize| {
            let (bytes, least) = &self.versions[index];
            let least = if index == version { len } else { *least };
            got.len() >= least && bytes.starts_with(got)
        };
        if (version..self.versions.len()).any(fits) {
            return Ok(());
        }
        Err(format!(
            "{} bytes, no prefix of what was written or less than the {len} synced (version {version} of {})",
            got.len(),
            self.versions.len()
        ))
    }
}

impl Default for Model {
    fn default() -> Model {
        let states = vec![BTreeMap::new()];
        Model { files: Vec::new(), states, oldest: 0, named: BTreeMap::new() }
    }
}

impl Model {
    fn now(&self) -> &BTreeMap<String, Option<FileIndex>> {
        self.states.last().expect("the first state is there from the start")
    }

    fn next(
        &mut self,
        change: impl FnOnce(&mut BTreeMap<String, Option<FileIndex>>),
        file: Option<FileIndex>,
    ) {
        let mut names = self.now().clone();
        change(&mut names);
        self.states.push(names);
        if let Some(file) = file {
            self.named.insert(file, self.states.len() - 1);
        }
    }

    fn create(&mut self, path: &str) -> FileIndex {
        let index = self.files.len();
        let tag = index as u64 + 1;
        self.files.push(FileModel { tag, versions: vec![(Vec::new(), 0)], floors: Vec::new() });
        self.next(
            |names| {
                names.insert(path.to_owned(), Some(index));
            },
            Some(index),
        );
        index
    }

    fn rename(&mut self, from: &str, to: &str) {
        let replaced = self.now().contains_key(to);
        let file = self.now()[from];
        let moved = |names: &mut BTreeMap<String, Option<FileIndex>>| {
            let below: Vec<String> =
                names.keys().filter(|k| k.starts_with(&format!("{from}/"))).cloned().collect();
            for path in below.into_iter().chain([from.to_owned()]) {
                let entry = names.remove(&path).expect("listed before");
                names.insert(format!("{to}{}", &path[from.len()..]), entry);
            }
        };
        self.next(moved, file);
        if let (true, Some(file)) = (replaced, file) {
            let state = self.states.len() - 1;
            self.files[file].raise_floor(state); // V3
        }
    }

    /// V2: the file's bytes, and every change of names up to its own last one.
    fn synced(&mut self, file: FileIndex) {
        self.files[file].raise_floor(0);
        if self.now().values().any(|entry| *entry == Some(file)) {
            self.oldest = self.oldest.max(self.named[&file]);
        }
    }

    /// The state in which a drive was found.
    ///
    /// # Errors
    /// Why it is no allowed state.
    pub(crate) fn recognise(&self, fs: &FileSystem) -> Result<usize, String> {
        let found = walk(fs).map_err(|error| error.to_string())?;
        let mut reasons = Vec::new();
        for state in (self.oldest..self.states.len()).rev() {
            match self.compare(state, &found) {
                Ok(()) => return Ok(state),
                Err(reason) => reasons.push(format!("state {state}: {reason}")),
            }
        }
        reasons.truncate(6);
        Err(format!("found {:?}; {}", found.keys().collect::<Vec<_>>(), reasons.join("; ")))
    }

    fn compare(
        &self,
        state: usize,
        found: &BTreeMap<String, Option<Vec<u8>>>,
    ) -> Result<(), String> {
        let names = &self.states[state];
        if !names.keys().eq(found.keys()) {
            return Err(format!("has {:?}", names.keys().collect::<Vec<_>>()));
        }
        for (path, bytes) in found {
            match (names[path], bytes) {
                (None, None) => {}
                (Some(file), Some(bytes)) => self.files[file]
                    .check(state, bytes)
                    .map_err(|reason| format!("{path}: {reason}"))?,
                _ => return Err(format!("{path} is not what it was")),
            }
        }
        Ok(())
    }
}

fn walk(fs: &FileSystem) -> Result<BTreeMap<String, Option<Vec<u8>>>, FsError> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![String::new()];
    while let Some(dir) = dirs.pop() {
        for entry in fs.list(&dir)? {
            let path = format!("{dir}/{}", entry.name);
            if entry.is_dir {
                found.insert(path.clone(), None);
                dirs.push(path);
            } else {
                found.insert(path.clone(), Some(read_all(fs, &path)?));
            }
        }
    }
    Ok(found)
}

/// A story of `len` steps chosen by a seed.
pub(crate) fn random_story(seed: u64, len: usize) -> Vec<Step> {
    const PATHS: [&str; 6] = ["/a", "/b", "/d/a", "/d/b", "/d/e/a", "/c"];
    let mut prng = Prng::new(seed).derive("story");
    let mut pick = |bound: u64| prng.below(bound) as usize;
    let mut there: Vec<&'static str> = Vec::new();
    let mut story = vec![Step::MakeDir("/d"), Step::MakeDir("/d/e")];
    while story.len() < len {
        let path = PATHS[pick(6)];
        let exists = there.contains(&path);
        let kinds = [log(), table(2), other(), metadata()];
        let sizes = [7, 300, 4_000, 9_000, 40_000];
        let step = match pick(20) {
            0..4 => Step::Create(path, kinds[pick(4)]),
            4..9 if exists => Step::Append(path, sizes[pick(5)]),
            9..13 if exists => Step::Sync(path),
            13 if exists => Step::Close(path),
            14 if exists => Step::Truncate(path, sizes[pick(3)]),
            15 if exists => Step::WriteAt(path, sizes[pick(2)], 50),
            16 if exists => Step::Rename(path, PATHS[pick(6)]),
            17 if exists => Step::Unlink(path),
            18 if exists && !there.contains(&"/c") => Step::Link(path, "/c"),
            19 => Step::SyncNames,
            _ => continue,
        };
        match step {
            Step::Create(path, _) if !exists => there.push(path),
            Step::Link(..) => there.push("/c"),
            Step::Unlink(path) => there.retain(|other| *other != path),
            // In POSIX a rename between two names of one file changes nothing. The model does not
            // cover that.
            Step::Rename(from, to) if from == to || there.contains(&"/c") => continue,
            Step::Rename(from, to) => {
                there.retain(|other| *other != from && *other != to);
                there.push(to);
            }
            _ => {}
        }
        story.push(step);
    }
    story
}
