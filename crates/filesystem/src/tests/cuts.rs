//! The power fails at every device event of a story, and again during the recovery that follows.

use super::stage::{
    Stage, conventional, interlaced, log, metadata, other, read_all, shingled, table, zoned,
};
use super::story::{Model, Player, Step, random_story};
use crate::FileSystem;
use imbrex_disk_sim::FaultPlan;

/// A database's day: directories, a current file replaced by rename, logs and tables, a checkpoint.
fn database() -> Vec<Step> {
    use Step::*;
    vec![
        MakeDir("/db"),
        Create("/db/LOCK", metadata()),
        Create("/db/MANIFEST-1", log()),
        Append("/db/MANIFEST-1", 60),
        Sync("/db/MANIFEST-1"),
        Create("/db/1.dbtmp", other()),
        Append("/db/1.dbtmp", 16),
        Sync("/db/1.dbtmp"),
        Rename("/db/1.dbtmp", "/db/CURRENT"),
        SyncNames,
        Create("/db/2.log", log()),
        Append("/db/2.log", 3_000),
        Append("/db/2.log", 3_000),
        Sync("/db/2.log"),
        Append("/db/2.log", 300_000),
        Append("/db/2.log", 9_000),
        Sync("/db/2.log"),
        Create("/db/3.sst", table(0)),
        Append("/db/3.sst", 50_000),
        Sync("/db/3.sst"),
        Close("/db/3.sst"),
        Append("/db/MANIFEST-1", 5_000),
        Sync("/db/MANIFEST-1"),
        Close("/db/2.log"),
        Create("/db/4.log", log()),
        Append("/db/4.log", 100),
        Unlink("/db/2.log"),
        Sync("/db/4.log"),
        MakeDir("/ck"),
        Link("/db/3.sst", "/ck/3.sst"),
        Create("/ck/MANIFEST-1", other()),
        Append("/ck/MANIFEST-1", 5_060),
        Sync("/ck/MANIFEST-1"),
        Rename("/ck", "/checkpoint"),
        SyncNames,
        Create("/db/5.dbtmp", other()),
        Append("/db/5.dbtmp", 17),
        // Never synced: a rename that replaces must not lose it (V3).
        Rename("/db/5.dbtmp", "/db/CURRENT"),
        Unlink("/db/3.sst"),
        Append("/db/4.log", 5_000),
        Sync("/db/4.log"),
        Create("/db/6.sst", table(3)),
        Append("/db/6.sst", 70_000),
        Close("/db/6.sst"),
        SyncNames,
        WriteAt("/db/6.sst", 100, 8),
        Sync("/db/6.sst"),
        Truncate("/db/6.sst", 60_000),
        Unlink("/checkpoint/3.sst"),
        Unlink("/checkpoint/MANIFEST-1"),
        RemoveDir("/checkpoint"),
        SyncNames,
    ]
}

/// Plays until a step fails. Returns the states that the drive may be in then.
fn play(fs: &FileSystem, story: &[Step]) -> (Model, bool) {
    let (mut model, mut player) = (Model::default(), Player::new(fs));
    for step in story {
        if player.play(step, &mut model).is_err() {
            return (model, false);
        }
    }
    (model, true)
}

fn event_count(make: &dyn Fn() -> Stage, story: &[Step]) -> u64 {
    let stage = make();
    stage.disk.set_faults(FaultPlan::default());
    let fs = stage.open().unwrap();
    let (mut model, mut player) = (Model::default(), Player::new(&fs));
    for step in story {
        player.play(step, &mut model).unwrap_or_else(|error| panic!("{step:?}: {error}"));
    }
    drop(player);
    model.recognise(&fs).unwrap();
    stage.disk.fault_event_count()
}

fn cut_at(stage: &Stage, after: u64) {
    stage.disk.set_faults(FaultPlan { power_cut_after: Some(after), ..FaultPlan::default() });
}

fn recovered(stage: &Stage, model: &Model, what: &str) -> FileSystem {
    let fs = stage.open().unwrap_or_else(|error| panic!("{what}: {error}"));
    model.recognise(&fs).unwrap_or_else(|reason| panic!("{what}: {reason}"));
    fs
}

fn cut_everywhere(make: &dyn Fn() -> Stage, story: &[Step], what: &str, step_by: usize) {
    for cut in (0..event_count(make, story)).step_by(step_by) {
        let what = format!("{what}, cut at event {cut}");
        let stage = make();
        let fs = stage.open().unwrap();
        cut_at(&stage, cut);
        let (model, _) = play(&fs, story);
        drop(fs);
        stage.power_cycle(cut);
        let fs = recovered(&stage, &model, &what);
        // The writes of the recovery are cut too.
        cut_at(&stage, cut % 5);
        let late = fs.create("/late", log()).and_then(|writer| {
            writer.append(b"late")?;
            writer.sync()
        });
        drop(fs);
        stage.power_cycle(cut + 1000);
        let fs = stage.open().unwrap_or_else(|error| panic!("{what}, twice: {error}"));
        let found = read_all(&fs, "/late");
        assert!(late.is_err() || found.as_deref().is_ok_and(|bytes| bytes == b"late"), "{what}");
        if fs.metadata("/late").is_ok() {
            fs.unlink("/late").unwrap();
        }
        fs.sync_all().unwrap();
        drop(fs);
        recovered(&stage, &model, &what);
        stage.assert_sound();
    }
}

#[test]
fn a_database_on_zones() {
    cut_everywhere(&zoned, &database(), "zoned", 1);
}

#[test]
fn a_database_on_a_conventional_drive() {
    cut_everywhere(&conventional, &database(), "conventional", 1);
}

#[test]
fn a_database_on_overlapping_tracks() {
    cut_everywhere(&shingled, &database(), "shingled", 1);
}

#[test]
fn a_database_on_interlaced_tracks() {
    cut_everywhere(&interlaced, &database(), "interlaced", 1);
}

#[test]
fn random_stories() {
    for seed in 0..60 {
        let story = random_story(seed, 60);
        let (make, name): (&dyn Fn() -> Stage, _) = match seed % 4 {
            0 => (&zoned, "zoned"),
            1 => (&conventional, "conventional"),
            2 => (&interlaced, "interlaced"),
            _ => (&shingled, "shingled"),
        };
        cut_everywhere(make, &story, &format!("seed {seed}, {name}"), 7);
    }
}

/// Once, a log was created, which is durable by itself, and the power failed before the first
/// record of the tree. The drive held files and no tree, so it was taken for another store's.
#[test]
fn a_log_before_the_first_commit() {
    let story = [Step::Create("/a", log()), Step::Append("/a", 300_000), Step::Sync("/a")];
    cut_everywhere(&conventional, &story, "the first log", 1);
}

/// Once, a file lost its name, grew and was synced, which made neither the removal nor the bytes
/// durable. After a power cut it existed, shorter than at the sync.
#[test]
fn a_removed_file_that_is_synced_is_not_found_shorter() {
    for hints in [log(), table(1), other()] {
        let stage = conventional();
        let fs = stage.open().unwrap();
        let writer = fs.create("/a", hints).unwrap();
        writer.append(b"some").unwrap();
        writer.sync().unwrap();
        fs.unlink("/a").unwrap();
        writer.append(b" and more").unwrap();
        writer.sync().unwrap();
        drop((writer, fs));
        stage.power_cycle(1);
        let found = stage.open().unwrap().metadata("/a");
        assert!(found.is_err(), "{:?}: {found:?}", hints.kind);
    }
}

/// A sync of a file makes its path durable. Once, it did nothing if only a parent directory had
/// been renamed.
#[test]
fn a_sync_of_a_file_makes_the_new_name_of_its_directory_durable() {
    for hints in [log(), table(1), other()] {
        let stage = conventional();
        let fs = stage.open().unwrap();
        fs.make_dir("/a").unwrap();
        fs.make_dir("/a/b").unwrap();
        let writer = fs.create("/a/b/c", hints).unwrap();
        writer.append(b"some").unwrap();
        writer.sync().unwrap();
        fs.rename("/a", "/d").unwrap();
        writer.sync().unwrap();
        drop((writer, fs));
        stage.power_cycle(1);
        let found = read_all(&stage.open().unwrap(), "/d/b/c");
        assert_eq!(found.unwrap(), b"some", "{:?}", hints.kind);
    }
}
