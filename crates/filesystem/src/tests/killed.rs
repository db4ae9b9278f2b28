//! A process dies, and the power goes only later: what the next process found may not have been flushed, and
//! what it wrote down about it counts on it.

use super::stage::{Stage, content, conventional, interlaced, log, read_all, shingled, zoned};
use imbrex_disk_sim::FaultPlan;

/// A process that syncs a log, appends more and is killed: the drive's cache stays.
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

/// The length that an opening finds and its first commit records is that of frames which nobody flushed: they
/// must be on the platter before that record is.
#[test]
fn a_length_found_after_a_kill_survives_a_power_cut() {
    let makes: [fn() -> Stage; 4] = [conventional, zoned, shingled, interlaced];
    let bytes = content(1, 600_000);
    let synced_len = 300_000;
    for (index, make) in makes.into_iter().enumerate() {
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
