//! The tree: paths, files, and what each change does to them. Pure.
//!
//! The live tree and the one found on a drive apply the same changes, so they are equal.
//!
//! Invariants
//!   T1  The parent of every path is a directory; the root always is.
//!   T2  A file has as many links as paths lead to it, and at least one.
//!   T3  A stored file (table or log of the file layer) belongs to at most one file.

use crate::path::parent;
use imbrex_files::FileKind;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The number of a file, independent of its paths. Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(pub(crate) u64);

/// The number of a table or log of the file layer. Never used again (V5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StoreId(pub(crate) u64);

/// The prefix of the names of stored files.
pub(crate) const STORE_PREFIX: &str = "fs/";

impl StoreId {
    /// The name in the file layer.
    pub(crate) fn name(self) -> String {
        format!("{STORE_PREFIX}{:08x}", self.0)
    }

    /// The number in a name of the file layer.
    pub(crate) fn of_name(name: &str) -> Option<StoreId> {
        u64::from_str_radix(name.strip_prefix(STORE_PREFIX)?, 16).ok().map(StoreId)
    }
}

/// A piece of a file, as the tree records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SegmentRecord {
    /// The bytes themselves.
    Inline(Vec<u8>),
    /// The first `len_bytes` bytes of a table.
    Table { store: StoreId, len_bytes: u64 },
    /// The first `len_bytes` bytes of a log; without a length all of them, because it still grows.
    Log { store: StoreId, len_bytes: Option<u64> },
}

impl SegmentRecord {
    pub(crate) fn store(&self) -> Option<StoreId> {
        match *self {
            SegmentRecord::Inline(_) => None,
            SegmentRecord::Table { store, .. } | SegmentRecord::Log { store, .. } => Some(store),
        }
    }

    fn inline_len_bytes(&self) -> u64 {
        match self {
            SegmentRecord::Inline(bytes) => bytes.len() as u64,
            SegmentRecord::Table { .. } | SegmentRecord::Log { .. } => 0,
        }
    }
}

/// A file as the tree records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeRecord {
    pub(crate) kind: FileKind,
    pub(crate) links: u32,
    pub(crate) mtime_s: u64,
    pub(crate) segments: Vec<SegmentRecord>,
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Dir,
    File(NodeId),
}

/// A change of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    MakeDir {
        path: String,
    },
    RemoveDir {
        path: String,
    },
    /// A new empty file. An existing file loses this path.
    Create {
        path: String,
        node: NodeId,
        kind: FileKind,
        mtime_s: u64,
    },
    Link {
        path: String,
        node: NodeId,
    },
    Unlink {
        path: String,
    },
    /// Replaces an existing file at `to`, or an existing empty directory by a directory.
    Rename {
        from: String,
        to: String,
    },
    /// The complete content of the file.
    SetBody {
        node: NodeId,
        mtime_s: u64,
        segments: Vec<SegmentRecord>,
    },
}

/// A change that does not fit the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit(pub(crate) String);

/// Objects that a change made unreachable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub(crate) node: Option<NodeId>,
    pub(crate) stores: Vec<StoreId>,
}

/// Paths and files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    entries: BTreeMap<String, Entry>,
    nodes: BTreeMap<NodeId, NodeRecord>,
    inline_len_bytes: u64,
}

impl Tree {
    pub(crate) fn entry(&self, path: &str) -> Option<Entry> {
        if path.is_empty() { Some(Entry::Dir) } else { self.entries.get(path).copied() }
    }

    pub(crate) fn node(&self, id: NodeId) -> Option<&NodeRecord> {
        self.nodes.get(&id)
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeRecord)> {
        self.nodes.iter().map(|(&id, node)| (id, node))
    }

    /// How many bytes of files are stored in the tree itself.
    pub(crate) fn inline_len_bytes(&self) -> u64 {
        self.inline_len_bytes
    }

    /// Everything below the directory `path`, with full paths.
    fn below<'a>(&'a self, path: &'a str) -> impl Iterator<Item = (&'a String, &'a Entry)> {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        self.entries
            .range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded))
            .take_while({
                let prefix = prefix.clone();
                move |(key, _)| key.starts_with(&prefix)
            })
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// The names in directory `path`.
    pub(crate) fn children(&self, path: &str) -> Vec<(String, Entry)> {
        let skip = if path.is_empty() { 0 } else { path.len() + 1 };
        self.below(path)
            .filter(|(key, _)| !key[skip..].contains('/'))
            .map(|(key, &entry)| (key[skip..].to_owned(), entry))
            .collect()
    }

    /// The files below directory `path`.
    pub(crate) fn files_below<'a>(&'a self, path: &'a str) -> impl Iterator<Item = NodeId> + 'a {
        self.below(path).filter_map(|(_, entry)| match entry {
            Entry::File(id) => Some(*id),
            Entry::Dir => None,
        })
    }

    pub(crate) fn is_empty_dir(&self, path: &str) -> bool {
        self.below(path).next().is_none()
    }

    /// How many bytes the longest path below the directory `path` adds to it.
    pub(crate) fn depth_len_bytes(&self, path: &str) -> usize {
        self.below(path).map(|(key, _)| key.len() - path.len()).max().unwrap_or_default()
    }

    /// Applies all of `change`, or nothing.
    pub(crate) fn apply(&mut self, change: Change) -> Result<Dropped, Misfit> {
        match change {
            Change::MakeDir { path } => {
                self.need_free(&path)?;
                self.entries.insert(path, Entry::Dir);
                Ok(Dropped::default())
            }
            Change::RemoveDir { path } => {
                if self.entries.get(&path) != Some(&Entry::Dir) || !self.is_empty_dir(&path) {
                    return Err(Misfit(format!("{path:?} is removed, but is no empty directory")));
                }
                self.entries.remove(&path);
                Ok(Dropped::default())
            }
            Change::Create { path, node, kind, mtime_s } => {
                if self.nodes.contains_key(&node) {
                    return Err(Misfit(format!("file {} is created twice", node.0)));
                }
                let dropped = match self.entry(&path) {
                    None => {
                        self.need_free(&path)?;
                        Dropped::default()
                    }
                    Some(_) => self.unlink(&path)?,
                };
                let record = NodeRecord { kind, links: 1, mtime_s, segments: Vec::new() };
                self.nodes.insert(node, record);
                self.entries.insert(path, Entry::File(node));
                Ok(dropped)
            }
            Change::Link { path, node } => {
                self.need_free(&path)?;
                self.node_mut(node)?.links += 1;
                self.entries.insert(path, Entry::File(node));
                Ok(Dropped::default())
            }
            Change::Unlink { path } => self.unlink(&path),
            Change::Rename { from, to } => self.rename(&from, to),
            Change::SetBody { node, mtime_s, segments } => self.set_body(node, mtime_s, segments),
        }
    }

    fn unlink(&mut self, path: &str) -> Result<Dropped, Misfit> {
        let Some(Entry::File(id)) = self.entry(path) else {
            return Err(Misfit(format!("{path:?} is removed, but is no file")));
        };
        self.entries.remove(path);
        let node = self.node_mut(id)?;
        node.links -= 1;
        if node.links > 0 {
            return Ok(Dropped::default());
        }
        let gone = self.nodes.remove(&id).expect("it was there a line before");
        self.inline_len_bytes -=
            gone.segments.iter().map(SegmentRecord::inline_len_bytes).sum::<u64>();
        let stores = gone.segments.iter().filter_map(SegmentRecord::store).collect();
        Ok(Dropped { node: Some(id), stores })
    }

    fn rename(&mut self, from: &str, to: String) -> Result<Dropped, Misfit> {
        let moved = self.entry(from).filter(|_| !from.is_empty());
        let moved =
            moved.ok_or_else(|| Misfit(format!("{from:?} is renamed, but is not there")))?;
        if from == to {
            return Ok(Dropped::default());
        }
        let dropped = match (moved, self.entry(&to)) {
            (_, None) => {
                self.need_free(&to)?;
                Dropped::default()
            }
            (Entry::File(a), Some(Entry::File(b))) if a == b => return Ok(Dropped::default()),
            (Entry::File(_), Some(Entry::File(_))) => self.unlink(&to)?,
            (Entry::Dir, Some(Entry::Dir)) if !to.is_empty() && self.is_empty_dir(&to) => {
                self.entries.remove(&to);
                Dropped::default()
            }
            _ => return Err(Misfit(format!("{from:?} cannot replace {to:?}"))),
        };
        if moved == Entry::Dir {
            if to.strip_prefix(from).is_some_and(|rest| rest.starts_with('/')) {
                return Err(Misfit(format!("{from:?} cannot move into itself")));
            }
            let below: Vec<(String, Entry)> =
                self.below(from).map(|(key, &entry)| (key.clone(), entry)).collect();
            for (key, entry) in below {
                self.entries.remove(&key);
                self.entries.insert(format!("{to}{}", &key[from.len()..]), entry);
            }
        }
        self.entries.remove(from);
        self.entries.insert(to, moved);
        Ok(dropped)
    }

    fn set_body(
        &mut self,
        id: NodeId,
        mtime_s: u64,
        segments: Vec<SegmentRecord>,
    ) -> Result<Dropped, Misfit> {
        let node = self.node_mut(id)?;
        let before = std::mem::replace(&mut node.segments, segments);
        node.mtime_s = mtime_s;
        let after = node.segments.clone();
        let inline =
            |list: &[SegmentRecord]| list.iter().map(SegmentRecord::inline_len_bytes).sum::<u64>();
        self.inline_len_bytes += inline(&after);
        self.inline_len_bytes -= inline(&before);
        let kept = |store: StoreId| after.iter().any(|segment| segment.store() == Some(store));
        let stores = before.iter().filter_map(SegmentRecord::store).filter(|&s| !kept(s)).collect();
        Ok(Dropped { node: None, stores })
    }

    /// The changes that turn an empty tree into this one.
    pub(crate) fn snapshot(&self) -> Vec<Change> {
        let mut seen = std::collections::BTreeSet::new();
        let mut changes = Vec::with_capacity(self.entries.len() * 2);
        for (path, entry) in &self.entries {
            match *entry {
                Entry::Dir => changes.push(Change::MakeDir { path: path.clone() }),
                Entry::File(node) if !seen.insert(node) => {
                    changes.push(Change::Link { path: path.clone(), node });
                }
                Entry::File(node) => {
                    let record = &self.nodes[&node];
                    let (kind, mtime_s) = (record.kind, record.mtime_s);
                    changes.push(Change::Create { path: path.clone(), node, kind, mtime_s });
                    if !record.segments.is_empty() {
                        let segments = record.segments.clone();
                        changes.push(Change::SetBody { node, mtime_s, segments });
                    }
                }
            }
        }
        changes
    }

    /// Checks that `path` may be created: it is free, and lies in a directory (T1).
    fn need_free(&self, path: &str) -> Result<(), Misfit> {
        if self.entry(path).is_some() {
            return Err(Misfit(format!("{path:?} is made, but exists")));
        }
        if self.entry(parent(path)) != Some(Entry::Dir) {
            return Err(Misfit(format!("{path:?} is made in no directory")));
        }
        Ok(())
    }

    fn node_mut(&mut self, id: NodeId) -> Result<&mut NodeRecord, Misfit> {
        self.nodes.get_mut(&id).ok_or_else(|| Misfit(format!("file {} does not exist", id.0)))
    }

    /// Checks the whole tree. Returns the first violation as text.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut links: BTreeMap<NodeId, u32> = BTreeMap::new();
        for (path, entry) in &self.entries {
            if self.entry(parent(path)) != Some(Entry::Dir) {
                return Err(format!("T1: {path:?} lies in no directory"));
            }
            if let Entry::File(node) = entry {
                *links.entry(*node).or_default() += 1;
            }
        }
        let mut owners: BTreeMap<StoreId, NodeId> = BTreeMap::new();
        for (&id, node) in &self.nodes {
            if links.get(&id) != Some(&node.links) {
                return Err(format!("T2: file {} has {} links", id.0, node.links));
            }
            for store in node.segments.iter().filter_map(SegmentRecord::store) {
                if owners.insert(store, id).is_some() {
                    return Err(format!("T3: {} belongs to two files", store.name()));
                }
            }
        }
        if links.len() == self.nodes.len() { Ok(()) } else { Err("T2: a path to no file".into()) }
    }
}
