//! The namespace that catalog records describe: names, files, application records, and how edits
//! change them.
//!
//! Pure: a recovered namespace equals one that lived through the same edits.
//!
//! Invariants
//!   N1  Every name leads to a file; a file without a name is gone.
//!   N2  A file id is never used twice.
//!   N3  A file on the flash drive (*beside*) has no blocks here. Once it has no name it is
//!       recorded as gone, until it is swept there.

use crate::extent::Extent;
use crate::hints::{FileKind, GroupId, Hints};
use imbrex_disk::BlockRange;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;

/// The identity of a file, whatever its names are. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId(pub(crate) u64);

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {}", self.0)
    }
}

/// What the catalog knows about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileRecord {
    pub(crate) id: FileId,
    pub(crate) kind: FileKind,
    pub(crate) level: u8,
    /// The level that it was written for; differs from `level` if the file was moved since without
    /// being rewritten.
    pub(crate) written_level: u8,
    pub(crate) group: Option<GroupId>,
    pub(crate) stream: u32,
    /// Whether it is a log that is being written. Its last extent is then all that it owns, not all
    /// that it wrote.
    pub(crate) is_open: bool,
    /// Whether it is on the flash drive, which knows it by its id.
    pub(crate) is_beside: bool,
    /// The run that it shares with other files. The run is given back as a whole when no file in it
    /// lives.
    pub(crate) span: Option<BlockRange>,
    pub(crate) extents: Vec<Extent>,
}

impl FileRecord {
    /// What its extents and its span take in a checkpoint.
    pub(crate) fn extents_cost_bytes(&self) -> u64 {
        let span_cost_bytes = if self.span.is_some() { SPAN_COST_BYTES } else { 0 };
        span_cost_bytes + EXTENT_COST_BYTES * self.extents.len() as u64
    }

    /// What remains in a checkpoint after the file has lost its last name.
    pub(crate) fn gone_cost_bytes(&self) -> u64 {
        if self.is_beside { GONE_COST_BYTES } else { 0 }
    }

    /// The file's length; for an open log, the length that it owns.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.extents.iter().map(|e| e.len_bytes).sum()
    }

    /// The hints that the file was written with, as far as the catalog keeps them.
    pub(crate) fn hints(&self) -> Hints {
        Hints {
            level: self.level,
            group: self.group,
            stream: self.stream,
            expected_len_bytes: Some(self.len_bytes()),
            ..Hints::new(self.kind)
        }
    }
}

/// One change. A catalog record is a list of them, applied together (F1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    Add {
        name: String,
        file: FileRecord,
    },
    Remove {
        name: String,
    },
    Rename {
        from: String,
        to: String,
    },
    Link {
        existing: String,
        name: String,
    },
    SetLevel {
        name: String,
        level: u8,
    },
    /// An open log owns another run.
    Grow {
        id: FileId,
        extent: Extent,
    },
    /// A log ended: these are all its extents.
    Finish {
        id: FileId,
        extents: Vec<Extent>,
    },
    /// Cleaning moved a file, which is no longer in a span.
    Move {
        id: FileId,
        extents: Vec<Extent>,
    },
    AppAppend(Vec<u8>),
    AppReplace(Vec<u8>),
    /// Which flash drive belongs to this drive, and how many commits it has made at least.
    Pair {
        flash_id: u64,
        age: u64,
    },
    /// In checkpoints: a file on the flash drive lost its last name and is not swept yet.
    Gone {
        id: FileId,
    },
    /// The flash drive has removed a file that was gone.
    Swept {
        id: FileId,
    },
}

/// What a namespace records about the flash drive of its drive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pair {
    /// The format id of the flash drive.
    pub(crate) flash_id: u64,
    /// How many commits the flash drive has made, at least.
    pub(crate) age: u64,
    /// Files there that have no name and await removal (N3).
    pub(crate) gone: BTreeSet<FileId>,
}

/// An edit that does not fit the namespace, so that the catalog contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InvalidEdit(pub(crate) String);

/// All names, files and application records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Namespace {
    names: BTreeMap<String, FileId>,
    files: BTreeMap<FileId, (FileRecord, NamesOf)>,
    app: Vec<Vec<u8>>,
    /// The approximate length of a checkpoint of this namespace.
    encoded_len_bytes: u64,
    /// How many tables each level has, by their stream.
    table_counts: BTreeMap<(u32, u8), u64>,
    /// How many of the present tables were written for each level, by their stream.
    written_counts: BTreeMap<(u32, u8), u64>,
    /// The same, whatever their stream.
    all_written_counts: BTreeMap<u8, u64>,
    /// The flash drive, if the drive belongs to a pair.
    pair: Option<Pair>,
}

/// The names of one file: how many, and their total length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamesOf {
    count: u64,
    len_bytes: u64,
}

impl NamesOf {
    /// With one more name.
    pub(crate) fn with(self, name: &str) -> NamesOf {
        NamesOf { count: self.count + 1, len_bytes: self.len_bytes + name.len() as u64 }
    }

    /// With one of its names removed.
    pub(crate) fn without(self, name: &str) -> NamesOf {
        NamesOf { count: self.count - 1, len_bytes: self.len_bytes - name.len() as u64 }
    }

    pub(crate) fn is_none(self) -> bool {
        self.count == 0
    }

    /// The most that they take in a checkpoint. Each link repeats the shortest name, which is no
    /// longer than the mean.
    pub(crate) fn cost_bytes(self) -> u64 {
        let links = self.count.saturating_sub(1);
        let repeated_bytes = links * self.len_bytes / self.count.max(1);
        FILE_COST_BYTES * self.count + self.len_bytes + repeated_bytes
    }
}

/// The most that a name, an extent and an application record take in a checkpoint, besides their
/// own bytes: see `docs/formats/catalog.md`. For links see [`NamesOf`].
pub(crate) const FILE_COST_BYTES: u64 = 40;
pub(crate) const EXTENT_COST_BYTES: u64 = 16;
pub(crate) const APP_COST_BYTES: u64 = 5;
const SPAN_COST_BYTES: u64 = 16;
const PAIR_COST_BYTES: u64 = 17;
const GONE_COST_BYTES: u64 = 9;

impl Namespace {
    pub(crate) fn id_of(&self, name: &str) -> Option<FileId> {
        self.names.get(name).copied()
    }

    pub(crate) fn file(&self, id: FileId) -> Option<&FileRecord> {
        self.files.get(&id).map(|(file, _)| file)
    }

    /// Whether the file is on the flash drive.
    pub(crate) fn is_beside(&self, id: FileId) -> bool {
        self.file(id).is_some_and(|file| file.is_beside)
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &FileRecord> {
        self.files.values().map(|(file, _)| file)
    }

    /// Names and files whose name starts with `prefix`, in order of name.
    pub(crate) fn list<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a FileRecord)> {
        self.names
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(move |(name, _)| name.starts_with(prefix))
            .map(|(name, id)| (name.as_str(), &self.files[id].0))
    }

    pub(crate) fn app_records(&self) -> &[Vec<u8>] {
        &self.app
    }

    /// How many names the file called `name` has.
    pub(crate) fn name_count(&self, name: &str) -> usize {
        let file = self.id_of(name).and_then(|id| self.files.get(&id));
        file.map_or(0, |(_, names)| names.count as usize)
    }

    /// The count and length of the file's names; zero if there is no such file.
    pub(crate) fn names_of(&self, id: FileId) -> NamesOf {
        self.files.get(&id).map_or_else(NamesOf::default, |(_, names)| *names)
    }

    /// The flash drive, if the drive belongs to a pair.
    pub(crate) fn pair(&self) -> Option<&Pair> {
        self.pair.as_ref()
    }

    /// What the application records take in a checkpoint.
    pub(crate) fn app_cost_bytes(&self) -> u64 {
        self.app.iter().map(|record| APP_COST_BYTES + record.len() as u64).sum()
    }

    /// The greatest possible length of a checkpoint, in bytes.
    pub(crate) fn encoded_len_bytes(&self) -> u64 {
        self.encoded_len_bytes
    }

    /// The largest level that a table was written for; 0 if there is no table.
    pub(crate) fn largest_written_level(&self) -> u8 {
        self.all_written_counts.last_key_value().map_or(0, |(level, _)| *level)
    }

    /// The same among the tables of `stream`.
    pub(crate) fn largest_written_level_of(&self, stream: u32) -> u8 {
        let of_stream = self.written_counts.range((stream, 0)..=(stream, u8::MAX));
        of_stream.last().map_or(0, |((_, level), _)| *level)
    }

    /// The level with the most tables of `stream`, the largest one in a tie; 0 without tables.
    pub(crate) fn fullest_level_of(&self, stream: u32) -> u8 {
        let of_stream = self.table_counts.range((stream, 0)..=(stream, u8::MAX));
        let fullest = of_stream.max_by_key(|&((_, level), count)| (*count, *level));
        fullest.map_or(0, |((_, level), _)| *level)
    }

    /// The least id that is greater than every id in this namespace.
    pub(crate) fn next_id(&self) -> u64 {
        let gone = self.pair.as_ref().and_then(|pair| pair.gone.last());
        let last = self.files.last_key_value().map(|(id, _)| id);
        last.max(gone).map_or(1, |id| id.0 + 1)
    }

    /// Applies `edit` and returns the file that lost its last name, if one did.
    pub(crate) fn apply(&mut self, edit: Edit) -> Result<Option<FileRecord>, InvalidEdit> {
        match edit {
            Edit::Add { name, file } => self.add(name, file).map(|()| None),
            Edit::Remove { name } => self.remove(&name),
            Edit::Rename { from, to } => self.rename(&from, to),
            Edit::Link { existing, name } => self.link(&existing, name).map(|()| None),
            Edit::SetLevel { name, level } => {
                let id = self.need(&name)?;
                let file = self.file_mut(id)?;
                let before = std::mem::replace(&mut file.level, level);
                let stream = file.stream;
                if file.kind == FileKind::Table {
                    count(&mut self.table_counts, (stream, before), false);
                    count(&mut self.table_counts, (stream, level), true);
                }
                Ok(None)
            }
            Edit::Grow { id, extent } => {
                let file = self.file_mut(id)?;
                if !file.is_open {
                    return Err(InvalidEdit(format!("{id} grows, but it is not an open log")));
                }
                file.extents.push(extent);
                self.encoded_len_bytes += EXTENT_COST_BYTES;
                Ok(None)
            }
            Edit::Finish { id, extents } => self.settle(id, extents, true).map(|()| None),
            Edit::Move { id, extents } => self.settle(id, extents, false).map(|()| None),
            Edit::AppAppend(record) => {
                self.encoded_len_bytes += APP_COST_BYTES + record.len() as u64;
                self.app.push(record);
                Ok(None)
            }
            Edit::AppReplace(record) => {
                let before = self.app_cost_bytes();
                self.encoded_len_bytes += APP_COST_BYTES + record.len() as u64;
                self.encoded_len_bytes -= before;
                self.app = vec![record];
                Ok(None)
            }
            Edit::Pair { flash_id, age } => {
                let cost_bytes = if self.pair.is_none() { PAIR_COST_BYTES } else { 0 };
                let pair = self.pair.get_or_insert_with(|| Pair { flash_id, ..Pair::default() });
                if pair.flash_id != flash_id {
                    return Err(InvalidEdit(format!(
                        "flash drive {flash_id:016x}, but the catalog names another one"
                    )));
                }
                pair.age = pair.age.max(age);
                self.encoded_len_bytes += cost_bytes;
                Ok(None)
            }
            Edit::Gone { id } => self.lose(id).map(|()| None),
            Edit::Swept { id } => {
                let pair = self.pair.as_mut().ok_or_else(no_pair)?;
                if !pair.gone.remove(&id) {
                    return Err(InvalidEdit(format!("{id} is swept, but was not gone")));
                }
                self.encoded_len_bytes -= GONE_COST_BYTES;
                Ok(None)
            }
        }
    }

    /// The edits that turn an empty namespace into this one: the body of a checkpoint.
    pub(crate) fn checkpoint_edits(&self) -> Vec<Edit> {
        let shortest_names = self.shortest_names();
        let mut edits = Vec::with_capacity(self.names.len() + self.app.len());
        if let Some(Pair { flash_id, age, gone }) = &self.pair {
            edits.push(Edit::Pair { flash_id: *flash_id, age: *age });
            edits.extend(gone.iter().map(|&id| Edit::Gone { id }));
        }
        let add = |name: &str, id: &FileId| Edit::Add {
            name: name.to_owned(),
            file: self.files[id].0.clone(),
        };
        let mut linked = BTreeSet::new();
        for (name, id) in &self.names {
            let Some(&existing) = shortest_names.get(id) else {
                edits.push(add(name, id));
                continue;
            };
            if linked.insert(*id) {
                edits.push(add(existing, id));
            }
            if name != existing {
                edits.push(Edit::Link { existing: existing.to_owned(), name: name.clone() });
            }
        }
        edits.extend(self.app.iter().cloned().map(Edit::AppAppend));
        edits
    }

    /// The shortest name of each file with several names: the one that links repeat.
    fn shortest_names(&self) -> BTreeMap<FileId, &str> {
        let mut shortest_names: BTreeMap<FileId, &str> = BTreeMap::new();
        for (name, id) in self.names.iter().filter(|(_, id)| self.files[id].1.count > 1) {
            let shortest = shortest_names.entry(*id).or_insert(name);
            if name.len() < shortest.len() {
                *shortest = name;
            }
        }
        shortest_names
    }

    fn add(&mut self, name: String, file: FileRecord) -> Result<(), InvalidEdit> {
        if self.names.contains_key(&name) {
            return Err(InvalidEdit(format!("{name:?} is added, but it exists")));
        }
        if self.files.contains_key(&file.id) {
            return Err(InvalidEdit(format!("{} is added twice", file.id)));
        }
        if file.is_beside && self.pair.is_none() {
            return Err(no_pair());
        }
        let names = NamesOf::default().with(&name);
        self.encoded_len_bytes += names.cost_bytes() + file.extents_cost_bytes();
        if file.kind == FileKind::Table {
            self.count_table(&file, true);
        }
        self.names.insert(name, file.id);
        self.files.insert(file.id, (file, names));
        Ok(())
    }

    /// Counts `table`, or no longer.
    fn count_table(&mut self, table: &FileRecord, is_one_more: bool) {
        let FileRecord { stream, level, written_level, .. } = *table;
        count(&mut self.table_counts, (stream, level), is_one_more);
        count(&mut self.written_counts, (stream, written_level), is_one_more);
        count(&mut self.all_written_counts, written_level, is_one_more);
    }

    fn remove(&mut self, name: &str) -> Result<Option<FileRecord>, InvalidEdit> {
        let id = self.need(name)?;
        self.names.remove(name);
        let names = self.names_of(id).without(name);
        self.set_names_of(id, names)?;
        if !names.is_none() {
            return Ok(None);
        }
        let gone = self.files.remove(&id).map(|(file, _)| file);
        self.encoded_len_bytes -= gone.as_ref().map_or(0, FileRecord::extents_cost_bytes);
        if let Some(table) = gone.as_ref().filter(|file| file.kind == FileKind::Table) {
            self.count_table(table, false);
        }
        if gone.as_ref().is_some_and(|file| file.is_beside) {
            self.lose(id)?;
        }
        Ok(gone)
    }

    /// Records that a file on the flash drive has no name any more (N3).
    fn lose(&mut self, id: FileId) -> Result<(), InvalidEdit> {
        let pair = self.pair.as_mut().ok_or_else(no_pair)?;
        if self.files.contains_key(&id) || !pair.gone.insert(id) {
            return Err(InvalidEdit(format!("{id} is gone twice")));
        }
        self.encoded_len_bytes += GONE_COST_BYTES;
        Ok(())
    }

    fn rename(&mut self, from: &str, to: String) -> Result<Option<FileRecord>, InvalidEdit> {
        let id = self.need(from)?;
        if from == to {
            return Ok(None);
        }
        let gone = if self.names.contains_key(&to) { self.remove(&to)? } else { None };
        self.names.remove(from);
        self.set_names_of(id, self.names_of(id).without(from).with(&to))?;
        self.names.insert(to, id);
        Ok(gone)
    }

    fn link(&mut self, existing: &str, name: String) -> Result<(), InvalidEdit> {
        let id = self.need(existing)?;
        if self.names.contains_key(&name) {
            return Err(InvalidEdit(format!("{name:?} is linked, but it exists")));
        }
        self.set_names_of(id, self.names_of(id).with(&name))?;
        self.names.insert(name, id);
        Ok(())
    }

    fn set_names_of(&mut self, id: FileId, names: NamesOf) -> Result<(), InvalidEdit> {
        let (_, entry) = self.files.get_mut(&id).ok_or_else(|| no_file(id))?;
        let before = std::mem::replace(entry, names);
        self.encoded_len_bytes += names.cost_bytes();
        self.encoded_len_bytes -= before.cost_bytes();
        Ok(())
    }

    fn settle(&mut self, id: FileId, extents: Vec<Extent>, ends: bool) -> Result<(), InvalidEdit> {
        let file = self.file_mut(id)?;
        if file.is_beside {
            return Err(InvalidEdit(format!("{id} is on the flash drive and has no blocks here")));
        }
        let before = file.extents_cost_bytes();
        file.extents = extents;
        file.span = None;
        file.is_open &= !ends;
        let after = file.extents_cost_bytes();
        self.encoded_len_bytes += after;
        self.encoded_len_bytes -= before;
        Ok(())
    }

    fn need(&self, name: &str) -> Result<FileId, InvalidEdit> {
        self.id_of(name)
            .ok_or_else(|| InvalidEdit(format!("{name:?} is changed, but does not exist")))
    }

    fn file_mut(&mut self, id: FileId) -> Result<&mut FileRecord, InvalidEdit> {
        self.files.get_mut(&id).map(|(file, _)| file).ok_or_else(|| no_file(id))
    }
}

/// Adds one table to those of `key`, or removes one.
fn count<K: Copy + Ord>(counts: &mut BTreeMap<K, u64>, key: K, is_one_more: bool) {
    let count = counts.entry(key).or_default();
    *count = if is_one_more { *count + 1 } else { *count - 1 };
    if *count == 0 {
        counts.remove(&key);
    }
}

fn no_pair() -> InvalidEdit {
    InvalidEdit("a file is on the flash drive, but the catalog names no flash drive".to_owned())
}

fn no_file(id: FileId) -> InvalidEdit {
    InvalidEdit(format!("{id} is changed, but does not exist"))
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Edit::Add { name, file } => {
                write!(f, "add {name:?} as {} kind {:?}", file.id, file.kind)?;
                write!(f, " level {}", file.level)?;
                if let Some(GroupId(group)) = file.group {
                    write!(f, " group {group}")?;
                }
                if file.is_open {
                    f.write_str(" open")?;
                }
                if file.is_beside {
                    return f.write_str(" on flash");
                }
                if let Some(span) = file.span {
                    write!(f, " of span {span}")?;
                }
                write_extents(f, &file.extents)
            }
            Edit::Remove { name } => write!(f, "remove {name:?}"),
            Edit::Rename { from, to } => write!(f, "rename {from:?} to {to:?}"),
            Edit::Link { existing, name } => write!(f, "link {existing:?} as {name:?}"),
            Edit::SetLevel { name, level } => write!(f, "level of {name:?} is {level}"),
            Edit::Grow { id, extent } => write!(f, "{id} grows at {extent}"),
            Edit::Finish { id, extents } => {
                write!(f, "{id} ends")?;
                write_extents(f, extents)
            }
            Edit::Move { id, extents } => {
                write!(f, "{id} moves")?;
                write_extents(f, extents)
            }
            Edit::AppAppend(record) => write!(f, "application record of {} bytes", record.len()),
            Edit::AppReplace(record) => {
                write!(f, "application record of {} bytes, replacing all before", record.len())
            }
            Edit::Pair { flash_id, age } => {
                write!(f, "flash drive {flash_id:016x} has made {age} commits")
            }
            Edit::Gone { id } => write!(f, "{id} is to be removed on flash"),
            Edit::Swept { id } => write!(f, "{id} is removed on flash"),
        }
    }
}

fn write_extents(f: &mut fmt::Formatter<'_>, extents: &[Extent]) -> fmt::Result {
    f.write_str(" at [")?;
    for (index, extent) in extents.iter().enumerate() {
        write!(f, "{}{extent}", if index == 0 { "" } else { ", " })?;
    }
    f.write_str("]")
}
