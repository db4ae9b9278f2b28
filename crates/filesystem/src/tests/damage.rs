//! Logs that cannot be read to their end: named at each opening, never made shorter in silence.

use super::stage::{Stage, content, conventional, log, read_all, zoned};
use crate::{FileSystem, FsError};
use imbrex_disk::{Blocks, Lba};
use imbrex_files::Files;

/// Three synced frames, the power gone, and where on the disk the log begins.
fn open_log(stage: &Stage) -> (Vec<u8>, Lba) {
    let fs = stage.open().unwrap();
    let bytes = content(1, 30_000);
    let writer = fs.create("/wal", log()).unwrap();
    for piece in bytes.chunks(10_000) {
        writer.append(piece).unwrap();
        writer.sync().unwrap();
    }
    let store = fs.open_read("/wal").unwrap().stores().remove(0);
    stage.disk.cut_power();
    drop((writer, fs));
    stage.power_cycle(1);
    let info = stage.files().list(&store).remove(0);
    (bytes, info.extents[0].start)
}

/// Reads as a database does, in pieces until nothing comes any more.
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

/// Damage was told in one session; the first commit made it a sound, shorter file.
#[test]
fn a_damaged_log_is_damaged_at_each_opening() {
    for stage in [conventional(), zoned()] {
        let (bytes, start) = open_log(&stage);
        stage.disk.flip_bit(start + Blocks::new(4), 999).unwrap();
        for _ in 0..3 {
            let fs = stage.open().unwrap();
            let (found, end) = read_to_end(&fs, "/wal");
            assert_eq!(found, bytes[..10_000]);
            assert_damaged(end, 10_000);
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
        // Whoever wants no more than what is there may say so.
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
