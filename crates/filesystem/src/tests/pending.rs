//! Changes that are never synced are bounded, in memory and by the space in the catalog.

use super::stage::{
    Stage, bands, content, conventional, large, log, other, read_all, table, zoned,
};
use crate::{FileSystem, FsError};
use imbrex_disk::Disk;

/// How many writes of the drive `rounds` rounds of `action`, which never syncs, cost.
fn writes_of(stage: &Stage, rounds: usize, action: impl Fn(&FileSystem, usize)) -> u64 {
    let fs = stage.open().unwrap();
    fs.make_dir("/d").unwrap();
    fs.create("/f", other()).unwrap().close().unwrap();
    fs.sync_names().unwrap();
    let before = stage.disk.counters().writes;
    (0..rounds).for_each(|round| action(&fs, round));
    stage.disk.counters().writes - before
}

fn write_status(fs: &FileSystem, round: usize) -> Result<(), FsError> {
    let writer = fs.create("/status", other())?;
    writer.append(&content(round as u64, 2_000))?;
    writer.close()
}

/// Once, a program that rewrote a small file each second, and never synced, took 170 MB of memory a
/// day.
#[test]
fn long_pending_changes_are_committed() {
    type Action = fn(&FileSystem, usize);
    let actions: [(&str, usize, Action); 5] = [
        ("bytes in the tree", 500, |fs, round| write_status(fs, round).unwrap()),
        ("files", 12_000, |fs, _| {
            fs.create("/new", other()).unwrap().close().unwrap();
            fs.unlink("/new").unwrap();
        }),
        ("directories", 30_000, |fs, _| {
            fs.make_dir("/new").unwrap();
            fs.remove_dir("/new").unwrap();
        }),
        ("links", 20_000, |fs, _| {
            fs.link("/f", "/new").unwrap();
            fs.unlink("/new").unwrap();
        }),
        ("renames", 20_000, |fs, _| {
            fs.rename("/f", "/new").unwrap();
            fs.rename("/new", "/f").unwrap();
        }),
    ];
    for (what, rounds, action) in actions {
        let writes = writes_of(&large(), rounds, action);
        assert!((1..20).contains(&writes), "{what}: {writes} writes");
    }
}

/// The same on a catalog shorter than the usual bound of pending changes.
#[test]
fn pending_changes_fit_a_small_catalog() {
    for stage in [conventional(), zoned()] {
        let fs = stage.open().unwrap();
        (0..2_000).for_each(|round| write_status(&fs, round).unwrap());
        fs.sync_names().unwrap();
        drop(fs);
        assert_eq!(read_all(&stage.open().unwrap(), "/status").unwrap(), content(1_999, 2_000));
    }
}

/// Once, a million names were made that did not fit the catalog, and the next sync by any caller
/// failed.
#[test]
fn no_more_names_are_made_than_a_sync_can_make_durable() {
    for stage in [conventional(), zoned()] {
        let fs = stage.open().unwrap();
        let writer = fs.create("/another", other()).unwrap();
        let name = |index: usize| format!("/{index:0100}");
        let make = |index: usize| fs.create(&name(index), other()).err();
        let (count, refused) =
            (0..50_000).find_map(|index| Some((index, make(index)?))).expect("there is an end");
        assert!(refused.is_no_space(), "{refused}");
        assert!(count > 100, "{count} names");
        for made in [fs.make_dir("/d"), fs.make_dirs("/d/e"), fs.link("/another", "/l")] {
            assert!(made.unwrap_err().is_no_space());
        }
        writer.append(&content(1, 9_000)).unwrap();
        writer.sync().unwrap();
        (0..50).for_each(|index| fs.unlink(&name(index)).unwrap());
        fs.make_dirs("/d/e").unwrap();
        fs.sync_all().unwrap();
        drop((writer, fs));
        let fs = stage.open().unwrap();
        assert_eq!(fs.list("/").unwrap().len(), 2 + count - 50);
        assert_eq!(read_all(&fs, "/another").unwrap(), content(1, 9_000));
        drop(fs);
        stage.assert_sound();
    }
}

/// Removals are committed if little space is left compared with a log's write. But a log takes all
/// that is left of a zone, and was once refused.
#[test]
fn removals_make_room_for_a_log() {
    for short in [4, 12, 20, 28] {
        let stage = zoned();
        let fs = stage.open().unwrap();
        let put = |name: &str, blocks: usize, level: u8| {
            let writer = fs.create(name, table(level))?;
            writer.append(&content(1, blocks * 4096))?;
            writer.sync()
        };
        put("/young", short, 1).unwrap();
        put("/old", short, 2).unwrap();
        let is_full = |index: &usize| put(&format!("/{index}"), 64, 1).is_err();
        let count = (0..1_000).find(is_full).expect("there is an end");
        fs.unlink(&format!("/{}", count - 1)).unwrap();
        let writer = fs.create("/wal", log()).unwrap();
        writer.append(&content(2, 9_000)).unwrap();
        writer.sync().unwrap_or_else(|error| panic!("{short}: {error}"));
    }
}

/// Once, removals stayed pending while a table's own length seemed to fit, although a table takes a
/// whole zone.
#[test]
fn removals_make_room_for_a_table_that_takes_a_zone() {
    for zone_count in 40..60 {
        let stage = bands(zone_count);
        let fs = stage.open().unwrap();
        let put = |index: usize| {
            let writer = fs.create(&format!("/{index}"), table(1))?;
            writer.append(&content(1, 5_000))?;
            writer.sync()
        };
        let count = (0..1_000).find(|&index| put(index).is_err()).expect("there is an end");
        (0..3).for_each(|index| fs.unlink(&format!("/{index}")).unwrap());
        put(1_000).unwrap_or_else(|error| panic!("{count} of {zone_count} zones: {error}"));
    }
}
