//! What each call does, without faults.

use super::stage::{
    NOW_S, Stage, content, conventional, interlaced, large, log, metadata, other, read_all,
    shingled, table, zoned,
};
use crate::format::{RecordKind, encode};
use crate::tree::{Change, NodeId, SegmentRecord, StoreId};
use crate::write_out::{RECORD_LEN_BYTES_MAX, log_id};
use crate::{
    FileSystem, FsError, FsOptions, INLINE_LEN_BYTES_MAX, REWRITE_LEN_BYTES_MAX, Reader,
    SEGMENT_LEN_BYTES_MAX, holds_file_system,
};
use imbrex_disk::Disk;
use imbrex_files::{AppRecord, Commit, FileKind, Files, FilesError, Hints};
use imbrex_record_log::{BLOCK_LEN_BYTES, Decoder, LogBounds};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn write(fs: &FileSystem, path: &str, hints: Hints, bytes: &[u8]) {
    let writer = fs.create(path, hints).unwrap();
    writer.append(bytes).unwrap();
    writer.sync().unwrap();
    writer.close().unwrap();
}

fn reopened(stage: &Stage, fs: FileSystem) -> FileSystem {
    fs.sync_all().unwrap();
    drop(fs);
    stage.open().unwrap()
}

#[test]
fn files_of_every_kind_and_length_come_back() {
    for stage in [zoned(), conventional(), shingled(), interlaced()] {
        let fs = stage.open().unwrap();
        fs.make_dirs("/db/deep").unwrap();
        let kinds = [log(), table(1), table(3), metadata(), other()];
        let lens = [0, 1, 4096, 4097, 30_000];
        let mut written = Vec::new();
        for (kind, hints) in kinds.into_iter().enumerate() {
            for len in lens {
                let path = format!("/db/deep/{kind}-{len}");
                let bytes = content(kind as u64 * 1000 + len as u64, len);
                let writer = fs.create(&path, hints).unwrap();
                bytes.chunks(777).for_each(|piece| writer.append(piece).unwrap());
                assert_eq!(read_all(&fs, &path).unwrap(), bytes, "{path} in memory");
                writer.sync().unwrap();
                assert_eq!(read_all(&fs, &path).unwrap(), bytes, "{path} synced");
                writer.close().unwrap();
                written.push((path, bytes));
            }
        }
        let fs = reopened(&stage, fs);
        assert_eq!(fs.list("/db/deep").unwrap().len(), written.len());
        for (path, bytes) in &written {
            assert_eq!(&read_all(&fs, path).unwrap(), bytes, "{path} reopened");
            assert_eq!(fs.metadata(path).unwrap().len_bytes, bytes.len() as u64);
            assert_eq!(fs.metadata(path).unwrap().mtime_s, NOW_S);
            fs.unlink(path).unwrap();
        }
        fs.sync_names().unwrap();
        assert!(fs.files().list("").is_empty(), "nothing is stored for files that are gone");
        stage.assert_sound();
    }
}

#[test]
fn reads_anywhere_see_what_was_appended() {
    for hints in [log(), table(2), other()] {
        let stage = conventional();
        let fs = stage.open().unwrap();
        let writer = fs.create("/f", hints).unwrap();
        let bytes = content(1, 60_000);
        let reader = fs.open_read("/f").unwrap();
        for (index, piece) in bytes.chunks(6_000).enumerate() {
            writer.append(piece).unwrap();
            if index % 3 == 2 {
                writer.sync().unwrap();
            }
            let len = (index + 1) * 6_000;
            for offset in [0, len / 3, len - 5_999, len - 1, len, len + 7, len / 2, 17] {
                let mut out = [0; 6_100];
                let got = reader.read_at(offset as u64, &mut out).unwrap();
                let expected = &bytes[offset.min(len)..len.min(offset + out.len())];
                assert_eq!(&out[..got], expected, "{offset} of {len}");
            }
        }
    }
}

#[test]
fn a_file_read_from_front_to_back_is_read_ahead() {
    let stage = large();
    let fs = stage.open().unwrap();
    let bytes = content(4, 1 << 20);
    write(&fs, "/t", table(1), &bytes);
    let reader = fs.open_read("/t").unwrap();
    let before = stage.disk.counters().reads;
    let mut out = [0; 4_101];
    for (index, expected) in bytes.chunks(out.len()).enumerate() {
        let offset = (index * out.len()) as u64;
        let got = reader.read_at(offset, &mut out).unwrap();
        assert_eq!(&out[..got], expected);
        // Another reader looks up a key in between.
        let elsewhere = (index * 777_777) % (1 << 19);
        reader.read_at(elsewhere as u64, &mut out[..100]).unwrap();
        assert_eq!(out[..100], bytes[elsewhere..elsewhere + 100]);
    }
    let strays = bytes.len().div_ceil(out.len()) as u64;
    let reads = stage.disk.counters().reads - before;
    assert!(reads <= strays + 9, "{reads} reads for {strays} strays and 8 times 128 KiB");
    // After a cut and a rewrite, the data is not what was read ahead.
    let writer = fs.append_to("/t").unwrap();
    reader.read_at(0, &mut out).unwrap();
    writer.truncate(2_000).unwrap();
    writer.append(&content(5, 3_000)).unwrap();
    writer.sync().unwrap();
    let got = reader.read_at(0, &mut out).unwrap();
    assert_eq!(out[..got], [&bytes[..2_000], &content(5, 3_000)[..got - 2_000]].concat());
}

/// Once, each open table kept a buffer as long as its longest read, which is that of its end.
/// Thousands of tables kept gigabytes.
#[test]
fn tables_by_the_thousand_keep_no_memory_of_a_long_read() {
    let stage = large();
    let fs = stage.open().unwrap();
    let bytes = content(6, 1 << 20);
    write(&fs, "/t", table(1), &bytes);
    let readers: Vec<_> = (0..1_000).map(|_| fs.open_read("/t").unwrap()).collect();
    let mut out = vec![0; 512 << 10];
    for reader in &readers {
        assert_eq!(reader.read_at(300_000, &mut out).unwrap(), out.len());
    }
    assert_eq!(out, bytes[300_000..][..out.len()]);
    let kept_bytes: usize = readers.iter().map(Reader::kept_bytes).sum();
    assert!(kept_bytes < 1 << 20, "{kept_bytes} bytes");
}

/// Once, a file of unknown kind whose first pieces were stored for their length continued as a log.
/// A log is read from its beginning for every read that goes back.
#[test]
fn a_long_file_of_no_known_kind_is_a_table_until_it_is_synced() {
    let stage = conventional();
    let fs = stage.open().unwrap();
    let writer = fs.create("/backup", other()).unwrap();
    let bytes = content(8, 2 * SEGMENT_LEN_BYTES_MAX as usize + 50_000);
    bytes.chunks(10_000).for_each(|piece| writer.append(piece).unwrap());
    writer.sync().unwrap();
    let kinds = || fs.files().list("").into_iter().map(|info| info.kind).collect::<Vec<_>>();
    assert_eq!(kinds(), [FileKind::Other; 3]);
    // Now it is a log.
    writer.append(&bytes[..9_000]).unwrap();
    writer.sync().unwrap();
    assert_eq!(kinds()[3..], [FileKind::Log]);
    writer.close().unwrap();
    let fs = reopened(&stage, fs);
    assert_eq!(read_all(&fs, "/backup").unwrap(), [&bytes[..], &bytes[..9_000]].concat());
}

/// The adapters rely on this: a level set before the first append applies to every piece.
#[test]
fn each_piece_of_a_long_table_has_the_level_that_was_set_first() {
    let stage = zoned();
    let fs = stage.open().unwrap();
    let writer = fs.create("/t", table(0)).unwrap();
    writer.set_hints(table(5));
    let bytes = content(9, 2 * SEGMENT_LEN_BYTES_MAX as usize + 50_000);
    bytes.chunks(10_000).for_each(|piece| writer.append(piece).unwrap());
    writer.sync().unwrap();
    let levels: Vec<_> = fs.files().list("").into_iter().map(|info| info.level).collect();
    assert_eq!(levels, [5; 3]);
}

#[test]
fn a_read_at_or_behind_the_end_returns_nothing() {
    for hints in [log(), table(1), other()] {
        let stage = conventional();
        let fs = stage.open().unwrap();
        let writer = fs.create("/f", hints).unwrap();
        writer.append(&content(1, 30_000)).unwrap();
        writer.sync().unwrap();
        writer.append(&content(2, 500)).unwrap();
        let reader = fs.open_read("/f").unwrap();
        let mut out = vec![0; 30_500];
        // A stream that ends where the stored bytes do, then one that ends behind them.
        assert_eq!(reader.read_at(0, &mut out).unwrap(), 30_500);
        for offset in [30_500, 30_500, 30_500, 40_000, 40_000] {
            assert_eq!(reader.read_at(offset, &mut out).unwrap(), 0, "{hints:?}, {offset}");
        }
        assert_eq!(reader.read_at(30_000, &mut out).unwrap(), 500);
        assert_eq!(reader.read_at(30_000, &mut []).unwrap(), 0);
        // The old end lies behind the file after a cut, and after all data was read into memory.
        writer.sync().unwrap();
        assert_eq!(reader.read_at(0, &mut out).unwrap(), 30_500);
        writer.truncate(20_000).unwrap();
        assert_eq!(reader.read_at(30_500, &mut out).unwrap(), 0, "{hints:?}, cut");
        assert_eq!(reader.read_at(0, &mut out).unwrap(), 20_000);
        writer.write_at(5, b"five").unwrap();
        assert_eq!(reader.read_at(20_000, &mut out).unwrap(), 0, "{hints:?}, in memory");
        assert_eq!(reader.read_at(0, &mut out).unwrap(), 20_000);
        assert_eq!(&out[5..9], b"five");
    }
}

/// Once, a log that had been appended to for a week was a week old, and stayed so after a crash.
/// Databases delete logs by age.
#[test]
fn a_log_is_as_old_as_its_last_append() {
    static NOW: AtomicU64 = AtomicU64::new(NOW_S);
    let stage = conventional();
    let options = FsOptions { unix_time_s: || NOW.load(Ordering::SeqCst) };
    let open = || FileSystem::open(Arc::new(stage.files()), options).unwrap();
    let pass_day = || NOW.fetch_add(86_400, Ordering::SeqCst) + 86_400;
    let fs = open();
    let writer = fs.create("/wal", log()).unwrap();
    writer.append(&content(1, 9_000)).unwrap();
    writer.sync().unwrap();
    for _ in 0..7 {
        let now_s = pass_day();
        writer.append(&content(1, 9_000)).unwrap();
        writer.sync().unwrap();
        assert_eq!(fs.metadata("/wal").unwrap().mtime_s, now_s);
    }
    stage.disk.cut_power();
    drop((writer, fs));
    stage.power_cycle(1);
    // The true time was not recorded; it is not after the time of opening.
    let found_s = pass_day();
    let fs = open();
    assert_eq!(fs.metadata("/wal").unwrap().mtime_s, found_s);
    fs.sync_names().unwrap();
    drop(fs);
    pass_day();
    assert_eq!(open().metadata("/wal").unwrap().mtime_s, found_s);
}

#[test]
fn a_sync_of_a_known_log_writes_no_catalog() {
    let stage = conventional();
    let fs = stage.open().unwrap();
    let writer = fs.create("/wal", log()).unwrap();
    writer.append(&content(1, 5_000)).unwrap();
    writer.sync().unwrap();
    let before = stage.disk.counters();
    writer.append(b"tiny").unwrap();
    writer.sync().unwrap();
    let after = stage.disk.counters();
    assert_eq!(after.written_bytes - before.written_bytes, 4096);
    assert_eq!(after.flushes - before.flushes, 1);
    writer.sync().unwrap();
    assert_eq!(stage.disk.counters().flushes, after.flushes, "nothing to sync");
}

#[test]
fn thousands_of_small_files_take_no_blocks_of_their_own() {
    let stage = large();
    let fs = stage.open().unwrap();
    fs.make_dir("/small").unwrap();
    for index in 0..3_000u64 {
        write(&fs, &format!("/small/{index:05}"), other(), &index.to_le_bytes());
    }
    assert!(fs.files().list("").is_empty());
    let fs = reopened(&stage, fs);
    let names = fs.list("/small").unwrap();
    assert_eq!(names.len(), 3_000);
    assert_eq!(read_all(&fs, "/small/02999").unwrap(), 2_999u64.to_le_bytes());
}

#[test]
fn inline_bytes_keep_to_their_share_of_the_catalog() {
    let stage = conventional();
    let fs = stage.open().unwrap();
    let bytes = content(1, INLINE_LEN_BYTES_MAX as usize);
    for index in 0..12 {
        write(&fs, &format!("/{index}"), table(1), &bytes);
    }
    assert!(!fs.files().list("").is_empty(), "the later ones lie in blocks");
    for index in 0..12 {
        assert_eq!(read_all(&fs, &format!("/{index}")).unwrap(), bytes);
    }
}

#[test]
fn names_behave_as_in_posix() {
    let stage = conventional();
    let fs = stage.open().unwrap();
    let create = |path: &str| fs.create(path, other()).map(drop);
    assert!(matches!(create("/a/b"), Err(FsError::NotFound { .. })));
    fs.make_dir("/a").unwrap();
    create("/a/b").unwrap();
    assert!(matches!(create("/a/b/c"), Err(FsError::NotADirectory { .. })));
    assert!(matches!(create("/a"), Err(FsError::IsADirectory { .. })));
    assert!(matches!(fs.make_dir("/a"), Err(FsError::Exists { .. })));
    assert!(matches!(fs.make_dirs("/a/b/c"), Err(FsError::NotADirectory { .. })));
    assert!(matches!(fs.remove_dir("/a"), Err(FsError::NotEmpty { .. })));
    assert!(matches!(fs.unlink("/a"), Err(FsError::IsADirectory { .. })));
    assert!(matches!(fs.unlink("/x"), Err(FsError::NotFound { .. })));
    assert!(matches!(fs.open_read("/a/b/c"), Err(FsError::NotADirectory { .. })));
    assert!(matches!(fs.rename("/a", "/a/c"), Err(FsError::BadPath { .. })));
    assert!(matches!(fs.rename("/a/b", "/a"), Err(FsError::IsADirectory { .. })));
    assert!(matches!(fs.rename("/a", "/a/b"), Err(FsError::NotADirectory { .. })));
    assert!(matches!(fs.list("/a/b"), Err(FsError::NotADirectory { .. })));
    assert!(matches!(fs.link("/a", "/l"), Err(FsError::IsADirectory { .. })));
    assert!(matches!(fs.unlock("/a/LOCK"), Err(FsError::NotFound { .. })));
    fs.lock("/a/LOCK", other()).unwrap();
    assert!(matches!(fs.lock("/a/LOCK", other()), Err(FsError::Locked { .. })));
    fs.unlock("/a/LOCK").unwrap();
    fs.make_dirs("/c/d").unwrap();
    fs.rename("/a", "/c/d").unwrap();
    assert_eq!(fs.metadata("/c/d/b").unwrap().link_count, 1);
    assert!(fs.metadata("/a").is_err());
    fs.link("/c/d/b", "/b2").unwrap();
    assert_eq!(fs.metadata("/c/d/b").unwrap().link_count, 2);
    fs.rename("/b2", "/c/d/b").unwrap();
    assert!(fs.metadata("/b2").is_ok(), "two names of one file: rename does nothing, as in POSIX");
    let hostile = ["\0", "/x\0y", &"n".repeat(300), &"/deep".repeat(1000)];
    assert!(hostile.iter().all(|path| matches!(create(path), Err(FsError::BadPath { .. }))));
    for path in ["/new\nline", "/a'b\"c", "/ ", "/-rf", "/..a", "/\u{202e}txt"] {
        create(path).unwrap();
    }
    let fs = reopened(&stage, fs.clone());
    assert!(fs.metadata("/new\nline").is_ok());
}

#[test]
fn a_reader_of_a_removed_file_may_continue() {
    for hints in [log(), table(1)] {
        let stage = zoned();
        let fs = stage.open().unwrap();
        let bytes = content(5, 20_000);
        write(&fs, "/f", hints, &bytes);
        let reader = fs.open_read("/f").unwrap();
        fs.unlink("/f").unwrap();
        write(&fs, "/f", hints, b"another");
        fs.sync_all().unwrap();
        let mut out = vec![0; bytes.len()];
        assert_eq!(reader.read_at(0, &mut out).unwrap(), bytes.len());
        assert_eq!(out, bytes);
        assert_eq!(read_all(&fs, "/f").unwrap(), b"another");
    }
}

#[test]
fn truncating_and_writing_anywhere() {
    for hints in [log(), table(1), other()] {
        let stage = conventional();
        let fs = stage.open().unwrap();
        let mut bytes = content(9, 20_000);
        write(&fs, "/f", hints, &bytes);
        let writer = fs.append_to("/f").unwrap();
        writer.truncate(12_345).unwrap();
        bytes.truncate(12_345);
        assert_eq!(read_all(&fs, "/f").unwrap(), bytes);
        writer.append(b"behind the cut").unwrap();
        bytes.extend_from_slice(b"behind the cut");
        writer.sync().unwrap();
        writer.write_at(100, b"in the middle").unwrap();
        bytes[100..113].copy_from_slice(b"in the middle");
        writer.write_at(14_000, b"beyond a gap").unwrap();
        bytes.resize(14_000, 0);
        bytes.extend_from_slice(b"beyond a gap");
        assert_eq!(read_all(&fs, "/f").unwrap(), bytes);
        writer.close().unwrap();
        let fs = reopened(&stage, fs);
        assert_eq!(read_all(&fs, "/f").unwrap(), bytes);
        let writer = fs.append_to("/f").unwrap();
        writer.truncate(0).unwrap();
        writer.truncate(3).unwrap();
        writer.close().unwrap();
        let fs = reopened(&stage, fs);
        assert_eq!(read_all(&fs, "/f").unwrap(), [0; 3]);
        let grows = fs.append_to("/f").unwrap().truncate(2 << 30);
        assert!(matches!(grows, Err(FsError::TooLong { .. })));
    }
}

/// Once, an append after a cut was refused if the file was as long as the limit for rewrites.
#[test]
fn a_truncated_file_grows_like_any_other() {
    for hints in [log(), table(1), other()] {
        let stage = conventional();
        let fs = stage.open().unwrap();
        let bytes = content(3, 2 * REWRITE_LEN_BYTES_MAX as usize);
        let writer = fs.create("/f", hints).unwrap();
        writer.append(&bytes[..100]).unwrap();
        writer.truncate(50).unwrap();
        bytes[50..].chunks(100_000).for_each(|piece| writer.append(piece).unwrap());
        assert!(read_all(&fs, "/f").unwrap() == bytes);
        writer.close().unwrap();
        let fs = reopened(&stage, fs);
        assert!(read_all(&fs, "/f").unwrap() == bytes);
    }
}

/// Once, each sync of everything, and each opening to append, added an empty log to a closed log.
/// It took a zone and was never ended.
#[test]
fn a_closed_log_is_left_alone() {
    for stage in [zoned(), conventional(), shingled(), interlaced()] {
        let fs = stage.open().unwrap();
        (0..8).for_each(|index| write(&fs, &format!("/{index}"), log(), &content(index, 9_000)));
        fs.sync_all().unwrap();
        let taken = |fs: &FileSystem| (fs.files().list("").len(), fs.files().space().free_bytes);
        let before = taken(&fs);
        assert_eq!(before.0, 8);
        fs.append_to("/2").unwrap().close().unwrap();
        fs.append_to("/2").unwrap().sync().unwrap();
        fs.sync_all().unwrap();
        assert_eq!(taken(&fs), before);
        fs.rename("/0", "/1").unwrap();
        fs.sync_all().unwrap();
        assert_eq!(fs.files().list("").len(), 7);
        let fs = reopened(&stage, fs);
        assert_eq!(fs.files().list("").len(), 7);
        assert_eq!(read_all(&fs, "/1").unwrap(), content(0, 9_000));
    }
}

#[test]
fn a_level_may_be_set_until_the_table_is_placed_and_changed_after() {
    let stage = zoned();
    let fs = stage.open().unwrap();
    let writer = fs.create("/t", table(0)).unwrap();
    writer.append(&content(1, 10_000)).unwrap();
    writer.set_hints(table(3));
    writer.sync().unwrap();
    assert_eq!(fs.files().list("fs/")[0].level, 3);
    drop(writer);
    fs.set_level("/t", 4).unwrap();
    let fs = reopened(&stage, fs);
    assert_eq!(fs.files().list("fs/")[0].level, 4);
    assert_eq!(fs.metadata("/t").unwrap().level, 4);
}

#[test]
fn a_full_drive_refuses_writes_and_removals_make_room() {
    for stage in [zoned(), conventional()] {
        let fs = stage.open().unwrap();
        let bytes = content(3, 200_000);
        let fill = |index: usize| {
            let writer = fs.create(&format!("/{index}"), table(1))?;
            writer.append(&bytes)?;
            writer.sync()
        };
        let (full_at, error) =
            (0..).find_map(|index| fill(index).err().map(|error| (index, error))).unwrap();
        assert!(error.is_no_space(), "{error}");
        assert!(full_at > 8, "{full_at}");
        assert!(matches!(read_all(&fs, &format!("/{full_at}")), Err(FsError::Lost { .. })));
        (0..=full_at).for_each(|index| fs.unlink(&format!("/{index}")).unwrap());
        // The removals were never made durable; the next write commits them.
        (0..full_at - 2).for_each(|index| fill(index).unwrap());
        assert_eq!(read_all(&fs, "/0").unwrap(), bytes);
    }
}

#[test]
fn a_log_without_room_continues_when_there_is_some() {
    let stage = conventional();
    let fs = stage.open().unwrap();
    let table_bytes = content(1, 4_500_000);
    write(&fs, "/big", table(1), &table_bytes);
    let writer = fs.create("/log", log()).unwrap();
    let bytes = content(2, 3_000_000);
    let mut written = 0;
    let refused = bytes.chunks(50_000).any(|piece| {
        let result = writer.append(piece).and_then(|()| writer.sync());
        written += piece.len();
        result.is_err_and(|error| error.is_no_space())
    });
    assert!(refused);
    fs.unlink("/big").unwrap();
    writer.sync().unwrap();
    writer.append(&bytes[written..]).unwrap();
    writer.close().unwrap();
    let fs = reopened(&stage, fs);
    assert_eq!(read_all(&fs, "/log").unwrap(), bytes);
}

#[test]
fn a_drive_that_holds_something_else_is_refused() {
    let stage = conventional();
    let files = stage.files();
    let app = Some(imbrex_files::AppRecord::Append(b"IXVE and so on".to_vec()));
    files.commit(imbrex_files::Commit { app, ..Default::default() }).unwrap();
    let error = stage.open().unwrap_err();
    assert!(matches!(error, FsError::Foreign { .. }), "{error}");
    assert!(!holds_file_system(&stage.files()));
    let stage = conventional();
    assert!(!holds_file_system(&stage.files()), "an empty drive holds nothing");
    let fs = stage.open().unwrap();
    write(&fs, "/f", other(), b"x");
    drop(fs);
    assert!(holds_file_system(&stage.files()));
}

#[test]
fn a_table_is_cut_into_pieces_and_threads_share_a_file_system() {
    let stage = large();
    let fs = stage.open().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let fs = &fs;
            scope.spawn(move || {
                for index in 0..20u64 {
                    let tag = thread * 100 + index;
                    let hints = if index % 2 == 0 { table(1) } else { log() };
                    write(fs, &format!("/{tag}"), hints, &content(tag, 50_000));
                    if index > 4 {
                        fs.unlink(&format!("/{}", tag - 5)).unwrap();
                    }
                }
            });
        }
    });
    let fs = reopened(&stage, fs);
    assert_eq!(fs.list("/").unwrap().len(), 20);
    assert_eq!(read_all(&fs, "/319").unwrap(), content(319, 50_000));
    stage.assert_sound();
}

/// Directories moved into one another once made keys too long for a record.
#[test]
fn a_directory_is_not_moved_to_where_a_path_would_be_too_long() {
    let stage = large();
    let fs = stage.open().unwrap();
    let name = |c: char| c.to_string().repeat(250);
    let long = format!("/{}", vec![name('a'); 15].join("/"));
    fs.make_dirs(&long).unwrap();
    let deep = format!("/top/{}", name('b'));
    fs.make_dirs(&deep).unwrap();
    write(&fs, &format!("{deep}/f"), other(), b"deep");
    // The longest possible path: 4,096 bytes without the first `/`.
    let fits = 4096 - (long.len() - 1) - "/".len() - format!("/{}/f", name('b')).len();
    let to = format!("{long}/{}", "t".repeat(fits));
    let refused = fs.rename("/top", &format!("{to}t")).unwrap_err();
    assert!(matches!(refused, FsError::BadPath { .. }), "{refused}");
    assert_eq!(read_all(&fs, &format!("{deep}/f")).unwrap(), b"deep");
    fs.rename("/top", &to).unwrap();
    let fs = reopened(&stage, fs);
    assert_eq!(read_all(&fs, &format!("{to}/{}/f", name('b'))).unwrap(), b"deep");
    // A shorter path is always accepted.
    fs.rename(&to, "/top").unwrap();
    assert_eq!(read_all(&fs, &format!("{deep}/f")).unwrap(), b"deep");
}

/// A record counts a file's pieces in 16 bits.
#[test]
fn a_file_takes_no_more_pieces_than_a_record_can_count() {
    let stage = large();
    let (node, mtime_s) = (NodeId(1), NOW_S);
    let create = |path: &str, node, kind| Change::Create { path: path.into(), node, kind, mtime_s };
    let changes = [
        create("full", node, FileKind::Log),
        Change::SetBody { node, mtime_s, segments: vec![SegmentRecord::Inline(vec![7]); 65_535] },
    ];
    let app = Some(AppRecord::Append(encode(RecordKind::Snapshot, 9, &changes)));
    stage.files().commit(Commit { app, ..Commit::default() }).unwrap();
    for hints in [log(), table(1)] {
        let fs = stage.open().unwrap();
        let writer = fs.append_to("/full").unwrap();
        writer.set_hints(hints);
        writer.append(&[8; 9_000]).unwrap();
        let refused = writer.sync().unwrap_err();
        assert!(matches!(refused, FsError::TooManyPieces { .. }), "{refused}");
        assert!(writer.close().is_err());
        fs.make_dirs("/elsewhere").unwrap();
        fs.sync_names().unwrap();
        drop(fs);
        let fs = stage.open().unwrap();
        assert_eq!(read_all(&fs, "/full").unwrap(), [7; 65_535]);
        assert!(fs.files().list("").is_empty(), "nothing was stored");
    }
    // After a rewrite it is one piece.
    let fs = stage.open().unwrap();
    let writer = fs.append_to("/full").unwrap();
    writer.write_at(0, &[9]).unwrap();
    writer.append(&[8; 9_000]).unwrap();
    writer.sync().unwrap();
    let fs = reopened(&stage, fs);
    assert_eq!(fs.metadata("/full").unwrap().len_bytes, 65_535 + 9_000);
}

/// After enough removals a commit runs by itself. If the catalog had no room for that commit, the
/// removal that triggered it, and each rename after it, once reported failure although it had
/// happened.
#[test]
fn a_removal_that_has_happened_reports_no_lack_of_space() {
    let stage = conventional();
    let fs = stage.open().unwrap();
    let count = 260;
    for index in 0..count {
        let writer = fs.create(&format!("/{index}"), table(1)).unwrap();
        writer.append(&[7; 5_000]).unwrap();
        writer.close().unwrap();
    }
    fs.sync_names().unwrap();
    // Pending changes: more than the catalog can take.
    let long = |index: usize| format!("/{index}{}", "n".repeat(200));
    write(&fs, "/kept", other(), b"kept");
    (0..600).for_each(|index| fs.link("/kept", &format!("/k{index}")).unwrap());
    (0..600).for_each(|index| fs.rename(&format!("/k{index}"), &long(index)).unwrap());
    assert!(fs.sync_names().unwrap_err().is_no_space());
    for index in 0..count {
        fs.unlink(&format!("/{index}")).unwrap();
    }
    fs.rename(&long(0), "/renamed").unwrap();
    assert!(fs.sync_names().unwrap_err().is_no_space(), "who asks is told");
    (1..600).for_each(|index| fs.unlink(&long(index)).unwrap());
    fs.sync_names().unwrap();
    stage.power_cycle(1);
    let fs = stage.open().unwrap();
    let names: Vec<String> = fs.list("/").unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["kept", "renamed"]);
    assert_eq!(read_all(&fs, "/renamed").unwrap(), b"kept");
    stage.assert_sound();
}

/// One append of 4 GiB is longer than a record of a log can be. The next sync once panicked.
#[test]
fn a_long_append_to_a_log_is_several_records() {
    let stage = conventional();
    let fs = stage.open().unwrap();
    let bytes = content(1, 3 * RECORD_LEN_BYTES_MAX + 5_000);
    write(&fs, "/wal", log(), &bytes);
    let name = fs.open_read("/wal").unwrap().stores().remove(0);
    let reader = fs.files().open(&name).unwrap();
    let extent = LogBounds {
        log_id: log_id(fs.files().format_id(), StoreId::of_name(&name).unwrap()),
        len_blocks: reader.len_bytes() / BLOCK_LEN_BYTES as u64,
        durable_blocks: 0,
    };
    let mut scratch = Vec::new();
    let mut decoder = Decoder::new(extent, |offset, buf: &mut [u8]| {
        buf.copy_from_slice(reader.read_at(offset, buf.len(), &mut scratch)?);
        Ok::<(), FilesError>(())
    });
    let mut lens = Vec::new();
    while let Some(record) = decoder.next_record().unwrap() {
        lens.push(record.bytes.len());
    }
    let longest = RECORD_LEN_BYTES_MAX;
    assert_eq!(lens, [longest, longest, longest, 5_000]);
    assert!(read_all(&reopened(&stage, fs), "/wal").unwrap() == bytes);
}
