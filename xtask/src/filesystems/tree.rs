//! What is expected of one writer's directory, and the judging of what is found there.
//!
//! ```text
//!   name -> what it was when it was last known to be durable, and all that it was since
//!   file -> its content (`content`), and whether it must be there under one of its names
//! ```
//!
//! A change is noted before it is asked for, as something that may be found from then on; a sync that
//! returned narrows it down.
//!
//! Invariants
//!   T1  A name is what it was durably, or what it was at any time since; and never something else.
//!   T2  A rename is whole: what was renamed is found under one of its names, and under one only.
//!   T3  A sync of a directory makes its names durable; a sync of a file that was made and not renamed
//!       makes its name durable too, as ext4, xfs and btrfs do.
//!   T4  What was found once, after the journal was replayed, is durable.

use super::content::{Content, FileId};
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A directory's number; 0 is the writer's own, in which the others are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DirId(pub(super) u64);

pub(super) const ROOT: DirId = DirId(0);

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Entry {
    Absent,
    File(FileId),
    Dir(DirId),
}

#[derive(Clone, Debug, Default)]
struct Names(BTreeMap<String, Vec<Entry>>);

#[derive(Clone, Debug)]
struct File {
    content: Content,
    dir: DirId,
    /// A sync told that it is there, and nothing was done since that takes it away.
    must_exist: bool,
    /// Renamed since its directory was synced.
    is_renamed: bool,
}

#[derive(Clone, Debug, Default)]
struct Dir {
    names: Names,
    must_exist: bool,
}

/// One writer's directory.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    /// What it is called.
    pub(super) name: String,
    block_len: usize,
    next_number: u64,
    files: BTreeMap<FileId, File>,
    dirs: BTreeMap<DirId, Dir>,
}

/// What there is, and what the power cut took of what nobody had synced.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// Written, not synced, and not there.
    pub(super) lost_bytes: u64,
    /// Found as zeros instead, at the ends of files or before what came later.
    pub(super) zero_bytes: u64,
}

impl Names {
    fn now(&self, name: &str) -> Entry {
        self.0.get(name).and_then(|states| states.last()).copied().unwrap_or(Entry::Absent)
    }

    /// From now on `name` may be `entry`.
    fn push(&mut self, name: &str, entry: Entry) {
        self.0.entry(name.to_owned()).or_insert_with(|| vec![Entry::Absent]).push(entry);
    }

    fn synced(&mut self, name: &str) {
        let now = self.now(name);
        self.0.insert(name.to_owned(), vec![now]);
    }
}

impl Tree {
    /// `number` makes its files' numbers others than those of other trees.
    pub(super) fn new(number: u64, name: String, block_len: usize) -> Tree {
        let dirs = BTreeMap::from([(ROOT, Dir { must_exist: true, ..Dir::default() })]);
        let next_number = (number + 1) << 32;
        Tree { name, block_len, next_number, files: BTreeMap::new(), dirs }
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    fn names(&mut self, dir: DirId) -> &mut Names {
        &mut self.dirs.entry(dir).or_default().names
    }

    /// All that is in `dir` now.
    pub(super) fn entries(&self, dir: DirId) -> Vec<(String, Entry)> {
        let Some(dir) = self.dirs.get(&dir) else { return Vec::new() };
        let now = dir.names.0.keys().map(|name| (name.clone(), dir.names.now(name)));
        now.filter(|(_, entry)| *entry != Entry::Absent).collect()
    }

    pub(super) fn content(&mut self, id: FileId) -> &mut Content {
        &mut self.files.get_mut(&id).expect("an entry's file is known").content
    }

    /// Bytes in files that are there now.
    pub(super) fn live_bytes(&self) -> u64 {
        let all = self.dirs.keys().flat_map(|dir| self.entries(*dir));
        let files = all.filter_map(|(_, entry)| match entry {
            Entry::File(id) => self.files.get(&id),
            Entry::Dir(_) | Entry::Absent => None,
        });
        files.map(|file| file.content.len).sum()
    }

    /// A new file is about to be made; `name` gets its number in place of `#`.
    pub(super) fn create(&mut self, dir: DirId, name: &str) -> (FileId, String) {
        let id = FileId(self.number());
        let name = name.replace('#', &format!("{:x}", id.0 as u32));
        self.names(dir).push(&name, Entry::File(id));
        let content = Content::new(id, self.block_len);
        self.files.insert(id, File { content, dir, must_exist: false, is_renamed: false });
        (id, name)
    }

    /// A new directory is about to be made, under a name of its own.
    pub(super) fn create_dir(&mut self) -> (DirId, String) {
        let dir = DirId(self.number());
        let name = format!("dir-{:x}.new", dir.0 as u32);
        self.names(ROOT).push(&name, Entry::Dir(dir));
        self.dirs.insert(dir, Dir::default());
        (dir, name)
    }

    /// `from` is about to be renamed to `to`, over what is there.
    pub(super) fn rename(&mut self, dir: DirId, from: &str, to: &str) {
        let (moved, replaced) = (self.names(dir).now(from), self.names(dir).now(to));
        self.may_go(replaced);
        if let Entry::File(id) = moved
            && let Some(file) = self.files.get_mut(&id)
        {
            file.is_renamed = true;
        }
        self.names(dir).push(from, Entry::Absent);
        self.names(dir).push(to, moved);
    }

    /// `name` is about to be removed.
    pub(super) fn remove(&mut self, dir: DirId, name: &str) {
        let removed = self.names(dir).now(name);
        self.may_go(removed);
        self.names(dir).push(name, Entry::Absent);
    }

    fn may_go(&mut self, entry: Entry) {
        match entry {
            Entry::File(id) => {
                if let Some(file) = self.files.get_mut(&id) {
                    file.must_exist = false;
                }
            }
            Entry::Dir(id) => self.dirs.entry(id).or_default().must_exist = false,
            Entry::Absent => {}
        }
    }

    /// The file was synced; `is_whole` if that was `fsync`, not `fdatasync`.
    pub(super) fn synced(&mut self, id: FileId, name: &str, is_whole: bool) {
        let file = self.files.get_mut(&id).expect("it was just written");
        file.content.synced();
        if is_whole && !file.is_renamed {
            file.must_exist = true;
            let dir = file.dir;
            self.names(dir).synced(name);
        }
    }

    /// The directory was synced.
    pub(super) fn synced_dir(&mut self, dir: DirId) {
        for (name, entry) in self.entries(dir) {
            match entry {
                Entry::File(id) => {
                    if let Some(file) = self.files.get_mut(&id) {
                        (file.must_exist, file.is_renamed) = (true, false);
                    }
                }
                Entry::Dir(id) => self.dirs.entry(id).or_default().must_exist = true,
                Entry::Absent => {}
            }
            self.names(dir).synced(&name);
        }
        self.names(dir).0.retain(|_, states| {
            let is_there = states.last().is_some_and(|now| *now != Entry::Absent);
            if is_there {
                states.drain(..states.len() - 1);
            }
            is_there
        });
    }

    /// The file system was unmounted: everything is durable.
    pub(super) fn settle(&mut self) {
        for file in self.files.values_mut() {
            file.content.synced();
        }
        for dir in self.dirs.keys().copied().collect::<Vec<_>>() {
            self.synced_dir(dir);
        }
    }

    /// Judges what is in `path`; the tree as it was found, which is durable.
    ///
    /// # Errors
    /// What is wrong, and where; or what could not be read.
    pub(super) fn judge(&self, path: &Path) -> Result<(Tree, Found)> {
        let (files, dirs) = (BTreeMap::new(), BTreeMap::new());
        let tree = Tree { files, dirs, name: self.name.clone(), ..*self };
        let mut judge = Judge { expected: self, tree, found: Found::default() };
        judge.dir(ROOT, path)?;
        let Judge { mut tree, found, .. } = judge;
        for (id, file) in &self.files {
            let is_due = file.must_exist && tree.dirs.contains_key(&file.dir);
            ensure!(!is_due || tree.files.contains_key(id), "{}: {id} is gone", path.display());
        }
        for (id, dir) in &self.dirs {
            let is_there = !dir.must_exist || tree.dirs.contains_key(id);
            ensure!(is_there, "{}: directory {:x} is gone", path.display(), id.0);
        }
        tree.dirs.values_mut().for_each(|dir| dir.must_exist = true);
        Ok((tree, found))
    }
}

struct Judge<'a> {
    expected: &'a Tree,
    tree: Tree,
    found: Found,
}

impl Judge<'_> {
    fn dir(&mut self, id: DirId, path: &Path) -> Result<()> {
        let known = self.expected.dirs.get(&id).context("a directory that was never made")?;
        let shown = path.display();
        let mut there = BTreeSet::new();
        for entry in std::fs::read_dir(path).with_context(|| format!("cannot list {shown}"))? {
            let entry = entry.with_context(|| format!("cannot list {shown}"))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            ensure!(known.names.0.contains_key(&name), "{shown}: {name:?} was never made");
            there.insert(name);
        }
        self.tree.dirs.insert(id, Dir::default());
        for (name, states) in &known.names.0 {
            let path = path.join(name);
            let entry = if there.contains(name) {
                let entry = self.entry(id, &path, states);
                entry.with_context(|| path.display().to_string())?
            } else {
                let is_fine = states.contains(&Entry::Absent);
                ensure!(is_fine, "{}: is missing; it may be {states:x?}", path.display());
                continue;
            };
            self.tree.names(id).0.insert(name.clone(), vec![entry]);
        }
        Ok(())
    }

    /// What `path` is, of all that it may be.
    fn entry(&mut self, dir: DirId, path: &Path, states: &[Entry]) -> Result<Entry> {
        let about = std::fs::symlink_metadata(path).context("cannot ask what it is")?;
        if about.is_dir() {
            let is_new = |id: &DirId| !self.tree.dirs.contains_key(id);
            let known = states.iter().rev().find_map(|state| match state {
                Entry::Dir(id) => Some(*id),
                Entry::File(_) | Entry::Absent => None,
            });
            let id = known.filter(is_new).with_context(|| {
                format!("a directory, and may be {states:x?}, of which it is found elsewhere")
            })?;
            self.dir(id, path)?;
            return Ok(Entry::Dir(id));
        }
        ensure!(about.is_file() && about.len() < 1 << 30, "neither a file nor a directory");
        let bytes = std::fs::read(path).context("cannot read it")?;
        let mut reasons = Vec::new();
        for state in states.iter().rev() {
            let Entry::File(id) = state else { continue };
            let file = self.expected.files.get(id).expect("an entry's file is known");
            match file.content.fit(&bytes) {
                Ok(_) if self.tree.files.contains_key(id) => {
                    reasons.push(format!("{id}, which has another name too"));
                }
                Ok(fit) => {
                    self.found.files += 1;
                    self.found.bytes += bytes.len() as u64;
                    self.found.zero_bytes += fit.zeros;
                    self.found.lost_bytes += fit.lost;
                    let content = fit.content;
                    let file = File { content, dir, must_exist: true, is_renamed: false };
                    self.tree.files.insert(*id, file);
                    return Ok(*state);
                }
                Err(reason) => reasons.push(format!("not {id}: {reason}")),
            }
        }
        if reasons.is_empty() {
            bail!("a file, and may be {states:x?}");
        }
        Err(anyhow!(reasons.join("\n  ")))
    }
}

#[cfg(test)]
mod tests;
