//! A process dies, and the power fails only later. The next process may have found data that was
//! never flushed, and its own records depend on that data.

use super::stage::{
    Stage, content, conventional, interlaced, log, read_all, shingled, table, zoned,
};
use imbrex_disk::Disk;
use imbrex_disk_sim::FaultPlan;

/// Each kind of drive.
const DRIVES: [fn() -> Stage; 4] = [conventional, zoned, shingled, interlaced];

/// A process that syncs a log, appends more and is killed. The drive's cache survives.
fn killed(stage: &Stage, bytes: &[u8], synced_len: usize) {
    let fs = stage.open().unwrap();
    let writer = fs.create("/wal", log()).unwrap();
    writer.append(&bytes[..synced_len]).unwrap();
    writer.sync().unwrap();
    writer.append(&bytes[synced_len..]).unwrap();
    writer.append(&[7]).unwrap(); // The piece before it is long enough to be written.
    std::mem::forget(writer);
    std::mem::forget(fs);
}

/// An opening finds a length, and its first commit records it. The frames of that length were never
/// flushed, so they must reach the platter before the record does.
#[test]
fn a_length_found_after_a_kill_survives_a_power_cut() {
    let bytes = content(1, 600_000);
    let synced_len = 300_000;
    for (index, make) in DRIVES.into_iter().enumerate() {
        for seed in 0..60 {
            let stage = make();
            killed(&stage, &bytes, synced_len);
            let fs = stage.open().unwrap();
            assert_eq!(read_all(&fs, "/wal").unwrap(), bytes, "nothing is lost yet");
            let power_cut_after = Some(seed % 15);
            stage.disk.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
            let recorded = fs.make_dir("/d").and_then(|()| fs.sync_names());
            drop(fs);
            stage.power_cycle(seed);
            stage.disk.set_faults(FaultPlan::default());
            let fs = stage.open().unwrap();
            let found = read_all(&fs, "/wal");
            let found = found.unwrap_or_else(|error| panic!("drive {index}, seed {seed}: {error}"));
            assert!(
                found.len() >= synced_len && bytes.starts_with(&found),
                "drive {index}, {seed}"
            );
            assert!(recorded.is_err() || found == bytes, "drive {index}, {seed}: a commit flushes");
            assert!(recorded.is_err() || fs.metadata("/d").is_ok());
        }
    }
}

/// Once, a sync of a log that was found, and had not grown since, did nothing, as if the data found
/// had been flushed.
#[test]
fn a_log_found_after_a_kill_is_durable_once_it_is_synced() {
    let bytes = content(1, 600_000);
    for (index, make) in DRIVES.into_iter().enumerate() {
        for seed in 0..10 {
            let stage = make();
            killed(&stage, &bytes, 300_000);
            let fs = stage.open().unwrap();
            assert_eq!(read_all(&fs, "/wal").unwrap(), bytes, "nothing is lost yet");
            fs.append_to("/wal").unwrap().sync().unwrap();
            drop(fs);
            stage.power_cycle(seed);
            let found = read_all(&stage.open().unwrap(), "/wal").unwrap();
            assert_eq!(found.len(), bytes.len(), "drive {index}, seed {seed}");
            assert_eq!(found, bytes, "drive {index}, seed {seed}");
        }
    }
}

/// The same for a commit: nothing was pending after the opening, so nothing was flushed.
#[test]
fn a_name_found_after_a_kill_is_durable_once_names_are_synced() {
    for (index, make) in DRIVES.into_iter().enumerate() {
        for seed in 0..10 {
            let stage = make();
            let fs = stage.open().unwrap();
            fs.make_dir("/first").unwrap();
            fs.sync_names().unwrap();
            fs.make_dir("/found").unwrap();
            stage
                .disk
                .set_faults(FaultPlan { kill_in_sync_after: Some(0), ..FaultPlan::default() });
            fs.sync_names().unwrap_err();
            drop(fs);
            stage.disk.set_faults(FaultPlan::default());

            let fs = stage.open().unwrap();
            assert!(fs.metadata("/found").is_ok(), "drive {index}: the drive has it");
            let flushes_before = stage.disk.counters().flushes;
            let synced = if seed % 2 == 0 { fs.sync_names() } else { fs.sync_all() };
            synced.unwrap();
            let flushes = stage.disk.counters().flushes - flushes_before;
            assert_eq!(flushes, 1, "drive {index}: nothing but a flush is needed");
            fs.sync_all().unwrap();
            assert_eq!(stage.disk.counters().flushes - flushes_before, 1, "and that once");
            drop(fs);
            stage.power_cycle(seed);
            let found = stage.open().unwrap().metadata("/found");
            assert!(found.is_ok(), "drive {index}, seed {seed}: {found:?}");
        }
    }
}

/// Once, a process was killed while it waited for the flush of a removal. The next process found
/// the file gone and reused its space. A power cut then lost only the removal, and the file came
/// back without its bytes.
#[test]
fn room_of_a_removal_found_after_a_kill_waits_for_a_flush() {
    let (bytes, others) = (content(1, 200_000), content(2, 300_000));
    for (index, make) in DRIVES.into_iter().enumerate() {
        for seed in 0..10 {
            let stage = make();
            let fs = stage.open().unwrap();
            let writer = fs.create("/a", table(1)).unwrap();
            writer.append(&bytes).unwrap();
            writer.sync().unwrap();
            drop(writer);
            fs.unlink("/a").unwrap();
            stage
                .disk
                .set_faults(FaultPlan { kill_in_sync_after: Some(0), ..FaultPlan::default() });
            fs.sync_names().unwrap_err();
            drop(fs);
            stage.disk.set_faults(FaultPlan::default());

            let fs = stage.open().unwrap();
            assert!(fs.metadata("/a").is_err(), "drive {index}: the drive has the removal");
            let writer = fs.create("/b", table(1)).unwrap();
            writer.append(&others).unwrap();
            writer.close().unwrap();
            drop(fs);
            stage.power_cycle(seed);
            let fs = stage.open().unwrap();
            if fs.metadata("/a").is_ok() {
                let found = read_all(&fs, "/a");
                assert!(found.is_ok_and(|found| found == bytes), "drive {index}, seed {seed}");
            }
        }
    }
}
