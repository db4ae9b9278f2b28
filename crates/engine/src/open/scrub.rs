//! Scrubbing: every table is read in the order of their numbers; damaged ones are replaced.
//!
//! ```text
//!   Db::scrub_with   table after table, oldest first -> what is wrong with each      the store is open
//!   mend_table       [its own copies] -> [another source] -> sound? -> one commit    the store is closed
//! ```
//!
//! Numbers only grow, so one number says how far a scrub has got, whatever was compacted meanwhile: tables that are written
//! later have larger ones.
//!
//! Invariants
//!   R1  A table is replaced only by bytes that pass the whole verification of a table, read back from the drive, and that
//!       have its number and its length.
//!   R2  A replacement is one commit for each name of the table, and the name that a scrub reads comes last. A crash leaves
//!       the damaged table or the sound one under each name, and the next scrub finds the damaged ones.
//!   R3  The store's records stay as they are: which tables exist, and what they hold, does not change.
//!
//! Not here: where another source comes from (`imbrex::backup`), what to do if there is none (`salvage`).

use crate::EngineError;
use crate::db::Db;
use crate::losses::keys_between;
use crate::open::check::{CheckReport, checkpoint_tables};
use crate::open::recover::decode_records;
use crate::table::cache::BlockCache;
use crate::table::{Table, mend_from_copies};
use crate::version::names::names_prefix;
use crate::version::{TableId, TableSlot};
use crate::watch::{Progress, Watch, ask};
use imbrex_files::{
    Commit, CommitKind, FileBuffer, FileInfo, FileKind, FileReader, Files, Hints, Persisted,
    part_of,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Damage often takes a whole block of the drive, and never less.
const PIECE_LEN_BYTES: u64 = 4096;

/// A table that a scrub has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubbedTable {
    /// Its number.
    pub id: u64,
    /// Its length.
    pub len_bytes: u64,
    /// The table, its keyspace and the range of its keys, in words.
    pub place: String,
    /// What is wrong with it, one sentence each.
    pub findings: Vec<String>,
}

impl Db {
    /// Reads all tables whose numbers are larger than `after`, those of checkpoints included, in the order of their
    /// numbers. `scrubbed` gets each of them after it was read.
    ///
    /// Cost: reads each table once.
    ///
    /// # Errors
    /// Damage is not an error but is passed to `scrubbed`. [`EngineError::Files`] if a file cannot be read,
    /// [`EngineError::Stopped`].
    pub fn scrub_with(
        &self,
        after: u64,
        watch: &mut Watch<'_>,
        scrubbed: &mut dyn FnMut(ScrubbedTable),
    ) -> Result<(), EngineError> {
        let store = self.store();
        // Tables of this state stay readable, whatever is committed meanwhile (F3).
        let (state, names) = store.state_and_files()?;
        let mut tables: BTreeMap<TableId, (Arc<TableSlot>, String)> = BTreeMap::new();
        for entry in state.keyspaces.values() {
            for slot in entry.version.files() {
                let of = format!("keyspace {:?}", entry.record.name);
                tables.insert(slot.meta.id, (Arc::clone(slot), of));
            }
        }
        // What is wrong with references is the task of a check.
        for slot in checkpoint_tables(store, &state, &names, &mut CheckReport::default()) {
            tables.entry(slot.meta.id).or_insert((slot, "a checkpoint".to_owned()));
        }
        tables.retain(|id, _| id.0 > after);
        let total_bytes = tables.values().map(|(slot, _)| slot.meta.len_bytes).sum();
        let mut before_bytes = 0;
        while let Some((id, (slot, of))) = tables.pop_first() {
            let meta = &slot.meta;
            let mut verified_until = |offset: u64| {
                let done_bytes = before_bytes + offset;
                ask(watch, "scrub", Progress { done_bytes, total_bytes })
            };
            verified_until(0)?;
            let verified =
                slot.open(&store.cache).and_then(|table| table.verify(&mut verified_until));
            let findings = match verified {
                Ok(report) => report.findings,
                Err(error) if error.is_damage() => vec![error.to_string()],
                Err(error) => return Err(error),
            };
            before_bytes += meta.len_bytes;
            let keys = keys_between(Some(&meta.smallest), &meta.largest);
            let place = format!("table {id} of {of}, {keys}");
            scrubbed(ScrubbedTable { id: id.0, len_bytes: meta.len_bytes, place, findings });
        }
        Ok(())
    }
}

/// Where the bytes came from that replaced a damaged table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MendedFrom {
    /// The table was sound.
    Nothing,
    /// The copies that the table has of its own parts.
    ItsCopies,
    /// The caller's source.
    Elsewhere,
}

/// Replaces table `id` in `files`, the files of a store that is closed, if it is damaged. `elsewhere` returns candidates
/// for its bytes, if the table's own copies do not suffice. `None` if no candidate was sound: then nothing has changed.
///
/// Cost: memory for the table, twice.
///
/// # Errors
/// [`EngineError::Files`]; [`EngineError::Corrupt`] for records that cannot be decoded.
pub fn mend_table(
    files: &dyn Files,
    id: u64,
    elsewhere: &mut dyn FnMut(u64) -> Vec<Vec<u8>>,
) -> Result<Option<MendedFrom>, EngineError> {
    let state = decode_records(&files.app_records())?;
    let own_name = TableId(id).file_name();
    let linked = |info: &FileInfo| {
        let of_checkpoint =
            |name: &String| info.name.strip_prefix(&names_prefix(name)) == Some(&own_name);
        info.name == own_name || state.checkpoints.keys().any(of_checkpoint)
    };
    let named: Vec<FileInfo> = files.list("").into_iter().filter(linked).collect();
    // The table's own name comes first, if it has it; the others are of checkpoints.
    let Some(first) = named.iter().find(|info| info.name == own_name).or(named.first()) else {
        return Ok(None);
    };
    let mut hints = Hints {
        level: first.level,
        group: first.group,
        expected_len_bytes: Some(first.len_bytes),
        purpose: CommitKind::Upkeep,
        tier: first.tier,
        ..Hints::new(FileKind::Table)
    };
    let mut len_bytes = first.len_bytes;
    for (keyspace, entry) in &state.keyspaces {
        if let Some(slot) = entry.version.files().find(|slot| slot.meta.id.0 == id) {
            // The file of a table that began as a log may be longer.
            (hints.stream, len_bytes) = (keyspace.0, slot.meta.len_bytes);
        }
    }
    let open = files.open(&first.name);
    let open = open.map_err(EngineError::files(format!("read table {id}")))?;
    if is_sound(part_of(open, 0..len_bytes), id)? {
        return Ok(Some(MendedFrom::Nothing));
    }
    let mut own = read_what_reads(files, &first.name, len_bytes)?;
    let own = mend_from_copies(&mut own).then_some((own, MendedFrom::ItsCopies));
    let mut names: Vec<&str> = named.iter().map(|info| &*info.name).collect();
    names.retain(|name| *name != first.name);
    names.push(&first.name);
    if let Some(from) = mend_with(files, id, &names, hints, own)? {
        return Ok(Some(from));
    }
    let others = elsewhere(id).into_iter().filter(|bytes| bytes.len() as u64 == len_bytes);
    let others = others.map(|bytes| (bytes, MendedFrom::Elsewhere));
    mend_with(files, id, &names, hints, others)
}

/// Replaces table `id`, which has all of `names`, by the first candidate that is sound, as it reads back from the drive (R1).
fn mend_with(
    files: &dyn Files,
    id: u64,
    names: &[&str],
    hints: Hints,
    candidates: impl IntoIterator<Item = (Vec<u8>, MendedFrom)>,
) -> Result<Option<MendedFrom>, EngineError> {
    for (bytes, from) in candidates {
        let failed = || EngineError::files(format!("write table {id} again"));
        let mut buffer = FileBuffer::new(names[0], hints);
        buffer.append(&bytes);
        let written = files.persist(vec![buffer]).map_err(failed())?;
        let Some(file) = written.first() else { continue };
        let file = files.open_persisted(&**file).map_err(failed())?;
        if is_sound(file, id)? {
            replace(files, names, written)?;
            return Ok(Some(from));
        }
    }
    Ok(None)
}

/// Puts `add` in the place of the file that has `names`, one name after the other (R2).
fn replace(
    files: &dyn Files,
    names: &[&str],
    add: Vec<Box<dyn Persisted>>,
) -> Result<(), EngineError> {
    let first = names[0];
    let failed = || EngineError::files(format!("replace the damaged {first}"));
    let kind = CommitKind::Upkeep;
    let remove = vec![first.to_owned()];
    files.commit(Commit { remove, add, kind, ..Commit::default() }).map_err(failed())?;
    for &name in &names[1..] {
        let (remove, link) = (vec![name.to_owned()], vec![(first.to_owned(), name.to_owned())]);
        files.commit(Commit { remove, link, kind, ..Commit::default() }).map_err(failed())?;
    }
    Ok(())
}

/// The bytes of a file, with zeros in place of blocks that cannot be read.
fn read_what_reads(files: &dyn Files, name: &str, len_bytes: u64) -> Result<Vec<u8>, EngineError> {
    let failed = || EngineError::files(format!("read the damaged {name}"));
    let file = files.open(name).map_err(failed())?;
    let (mut bytes, mut scratch) = (Vec::with_capacity(len_bytes as usize), Vec::new());
    while (bytes.len() as u64) < len_bytes {
        let at = bytes.len() as u64;
        let piece_len_bytes = (len_bytes - at).min(PIECE_LEN_BYTES) as usize;
        match file.read_at(at, piece_len_bytes, &mut scratch) {
            Ok(piece) => bytes.extend_from_slice(piece),
            Err(error) if error.is_damage() => bytes.resize(bytes.len() + piece_len_bytes, 0),
            Err(error) => return Err(failed()(error)),
        }
    }
    Ok(bytes)
}

/// Whether `file` is a table without damage, and table `id`: checksums cover the number, so another table is sound in itself.
fn is_sound(file: Arc<dyn FileReader>, id: u64) -> Result<bool, EngineError> {
    let cache = Arc::new(BlockCache::new(0));
    let verified = Table::open_any(file, cache).and_then(|table| {
        let report = table.verify(&mut |_| Ok(()))?;
        Ok(report.findings.is_empty() && table.id() == id)
    });
    match verified {
        Err(error) if error.is_damage() => Ok(false),
        verified => verified,
    }
}
