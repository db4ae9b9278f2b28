//! Admission as a table: the space, and the writes that it admits.

use super::*;
use crate::options::Options;
use imbrex_files::CatalogUse;

const MIB: u64 = 1 << 20;
const NONE: Holds = Holds {
    are_logs_kept: false,
    is_compaction_blocked: false,
    has_checkpoint: false,
    room_max_bytes: u64::MAX,
};
/// The tables of a memtable of 8 MiB.
const TABLES_BYTES: u64 = 8 * MIB + MIB / 2 + 9 * TABLE_EXTRA_BYTES;
const TABLES: TableShape = TableShape { len_bytes: MIB, cut_count: 0 };
const NO_KEYS: LongKeys = LongKeys { len_bytes: 0, longest_len_bytes: 0 };

fn space(free_bytes: u64, grain_bytes: u64, catalog_used_bytes: u64) -> SpaceUse {
    SpaceUse {
        capacity_bytes: 1 << 30,
        live_bytes: 0,
        dead_bytes: 0,
        free_bytes,
        reserve_bytes: MIB,
        ordinary_bytes: free_bytes.saturating_sub(MIB),
        upkeep_bytes: free_bytes,
        lent_bytes: free_bytes,
        grain_bytes,
        unit_bytes: 0,
        catalog: CatalogUse { used_bytes: catalog_used_bytes, capacity_bytes: MIB },
    }
}

/// A drive on which cleaning has nothing to do, and lends what is kept for it.
fn lent(upkeep_mib: u64, lent_mib: u64) -> SpaceUse {
    let (upkeep_bytes, lent_bytes) = (upkeep_mib * MIB, lent_mib * MIB);
    SpaceUse { upkeep_bytes, lent_bytes, ..space(lent_bytes, 0, 0) }
}

/// Memtables of 8 MiB, and as much for deletes.
fn limits() -> Limits {
    let options = Options { memtable_len_bytes: 8 * MIB, ..Options::default() };
    Limits::new(&options, &space(0, 0, 0))
}

/// Keyspaces with tables of 1 MiB and merges of 4 MiB, and one memtable of `len_bytes` each, unless
/// that is 0.
fn memory(keyspace_count: u64, len_bytes: u64, grain_bytes: u64) -> InMemory {
    let mut in_memory = InMemory::default();
    for _ in 0..keyspace_count {
        in_memory.add_keyspace(&limits(), TABLES, 4 * MIB);
        if len_bytes > 0 {
            let memory = MemoryUse { len_bytes, long_keys: NO_KEYS };
            in_memory.add_memtable(&memory, TABLES, grain_bytes);
        }
    }
    in_memory
}

fn place(outcome: Result<(), Shortage>) -> Option<Place> {
    outcome.err().map(|shortage| shortage.place)
}

#[test]
fn puts_are_refused_before_deletes() {
    let crowded = MIB / 8 * 7;
    let logs = Holds { are_logs_kept: true, ..NONE };
    let blocked = Holds { is_compaction_blocked: true, ..NONE };
    let (drive, catalog) = (Some(Place::Drive), Some(Place::Catalog));
    let kept = Some(Place::KeptLogs);
    // The reserve, two memtables, and the tables of what is in memory.
    let least = 17 * MIB + TABLES_BYTES;
    let for_deletes = TABLES_BYTES + 4 * MIB;
    // Columns: free space, keyspaces and MiB in memory of each, grain, catalog; then puts, deletes.
    let cases = [
        ("an empty store", 64 * MIB, (1, 0), 0, 0, NONE, None, None),
        ("two memtables and the reserve are free", least, (1, 8), 0, 0, NONE, None, None),
        ("a byte less", least - 1, (1, 8), 0, 0, NONE, drive, None),
        ("just the room of deletes", for_deletes, (1, 8), 0, 0, NONE, drive, None),
        ("less than that", for_deletes - 1, (1, 8), 0, 0, NONE, drive, drive),
        ("keyspaces share a log", 36 * MIB, (4, 8), 0, 0, NONE, drive, drive),
        ("nearly no room in the catalog", 64 * MIB, (1, 8), 0, crowded, NONE, catalog, None),
        ("no room in the catalog", 64 * MIB, (1, 8), 0, MIB, NONE, catalog, catalog),
        ("whole zones", 64 * MIB, (1, 1), 4 * MIB, 0, NONE, None, None),
        ("zones for memory and a delete", 24 * MIB, (1, 1), 4 * MIB, 0, NONE, None, None),
        ("too few zones", 20 * MIB, (1, 1), 4 * MIB, 0, NONE, drive, drive),
        ("logs of before", 64 * MIB, (1, 8), 0, 0, logs, kept, kept),
        ("a blocked compaction", 64 * MIB, (1, 8), 0, 0, blocked, Some(Place::Compaction), None),
    ];
    for (what, free, (keyspaces, mib), grain, catalog, holds, puts, deletes) in cases {
        let in_memory = memory(keyspaces, mib * MIB, grain);
        let admission = assess(space(free, grain, catalog), in_memory, limits(), holds);
        assert_eq!(place(admission.puts()), puts, "puts: {what}");
        assert_eq!(place(admission.deletes(0, NO_KEYS)), deletes, "deletes: {what}");
    }
}

#[test]
fn a_shortage_lacks_what_it_names() {
    for free_bytes in (0..40).map(|mib| mib * MIB) {
        for holds in [NONE, Holds { is_compaction_blocked: true, ..NONE }] {
            let in_memory = memory(2, 8 * MIB, 0);
            let admission = assess(space(free_bytes, 0, 0), in_memory, limits(), holds);
            let shortages = [admission.puts().err(), admission.deletes(0, NO_KEYS).err()];
            for shortage in shortages.into_iter().flatten() {
                let is_less = shortage.free_bytes < shortage.needed_bytes;
                assert!(is_less || shortage.place == Place::Compaction, "{shortage:?}");
            }
        }
    }
}

#[test]
fn a_long_put_needs_its_length_twice() {
    let in_memory = memory(1, 8 * MIB, 0);
    let admission = assess(space(64 * MIB, 0, 0), in_memory, limits(), NONE);
    let len_bytes = (63 * MIB - 16 * MIB - TABLES_BYTES) / 2;
    assert_eq!(admission.long_put(len_bytes), Ok(()));
    let shortage = admission.long_put(len_bytes + 1).unwrap_err();
    assert_eq!((shortage.place, shortage.free_bytes), (Place::Drive, 63 * MIB));
}

/// A memtable of many long keys becomes few tables. Each key was counted as if it bounded one.
#[test]
fn the_longest_key_counts_for_each_table() {
    let used = MIB - 100_000;
    let admission = assess(space(64 * MIB, 0, used), memory(1, 0, 0), limits(), NONE);
    let keys = |len_bytes| LongKeys { len_bytes, longest_len_bytes: len_bytes };
    assert_eq!(admission.deletes(0, keys(40_000)), Ok(()));
    assert_eq!(place(admission.deletes(0, keys(50_000))), Some(Place::Catalog));
    let mut in_memory = memory(1, 0, 0);
    let long_keys = LongKeys { len_bytes: MIB, longest_len_bytes: 1000 };
    in_memory.add_memtable(&MemoryUse { len_bytes: 2 * MIB - 1, long_keys }, TABLES, 0);
    assert_eq!(in_memory.catalog_len_bytes, 2 * (300 + 2 * 1000));
}

#[test]
fn a_compaction_leaves_what_memory_and_deletes_need() {
    let room = |free_mib, grain, holds| {
        let in_memory = memory(2, MIB, grain);
        let admission = assess(space(free_mib * MIB, grain, 0), in_memory, limits(), holds);
        let room = admission.room();
        (room.len_bytes / MIB, room.gaining_len_bytes / MIB)
    };
    // 2 MiB in memory, what their tables take besides, and 8 MiB for deletes.
    // A merge that gives back what it takes may take all of it.
    assert_eq!(room(64, 0, NONE), (53, 64));
    assert_eq!(room(64, 0, Holds { has_checkpoint: true, ..NONE }), (53, 53));
    // If memory finds no room, only a compaction can make some.
    assert_eq!(room(2, 0, NONE), (2, 2));
    assert_eq!(room(2, 0, Holds { has_checkpoint: true, ..NONE }), (0, 0));
    // 2 tables of 2 grains each and 2 logs, then 4 grains for deletes.
    assert_eq!(room(64, 4 * MIB, NONE), (24, 40));
    assert_eq!(room(64, 4 * MIB, Holds { room_max_bytes: 30 * MIB, ..NONE }), (24, 30));
}

/// A full drive of 186 MiB live data could not be compacted after a delete of all: 10 MiB were kept for cleaning,
/// which had nothing to do.
#[test]
fn a_compaction_with_deletes_takes_what_is_lent_if_no_merge_fits_otherwise() {
    let room = |upkeep_mib, lent_mib, holds| {
        let lent = lent(upkeep_mib, lent_mib);
        let room = assess(lent, memory(1, 0, 0), limits(), holds).room();
        (room.len_bytes / MIB, room.hiding_len_bytes / MIB)
    };
    // Merges take 4 MiB. One fits beside the 8 MiB for deletes, or in what is lent beside them, or only without.
    assert_eq!(room(13, 23, NONE), (5, 5));
    assert_eq!(room(11, 21, NONE), (3, 13));
    assert_eq!(room(2, 12, NONE), (0, 4));
    assert_eq!(room(0, 10, NONE), (0, 10));
    assert_eq!(room(0, 10, Holds { has_checkpoint: true, ..NONE }), (0, 0));
}

/// A full drive refused a delete, and nothing else could make room.
#[test]
fn deletes_take_half_of_what_is_lent() {
    let admitted = |upkeep_mib, lent_mib, holds| {
        let lent = lent(upkeep_mib, lent_mib);
        assess(lent, memory(1, 0, 0), limits(), holds).deletes(0, NO_KEYS).is_ok()
    };
    // Deletes need 4 MiB, half of their limit.
    assert!(admitted(4, 4, NONE) && !admitted(3, 3, NONE));
    assert!(admitted(0, 8, NONE) && !admitted(0, 7, NONE));
    let has_checkpoint = Holds { has_checkpoint: true, ..NONE };
    assert!(admitted(4, 8, has_checkpoint) && !admitted(0, 8, has_checkpoint));
}

/// A store of three keyspaces on 16 whole zones could neither flush nor merge after some deletes: each
/// short table took a zone.
#[test]
fn a_drive_of_whole_zones_has_some_for_each_keyspace() {
    let with_zones = |zone_count: u64, keyspace_count: u64| {
        let space = SpaceUse { capacity_bytes: zone_count * MIB, ..space(0, MIB, 0) };
        too_short(&space, keyspace_count).map(|shortage| shortage.needed_bytes / MIB)
    };
    assert_eq!(with_zones(16, 3), Some(20));
    assert_eq!((with_zones(20, 3), with_zones(12, 1), with_zones(11, 1)), (None, None, Some(12)));
    // Elsewhere the reserve decides.
    let shared = |capacity_bytes| too_short(&SpaceUse { capacity_bytes, ..space(0, 0, 0) }, 3);
    assert_eq!(shared(2 * MIB), None);
    assert!(shared(2 * MIB - 1).is_some());
}
