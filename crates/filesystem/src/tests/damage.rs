//! Logs that cannot be read to their end: reported at each opening, never shortened silently.

use super::stage::{NOW_S, Stage, content, conventional, log, read_all, zoned};
use crate::format::{RecordKind, encode};
use crate::tree::{Change, NodeId, SegmentRecord, StoreId};
use crate::{FileSystem, FsError, FsOptions};
use imbrex_disk::{BlockRange, Blocks, Disk, Lba};
use imbrex_disk_sim::{FailAt, FaultPlan, ZoneFailure};
use imbrex_files::{AppRecord, Commit, Files, Hints};
use std::sync::Arc;

/// Three synced frames, another log, a power cut. Returns where on the disk the first log begins.
fn open_log(stage: &Stage) -> (Vec<u8>, Lba) {
    let fs = stage.open().unwrap();
    let bytes = content(1, 30_000);
    let writer = fs.create("/wal", log()).unwrap();
    for piece in bytes.chunks(10_000) {
        writer.append(piece).unwrap();
        writer.sync().unwrap();
    }
    let other = fs.create("/other", log()).unwrap();
    other.append(&bytes).unwrap();
    other.sync().unwrap();
    let store = fs.open_read("/wal").unwrap().stores().remove(0);
    stage.disk.cut_power();
    drop((writer, other, fs));
    stage.power_cycle(1);
    let info = stage.files().list(&store).remove(0);
    (bytes, info.extents[0].start)
}

/// Reads like a database: piece by piece until nothing more comes.
fn read_to_end(fs: &FileSystem, path: &str) -> (Vec<u8>, Result<(), FsError>) {
    let (reader, mut bytes) = (fs.open_read(path).unwrap(), Vec::new());
    loop {
        let mut piece = [0; 500];
        match reader.read_at(bytes.len() as u64, &mut piece) {
            Ok(0) => return (bytes, Ok(())),
            Ok(got) => bytes.extend_from_slice(&piece[..got]),
            Err(error) => return (bytes, Err(error)),
        }
    }
}

fn assert_damaged<T>(result: Result<T, FsError>, at: u64) {
    match result {
        Err(FsError::Damaged { path, offset, .. }) => assert_eq!((&*path, offset), ("/wal", at)),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("damage is no end of file"),
    }
}

/// Once, damage was reported in one session, and the first commit turned the log into a sound,
/// shorter file.
#[test]
fn a_damaged_log_is_damaged_at_each_opening() {
    for stage in [conventional(), zoned()] {
        let (bytes, start) = open_log(&stage);
        assert!(stage.open().unwrap().damaged().is_empty());
        stage.disk.flip_bit(start + Blocks::new(4), 999).unwrap();
        for _ in 0..3 {
            let fs = stage.open().unwrap();
            assert_damaged(fs.damaged().pop().map_or(Ok(()), Err), 10_000);
            let (found, end) = read_to_end(&fs, "/wal");
            assert_eq!(found, bytes[..10_000]);
            assert_damaged(end, 10_000);
            // A piece behind a hole as well: nothing could fill the hole.
            assert_damaged(fs.append_to("/wal").unwrap().fill_at(10_005, b"more"), 10_000);
            let writer = fs.append_to("/wal").unwrap();
            assert_damaged(writer.append(b"more"), 10_000);
            assert_damaged(writer.write_at(3, b"more"), 10_000);
            assert_damaged(writer.truncate(50_000), 10_000);
            writer.sync().unwrap();
            writer.close().unwrap();
            fs.make_dirs("/elsewhere").unwrap();
            fs.rename("/wal", "/wal").unwrap();
            fs.sync_all().unwrap();
        }
        // A caller that wants only the readable part may truncate the file to it.
        let fs = stage.open().unwrap();
        let writer = fs.append_to("/wal").unwrap();
        writer.truncate(9_000).unwrap();
        writer.append(b"more").unwrap();
        writer.sync().unwrap();
        let expected = [&bytes[..9_000], b"more"].concat();
        assert_eq!(read_all(&fs, "/wal").unwrap(), expected);
        drop((writer, fs));
        let fs = stage.open().unwrap();
        let (found, end) = read_to_end(&fs, "/wal");
        assert_eq!(found, expected);
        end.unwrap();
        drop(fs);
        stage.assert_sound();
    }
}

/// Once, one unreadable block kept everything on the drive from being opened.
#[test]
fn an_unreadable_block_is_damage_of_its_log_alone() {
    for block in [0, 3, 5] {
        let stage = conventional();
        let (bytes, start) = open_log(&stage);
        // Three frames of three blocks each.
        stage.disk.damage(BlockRange::new(start + Blocks::new(block), Blocks::new(1)));
        for _ in 0..2 {
            let fs = stage.open().unwrap();
            let readable = (block / 3 * 10_000) as usize;
            let (found, end) = read_to_end(&fs, "/wal");
            assert_eq!(found, bytes[..readable], "block {block}");
            let told = format!("{:?}", end.as_ref().unwrap_err());
            assert!(told.contains("medium error"), "block {block}: {told}");
            assert_damaged(end, readable as u64);
            assert_damaged(fs.append_to("/wal").unwrap().append(b"more"), readable as u64);
            assert_eq!(read_all(&fs, "/other").unwrap(), bytes);
            fs.make_dirs("/elsewhere").unwrap();
            fs.sync_all().unwrap();
        }
    }
}

/// In the last frame the block may have been under way when the power failed, as with a checksum
/// that fails. The log ends there, and can be appended to.
#[test]
fn an_unreadable_block_in_the_last_frame_is_the_end_of_its_log() {
    for block in [6, 8] {
        let stage = conventional();
        let (bytes, start) = open_log(&stage);
        stage.disk.damage(BlockRange::new(start + Blocks::new(block), Blocks::new(1)));
        let mut expected = bytes[..20_000].to_vec();
        for round in 0..3 {
            let fs = stage.open().unwrap();
            assert!(fs.damaged().is_empty(), "block {block}: {:?}", fs.damaged());
            let (found, end) = read_to_end(&fs, "/wal");
            end.unwrap();
            assert_eq!(found, expected, "block {block}");
            let writer = fs.append_to("/wal").unwrap();
            writer.append(b"more").unwrap();
            writer.sync().unwrap();
            expected.extend_from_slice(b"more");
            // Data appended behind it survives the next power cut.
            stage.disk.cut_power();
            drop((writer, fs));
            stage.power_cycle(round);
        }
    }
}

/// A log owns more blocks than it has written when the power fails.
#[test]
fn an_unreadable_block_behind_a_log_is_no_damage() {
    let stage = conventional();
    let (bytes, start) = open_log(&stage);
    stage.disk.damage(BlockRange::new(start + Blocks::new(12), Blocks::new(1)));
    let (found, end) = read_to_end(&stage.open().unwrap(), "/wal");
    assert_eq!(found, bytes);
    end.unwrap();
}

/// The same where the power cut tore a record in two: once, its log stayed damaged for good.
#[test]
fn an_unreadable_block_far_behind_a_torn_record_is_no_damage() {
    for seed in 0..16 {
        let stage = conventional();
        let fs = stage.open().unwrap();
        let hints = Hints { expected_len_bytes: Some(400 * 4096), ..log() };
        let writer = fs.create("/wal", hints).unwrap();
        let bytes = content(1, 10_000);
        writer.append(&bytes).unwrap();
        writer.sync().unwrap();
        writer.append(&content(2, 270_000)).unwrap();
        writer.append(b"!").unwrap();
        let store = fs.open_read("/wal").unwrap().stores().remove(0);
        stage.disk.cut_power();
        drop((writer, fs));
        stage.power_cycle(seed);
        let last = *stage.files().list(&store).remove(0).extents.last().unwrap();
        assert!(Blocks::new(300) < last.len, "{last}");
        stage.disk.damage(BlockRange::new(last.end() - Blocks::new(1), Blocks::new(1)));
        let fs = stage.open().unwrap();
        assert!(fs.damaged().is_empty(), "seed {seed}: {:?}", fs.damaged());
        let (found, end) = read_to_end(&fs, "/wal");
        end.unwrap();
        assert_eq!(found[..10_000], bytes, "seed {seed}");
        fs.append_to("/wal").unwrap().append(b"more").unwrap();
        fs.sync_all().unwrap();
    }
}

/// A failing drive does not make a file damaged.
#[test]
fn a_drive_that_fails_is_not_opened() {
    let stage = conventional();
    open_log(&stage);
    let files = stage.files();
    let fail_read = Some(FailAt { after: 0, sticky: true });
    stage.disk.set_faults(FaultPlan { fail_read, ..FaultPlan::default() });
    let opened = FileSystem::open(Arc::new(files), FsOptions { unix_time_s: || NOW_S });
    assert!(matches!(opened, Err(FsError::Files { .. })), "{opened:?}");
}

/// Once, one zone that the drive had given up, under a log that was open at the power cut, kept
/// everything on the drive from being opened.
#[test]
fn a_zone_that_went_offline_is_damage_of_its_logs_alone() {
    let stage = zoned();
    let (bytes, start) = open_log(&stage);
    let zone = stage.disk.geometry().zone_of(start).unwrap();
    stage.disk.fail_zone(zone, ZoneFailure::Offline).unwrap();
    for _ in 0..2 {
        let fs = stage.open().unwrap();
        assert_damaged(fs.damaged().pop().map_or(Ok(()), Err), 0);
        let (found, end) = read_to_end(&fs, "/wal");
        assert!(found.is_empty());
        let told = format!("{:?}", end.as_ref().unwrap_err());
        assert!(told.contains("offline"), "{told}");
        assert_damaged(end, 0);
        assert_damaged(fs.append_to("/wal").unwrap().append(b"more"), 0);
        assert_eq!(read_all(&fs, "/other").unwrap(), bytes);
        fs.make_dirs("/elsewhere").unwrap();
        fs.sync_all().unwrap();
    }
    let fs = stage.open().unwrap();
    fs.unlink("/wal").unwrap();
    fs.sync_all().unwrap();
    drop(fs);
    let fs = stage.open().unwrap();
    assert!(fs.damaged().is_empty());
    assert_eq!(read_all(&fs, "/other").unwrap(), bytes);
}

/// Once, the error said that the drive had failed.
#[test]
fn a_log_of_known_length_in_a_zone_that_went_offline_is_damaged() {
    let stage = zoned();
    let fs = stage.open().unwrap();
    let writer = fs.create("/wal", log()).unwrap();
    writer.append(&content(1, 30_000)).unwrap();
    writer.close().unwrap();
    fs.sync_all().unwrap();
    let store = fs.open_read("/wal").unwrap().stores().remove(0);
    drop(fs);
    let start = stage.files().list(&store).remove(0).extents[0].start;
    let zone = stage.disk.geometry().zone_of(start).unwrap();
    stage.disk.fail_zone(zone, ZoneFailure::Offline).unwrap();
    assert_damaged(read_to_end(&stage.open().unwrap(), "/wal").1, 0);
}

/// Appends a record to the tree on the drive: `/wal`, which has the first of `stores`, consists of
/// logs of these lengths.
fn claim_lens(stage: &Stage, node: NodeId, stores: &[StoreId], lens: &[u64]) {
    let log = |(&store, &len_bytes)| SegmentRecord::Log { store, len_bytes: Some(len_bytes) };
    let segments = stores.iter().zip(lens).map(log).collect();
    let changes = [
        Change::Unlink { path: "second".into() },
        Change::SetBody { node, mtime_s: NOW_S, segments },
    ];
    let app = Some(AppRecord::Append(encode(RecordKind::Edit, 99, &changes)));
    stage.files().commit(Commit { app, ..Commit::default() }).unwrap();
}

/// Puts three logs on a drive. Returns the file number of `/wal`, and the stores of `/wal` and
/// `/second`.
fn three_logs(stage: &Stage, bytes: &[u8]) -> (NodeId, [StoreId; 2]) {
    let fs = stage.open().unwrap();
    for path in ["/wal", "/second", "/other"] {
        let writer = fs.create(path, log()).unwrap();
        writer.append(bytes).unwrap();
        writer.close().unwrap();
    }
    fs.sync_all().unwrap();
    let reader = |path: &str| fs.open_read(path).unwrap();
    let store = |path: &str| StoreId::of_name(&reader(path).stores()[0]).unwrap();
    (NodeId(reader("/wal").unique_id()), [store("/wal"), store("/second")])
}

/// Once, lengths in the tree were trusted, and additions to them overflowed.
#[test]
fn a_log_that_holds_less_than_the_tree_says_is_damaged() {
    let bytes = content(1, 30_000);
    for len_bytes in [40_000, u64::MAX - 1] {
        let stage = conventional();
        let (node, stores) = three_logs(&stage, &bytes);
        claim_lens(&stage, node, &stores, &[len_bytes]);
        let fs = stage.open().unwrap();
        assert_damaged(fs.damaged().pop().map_or(Ok(()), Err), len_bytes);
        let (found, end) = read_to_end(&fs, "/wal");
        assert_eq!(found, bytes);
        assert_damaged(end, 30_000);
        assert_damaged(fs.append_to("/wal").unwrap().append(b"more"), len_bytes);
        assert_eq!(read_all(&fs, "/other").unwrap(), bytes);
        // A caller that wants only the readable part may truncate the file to it.
        fs.append_to("/wal").unwrap().truncate(30_000).unwrap();
        fs.sync_all().unwrap();
        drop(fs);
        let fs = stage.open().unwrap();
        assert!(fs.damaged().is_empty());
        assert_eq!(read_all(&fs, "/wal").unwrap(), bytes);
    }
}

#[test]
fn a_log_before_others_keeps_the_length_that_it_should_have() {
    let bytes = content(1, 30_000);
    let stage = conventional();
    let (node, stores) = three_logs(&stage, &bytes);
    claim_lens(&stage, node, &stores, &[40_000, 30_000]);
    for len_bytes in [70_000, 60_000, 50_000] {
        let fs = stage.open().unwrap();
        assert_damaged(fs.damaged().pop().map_or(Ok(()), Err), 40_000);
        let writer = fs.append_to("/wal").unwrap();
        writer.truncate(len_bytes).unwrap();
        let (mut behind, from) = (vec![0; 30_000], 40_000);
        let got = fs.open_read("/wal").unwrap().read_at(from + 1, &mut behind).unwrap();
        assert_eq!(behind[..got], bytes[1..(len_bytes - from) as usize]);
        writer.sync().unwrap();
    }
}

#[test]
fn lengths_that_no_file_can_have_are_refused() {
    for lens in [&[u64::MAX][..], &[u64::MAX - 1, u64::MAX - 1], &[40_000, u64::MAX - 40_000]] {
        let stage = conventional();
        let (node, stores) = three_logs(&stage, &content(1, 30_000));
        claim_lens(&stage, node, &stores, lens);
        let opened = stage.open();
        assert!(matches!(opened, Err(FsError::Corrupt { .. })), "{opened:?}");
    }
}
