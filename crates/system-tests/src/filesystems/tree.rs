//! The expected state of a writer's directory, and the judgement of the found state.
//!
//! ```text
//!   name -> its last durable entry, and every entry that it had since
//!   file -> its content (`content`), and whether it must exist under one of its names
//! ```
//!
//! A change is recorded before it is requested, as a state that may be found from then on. A successful sync
//! narrows the possible states.
//!
//! Invariants
//!   T1  A name has its last durable entry, or one of its later entries, and no other.
//!   T2  A rename is atomic: the renamed file or directory is found under exactly one of its names.
//!   T3  A sync of a directory makes its names durable. A sync of a new file that was not renamed makes its name
//!       durable too, as in ext4, xfs and btrfs.
//!   T4  A state found after the replay of the journal is durable.

use super::content::{Content, FileId};
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The number of a directory; 0 is the writer's own, which contains the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DirId(pub(super) u64);

pub(super) const ROOT: DirId = DirId(0);

/// The entry of a name.
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
    /// Whether a sync has confirmed the file, and nothing has removed it since.
    must_exist: bool,
    /// Whether it was renamed since its directory was synced.
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

/// The found state, and the losses of unsynced data in the power cut.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// Bytes that were written, not synced, and lost.
    pub(super) lost_bytes: u64,
    /// Bytes found as zeros instead, at the ends of files or before later bytes.
    pub(super) zero_bytes: u64,
}

impl Names {
    fn now(&self, name: &str) -> Entry {
        self.0.get(name).and_then(|states| states.last()).copied().unwrap_or(Entry::Absent)
    }

    /// Records that `name` may have `entry` from now on.
    fn push(&mut self, name: &str, entry: Entry) {
        self.0.entry(name.to_owned()).or_insert_with(|| vec![Entry::Absent]).push(entry);
    }

    fn synced(&mut self, name: &str) {
        let now = self.now(name);
        self.0.insert(name.to_owned(), vec![now]);
    }
}

impl Tree {
    /// Creates a tree; `number` keeps the numbers of its files distinct from those of other trees.
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

    /// The current entries of `dir`.
    pub(super) fn entries(&self, dir: DirId) -> Vec<(String, Entry)> {
        let Some(dir) = self.dirs.get(&dir) else { return Vec::new() };
        let now = dir.names.0.keys().map(|name| (name.clone(), dir.names.now(name)));
        now.filter(|(_, entry)| *entry != Entry::Absent).collect()
    }

    pub(super) fn content(&mut self, id: FileId) -> &mut Content {
        &mut self.files.get_mut(&id).expect("an entry's file is known").content
    }

    /// The bytes in current files.
    pub(super) fn live_bytes(&self) -> u64 {
        let all = self.dirs.keys().flat_map(|dir| self.entries(*dir));
        let files = all.filter_map(|(_, entry)| match entry {
            Entry::File(id) => self.files.get(&id),
            Entry::Dir(_) | Entry::Absent => None,
        });
        files.map(|file| file.content.len).sum()
    }

    /// Records a new file before its creation; its number replaces `#` in `name`.
    pub(super) fn create(&mut self, dir: DirId, name: &str) -> (FileId, String) {
        let id = FileId(self.number());
        let name = name.replace('#', &format!("{:x}", id.0 as u32));
        self.names(dir).push(&name, Entry::File(id));
        let content = Content::new(id, self.block_len);
        self.files.insert(id, File { content, dir, must_exist: false, is_renamed: false });
        (id, name)
    }

    /// Records a new directory with a unique name, before its creation.
    pub(super) fn create_dir(&mut self) -> (DirId, String) {
        let dir = DirId(self.number());
        let name = format!("dir-{:x}.new", dir.0 as u32);
        self.names(ROOT).push(&name, Entry::Dir(dir));
        self.dirs.insert(dir, Dir::default());
        (dir, name)
    }

    /// Records a rename of `from` over `to`, before it is requested.
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

    /// Records the removal of `name`, before it is requested.
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

    /// Records a sync of the file; `is_whole` for `fsync`, not for `fdatasync`.
    pub(super) fn synced(&mut self, id: FileId, name: &str, is_whole: bool) {
        let file = self.files.get_mut(&id).expect("it was just written");
        file.content.synced();
        if is_whole && !file.is_renamed {
            file.must_exist = true;
            let dir = file.dir;
            self.names(dir).synced(name);
        }
    }

    /// Records a sync of the directory.
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

    /// Records that the file system was unmounted, so everything is durable.
    pub(super) fn settle(&mut self) {
        for file in self.files.values_mut() {
            file.content.synced();
        }
        for dir in self.dirs.keys().copied().collect::<Vec<_>>() {
            self.synced_dir(dir);
        }
    }

    /// Judges the content of `path`; returns the found tree, which is durable.
    ///
    /// # Errors
    /// The wrong file or name, or one that could not be read.
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

    /// The entry that `path` has, among its possible ones.
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
