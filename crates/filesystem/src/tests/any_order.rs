//! A log that several threads write at their own offsets, and its power cuts.

use super::stage::{
    Stage, content, conventional, interlaced, large, log, read_all, shingled, table, zoned,
};
use crate::{FileSystem, FsError, REWRITE_LEN_BYTES_MAX, Writer};
use imbrex_clockwork::Prng;
use imbrex_disk_sim::FaultPlan;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// The ranges of a log of about `len_bytes`, as a counter hands them out: headers of 7 bytes and
/// payloads.
fn ranges(prng: &mut Prng, len_bytes: usize) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < len_bytes {
        for len in [7, 1 + prng.below(3_000) as usize] {
            ranges.push(at..at + len);
            at += len;
        }
    }
    ranges
}

fn fill(writer: &Writer, bytes: &[u8], range: &Range<usize>) -> Result<(), FsError> {
    writer.fill_at(range.start as u64, &bytes[range.clone()])
}

#[test]
fn any_order_makes_the_same_file() {
    for (seed, stage) in [zoned(), conventional(), shingled(), interlaced()].iter().enumerate() {
        let fs = stage.open().unwrap();
        let mut prng = Prng::new(seed as u64).derive("any order");
        let mut ranges = ranges(&mut prng, 300_000);
        let bytes = content(1, ranges.last().unwrap().end);
        // As threads do it: no range is far ahead.
        for at in 0..ranges.len() {
            let with = (at + prng.below(12) as usize).min(ranges.len() - 1);
            ranges.swap(at, with);
        }
        let writer = fs.create("/log", log()).unwrap();
        for (index, range) in ranges.iter().enumerate() {
            fill(&writer, &bytes, range).unwrap();
            let end = writer.len_bytes() as usize;
            let is_hole = ranges[index + 1..].iter().any(|late| late.start == end);
            assert!(is_hole || end == bytes.len(), "the file ends where a hole begins");
            // With a single thread, a sync must not meet a hole: no other thread would fill it.
            let reach = ranges[..=index].iter().map(|range| range.end).max();
            if reach == Some(end) {
                writer.sync().unwrap();
                assert_eq!(read_all(&fs, "/log").unwrap(), bytes[..end]);
            }
        }
        writer.sync().unwrap();
        writer.close().unwrap();
        assert_eq!(read_all(&fs, "/log").unwrap(), bytes);
        drop(fs);
        assert_eq!(read_all(&stage.open().unwrap(), "/log").unwrap(), bytes, "reopened");
        stage.assert_sound();
    }
}

#[test]
fn impossible_pieces_are_refused_and_change_nothing() {
    let stage = conventional();
    let fs = stage.open().unwrap();
    let writer = fs.create("/log", log()).unwrap();
    writer.fill_at(0, b"abc").unwrap();
    writer.fill_at(7, b"hij").unwrap();
    writer.fill_at(5, b"f").unwrap();
    for (offset, data) in
        [(0, &b"x"[..]), (2, b"xy"), (7, b"x"), (9, b"xyz"), (4, b"xy"), (6, b"xy")]
    {
        let error = writer.fill_at(offset, data).unwrap_err();
        assert!(matches!(error, FsError::WrittenTwice { .. }), "{offset}: {error}");
    }
    writer.fill_at(1, b"").unwrap();
    assert_eq!(read_all(&fs, "/log").unwrap(), b"abc", "nothing behind a hole is the file's");
    fs.sync_all().unwrap();
    writer.fill_at(3, b"de").unwrap();
    assert_eq!(read_all(&fs, "/log").unwrap(), b"abcdef");
    // On close no more writes can come: zeros, as in POSIX.
    writer.close().unwrap();
    assert_eq!(read_all(&fs, "/log").unwrap(), b"abcdef\0hij");
    // Bytes that others appended belong to the file; pieces in their place do not.
    let writer = fs.append_to("/log").unwrap();
    writer.fill_at(12, b"mnop").unwrap();
    writer.append(b"kl.n").unwrap();
    writer.close().unwrap();
    assert_eq!(read_all(&fs, "/log").unwrap(), b"abcdef\0hijkl.nop");
}

/// Once, a record too far behind a hole was refused and never written later. After the records
/// before it were there, every sync waited for it forever.
#[test]
fn a_piece_too_far_ahead_leaves_a_permanent_hole() {
    let stage = conventional();
    let fs = stage.open().unwrap();
    for offset in [REWRITE_LEN_BYTES_MAX + 3, u64::MAX] {
        let writer = fs.create("/log", log()).unwrap();
        writer.fill_at(0, b"abc").unwrap();
        writer.fill_at(5, b"f").unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| writer.sync().unwrap_err());
            let error = writer.fill_at(offset, b"x").unwrap_err();
            assert!(matches!(error, FsError::TooFar { .. }), "{offset}: {error}");
            let error = waiting.join().unwrap();
            assert!(matches!(error, FsError::Lost { .. }), "{error}");
        });
        // A write before the hole, one behind it, and a sync.
        for refused in [writer.fill_at(3, b"de"), writer.fill_at(9, b"j"), writer.sync()] {
            let error = refused.unwrap_err();
            assert!(matches!(error, FsError::Lost { .. }), "{error}");
        }
        assert!(writer.close().is_err());
        assert_eq!(read_all(&fs, "/log").unwrap(), b"abc");
    }
}

#[test]
fn a_hole_that_cannot_be_filled_ends_every_wait() {
    let stage = conventional();
    let fs = stage.open().unwrap();
    let writer = fs.create("/log", log()).unwrap();
    writer.append(&content(3, 300_000)).unwrap();
    writer.fill_at(300_002, b"behind").unwrap();
    stage.disk.set_faults(FaultPlan { power_cut_after: Some(0), ..FaultPlan::default() });
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| writer.sync().unwrap_err());
        let error = writer.fill_at(300_000, b"xx").unwrap_err();
        assert!(matches!(error, FsError::Files { .. }), "{error}");
        let error = waiting.join().unwrap();
        assert!(matches!(error, FsError::Lost { .. }), "{error}");
    });
    let error = writer.fill_at(300_000, b"xx").unwrap_err();
    assert!(matches!(error, FsError::Lost { .. }), "{error}");
    assert!(writer.close().is_err());
}

/// Threads take ranges from a counter, write them and sync now and then, until the power fails or
/// the log is full. Returns how much they reported as durable.
fn write_by_threads(fs: &FileSystem, bytes: &[u8]) -> u64 {
    let Ok(writer) = fs.create("/log", log()) else { return 0 };
    let (next, durable) = (AtomicU64::new(0), Mutex::new(0u64));
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (writer, next, durable) = (&writer, &next, &durable);
            scope.spawn(move || {
                let mut prng = Prng::new(thread);
                loop {
                    let len = 8 + prng.below(2_000);
                    let start = next.fetch_add(len, Ordering::Relaxed) as usize;
                    let end = start + len as usize;
                    if end > bytes.len() {
                        return;
                    }
                    for range in [start..start + 7, start + 7..end] {
                        if fill(writer, bytes, &range).is_err() {
                            return;
                        }
                    }
                    if prng.below(6) == 0 {
                        if writer.sync().is_err() {
                            return;
                        }
                        let mut durable = durable.lock();
                        *durable = (*durable).max(end as u64);
                    }
                }
            });
        }
    });
    let durable = durable.lock();
    *durable
}

fn cut_under_threads(make: fn() -> Stage, cut: u64, bytes: &[u8]) {
    let stage = make();
    let fs = stage.open().unwrap();
    let faults = FaultPlan { power_cut_after: Some(cut), ..FaultPlan::default() };
    stage.disk.set_faults(faults);
    let durable = write_by_threads(&fs, bytes);
    drop(fs);
    stage.power_cycle(cut);
    let fs = stage.open().unwrap();
    let found = read_all(&fs, "/log").unwrap_or_default();
    assert!(found.len() as u64 >= durable, "cut {cut}: {} of {durable} synced", found.len());
    assert!(bytes.starts_with(&found), "cut {cut}: a hole, or foreign bytes");
}

/// All synced data is there, and everything below it: no hole stops a reader.
#[test]
fn threads_write_and_the_power_goes() {
    let bytes = content(5, 200_000);
    for make in [zoned, conventional, shingled, interlaced] {
        (0..200).step_by(17).for_each(|cut| cut_under_threads(make, cut, &bytes));
    }
}

#[test]
fn threads_write_a_log_together() {
    let stage = large();
    let fs = stage.open().unwrap();
    let bytes = content(6, 2_000_000);
    let durable = write_by_threads(&fs, &bytes);
    let found = read_all(&fs, "/log").unwrap();
    assert!(found.len() as u64 >= durable && durable > 1_000_000, "{durable}, {}", found.len());
    assert!(bytes.starts_with(&found));
}

/// Syncs in a thread of its own. The result says when the sync takes too long.
#[expect(
    clippy::disallowed_methods,
    reason = "who waits for ever is left behind, and fails the test"
)]
fn sync_meanwhile(writer: &Arc<Writer>) -> impl FnOnce(&str) -> Result<(), FsError> + use<> {
    let (tell, synced) = mpsc::channel();
    let writer = Arc::clone(writer);
    std::thread::spawn(move || tell.send(writer.sync()));
    move |what| {
        let synced = synced.recv_timeout(Duration::from_secs(20));
        synced.unwrap_or_else(|_| panic!("{what}: a sync that waits for ever"))
    }
}

/// Once, a hole that an append, a write at a position or another writer had filled stayed a hole,
/// and a sync waited forever.
#[test]
fn any_operation_that_moves_the_end_appends_waiting_pieces() {
    type Action = fn(&FileSystem, &Writer) -> Result<(), FsError>;
    let actions: [(&str, Action, &[u8]); 8] = [
        ("an append", |_, writer| writer.append(b"kl"), b"abcdefghijklmnop"),
        ("an append over its beginning", |_, writer| writer.append(b"kl.n"), b"abcdefghijkl.nop"),
        ("an append over it", |_, writer| writer.append(b"kl...qr"), b"abcdefghijkl...qr"),
        ("a write at the end", |_, writer| writer.write_at(10, b"kl"), b"abcdefghijklmnop"),
        ("a write behind it", |_, writer| writer.write_at(11, b"l"), b"abcdefghij\0lmnop"),
        ("zeros", |_, writer| writer.truncate(14), b"abcdefghij\0\0\0\0op"),
        ("another's append", |fs, _| fs.append_to("/log")?.append(b"kl"), b"abcdefghijklmnop"),
        ("another's piece", |fs, _| fs.append_to("/log")?.fill_at(10, b"kl"), b"abcdefghijklmnop"),
    ];
    for (what, action, expected) in actions {
        let stage = conventional();
        let fs = stage.open().unwrap();
        let writer = Arc::new(fs.create("/log", log()).unwrap());
        writer.append(b"abcdefghij").unwrap();
        writer.fill_at(12, b"mnop").unwrap();
        let synced = sync_meanwhile(&writer);
        action(&fs, &writer).unwrap();
        synced(what).unwrap();
        let found = read_all(&fs, "/log").unwrap();
        assert_eq!(found, expected, "{what}: {:?}", String::from_utf8_lossy(&found));
    }
}

#[test]
fn a_writer_waits_only_for_its_own_pieces() {
    let stage = conventional();
    let fs = stage.open().unwrap();
    let one = fs.create("/log", log()).unwrap();
    one.append(b"abc").unwrap();
    let another = fs.append_to("/log").unwrap();
    one.fill_at(5, b"f").unwrap();
    another.fill_at(8, b"i").unwrap();
    let twice = another.fill_at(4, b"xy").unwrap_err();
    assert!(matches!(twice, FsError::WrittenTwice { .. }), "{twice}");
    // A writer without pieces waits for none and fills none.
    let third = fs.append_to("/log").unwrap();
    third.sync().unwrap();
    third.close().unwrap();
    assert_eq!(read_all(&fs, "/log").unwrap(), b"abc");
    one.close().unwrap();
    assert_eq!(read_all(&fs, "/log").unwrap(), b"abc\0\0f");
    another.fill_at(6, b"gh").unwrap();
    another.sync().unwrap();
    assert_eq!(read_all(&fs, "/log").unwrap(), b"abc\0\0fghi");
}

/// Fills the drive with tables. Returns the writer of the last one, which found no room.
fn fill_the_drive(fs: &FileSystem, bytes: &[u8]) -> Arc<Writer> {
    let unstored = |index| {
        let writer = fs.create(&format!("/{index}"), table(1)).unwrap();
        writer.append(bytes).unwrap();
        writer.sync().is_err().then_some(writer)
    };
    Arc::new((0..).find_map(unstored).unwrap())
}

/// Once, a piece behind the end of a file that had lost bytes was accepted. Every write to the hole
/// before it was refused, and a sync waited forever.
#[test]
fn a_file_that_has_lost_bytes_takes_no_pieces() {
    let stage = conventional();
    let fs = stage.open().unwrap();
    let lost = fill_the_drive(&fs, &content(7, 200_000));
    for offset in [lost.len_bytes() + 5, lost.len_bytes()] {
        let refused = lost.fill_at(offset, b"piece").unwrap_err();
        assert!(matches!(refused, FsError::Lost { .. }), "{offset}: {refused}");
    }
    let error = sync_meanwhile(&lost)("after a refusal").unwrap_err();
    assert!(matches!(error, FsError::Lost { .. }), "{error}");
}

/// The loss comes while a piece waits, by a request that does not wait for it.
#[test]
fn a_file_that_loses_bytes_ends_every_wait() {
    let stage = conventional();
    let fs = stage.open().unwrap();
    let bytes = content(7, 200_000);
    fill_the_drive(&fs, &bytes);
    let writer = Arc::new(fs.create("/late", table(1)).unwrap());
    writer.append(&bytes).unwrap();
    writer.fill_at(bytes.len() as u64 + 5, b"piece").unwrap();
    let synced = sync_meanwhile(&writer);
    assert!(fs.sync_all().is_err());
    let error = synced("a loss").unwrap_err();
    assert!(matches!(error, FsError::Lost { .. }), "{error}");
}
