//! A catalog filled with names: operations that open and empty a database still work.

use super::stage::{content, conventional, log, metadata, other, read_all, table, zoned};
use crate::{FileSystem, FsError};
use imbrex_files::{CommitKind, Hints};

fn needed_table() -> Hints {
    Hints { purpose: CommitKind::Upkeep, ..table(1) }
}

fn sync_new(fs: &FileSystem, path: &str, hints: Hints) -> Result<(), FsError> {
    let writer = fs.create(path, hints)?;
    writer.append(&content(1, 5_000))?;
    writer.sync()
}

/// What a database does when it is opened.
fn open_database(fs: &FileSystem, round: usize) -> Result<(), FsError> {
    fs.make_dirs("/db")?;
    fs.rename("/db/LOG", "/db/LOG.old")?;
    sync_new(fs, "/db/LOG", log())?;
    sync_new(fs, &format!("/db/MANIFEST-{round}"), Hints { purpose: CommitKind::Upkeep, ..log() })?;
    sync_new(fs, "/db/new.dbtmp", metadata())?;
    fs.rename("/db/new.dbtmp", "/db/CURRENT")?;
    sync_new(fs, &format!("/db/{round}.log"), log())?;
    let old = round - 1;
    fs.unlink(&format!("/db/MANIFEST-{old}"))?;
    fs.unlink(&format!("/db/{old}.log"))?;
    fs.sync_names()
}

/// Once, no database could be opened for writing or emptied after its names had filled five eighths
/// of the catalog.
#[test]
fn a_database_that_has_filled_the_catalog_is_opened_and_emptied() {
    for stage in [conventional(), zoned()] {
        let fs = stage.open().unwrap();
        fs.make_dir("/db").unwrap();
        for name in ["LOG", "0.log", "MANIFEST-0"] {
            sync_new(&fs, &format!("/db/{name}"), log()).unwrap();
        }
        sync_new(&fs, "/db/table", table(1)).unwrap();
        let name = |index: usize| format!("/db/{index:0100}");
        let is_full = |index: &usize| fs.link("/db/table", &name(*index)).is_err();
        let count = (0..5_000).find(is_full).expect("there is an end");
        assert!(count > 100, "{count} names");
        assert!(matches!(fs.make_dir("/db"), Err(FsError::Exists { .. })), "whatever the room");
        for (hints, what) in [(table(1), "table"), (other(), "other")] {
            let refused = fs.create("/db/new", hints).unwrap_err();
            assert!(refused.is_no_space(), "{what}: {refused}");
        }

        open_database(&fs, 1).unwrap();
        let is_full =
            |index: &usize| sync_new(&fs, &format!("/db/{index}.sst"), needed_table()).is_err();
        let table_count = (0..5_000).find(is_full).expect("there is an end");
        assert!(table_count > 10, "{table_count} tables of a compaction");
        drop(fs);
        stage.power_cycle(1);
        let fs = stage.open().unwrap();
        (2..5).for_each(|round| open_database(&fs, round).unwrap());
        let names = fs.list("/db").unwrap().len();
        assert_eq!(
            names,
            count + table_count + 6,
            "and LOG, LOG.old, CURRENT, MANIFEST, log, table"
        );

        (0..count / 2).for_each(|index| fs.unlink(&name(index)).unwrap());
        sync_new(&fs, "/db/new", table(1)).unwrap();
        assert_eq!(read_all(&fs, "/db/new").unwrap(), content(1, 5_000));
        drop(fs);
        stage.assert_sound();
    }
}
