//! Opening: from the records on a drive to the tree and its files.
//!
//! A log that was being written is read through once to find its end. A damaged log is read at
//! every opening, so that the damage is reported until the file is replaced. Stores without a name,
//! which a crash left, are removed with the first commit. Opening writes nothing.
//!
//! An earlier process may have been killed, so the data read here may never have been flushed. None
//! of it counts as durable before the first commit (J4). That commit records the lengths found, and
//! the file layer flushes before it, because the first change after an opening is a checkpoint.

use crate::error::FsError;
use crate::format::{FORMAT_VERSION, Malformed, RecordKind, decode};
use crate::journal::Live;
use crate::log_cursor::measure;
use crate::node::{Body, Node, Segment};
use crate::path::shown;
use crate::tree::{Change, Entry, NodeId, NodeRecord, SegmentRecord, StoreId, Tree};
use crate::write_out::log_id;
use imbrex_files::{FileInfo, FileReader, Files, Hints};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The tree built from the records, and the smallest number that nothing on the drive has.
fn tree_of(records: &[Vec<u8>]) -> Result<(Tree, u64), FsError> {
    let (mut tree, mut next_id) = (Tree::default(), 1);
    for (index, bytes) in records.iter().enumerate() {
        let corrupt = |reason| FsError::Corrupt { record: index, reason };
        let record = decode(bytes).map_err(|malformed| match malformed {
            Malformed::Foreign => FsError::Foreign {
                reason: "it holds another store; `imbrex drive create --no-store` makes one for \
                         databases"
                    .into(),
            },
            Malformed::Version { got } => FsError::Version { got, known: FORMAT_VERSION },
            Malformed::At { offset, reason } => corrupt(format!("byte {offset}: {reason}")),
        })?;
        if record.kind == RecordKind::Snapshot {
            tree = Tree::default();
        }
        for change in record.changes {
            tree.apply(change).map_err(|misfit| corrupt(misfit.0))?;
        }
        next_id = next_id.max(record.next_id);
    }
    tree.check().map_err(|reason| FsError::Corrupt { record: records.len(), reason })?;
    Ok((tree, next_id))
}

/// Whether `files` holds a file system, sound or not. The first record alone decides.
pub fn holds_file_system(files: &dyn Files) -> bool {
    files.app_records().first().is_some_and(|record| decode(record) != Err(Malformed::Foreign))
}

/// Opens the file system on `files`. A log that was found open gets `now_s` as its modification
/// time, because the true time is not known.
pub(crate) fn mount(files: &dyn Files, now_s: u64) -> Result<Live, FsError> {
    let records = files.app_records();
    let stored = files.list("");
    // A crash before the first commit may have left only stores, without any record.
    let strange = stored.iter().find(|info| StoreId::of_name(&info.name).is_none());
    if let (true, Some(strange)) = (records.is_empty(), strange) {
        let reason = format!("it holds {:?}, which no tree names", strange.name);
        return Err(FsError::Foreign { reason });
    }
    let (tree, mut next_id) = tree_of(&records)?;
    let stored: BTreeMap<StoreId, FileInfo> =
        stored.into_iter().filter_map(|info| Some((StoreId::of_name(&info.name)?, info))).collect();
    if let Some(StoreId(last)) = stored.keys().next_back() {
        next_id = next_id.max(last + 1); // V5
    }
    let records_len_bytes = records.iter().map(|record| record.len() as u64).sum();
    let paths = first_paths(&tree);
    let mut live = Live::new(tree.clone(), next_id, records_len_bytes);
    let mut named = BTreeSet::new();
    for (id, record) in tree.nodes() {
        let path = paths.get(&id).map_or_else(String::new, |key| shown(key));
        named.extend(record.segments.iter().filter_map(SegmentRecord::store));
        let (node, grew) = open_node(files, &stored, id, &path, record)?;
        live.nodes.insert(id, Arc::clone(&node));
        if grew {
            let segments = node.state.lock().records();
            let mtime_s = record.mtime_s.max(now_s);
            let seq = live.change(Change::SetBody { node: id, mtime_s, segments });
            node.seq.store(seq, Ordering::Release);
        }
    }
    stored.keys().filter(|store| !named.contains(store)).for_each(|&store| live.drop_store(store));
    Ok(live)
}

fn first_paths(tree: &Tree) -> BTreeMap<NodeId, String> {
    let mut paths = BTreeMap::new();
    let mut dirs = vec![String::new()];
    while let Some(dir) = dirs.pop() {
        for (name, entry) in tree.children(&dir) {
            let key = if dir.is_empty() { name } else { format!("{dir}/{name}") };
            match entry {
                Entry::Dir => dirs.push(key),
                Entry::File(node) => drop(paths.entry(node).or_insert(key)),
            }
        }
    }
    paths
}

/// A file with its segments, and whether a length was found that is not recorded yet.
fn open_node(
    files: &dyn Files,
    stored: &BTreeMap<StoreId, FileInfo>,
    id: NodeId,
    path: &str,
    record: &NodeRecord,
) -> Result<(Arc<Node>, bool), FsError> {
    let mut segments: Vec<Segment> = Vec::with_capacity(record.segments.len());
    let mut hints = Hints::new(record.kind);
    let mut grew = false;
    for recorded in &record.segments {
        let info = recorded.store().and_then(|store| stored.get(&store));
        if let Some(info) = info {
            hints.level = info.level;
            hints.group = info.group;
        }
        let open = |store: StoreId, len_bytes: u64| {
            let too_short = info.is_none_or(|info| info.len_bytes < len_bytes);
            if too_short {
                let reason = format!("{path} needs {len_bytes} bytes of {}", store.name());
                return Err(FsError::Corrupt { record: 0, reason });
            }
            let failed = |source| FsError::Files { what: format!("opening {path}"), source };
            files.open(&store.name()).map_err(failed)
        };
        let (len_bytes, body) = match recorded {
            SegmentRecord::Inline(bytes) => {
                (bytes.len() as u64, Body::Inline(bytes.as_slice().into()))
            }
            &SegmentRecord::Table { store, len_bytes } => {
                (len_bytes, Body::Table { store, reader: open(store, len_bytes)? })
            }
            &SegmentRecord::Log { store, len_bytes } => {
                let reader = open(store, 0)?;
                let log_id = log_id(files.format_id(), store);
                let (len_bytes, damage) = match len_bytes {
                    Some(len_bytes) => (len_bytes, too_short(&*reader, len_bytes)),
                    None => {
                        let failed =
                            |source| FsError::Files { what: format!("reading {path}"), source };
                        let (len_bytes, damage) = measure(log_id, &reader).map_err(failed)?;
                        grew |= damage.is_none();
                        (len_bytes, damage)
                    }
                };
                (len_bytes, Body::Log { store, log_id, reader, damage: damage.map(Into::into) })
            }
        };
        let start = segments.last().map_or(0, Segment::end);
        if start.checked_add(len_bytes).is_none_or(|end| end == u64::MAX) {
            let reason = format!("{path} is longer than a file can be");
            return Err(FsError::Corrupt { record: 0, reason });
        }
        segments.push(Segment { start, len_bytes, body });
    }
    Ok((Node::new(id, path, hints, segments), grew))
}

/// Why the log that `reader` reads cannot hold `len_bytes`, if it cannot: a framed log is never
/// shorter than its payload.
fn too_short(reader: &dyn FileReader, len_bytes: u64) -> Option<String> {
    let stored_len_bytes = reader.len_bytes();
    (stored_len_bytes < len_bytes).then(|| {
        format!("{} holds {stored_len_bytes} bytes, too few for {len_bytes}", reader.name())
    })
}
