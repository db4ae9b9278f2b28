//! Point reads: the newest visible entry of a key, searched from the newest source to the oldest.

use crate::EngineError;
use crate::key::Seq;
use crate::memtable::{MemState, Memtable};
use crate::store::view::SuperVersion;
use crate::table::cache::BlockCache;
use crate::table::{ApartPlace, TableLookup, key_hash};
use crate::version::TableSlot;
use bytes::Bytes;
use std::sync::Arc;

/// A value, or where it is.
pub(crate) enum Found {
    Value(Bytes),
    Apart(ApartPlace),
}

/// Returns the value of `user_key` as of `snapshot`.
///
/// `missed`: as for [`find`].
#[inline]
pub(crate) fn get<'a>(
    view: &'a SuperVersion,
    user_key: &[u8],
    snapshot: Seq,
    cache: &Arc<BlockCache>,
    missed: &mut Option<(u8, &'a TableSlot)>,
) -> Result<Option<Bytes>, EngineError> {
    Ok(match find(view, user_key, snapshot, cache, missed)? {
        None => None,
        Some(Found::Value(value)) => Some(value),
        Some(Found::Apart(place)) => {
            let mut value = Vec::new();
            view.version.read_apart(place, user_key, cache, &mut value)?;
            Some(Bytes::from(value))
        }
    })
}

/// Finds the value of `user_key` as of `snapshot`, without reading one that is apart.
///
/// Sources are searched from the newest to the oldest. The first one that has an entry or a range
/// tombstone for the key decides (V2). If more than one table is asked, `missed` becomes the first of
/// them, with its level.
pub(crate) fn find<'a>(
    view: &'a SuperVersion,
    user_key: &[u8],
    snapshot: Seq,
    cache: &Arc<BlockCache>,
    missed: &mut Option<(u8, &'a TableSlot)>,
) -> Result<Option<Found>, EngineError> {
    for slot in [&view.active].into_iter().chain(&view.immutables) {
        match ask_memtable(&slot.mem, user_key, snapshot) {
            Verdict::Silent => {}
            Verdict::Deleted => return Ok(None),
            Verdict::Found(found) => return Ok(Some(found)),
        }
    }
    let hash = key_hash(user_key);
    let mut first = None;
    for (number, level) in (0..).zip(&view.version.levels) {
        if let Some(cover) = level.cover() {
            for slot in cover.at(user_key) {
                match first {
                    None => first = Some((number, &**slot)),
                    Some(_) => *missed = first,
                }
                match ask_table(slot, (user_key, hash), snapshot, cache)? {
                    Verdict::Silent => {}
                    Verdict::Deleted => return Ok(None),
                    Verdict::Found(found) => return Ok(Some(found)),
                }
            }
            continue;
        }
        for run in &level.runs {
            let Some(slot) = run.find(user_key) else { continue };
            match first {
                None => first = Some((number, &**slot)),
                Some(_) => *missed = first,
            }
            match ask_table(slot, (user_key, hash), snapshot, cache)? {
                Verdict::Silent => {}
                Verdict::Deleted => return Ok(None),
                Verdict::Found(found) => return Ok(Some(found)),
            }
        }
    }
    Ok(None)
}

/// What one source has for a key, from its newest entry and its newest range tombstone over the
/// key.
enum Verdict {
    Silent,
    Deleted,
    Found(Found),
}

#[inline]
fn ask_table(
    slot: &TableSlot,
    (user_key, hash): (&[u8], u64),
    snapshot: Seq,
    cache: &Arc<BlockCache>,
) -> Result<Verdict, EngineError> {
    let table = slot.open(cache)?;
    let cover = match slot.meta.range_tombstone_count {
        0 => None,
        _ => table.range_tombstones().max_seq_covering(user_key, snapshot),
    };
    Ok(match (table.get(user_key, hash, snapshot)?, cover) {
        (TableLookup::Missing, None) => Verdict::Silent,
        (TableLookup::Value { value, seq }, cover) if Some(seq) > cover => {
            Verdict::Found(Found::Value(value))
        }
        (TableLookup::Apart { place, seq }, cover) if Some(seq) > cover => {
            Verdict::Found(Found::Apart(place))
        }
        _ => Verdict::Deleted,
    })
}

#[inline]
fn ask_memtable(mem: &Memtable, user_key: &[u8], snapshot: Seq) -> Verdict {
    let cover = mem.max_seq_covering(user_key, snapshot);
    match mem.get(user_key, snapshot) {
        Some(found) if Some(found.seq) > cover => match found.state {
            MemState::Value(value) => Verdict::Found(Found::Value(value)),
            MemState::Deleted => Verdict::Deleted,
        },
        None if cover.is_none() => Verdict::Silent,
        _ => Verdict::Deleted,
    }
}
