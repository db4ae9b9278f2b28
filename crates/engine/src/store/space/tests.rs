//! Admission as a table: the space, and the writes that it admits.

use super::*;
use imbrex_files::CatalogUse;

const MIB: u64 = 1 << 20;
const LIMITS: Limits = Limits { memtable_len_bytes: 8 * MIB, free_memtable_count_min: 2 };
const NONE: Holds = Holds {
    are_logs_kept: false,
    is_compaction_blocked: false,
    has_checkpoint: false,
    room_max_bytes: u64::MAX,
};

fn space(free_bytes: u64, grain_bytes: u64, catalog_used_bytes: u64) -> SpaceUse {
    SpaceUse {
        capacity_bytes: 1 << 30,
        live_bytes: 0,
        dead_bytes: 0,
        free_bytes,
        reserve_bytes: MIB,
        grain_bytes,
        catalog: CatalogUse { used_bytes: catalog_used_bytes, capacity_bytes: MIB },
    }
}

/// Keyspaces with tables of 1 MiB, and one memtable of `len_bytes` each, unless that is 0.
fn memory(keyspace_count: u64, len_bytes: u64, grain_bytes: u64) -> InMemory {
    let mut in_memory = InMemory::default();
    for _ in 0..keyspace_count {
        in_memory.add_keyspace(&LIMITS, MIB);
        if len_bytes > 0 {
            in_memory.add_memtable(len_bytes, 0, MIB, grain_bytes);
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
    // Columns: free space, bytes in memory of each keyspace, keyspaces, grain, catalog; then puts,
    // deletes.
    let cases = [
        ("an empty store", 64 * MIB, (1, 0), 0, 0, NONE, None, None),
        ("two memtables and the reserve are free", 17 * MIB, (1, 8), 0, 0, NONE, None, None),
        ("a byte less", 17 * MIB - 1, (1, 8), 0, 0, NONE, drive, None),
        ("less than memory takes beside its log", 10 * MIB, (1, 8), 0, 0, NONE, drive, drive),
        ("keyspaces share a log", 36 * MIB, (4, 8), 0, 0, NONE, drive, drive),
        ("nearly no room in the catalog", 64 * MIB, (1, 8), 0, crowded, NONE, catalog, None),
        ("no room in the catalog", 64 * MIB, (1, 8), 0, MIB, NONE, catalog, catalog),
        ("whole zones", 64 * MIB, (1, 1), 4 * MIB, 0, NONE, None, None),
        (
            "as many zones as memory and a delete take",
            24 * MIB,
            (1, 1),
            4 * MIB,
            0,
            NONE,
            None,
            None,
        ),
        ("too few zones", 20 * MIB, (1, 1), 4 * MIB, 0, NONE, drive, drive),
        (
            "logs of before",
            64 * MIB,
            (1, 8),
            0,
            0,
            logs,
            Some(Place::KeptLogs),
            Some(Place::KeptLogs),
        ),
        ("a blocked compaction", 64 * MIB, (1, 8), 0, 0, blocked, Some(Place::Compaction), None),
    ];
    for (what, free, (keyspaces, mib), grain, catalog, holds, puts, deletes) in cases {
        let in_memory = memory(keyspaces, mib * MIB, grain);
        let admission = assess(space(free, grain, catalog), in_memory, LIMITS, holds);
        assert_eq!(place(admission.puts()), puts, "puts: {what}");
        assert_eq!(place(admission.deletes(0, 0)), deletes, "deletes: {what}");
    }
}

#[test]
fn a_long_put_needs_its_length_twice() {
    let admission = assess(space(64 * MIB, 0, 0), memory(1, 8 * MIB, 0), LIMITS, NONE);
    assert_eq!(admission.long_put(23 * MIB), Ok(()));
    let shortage = admission.long_put(24 * MIB).unwrap_err();
    assert_eq!(
        shortage,
        Shortage { place: Place::Drive, needed_bytes: 64 * MIB, free_bytes: 63 * MIB }
    );
}

#[test]
fn long_keys_are_counted_twice_in_the_catalog() {
    let admission = assess(space(64 * MIB, 0, MIB - 100_000), memory(1, 0, 0), LIMITS, NONE);
    assert_eq!(admission.deletes(0, 40_000), Ok(()));
    assert_eq!(place(admission.deletes(0, 50_000)), Some(Place::Catalog));
}

#[test]
fn a_compaction_leaves_what_memory_and_deletes_need() {
    let room = |grain, holds| {
        let admission = assess(space(64 * MIB, grain, 0), memory(2, MIB, grain), LIMITS, holds);
        let room = admission.room();
        (room.len_bytes / MIB, room.gaining_len_bytes / MIB)
    };
    assert_eq!(room(0, NONE), (64, 64));
    // 2 MiB in memory, a third in addition, and a quarter of a memtable.
    assert_eq!(room(0, Holds { has_checkpoint: true, ..NONE }), (59, 59));
    // 2 tables of 2 grains each and 2 logs, then 4 grains for deletes.
    assert_eq!(room(4 * MIB, NONE), (24, 40));
    assert_eq!(room(4 * MIB, Holds { room_max_bytes: 30 * MIB, ..NONE }), (24, 30));
}
