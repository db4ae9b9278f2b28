//! The durable part of a store: its state, its logs, and the lengths of its records in the catalog.

use crate::key::Seq;
use crate::version::edit::{LogId, VersionEdit};
use crate::version::format::{self, RecordKind};
use crate::version::state::StoreState;
use imbrex_files::{AppRecord, CatalogUse, CommitKind};

/// Edits may reach this length before a new snapshot replaces them, however short the snapshot is.
const EDITS_LEN_BYTES_MIN: u64 = 16 << 10;
/// With less room than this in the catalog, every commit writes a snapshot, which takes no more
/// room than the records that it replaces.
const CATALOG_ROOM_LEN_BYTES_MIN: u64 = 8 << 10;

#[derive(Debug)]
pub(super) struct VersionSet {
    pub(super) state: StoreState,
    pub(super) lens: RecordLens,
}

/// The lengths of the records in the catalog.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordLens {
    /// The snapshot, which is the first record and replaces all earlier ones.
    pub(crate) snapshot_bytes: u64,
    /// All edits after the snapshot.
    pub(crate) edits_bytes: u64,
}

impl RecordLens {
    /// The lengths of `records`, in the order of the catalog.
    pub(crate) fn of(records: &[Vec<u8>]) -> RecordLens {
        let all_bytes: u64 = records.iter().map(|record| record.len() as u64).sum();
        let snapshot_bytes = records.first().map_or(0, |record| record.len() as u64);
        RecordLens { snapshot_bytes, edits_bytes: all_bytes - snapshot_bytes }
    }
}

/// A log that still exists.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogInfo {
    pub(super) id: LogId,
    /// The first sequence number in it, or after it if it is empty.
    pub(super) first_seq: Seq,
    /// Its length, once it has ended.
    pub(super) len_bytes: u64,
    /// The first write after it, once it has ended.
    pub(super) end_seq: Option<Seq>,
}

impl VersionSet {
    /// The record that makes `edit` durable, and the lengths of the records after that. The record
    /// is the edit alone, or a snapshot once edits have accumulated. The snapshot comes earlier in
    /// a crowded catalog, and always in one with hardly any room.
    pub(super) fn record(
        &self,
        edit: &VersionEdit,
        state: &StoreState,
        catalog: &CatalogUse,
        kind: CommitKind,
    ) -> (AppRecord, RecordLens) {
        let RecordLens { snapshot_bytes, edits_bytes } = self.lens;
        let bytes = format::encode(RecordKind::Edit, edit);
        let limit = if catalog.is_crowded() {
            snapshot_bytes / 8
        } else {
            snapshot_bytes.max(EDITS_LEN_BYTES_MIN)
        };
        let has_room =
            catalog.free_bytes(kind) >= 4 * bytes.len() as u64 + CATALOG_ROOM_LEN_BYTES_MIN;
        let edits_bytes = edits_bytes + bytes.len() as u64;
        if has_room && edits_bytes <= limit {
            return (AppRecord::Append(bytes), RecordLens { snapshot_bytes, edits_bytes });
        }
        let snapshot = format::encode(RecordKind::Snapshot, &state.to_edit());
        let lens = RecordLens { snapshot_bytes: snapshot.len() as u64, edits_bytes: 0 };
        (AppRecord::Replace(snapshot), lens)
    }
}
