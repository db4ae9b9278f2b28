//! What of a store is durable: its state, its logs, and how long its records in the catalog are.

use crate::key::Seq;
use crate::version::edit::{LogId, VersionEdit};
use crate::version::format::{self, RecordKind};
use crate::version::state::StoreState;
use imbrex_files::{AppRecord, CatalogUse, CommitKind};

/// Edits this long may pile up before a new snapshot replaces them, however short the snapshot is.
const EDITS_LEN_BYTES_MIN: u64 = 16 << 10;
/// With less room than this in the catalog every commit writes a snapshot: it takes no more than
/// what it replaces.
const CATALOG_ROOM_LEN_BYTES_MIN: u64 = 8 << 10;

#[derive(Debug)]
pub(super) struct VersionSet {
    pub(super) state: StoreState,
    pub(super) lens: RecordLens,
}

/// How long the records in the catalog are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordLens {
    /// The first, which stands for all before it.
    pub(crate) snapshot_bytes: u64,
    /// Those after it.
    pub(crate) edits_bytes: u64,
}

impl RecordLens {
    /// The lengths of `records`, as the catalog has them.
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
    /// The first sequence number in it or after it.
    pub(super) first_seq: Seq,
    /// How long it got, once it is finished.
    pub(super) len_bytes: u64,
}

impl VersionSet {
    /// The record that makes `edit` durable: the edit alone, or everything when edits have piled up,
    /// sooner in a crowded catalog, and always in one that has hardly any room. Also how long the
    /// records are once it is durable.
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
