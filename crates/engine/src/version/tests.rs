use super::edit::*;
use super::format::{self, Malformed, RecordKind};
use super::partitions::BaseMerge;
use super::state::StoreState;
use super::*;
use crate::options::{CompactionKind, GearDepth, KeyspaceOptions, VictimGrowth, VictimOrder};
use crate::totals::{Total, Totals};
use imbrex_clockwork::Prng;
use imbrex_disk::BlockRange;
use imbrex_files::FilesError;
use std::sync::atomic::AtomicU64;

fn meta(id: u64, smallest: &'static str, largest: &'static str) -> TableMeta {
    TableMeta {
        id: TableId(id),
        len_bytes: 4096,
        smallest: Bytes::from_static(smallest.as_bytes()),
        largest: Bytes::from_static(largest.as_bytes()),
        largest_excluded: false,
        seq_min: Seq(1),
        seq_max: Seq(2),
        entry_count: 3,
        delete_count: 4,
        range_tombstone_count: 5,
        raw_len_bytes: 6,
        group: GroupId(7),
        group_table_count: 8,
        is_logged: false,
        has_front: false,
    }
}

fn add(level: u8, run: u64, meta: TableMeta) -> TableAdd {
    TableAdd { keyspace: KeyspaceId(0), level, run: RunId(run), meta }
}

fn base_merge(start: &'static str, next: &'static str, end: Option<&'static str>) -> BaseMerge {
    let key = |key: &'static str| Bytes::from_static(key.as_bytes());
    BaseMerge { run_max: RunId(9), start: key(start), next: key(next), end: end.map(key) }
}

/// Totals of one and of nine bytes, and one of a newer program.
fn totals() -> Totals {
    let mut totals = Totals::of([(Total::UserWrites, 7), (Total::BusyNs, 1 << 60)]);
    totals.raise(250, 300);
    totals
}

/// An edit with one item of every kind.
fn full_edit() -> VersionEdit {
    VersionEdit {
        counters: Some(Counters { next_id: 42, next_keyspace_id: 2, last_seq: 99 }),
        totals: totals(),
        keyspaces_created: vec![KeyspaceRecord {
            id: KeyspaceId(1),
            name: "métier".to_owned(),
            options: KeyspaceOptions::default(),
        }],
        tables_removed: vec![(KeyspaceId(0), TableId(3))],
        tables_added: vec![add(2, 0, TableMeta { largest_excluded: true, ..meta(41, "a", "m") })],
        log_floors: vec![(KeyspaceId(0), LogId(40))],
        cuts: vec![(KeyspaceId(0), vec![Bytes::from_static(b"g"), Bytes::from_static(b"p")])],
        base_merges: vec![
            (KeyspaceId(0), None),
            (KeyspaceId(1), Some(base_merge("g", "h", Some("p")))),
            (KeyspaceId(2), Some(base_merge("", "", None))),
        ],
        values_placed: vec![ValuesPlaced {
            keyspace: KeyspaceId(0),
            origin: TableId(3),
            file: TableId(4),
            len_bytes: 1 << 40,
        }],
        values_moved: vec![(KeyspaceId(0), TableId(2), TableId(5))],
        values_released: vec![(KeyspaceId(0), TableId(2), 7)],
        keyspaces_dropped: vec![KeyspaceId(0)],
        checkpoints_created: vec![CheckpointRecord {
            name: "monday".to_owned(),
            snapshot: format::encode(RecordKind::Snapshot, &VersionEdit::default()),
        }],
        checkpoints_dropped: vec!["sunday".to_owned()],
    }
}

#[test]
fn an_edit_survives_its_encoding() {
    let edit = full_edit();
    let bytes = format::encode(RecordKind::Edit, &edit);
    assert_eq!(format::decode(&bytes), Ok((RecordKind::Edit, edit)));
}

#[test]
fn golden_bytes() {
    let edit = VersionEdit {
        counters: Some(Counters { next_id: 5, next_keyspace_id: 1, last_seq: 7 }),
        tables_removed: vec![(KeyspaceId(0), TableId(3))],
        ..VersionEdit::default()
    };
    let hex: String = format::encode(RecordKind::Snapshot, &edit)
        .chunks(16)
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n")
        .collect();
    assert_eq!(
        hex,
        "4958564502000200380000004dec4fc1\n\
         01000000180000000500000000000000\n\
         07000000000000000100000000000000\n\
         04000000100000000000000000000000\n\
         0300000000000000\n"
    );
}

#[test]
fn garbage_is_an_error_and_never_a_panic() {
    let bytes = format::encode(RecordKind::Edit, &full_edit());
    for len in 0..bytes.len() {
        assert!(format::decode(&bytes[..len]).is_err(), "cut to {len} bytes");
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(format::decode(&flipped).is_err(), "bit {bit} flipped");
    }
    // Damages every byte of the body and repairs the checksum, so that decoding reaches the fields.
    // Some results are valid edits; none may panic.
    let mut prng = Prng::new(7);
    for _ in 0..5000 {
        let mut wild = bytes.clone();
        for _ in 0..=prng.below(4) {
            let at = 16 + prng.below(bytes.len() as u64 - 16) as usize;
            wild[at] = prng.next_u64() as u8;
        }
        let crc = crc32c::crc32c_append(crc32c::crc32c(&wild[..12]), &wild[16..]);
        wild[12..16].copy_from_slice(&crc.to_le_bytes());
        let _ = format::decode(&wild);
    }
}

fn keyspace_with(options: KeyspaceOptions) -> VersionEdit {
    let record = KeyspaceRecord { id: KeyspaceId(1), name: "sets".to_owned(), options };
    VersionEdit { keyspaces_created: vec![record], ..VersionEdit::default() }
}

/// `bytes` with the byte at `at` replaced, and the checksum mended.
fn with_byte(mut bytes: Vec<u8>, at: usize, byte: u8) -> Vec<u8> {
    bytes[at] = byte;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn what_compaction_does_with_sets_and_full_levels_is_recorded() {
    for (cuts_at_sets, gear_depth) in
        [(false, GearDepth::Overlaps), (true, GearDepth::FullLevels), (true, GearDepth::Overlaps)]
    {
        for victim_order in [VictimOrder::RoundRobin, VictimOrder::DeadFirst] {
            for victim_growth in [VictimGrowth::Neighbours, VictimGrowth::Single] {
                let base = KeyspaceOptions::set_aware();
                let edit = keyspace_with(KeyspaceOptions {
                    cuts_at_sets,
                    gear_depth,
                    victim_order,
                    victim_growth,
                    ..base
                });
                let bytes = format::encode(RecordKind::Edit, &edit);
                let is_usual = victim_growth == VictimGrowth::Single;
                assert_eq!(bytes[4], if is_usual { 6 } else { 7 });
                assert_eq!(format::decode(&bytes), Ok((RecordKind::Edit, edit)));
            }
        }
    }
    let leveled = format::encode(RecordKind::Edit, &keyspace_with(KeyspaceOptions::default()));
    assert_eq!(leveled[4], 2, "older programs read what they know");
}

/// The flags of LevelDB's habits, and the record's version, by compaction and growth.
#[test]
fn leveldbs_habits_are_recorded_apart_from_the_growth_of_victims() {
    let kinds = [CompactionKind::Leveled, CompactionKind::Gear, CompactionKind::Lazy];
    let growths = [VictimGrowth::Neighbours, VictimGrowth::Single];
    for (compaction, victim_growth) in
        kinds.into_iter().flat_map(|kind| growths.map(|growth| (kind, growth)))
    {
        let mut of_old = 0;
        for habits in [(false, false), (true, false), (false, true), (true, true)] {
            let edit = keyspace_with(KeyspaceOptions {
                compaction,
                victim_growth,
                flushes_pass_levels: habits.0,
                missed_tables_go_down: habits.1,
                ..KeyspaceOptions::default()
            });
            let bytes = format::encode(RecordKind::Edit, &edit);
            let flags = if habits.0 { 16 } else { 0 } | if habits.1 { 32 } else { 0 };
            match bytes[4] {
                7 => assert_eq!(bytes[GROWTH_AT], victim_growth as u8 | flags),
                version => {
                    assert_eq!((version, bytes[GROWTH_AT]), (2, victim_growth as u8));
                    of_old += 1;
                }
            }
            assert_eq!(format::decode(&bytes), Ok((RecordKind::Edit, edit)));
        }
        assert_eq!(of_old, 1, "{compaction:?} {victim_growth:?}: older programs had one of four");
    }
}

/// A store of a program without these options goes on with the habits that it had there.
#[test]
fn an_old_keyspace_keeps_the_habits_of_its_growth() {
    let old = [
        (CompactionKind::Leveled, VictimGrowth::Neighbours, (false, false)),
        (CompactionKind::Leveled, VictimGrowth::Single, (true, true)),
        (CompactionKind::SetAware, VictimGrowth::Single, (true, true)),
        (CompactionKind::Gear, VictimGrowth::Single, (true, true)),
        (CompactionKind::Gear, VictimGrowth::Neighbours, (true, false)),
    ];
    for (compaction, victim_growth, habits) in old {
        // Without both, which versions from 2 to 6 cannot say.
        let options = KeyspaceOptions { compaction, victim_growth, ..KeyspaceOptions::default() };
        let bytes = format::encode(RecordKind::Edit, &keyspace_with(options));
        assert_eq!(bytes[GROWTH_AT], victim_growth as u8);
        for version in 2..7 {
            let (_, edit) = format::decode(&with_byte(bytes.clone(), 4, version)).unwrap();
            let options = &edit.keyspaces_created[0].options;
            let found = (options.flushes_pass_levels, options.missed_tables_go_down);
            assert_eq!(found, habits, "{compaction:?} {victim_growth:?} in version {version}");
            for flag in [16, 32] {
                let flagged = with_byte(bytes.clone(), GROWTH_AT, bytes[GROWTH_AT] | flag);
                let decoded = format::decode(&with_byte(flagged, 4, version));
                assert!(decoded.is_err(), "version {version} has no flag {flag}");
            }
        }
    }
}

/// The header, the item's header, the keyspace, compression, compaction, the order of victims.
const GROWTH_AT: usize = 16 + 8 + 4 + 3;

/// A store of a program that knew one order of victims for sets goes on with that.
#[test]
fn an_old_set_aware_keyspace_keeps_its_order_of_victims() {
    let options = KeyspaceOptions { cuts_at_sets: false, ..KeyspaceOptions::set_aware() };
    let bytes = format::encode(RecordKind::Edit, &keyspace_with(options));
    let order_at = GROWTH_AT - 1;
    assert_eq!(bytes[order_at..order_at + 2], [1, 2]);
    for version in 2..6 {
        let (_, old) = format::decode(&with_byte(bytes.clone(), 4, version)).unwrap();
        let options = &old.keyspaces_created[0].options;
        assert_eq!(options.victim_order, VictimOrder::DeadFirst);
        assert!(!options.cuts_at_sets);
        let later = with_byte(with_byte(bytes.clone(), order_at, 3), 4, version);
        assert!(format::decode(&later).is_err(), "version {version} has no such order");
        let flagged = with_byte(with_byte(bytes.clone(), order_at + 1, 2 | 64), 4, version);
        assert!(format::decode(&flagged).is_err(), "version {version} has no such flag");
    }
}

#[test]
fn a_version_counts_the_dead_members_of_sets() {
    let mut version = Version::default();
    let member = |id, smallest, largest| TableMeta {
        group: GroupId(3),
        group_table_count: 3,
        ..meta(id, smallest, largest)
    };
    let metas = [member(1, "a", "c"), member(2, "d", "f"), member(3, "g", "i")];
    for meta in &metas {
        version.insert(2, RunId::ONLY, TableSlot::new(meta.clone()));
    }
    assert_eq!(version.set_counts.dead_count(GroupId(3), 3), 0);
    let shared = version.clone();
    version.remove(TableId(2)).unwrap();
    version.remove(TableId(3)).unwrap();
    assert_eq!(version.set_counts.dead_count(GroupId(3), 3), 2);
    version.check().unwrap();
    // Readers of the older version see its own counts.
    assert_eq!(shared.set_counts.dead_count(GroupId(3), 3), 0);
    shared.check().unwrap();
    version.set_counts = shared.set_counts;
    assert!(version.check().unwrap_err().contains("miscounted"));
}

#[test]
fn a_newer_version_says_so() {
    let mut bytes = format::encode(RecordKind::Edit, &full_edit());
    bytes[4] = 9;
    assert_eq!(format::decode(&bytes), Err(Malformed::Version { got: 9 }));
}

#[test]
fn totals_only_grow_and_a_record_with_them_is_of_a_later_format() {
    let mut state = store();
    assert_eq!(format::encode(RecordKind::Snapshot, &state.to_edit())[4], 2);
    state.apply(&VersionEdit { totals: totals(), ..VersionEdit::default() }).unwrap();
    let older = Totals::of([(Total::UserWrites, 3), (Total::Flushes, 1)]);
    state.apply(&VersionEdit { totals: older, ..VersionEdit::default() }).unwrap();
    let bytes = format::encode(RecordKind::Snapshot, &state.to_edit());
    assert_eq!(bytes[4], 4);
    let (_, edit) = format::decode(&bytes).unwrap();
    let all: Vec<_> = edit.totals.iter().collect();
    assert_eq!(all, [(1, 7), (4, 1), (56, 1 << 60), (250, 300)]);
}

fn store() -> StoreState {
    let mut state = StoreState::default();
    let edit = VersionEdit {
        counters: Some(Counters { next_id: 100, next_keyspace_id: 1, last_seq: 0 }),
        keyspaces_created: vec![KeyspaceRecord {
            id: KeyspaceId(0),
            name: "default".to_owned(),
            options: KeyspaceOptions::default(),
        }],
        tables_added: vec![
            add(0, 5, meta(5, "a", "m")),
            add(0, 6, meta(6, "c", "d")),
            add(1, 0, meta(2, "e", "f")),
            add(1, 0, meta(1, "a", "b")),
        ],
        ..VersionEdit::default()
    };
    state.apply(&edit).unwrap();
    state
}

#[test]
fn edits_make_versions_and_a_snapshot_makes_them_again() {
    let mut state = store();
    let edit = VersionEdit {
        tables_removed: vec![(KeyspaceId(0), TableId(6)), (KeyspaceId(0), TableId(2))],
        tables_added: vec![add(2, 0, meta(2, "e", "f"))],
        log_floors: vec![(KeyspaceId(0), LogId(7))],
        ..VersionEdit::default()
    };
    let before = Arc::clone(&state.keyspaces[&KeyspaceId(0)].version);
    state.apply(&edit).unwrap();
    let version = &state.keyspaces[&KeyspaceId(0)].version;
    assert_eq!(
        version.to_string(),
        "L0 run 5: 000005[a..m]\nL1 run 0: 000001[a..b]\nL2 run 0: 000002[e..f]\n"
    );
    assert_eq!(before.tables().count(), 4, "a version that somebody reads does not change");
    let mut again = StoreState::default();
    again.apply(&state.to_edit()).unwrap();
    assert_eq!(again.to_edit(), state.to_edit());
}

#[test]
fn edits_that_do_not_fit_are_refused() {
    let check = |edit: VersionEdit, expected: &str| {
        assert_eq!(store().apply(&edit).unwrap_err(), expected);
    };
    let edit = VersionEdit::default;
    check(
        VersionEdit { tables_removed: vec![(KeyspaceId(0), TableId(77))], ..edit() },
        "table 000077 is removed but was never added",
    );
    check(
        VersionEdit { tables_added: vec![add(0, 9, meta(100, "a", "b"))], ..edit() },
        "table 000100 is beyond the counter 100",
    );
    check(
        VersionEdit { tables_added: vec![add(7, 9, meta(9, "a", "b"))], ..edit() },
        "table 000009 is added to level 7",
    );
    check(
        VersionEdit { keyspaces_dropped: vec![KeyspaceId(3)], ..edit() },
        "no keyspace 3 to drop",
    );
    check(VersionEdit { log_floors: vec![(KeyspaceId(3), LogId(1))], ..edit() }, "no keyspace 3");
}

#[test]
fn the_check_finds_overlaps_and_twins() {
    let mut version = Version::default();
    version.insert(1, RunId::ONLY, TableSlot::new(meta(1, "a", "m")));
    version.insert(1, RunId::ONLY, TableSlot::new(meta(2, "m", "z")));
    assert_eq!(version.check().unwrap_err(), "V1: L1 tables 000001 and 000002 overlap");
    let mut version = Version::default();
    let first = TableMeta { largest_excluded: true, ..meta(1, "a", "m") };
    version.insert(1, RunId::ONLY, TableSlot::new(first));
    version.insert(1, RunId::ONLY, TableSlot::new(meta(2, "m", "z")));
    assert_eq!(version.check(), Ok(()), "an excluded end is not a neighbour's start");
    version.insert(0, RunId(9), TableSlot::new(meta(2, "m", "z")));
    assert_eq!(version.check().unwrap_err(), "V3: table 000002 is in two places");
}

#[test]
fn a_run_finds_the_table_of_a_key() {
    let mut version = Version::default();
    let first = TableMeta { largest_excluded: true, ..meta(1, "b", "d") };
    version.insert(1, RunId::ONLY, TableSlot::new(first));
    version.insert(1, RunId::ONLY, TableSlot::new(meta(2, "f", "h")));
    let find =
        |key: &str| version.levels[1].runs[0].find(key.as_bytes()).map(|table| table.meta.id.0);
    let found: Vec<_> = ["a", "b", "c", "d", "e", "f", "h", "i"].map(find).to_vec();
    assert_eq!(found, [None, Some(1), Some(1), None, None, Some(2), Some(2), None]);
}

/// A file that the drive cannot read. It counts the attempts.
#[derive(Debug, Default)]
struct BadFile {
    read_count: AtomicU64,
}

impl FileReader for BadFile {
    fn len_bytes(&self) -> u64 {
        4096
    }

    fn name(&self) -> &str {
        "t/000001"
    }

    fn read_at<'a>(
        &self,
        _offset: u64,
        _len_bytes: usize,
        _scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], FilesError> {
        self.read_count.fetch_add(1, atomic::Ordering::Relaxed);
        Err(FilesError::NotFound { name: self.name().to_owned() })
    }

    fn extents(&self) -> Vec<BlockRange> {
        Vec::new()
    }
}

/// SMRDB's plans read the histograms of all tables of level 1 in a stretch. If a table could not be
/// opened, every planning step used to read its bad sector again, under the lock that flushes wait
/// for.
#[test]
fn who_asks_for_properties_reads_a_bad_table_once() {
    let (slot, file) = (TableSlot::new(meta(1, "a", "b")), Arc::new(BadFile::default()));
    slot.file.set(Arc::clone(&file) as Arc<dyn FileReader>).unwrap();
    let read_count = || file.read_count.load(atomic::Ordering::Relaxed);
    let cache = Arc::new(BlockCache::new(0));
    assert!(slot.properties(&cache).is_none());
    let once = read_count();
    for _ in 0..20 {
        assert!(slot.properties(&cache).is_none());
    }
    assert_eq!(read_count(), once);
    // A caller that needs the table tries again, because an error may be temporary.
    slot.open(&cache).unwrap_err();
    assert!(read_count() > once);
}

#[test]
fn a_front_moves_only_forward() {
    let mut state = StoreState::default();
    let first = VersionEdit {
        counters: Some(Counters { next_id: 100, next_keyspace_id: 1, last_seq: 9 }),
        keyspaces_created: vec![KeyspaceRecord {
            id: KeyspaceId(0),
            name: "k".to_owned(),
            options: KeyspaceOptions::default(),
        }],
        tables_added: vec![add(0, 9, meta(9, "b", "m")), add(6, 0, meta(3, "a", "f"))],
        ..VersionEdit::default()
    };
    state.apply(&first).unwrap();
    let whole = meta(9, "b", "m");
    let moved = |meta: TableMeta| VersionEdit {
        tables_removed: vec![(KeyspaceId(0), meta.id)],
        tables_added: vec![add(0, 9, meta)],
        ..VersionEdit::default()
    };
    let at = |key: &'static str| whole.with_front_at(&Bytes::from_static(key.as_bytes())).unwrap();
    state.apply(&moved(at("g"))).unwrap();
    let version = Arc::clone(&state.keyspaces[&KeyspaceId(0)].version);
    assert_eq!(version.to_string(), "L0 run 9: 000009|g..m]\nL6 run 0: 000003[a..f]\n");
    assert!(version.levels[0].runs[0].find(b"f").is_none());
    assert!(version.levels[0].runs[0].find(b"g").is_some());
    // A snapshot of the state brings the front back, and a record with one is of a later format.
    let bytes = format::encode(RecordKind::Snapshot, &state.to_edit());
    assert_eq!(bytes[4], 3);
    let mut again = StoreState::default();
    again.apply(&format::decode(&bytes).unwrap().1).unwrap();
    assert_eq!(again.keyspaces[&KeyspaceId(0)].version.to_string(), version.to_string());
    for changed in [whole.clone(), at("f"), TableMeta { len_bytes: 1, ..at("h") }] {
        let refused = state.clone().apply(&moved(changed)).unwrap_err();
        assert_eq!(refused, "V5: table 000009 comes back changed");
    }
    state.apply(&moved(at("m"))).unwrap();
    assert_eq!(whole.with_front_at(&Bytes::from_static(b"m\0")), None);
}

#[test]
fn a_partition_has_what_begins_in_it_and_its_longest_run_is_live() {
    let table = |id, smallest, largest, len_bytes, delete_count| TableMeta {
        len_bytes,
        delete_count,
        range_tombstone_count: 0,
        entry_count: 10,
        ..meta(id, smallest, largest)
    };
    let mut version = Version::default();
    version.partitions.cuts = vec![Bytes::from_static(b"g"), Bytes::from_static(b"p")];
    // Partition 0: a base, and two runs; the first table of the older one reaches across the cut.
    version.insert(6, RunId::ONLY, TableSlot::new(table(1, "a", "c", 1000, 0)));
    version.insert(6, RunId::ONLY, TableSlot::new(table(2, "d", "f", 1000, 0)));
    version.insert(0, RunId(9), TableSlot::new(table(5, "a", "f", 100, 4)));
    version.insert(0, RunId(7), TableSlot::new(table(4, "b", "k", 300, 0)));
    // Partition 1: no base; of two runs the longer one may be all live.
    version.insert(1, RunId(3), TableSlot::new(table(3, "l", "m", 500, 0)));
    version.insert(0, RunId(9), TableSlot::new(table(6, "h", "m", 200, 0)));
    version.partitions.merge = Some(base_merge("", "d", Some("g")));
    let shapes = shape::partition_shapes(&version);
    let of = |at: usize| {
        let shape: &crate::metrics::PartitionShape = &shapes[at];
        let upper: Vec<_> =
            shape.upper_levels.iter().map(|l| (l.level, l.run_count, l.len_bytes)).collect();
        (shape.base.len_bytes, upper, shape.dead_len_bytes_max)
    };
    // Of 40 entries with 2,400 bytes, 4 deletes may hide 240 bytes of the base.
    assert_eq!(of(0), (2000, vec![(0, 2, 400)], 400 + 240));
    assert_eq!(of(1), (0, vec![(0, 1, 200), (1, 1, 500)], 200));
    assert_eq!(of(2), (0, vec![], 0));
    assert_eq!(
        (shapes[1].start.as_slice(), shapes[1].end.as_deref()),
        (&b"g"[..], Some(&b"p"[..]))
    );
    let merge = shape::base_merge(&version).unwrap();
    assert_eq!((merge.base_done_len_bytes, merge.base_len_bytes), (1000, 2000));
    assert_eq!(merge.wait, None);
}

/// The files that hold only values, and the live bytes of each origin.
fn held(state: &StoreState) -> (Vec<u64>, Vec<(u64, u64, u64)>) {
    let holders = &state.keyspaces[&KeyspaceId(0)].version.holders;
    let of_origin = |(origin, held): (TableId, &super::holders::Held<TableSlot>)| {
        (origin.0, held.file.0, held.live_bytes)
    };
    (holders.alone().map(|slot| slot.meta.id.0).collect(), holders.iter().map(of_origin).collect())
}

#[test]
fn files_with_values_stay_until_the_last_value_goes() {
    let id = KeyspaceId(0);
    let placed = |origin, len_bytes| {
        let (origin, file) = (TableId(origin), TableId(origin));
        ValuesPlaced { keyspace: id, origin, file, len_bytes }
    };
    let mut state = store();
    let merge = VersionEdit {
        tables_removed: vec![(id, TableId(13)), (id, TableId(14))],
        tables_added: vec![add(2, 0, meta(15, "a", "c"))],
        values_placed: vec![placed(13, 100), placed(14, 50)],
        ..VersionEdit::default()
    };
    let tables = [add(0, 9, meta(13, "a", "c")), add(0, 8, meta(14, "a", "c"))];
    let flush = VersionEdit { tables_added: tables.to_vec(), ..VersionEdit::default() };
    state.apply(&flush).unwrap();
    state.apply(&merge).unwrap();
    assert_eq!(held(&state), (vec![13, 14], vec![(13, 13, 100), (14, 14, 50)]));
    let files = state.keyspaces[&id].version.files().map(|slot| slot.meta.id.0);
    assert!(files.collect::<Vec<_>>().ends_with(&[13, 14]), "their files are needed");
    let cleaning = VersionEdit {
        tables_added: vec![add(super::holders::HOLDER_LEVEL, 0, meta(16, "k", "v"))],
        values_moved: vec![(id, TableId(13), TableId(16)), (id, TableId(14), TableId(16))],
        ..VersionEdit::default()
    };
    state.apply(&cleaning).unwrap();
    assert_eq!(held(&state), (vec![16], vec![(13, 16, 100), (14, 16, 50)]));
    let mut again = StoreState::default();
    again.apply(&state.to_edit()).unwrap();
    assert_eq!(held(&again), held(&state), "a snapshot makes them again");
    let release = |origin, len_bytes| VersionEdit {
        values_released: vec![(id, TableId(origin), len_bytes)],
        ..VersionEdit::default()
    };
    state.apply(&release(13, 100)).unwrap();
    assert_eq!(held(&state), (vec![16], vec![(14, 16, 50)]));
    let refused = state.clone().apply(&release(14, 51)).unwrap_err();
    assert!(refused.starts_with("H1"), "{refused}");
    state.apply(&release(14, 50)).unwrap();
    assert_eq!(held(&state), (vec![], vec![]));
    let unknown = VersionEdit { values_placed: vec![placed(40, 1)], ..VersionEdit::default() };
    let refused = state.apply(&unknown).unwrap_err();
    assert!(refused.starts_with("H2"), "{refused}");
}
