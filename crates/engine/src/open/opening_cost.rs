//! Opening a full drive: the catalog is synthetic, and the tables that it names are a block each.
//!
//! Opening reads no table, so their content and length do not count.

use crate::key::Seq;
use crate::open::recover::{DEFAULT_KEYSPACE, recover};
use crate::options::Options;
use crate::version::edit::{Counters, KeyspaceId, KeyspaceRecord, TableAdd, VersionEdit};
use crate::version::format::{self, RecordKind};
use crate::version::{RunId, TableId, TableMeta};
use bytes::Bytes;
use imbrex_clockwork::{Order, Runtime};
use imbrex_disk::{Disk, Geometry, GeometrySpec, Rule};
use imbrex_disk_sim::{Profile, SimDisk};
use imbrex_files::{
    AppRecord, Commit, FileBuffer, FileKind, FileLayer, Files, FormatOptions, GroupId, Hints,
    PlacementKind,
};
use std::sync::Arc;

/// Tables of 64 MiB on 14 TB; `IMBREX_TABLES` gives another number. A test of the gate takes fewer.
const FULL_TABLE_COUNT: u64 = 14_000_000_000_000 / (64 << 20);
const TABLE_COUNT: u64 = FULL_TABLE_COUNT / 16;
const TABLES_PER_COMMIT: u64 = 1000;
/// Ten seconds for a full drive.
const OPENING_NS_PER_TABLE_MAX: u64 = 10_000_000_000 / FULL_TABLE_COUNT;

fn meta(index: u64) -> TableMeta {
    let key = |index: u64| Bytes::from(format!("user{index:020}"));
    TableMeta {
        id: TableId(index + 1),
        len_bytes: 4096,
        smallest: key(2 * index),
        largest: key(2 * index + 1),
        largest_excluded: false,
        seq_min: Seq(1),
        seq_max: Seq(1_000_000_000_000),
        entry_count: 65_536,
        delete_count: 0,
        range_tombstone_count: 0,
        raw_len_bytes: 64 << 20,
        group: GroupId(index / 10),
        group_table_count: 10,
        is_logged: false,
        has_front: false,
    }
}

/// Fills the catalog of `files` with a store of `count` tables.
fn fill(files: &FileLayer, count: u64) {
    let keyspace = KeyspaceId(0);
    let options = Options::default().keyspace;
    let mut first = 0;
    while first < count {
        let batch = first..count.min(first + TABLES_PER_COMMIT);
        let buffer = |index: u64| {
            let hints = Hints { level: 6, ..Hints::new(FileKind::Table) };
            let mut buffer = FileBuffer::new(TableId(index + 1).file_name(), hints);
            buffer.append(&[1; 4096]);
            buffer
        };
        let add = files.persist(batch.clone().map(buffer).collect()).unwrap();
        let counters =
            Counters { next_id: batch.end + 1, next_keyspace_id: 1, last_seq: 1_000_000_000_000 };
        let table = |index| TableAdd { keyspace, level: 6, run: RunId::ONLY, meta: meta(index) };
        let mut edit = VersionEdit {
            counters: Some(counters),
            tables_added: batch.clone().map(table).collect(),
            ..VersionEdit::default()
        };
        let app = if first == 0 {
            let (name, options) = (DEFAULT_KEYSPACE.to_owned(), options.clone());
            edit.keyspaces_created = vec![KeyspaceRecord { id: keyspace, name, options }];
            AppRecord::Replace(format::encode(RecordKind::Snapshot, &edit))
        } else {
            AppRecord::Append(format::encode(RecordKind::Edit, &edit))
        };
        files.commit(Commit { add, app: Some(app), ..Commit::default() }).unwrap();
        first = batch.end;
    }
}

#[test]
fn a_drive_full_of_tables_opens_within_ten_seconds_of_its_time() {
    let asked = std::env::var("IMBREX_TABLES").ok().map(|text| text.parse().unwrap());
    let count = asked.unwrap_or(TABLE_COUNT);
    let profile = Profile::by_name("hc620").unwrap();
    let len = profile.geometry().len();
    let conventional = Geometry::new(GeometrySpec { len, rule: Rule::Anywhere }).unwrap();
    let kinds = [(profile.geometry(), "zone-per-level"), (conventional, "first-fit")];
    for (geometry, placement) in imbrex_clockwork::share_of(kinds) {
        let disk = SimDisk::builder(geometry).profile(profile.clone()).memory().unwrap();
        let disk = Arc::new(disk);
        let runtime = || Runtime::virtual_time(Order::SmallestTime).0;
        let format = FormatOptions::new(PlacementKind::by_name(placement).unwrap());
        let files = FileLayer::format(Arc::clone(&disk) as Arc<dyn Disk>, &format, &runtime());
        let files = files.unwrap();
        fill(&files, count);
        drop(files);
        let before = disk.counters();
        let files = FileLayer::open(Arc::clone(&disk) as Arc<dyn Disk>, &runtime()).unwrap();
        let (store, recovery) = recover(Arc::new(files), runtime(), Options::default()).unwrap();
        let cost = disk.counters() - before;
        assert!(!recovery.created);
        let tables: usize =
            store.state().keyspaces.values().map(|entry| entry.version.tables().count()).sum();
        assert_eq!(tables as u64, count);
        let ms = cost.busy_ns / 1_000_000;
        if asked.is_some() {
            eprintln!("{placement}: {count} tables, {} bytes read, {ms} ms", cost.read_bytes);
        }
        assert!(cost.busy_ns < 1_000_000_000 + count * OPENING_NS_PER_TABLE_MAX, "{ms} ms");
    }
}
