//! [`FileSystem`]: every operation on paths.

use crate::error::FsError;
use crate::handle::{Reader, Writer};
use crate::inner::{FsOptions, Inner};
use crate::journal::{Journal, Live};
use crate::mount::mount;
use crate::node::{Node, check_damage};
use crate::path::{check_len, file_key, key, parent, shown};
use crate::tree::{Change, Entry, NodeId, SegmentRecord};
use imbrex_files::{CatalogUse, CommitKind, FileKind, Files, Hints};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A file system on one drive; cheap to clone, safe to share between threads.
#[derive(Clone, Debug)]
pub struct FileSystem {
    inner: Arc<Inner>,
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Whether it is a directory.
    pub is_dir: bool,
    /// The length of a file.
    pub len_bytes: u64,
    /// The last modification time of the stored content, in seconds since 1970. For a log that was
    /// open in a crash, the time when it was found.
    pub mtime_s: u64,
    /// Its level, as last set.
    pub level: u8,
    /// How many paths lead to it.
    pub link_count: u32,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name, without the directory.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
}

impl FileSystem {
    /// Opens the file system on `files`. An empty drive holds an empty file system. Writes nothing.
    ///
    /// # Errors
    /// [`FsError::Foreign`], [`FsError::Version`], [`FsError::Corrupt`], [`FsError::Files`].
    pub fn open(files: Arc<dyn Files>, options: FsOptions) -> Result<FileSystem, FsError> {
        let live = mount(&*files, (options.unix_time_s)())?;
        let journal = Journal::new(Arc::clone(&files), live);
        Ok(FileSystem { inner: Arc::new(Inner { files, journal, options }) })
    }

    /// Creates an empty file at `path` in an existing directory and opens it for writing. An
    /// existing file loses the name.
    ///
    /// # Errors
    /// [`FsError::NotFound`] (the directory), [`FsError::IsADirectory`], [`FsError::Files`] if the
    /// catalog lacks space.
    pub fn create(&self, path: &str, hints: Hints) -> Result<Writer, FsError> {
        let path = file_key(path)?;
        let admitted = self.admit_growth(&hints);
        let mtime_s = (self.inner.options.unix_time_s)();
        let mut live = self.inner.journal.lock();
        live.check()?;
        need_dir(&live, parent(&path))?;
        if live.tree.entry(&path) == Some(Entry::Dir) {
            return Err(FsError::IsADirectory { path: shown(&path) });
        }
        admitted?;
        note_dead(&mut live, &path);
        let id = NodeId(live.new_id());
        let node = Node::new(id, &shown(&path), hints, Vec::new());
        let seq = live.change(Change::Create { path, node: id, kind: hints.kind, mtime_s });
        node.seq.store(seq, Ordering::Release);
        live.nodes.insert(id, Arc::clone(&node));
        self.commit_if_due(live)?;
        Ok(Writer::new(&self.inner, node))
    }

    /// Opens an existing file to append to it.
    ///
    /// # Errors
    /// [`FsError::NotFound`], [`FsError::IsADirectory`].
    pub fn append_to(&self, path: &str) -> Result<Writer, FsError> {
        Ok(Writer::new(&self.inner, self.node(path)?))
    }

    /// Opens a file for reading. Data appended later can be read as well.
    ///
    /// # Errors
    /// As [`FileSystem::append_to`].
    pub fn open_read(&self, path: &str) -> Result<Reader, FsError> {
        Ok(Reader::new(self.node(path)?))
    }

    fn node(&self, path: &str) -> Result<Arc<Node>, FsError> {
        let path = file_key(path)?;
        let live = self.inner.journal.lock();
        match live.tree.entry(&path) {
            Some(Entry::File(id)) => Ok(Arc::clone(&live.nodes[&id])),
            Some(Entry::Dir) => Err(FsError::IsADirectory { path: shown(&path) }),
            None => Err(missing(&live, &path)),
        }
    }

    /// Describes the file or directory at `path`.
    ///
    /// # Errors
    /// [`FsError::NotFound`].
    pub fn metadata(&self, path: &str) -> Result<Metadata, FsError> {
        let key = key(path)?;
        let live = self.inner.journal.lock();
        let (node, record) = match live.tree.entry(&key) {
            None => return Err(missing(&live, &key)),
            Some(Entry::Dir) => {
                let (len_bytes, mtime_s, level, link_count) = (0, 0, 0, 1);
                return Ok(Metadata { is_dir: true, len_bytes, mtime_s, level, link_count });
            }
            Some(Entry::File(id)) => (Arc::clone(&live.nodes[&id]), live.tree.node(id)),
        };
        let (mtime_s, link_count) = record.map_or((0, 0), |r| (r.mtime_s, r.links));
        drop(live);
        let state = node.state.lock();
        let (len_bytes, level) = (state.len_bytes(), state.hints.level);
        let mtime_s = mtime_s.max(state.grown_s);
        Ok(Metadata { is_dir: false, len_bytes, mtime_s, level, link_count })
    }

    /// The files that cannot be read to their end, each as the [`FsError::Damaged`] that such a
    /// read returns. Opening reads through logs that were being written and nothing else, so this
    /// list covers only those.
    pub fn damaged(&self) -> Vec<FsError> {
        let nodes: Vec<_> = self.inner.journal.lock().nodes.values().cloned().collect();
        let damage = |node: Arc<Node>| {
            let state = node.state.lock();
            check_damage(&state.segments, &state.path, 0, u64::MAX).err()
        };
        nodes.into_iter().filter_map(damage).collect()
    }

    /// The names in the directory `path`, in order.
    ///
    /// # Errors
    /// [`FsError::NotFound`], [`FsError::NotADirectory`].
    pub fn list(&self, path: &str) -> Result<Vec<DirEntry>, FsError> {
        let key = key(path)?;
        let live = self.inner.journal.lock();
        need_dir(&live, &key)?;
        let entry = |(name, entry)| DirEntry { name, is_dir: entry == Entry::Dir };
        Ok(live.tree.children(&key).into_iter().map(entry).collect())
    }

    /// Creates a directory in an existing one.
    ///
    /// # Errors
    /// [`FsError::Exists`], [`FsError::NotFound`] (the parent).
    pub fn make_dir(&self, path: &str) -> Result<(), FsError> {
        let path = key(path)?;
        let admitted = self.admit_growth(&Hints::new(FileKind::Other));
        let mut live = self.inner.journal.lock();
        live.check()?;
        if live.tree.entry(&path).is_some() {
            return Err(FsError::Exists { path: shown(&path) });
        }
        need_dir(&live, parent(&path))?;
        admitted?;
        live.change(Change::MakeDir { path });
        self.commit_if_due(live)
    }

    /// Creates a directory and its missing parents. Succeeds if it exists already.
    ///
    /// # Errors
    /// [`FsError::NotADirectory`].
    pub fn make_dirs(&self, path: &str) -> Result<(), FsError> {
        let whole = key(path)?;
        let admitted = self.admit_growth(&Hints::new(FileKind::Other));
        let mut live = self.inner.journal.lock();
        live.check()?;
        let ends = whole.match_indices('/').map(|(at, _)| at).chain([whole.len()]);
        let mut new = Vec::new();
        for path in ends.map(|end| &whole[..end]) {
            match live.tree.entry(path) {
                Some(Entry::Dir) => {}
                Some(Entry::File(_)) => return Err(FsError::NotADirectory { path: shown(path) }),
                None => new.push(path.to_owned()),
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        admitted?;
        for path in new {
            live.change(Change::MakeDir { path });
        }
        self.commit_if_due(live)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`FsError::NotEmpty`], [`FsError::NotFound`], [`FsError::NotADirectory`].
    pub fn remove_dir(&self, path: &str) -> Result<(), FsError> {
        let path = key(path)?;
        let mut live = self.inner.journal.lock();
        live.check()?;
        need_dir(&live, &path)?;
        if path.is_empty() || !live.tree.is_empty_dir(&path) {
            return Err(FsError::NotEmpty { path: shown(&path) });
        }
        live.change(Change::RemoveDir { path });
        self.commit_if_due(live)
    }

    /// Removes `path`. The file itself is removed with its last path; readers and writers that have
    /// it open may continue.
    ///
    /// # Errors
    /// [`FsError::NotFound`], [`FsError::IsADirectory`].
    pub fn unlink(&self, path: &str) -> Result<(), FsError> {
        let path = file_key(path)?;
        let mut live = self.inner.journal.lock();
        live.check()?;
        match live.tree.entry(&path) {
            Some(Entry::File(_)) => {}
            Some(Entry::Dir) => return Err(FsError::IsADirectory { path: shown(&path) }),
            None => return Err(missing(&live, &path)),
        }
        note_dead(&mut live, &path);
        live.change(Change::Unlink { path });
        self.commit_if_due(live)
    }

    /// Renames a file or directory. An existing file at the new path is replaced atomically, by
    /// content that survives a power cut (V3).
    ///
    /// # Errors
    /// [`FsError::NotFound`], [`FsError::IsADirectory`], [`FsError::NotADirectory`],
    /// [`FsError::NotEmpty`], [`FsError::BadPath`] (a directory into itself, or to a place where a
    /// path below it would be too long), [`FsError::Files`].
    pub fn rename(&self, from: &str, to: &str) -> Result<(), FsError> {
        let (from, to) = (file_key(from)?, file_key(to)?);
        let mut live = self.inner.journal.lock();
        live.check()?;
        let mut source = check_rename(&live, &from, &to)?;
        let mut flushed = None;
        while let Some(node) = &source
            && live.tree.entry(&to).is_some()
            && flushed != Some(node.id)
        {
            drop(live);
            self.inner.flush_log(node)?;
            flushed = Some(node.id);
            // Meanwhile another file may have taken the name; it must be flushed as well.
            live = self.inner.journal.lock();
            live.check()?;
            source = check_rename(&live, &from, &to)?;
        }
        if from != to {
            note_dead(&mut live, &to);
        }
        let path = shown(&to);
        let seq = live.change(Change::Rename { from, to: to.clone() });
        // A sync of a file makes its whole path durable.
        let named = |node: &Node| node.seq.store(seq, Ordering::Release);
        match &source {
            Some(node) => named(node),
            None => live.tree.files_below(&to).for_each(|id| named(&live.nodes[&id])),
        }
        self.commit_if_due(live)?;
        if let Some(node) = source {
            node.state.lock().path = path.into();
        }
        Ok(())
    }

    /// Adds another path to the file at `existing`.
    ///
    /// # Errors
    /// [`FsError::Exists`], [`FsError::NotFound`], [`FsError::IsADirectory`].
    pub fn link(&self, existing: &str, path: &str) -> Result<(), FsError> {
        let (existing, path) = (file_key(existing)?, file_key(path)?);
        let admitted = self.admit_growth(&Hints::new(FileKind::Other));
        let mut live = self.inner.journal.lock();
        live.check()?;
        let node = match live.tree.entry(&existing) {
            Some(Entry::File(node)) => node,
            Some(Entry::Dir) => return Err(FsError::IsADirectory { path: shown(&existing) }),
            None => return Err(missing(&live, &existing)),
        };
        if live.tree.entry(&path).is_some() {
            return Err(FsError::Exists { path: shown(&path) });
        }
        need_dir(&live, parent(&path))?;
        admitted?;
        let seq = live.change(Change::Link { path, node });
        live.nodes[&node].seq.store(seq, Ordering::Release);
        self.commit_if_due(live)
    }

    /// Sets the level to which a file belongs. Stored data is not moved.
    ///
    /// # Errors
    /// As [`FileSystem::append_to`].
    pub fn set_level(&self, path: &str, level: u8) -> Result<(), FsError> {
        let node = self.node(path)?;
        let mut state = node.state.lock();
        if state.hints.level == level {
            return Ok(());
        }
        state.hints.level = level;
        let stores: Vec<_> = state.records().iter().filter_map(SegmentRecord::store).collect();
        let mut live = self.inner.journal.lock();
        if live.tree.node(node.id).is_some() {
            stores.into_iter().for_each(|store| live.set_level(store, level));
        }
        Ok(())
    }

    /// Locks `path` for this process. On the drive only an empty file shows the lock; the drive
    /// itself keeps other processes out.
    ///
    /// # Errors
    /// [`FsError::Locked`]; otherwise as [`FileSystem::create`].
    pub fn lock(&self, path: &str, hints: Hints) -> Result<(), FsError> {
        let key = file_key(path)?;
        if !self.inner.journal.lock().locks.insert(key.clone()) {
            return Err(FsError::Locked { path: shown(&key) });
        }
        let exists = self.metadata(path).is_ok();
        let made = if exists { Ok(()) } else { self.create(path, hints).map(drop) };
        if made.is_err() {
            self.inner.journal.lock().locks.remove(&key);
        }
        made
    }

    /// Releases a lock.
    ///
    /// # Errors
    /// [`FsError::NotFound`]: the lock is not held.
    pub fn unlock(&self, path: &str) -> Result<(), FsError> {
        let key = file_key(path)?;
        let held = self.inner.journal.lock().locks.remove(&key);
        if held { Ok(()) } else { Err(FsError::NotFound { path: shown(&key) }) }
    }

    /// Makes every change of names so far durable.
    ///
    /// # Errors
    /// [`FsError::Files`], [`FsError::Poisoned`].
    pub fn sync_names(&self) -> Result<(), FsError> {
        let upto = self.inner.journal.lock().applied();
        self.inner.journal.commit(upto)
    }

    /// Makes everything durable, including files that other handles have open.
    ///
    /// # Errors
    /// The first failure. The remaining files are still synced.
    pub fn sync_all(&self) -> Result<(), FsError> {
        let nodes: Vec<Arc<Node>> = self.inner.journal.lock().nodes.values().cloned().collect();
        let mut result = Ok(());
        for node in nodes {
            result = result.and(self.inner.flush_log(&node));
        }
        result.and(self.sync_names())
    }

    /// The file layer below.
    pub fn files(&self) -> &Arc<dyn Files> {
        &self.inner.files
    }

    /// Refuses a new name if the catalog is too full for it ([`has_room_for`]), unless removals
    /// make room: pending ones, or those among the catalog's records. Pending changes count as used
    /// (J5).
    fn admit_growth(&self, hints: &Hints) -> Result<(), FsError> {
        let pending_len_bytes = self.inner.journal.lock().pending_len_bytes();
        let mut catalog = self.inner.files.space().catalog;
        catalog.used_bytes += pending_len_bytes;
        if has_room_for(hints, &catalog) {
            return Ok(());
        }
        self.inner.journal.lock().want_snapshot();
        self.sync_names()?;
        let catalog = self.inner.files.space().catalog;
        if has_room_for(hints, &catalog) {
            return Ok(());
        }
        Err(FsError::Files {
            what: "making a name: the drive's catalog is nearly full".to_owned(),
            source: imbrex_files::FilesError::NoSpace { needed_bytes: 1, free_bytes: 0 },
        })
    }

    fn commit_if_due(&self, live: parking_lot::MutexGuard<'_, Live>) -> Result<(), FsError> {
        let (is_due, upto) = (live.is_commit_due(), live.applied());
        drop(live);
        if !is_due {
            return Ok(());
        }
        match self.inner.journal.commit(upto) {
            // The caller did not ask for durability, and the change itself has happened. It waits
            // for a commit that fits (J3).
            Err(error) if error.is_no_space() => self.inner.journal.lock().check(),
            done => done,
        }
    }
}

/// Whether the catalog has room for the name of one more file.
///
/// The thresholds form a ladder, so that a database that has filled the catalog with tables can
/// still be opened and emptied. Where new tables are refused, compactions and openings may still
/// write. Where those are refused, logs and metadata, without which a database cannot be opened,
/// still get a name.
fn has_room_for(hints: &Hints, catalog: &CatalogUse) -> bool {
    let left_bytes = catalog.free_bytes(CommitKind::Ordinary);
    match (hints.kind, hints.purpose) {
        (FileKind::Log | FileKind::Metadata, _) => left_bytes > 0,
        (FileKind::Table | FileKind::Other, CommitKind::Ordinary) => !catalog.is_crowded(),
        (FileKind::Table | FileKind::Other, _) => left_bytes > catalog.capacity_bytes / 16,
    }
}

fn missing(live: &Live, path: &str) -> FsError {
    let mut above = parent(path);
    while live.tree.entry(above).is_none() {
        above = parent(above);
    }
    match live.tree.entry(above) {
        Some(Entry::File(_)) => FsError::NotADirectory { path: shown(above) },
        _ => FsError::NotFound { path: shown(path) },
    }
}

fn need_dir(live: &Live, path: &str) -> Result<(), FsError> {
    match live.tree.entry(path) {
        Some(Entry::Dir) => Ok(()),
        Some(Entry::File(_)) => Err(FsError::NotADirectory { path: shown(path) }),
        None => Err(missing(live, path)),
    }
}

/// Checks that `from` may become `to`. Returns the file to move, if it is a file.
fn check_rename(live: &Live, from: &str, to: &str) -> Result<Option<Arc<Node>>, FsError> {
    let moved = live.tree.entry(from).ok_or_else(|| missing(live, from))?;
    need_dir(live, parent(to))?;
    match (moved, live.tree.entry(to)) {
        (Entry::File(id), None | Some(Entry::File(_))) => Ok(Some(Arc::clone(&live.nodes[&id]))),
        (Entry::File(_), Some(Entry::Dir)) => Err(FsError::IsADirectory { path: shown(to) }),
        (Entry::Dir, Some(Entry::File(_))) => Err(FsError::NotADirectory { path: shown(to) }),
        (Entry::Dir, Some(Entry::Dir)) if from != to && !live.tree.is_empty_dir(to) => {
            Err(FsError::NotEmpty { path: shown(to) })
        }
        (Entry::Dir, _) if to.strip_prefix(from).is_some_and(|rest| rest.starts_with('/')) => {
            let reason = "a directory cannot move into itself";
            Err(FsError::BadPath { path: shown(to), reason })
        }
        (Entry::Dir, _) if to.len() <= from.len() => Ok(None),
        (Entry::Dir, _) => {
            // Everything below moves along, and its paths get longer too.
            check_len(to, to.len() + live.tree.depth_len_bytes(from))?;
            Ok(None)
        }
    }
}

/// Counts the bytes that the last path of the file at `path` holds.
fn note_dead(live: &mut Live, path: &str) {
    let Some(Entry::File(id)) = live.tree.entry(path) else { return };
    let Some(record) = live.tree.node(id).filter(|record| record.links == 1) else { return };
    let len_bytes = |segment: &SegmentRecord| match segment {
        SegmentRecord::Inline(_) => 0,
        SegmentRecord::Table { len_bytes, .. } => *len_bytes,
        SegmentRecord::Log { len_bytes, .. } => len_bytes.unwrap_or(0),
    };
    let dead = record.segments.iter().map(len_bytes).sum();
    live.note_dead(dead);
}
