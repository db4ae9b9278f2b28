use super::replay::Replayed;
use super::*;
use crate::batch::{KeyspaceId, SingleOp, WriteBatch};
use crate::key::{Kind, Seq};
use crate::losses::Losses;
use imbrex_clockwork::Prng;
use imbrex_files::FileReader;

const KS: KeyspaceId = KeyspaceId(0);
const FRAME_LEN_BYTES: usize = 8192;

/// A log in memory that knows which bytes are durable and can run out of space.
#[derive(Debug, Default)]
struct MemoryLog {
    state: Mutex<MemoryState>,
}

#[derive(Clone, Debug, Default)]
struct MemoryState {
    bytes: Vec<u8>,
    durable_len: usize,
    sync_count: usize,
    room_bytes: Option<usize>,
    fails: bool,
}

impl LogWriter for MemoryLog {
    fn append(&self, data: &[u8]) -> Result<u64, FilesError> {
        let mut state = self.state.lock();
        assert!(!data.is_empty() && data.len().is_multiple_of(BLOCK_LEN_BYTES));
        if state.fails {
            return Err(FilesError::Poisoned { reason: "a test".to_owned() });
        }
        if let Some(room) = &mut state.room_bytes {
            if *room < data.len() {
                let (needed_bytes, free_bytes) = (data.len() as u64, *room as u64);
                return Err(FilesError::NoSpace { needed_bytes, free_bytes });
            }
            *room -= data.len();
        }
        let offset = state.bytes.len() as u64;
        state.bytes.extend_from_slice(data);
        Ok(offset)
    }
    fn sync(&self) -> Result<(), FilesError> {
        let mut state = self.state.lock();
        if state.fails {
            return Err(FilesError::Poisoned { reason: "a test".to_owned() });
        }
        state.durable_len = state.bytes.len();
        state.sync_count += 1;
        Ok(())
    }
    fn len_bytes(&self) -> u64 {
        self.state.lock().bytes.len() as u64
    }
    fn finish(&self) -> Result<(), FilesError> {
        Ok(())
    }
}

/// A block that is lost, and the error of reading it.
type Lost = (usize, fn(u64) -> FilesError);

/// Its content, its name, and perhaps a lost block.
#[derive(Debug)]
struct MemoryFile(Vec<u8>, String, Option<Lost>);

fn unreadable(block: u64) -> FilesError {
    let source = imbrex_disk::DiskError::Medium { at: imbrex_disk::Lba::new(block) };
    FilesError::Disk { what: "reading".to_owned(), source }
}

fn past_the_end(_: u64) -> FilesError {
    FilesError::PastEnd { name: "a test".to_owned(), offset: 0, len_bytes: 0, file_len_bytes: 0 }
}

impl FileReader for MemoryFile {
    fn len_bytes(&self) -> u64 {
        self.0.len() as u64
    }
    fn name(&self) -> &str {
        &self.1
    }
    fn read_at<'a>(
        &self,
        offset: u64,
        len_bytes: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], FilesError> {
        scratch.clear();
        let blocks =
            offset as usize / BLOCK_LEN_BYTES..(offset as usize + len_bytes) / BLOCK_LEN_BYTES;
        if let Some((lost, error)) = self.2.filter(|(lost, _)| blocks.contains(lost)) {
            return Err(error(lost as u64));
        }
        scratch.extend_from_slice(&self.0[offset as usize..][..len_bytes]);
        Ok(scratch)
    }
    fn extents(&self) -> Vec<imbrex_disk::BlockRange> {
        Vec::new()
    }
}

fn open(number: u64) -> (Arc<MemoryLog>, Wal) {
    let log = Arc::new(MemoryLog::default());
    let file = Arc::clone(&log) as Arc<dyn LogWriter>;
    (log, Wal::new(log_name(number), file, number, FRAME_LEN_BYTES))
}

fn source(number: u64, bytes: &[u8]) -> LogSource {
    source_without(number, bytes, None)
}

/// A log with one block that cannot be read.
fn source_without(number: u64, bytes: &[u8], lost: Option<Lost>) -> LogSource {
    let file = Arc::new(MemoryFile(bytes.to_vec(), log_name(number), lost));
    LogSource { file, log_id: number, is_finished: false }
}

fn put(wal: &Wal, seq: u64, value_len: usize) -> Result<WalPosition, EngineError> {
    let value = vec![seq as u8; value_len];
    let op = SingleOp::new(Seq(seq), KS, Kind::Put, b"key", &value);
    wal.append(&op.parts()).map(|(position, _)| position)
}

/// The numbers of the writes that come back, and the result of the replay.
fn replayed(logs: &[LogSource]) -> (Vec<u64>, Result<Replayed, String>) {
    let mut seqs = Vec::new();
    let end = replay(logs, Before::After(Seq(0)), &mut |_, batch| {
        for (seq, op) in batch.ops() {
            assert!(op.kind != Kind::Put || op.value.iter().all(|&byte| byte == seq.0 as u8));
            seqs.push(seq.0);
        }
        Ok(())
    });
    (seqs, end.map_err(|error| error.to_string()))
}

fn up_to(last: u64) -> Vec<u64> {
    (1..=last).collect()
}

#[test]
fn names_carry_the_number() {
    assert_eq!(log_name(12), "000012.log");
    assert_eq!(log_number("000012.log"), Some(12));
    assert_eq!(log_number("1234567.log"), Some(1_234_567));
    for name in ["12.log", "000012.tbl", "+00012.log", ".log", "0000012.log"] {
        assert_eq!(log_number(name), None, "{name}");
    }
}

#[test]
fn what_was_synced_comes_back() {
    let (log, wal) = open(3);
    for seq in 1..=40 {
        put(&wal, seq, 300).unwrap();
    }
    let mut batch = WriteBatch::new();
    batch.delete(KS, b"a").unwrap();
    batch.delete_range(KS, b"a", b"b").unwrap();
    let (position, _) = wal.append(&[batch.encode(Seq(41))]).unwrap();
    wal.sync_to(position).unwrap();
    let state = log.state.lock().clone();
    let (seqs, end) = replayed(&[source(3, &state.bytes[..state.durable_len])]);
    assert_eq!(seqs, up_to(42));
    let expected = Replayed { last_seq: Some(Seq(42)), batch_count: 41, cut: None };
    assert_eq!(end, Ok(expected));
}

/// A flipped bit in the last record of a closed store was taken for a torn write, and the record was
/// gone without a word.
#[test]
fn damage_to_the_last_record_of_a_marked_log_is_an_error() {
    let (log, wal) = open(3);
    for seq in 1..=3 {
        put(&wal, seq, 100).unwrap();
        wal.sync().unwrap();
    }
    let unmarked = log.state.lock().bytes.clone();
    wal.mark_end().unwrap();
    wal.mark_end().unwrap();
    let state = log.state.lock().clone();
    assert_eq!(state.durable_len, state.bytes.len());
    assert_eq!(state.bytes.len(), unmarked.len() + BLOCK_LEN_BYTES, "it is marked once");
    assert_eq!(replayed(&[source(3, &state.bytes)]).0, up_to(3));
    for block in 0..state.bytes.len() / BLOCK_LEN_BYTES {
        let mut bytes = state.bytes.clone();
        bytes[block * BLOCK_LEN_BYTES + 77] ^= 1;
        let (seqs, end) = replayed(&[source(3, &bytes)]);
        let is_mark = block * BLOCK_LEN_BYTES == unmarked.len();
        assert_eq!(end.is_ok(), is_mark, "block {block}: {end:?}");
        assert!(!is_mark || seqs == up_to(3));
    }
    // Without the mark.
    let mut bytes = unmarked;
    *bytes.last_mut().unwrap() ^= 1;
    assert!(replayed(&[source(3, &bytes)]).1.is_ok());
    // The log can go on.
    put(&wal, 4, 100).unwrap();
    wal.mark_end().unwrap();
    assert_eq!(replayed(&[source(3, &log.state.lock().bytes)]).0, up_to(4));
}

#[test]
fn a_sync_serves_all_who_wait() {
    let (log, wal) = open(1);
    let first = put(&wal, 1, 10).unwrap();
    let second = put(&wal, 2, 10).unwrap();
    wal.sync_to(second).unwrap();
    wal.sync_to(first).unwrap();
    assert_eq!(log.state.lock().sync_count, 1);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let batch = SingleOp::new(Seq(3), KS, Kind::Delete, b"k", b"");
                    let (position, _) = wal.append(&batch.parts()).unwrap();
                    wal.sync_to(position).unwrap();
                    assert!(*wal.durable.lock() >= position);
                }
            });
        }
    });
    assert_eq!(wal.position(), WalPosition(202));
}

#[test]
fn a_crash_takes_a_suffix_that_was_never_synced() {
    let (log, wal) = open(9);
    let mut prng = Prng::new(4);
    let mut synced = 0;
    for seq in 1..=120 {
        let position = put(&wal, seq, prng.below(900) as usize).unwrap();
        if prng.chance(1, 20) {
            wal.sync_to(position).unwrap();
            synced = seq;
        }
    }
    let state = log.state.lock().clone();
    for len in (state.durable_len..=state.bytes.len()).step_by(512) {
        let mut bytes = state.bytes[..len].to_vec();
        // The file has its blocks, but those that did not reach the platter are zero.
        bytes.resize(state.bytes.len() + BLOCK_LEN_BYTES, 0);
        let (seqs, end) = replayed(&[source(9, &bytes)]);
        assert!(seqs.len() as u64 >= synced);
        assert_eq!(seqs, up_to(seqs.len() as u64));
        assert!(end.is_ok());
    }
}

#[test]
fn damage_below_a_sync_is_an_error_that_names_the_place() {
    let (log, wal) = open(9);
    for seq in 1..=100 {
        put(&wal, seq, 300).unwrap();
        if seq % 10 == 0 {
            wal.sync().unwrap();
        }
    }
    let mut bytes = log.state.lock().bytes.clone();
    bytes[3 * BLOCK_LEN_BYTES + 100] ^= 1;
    let (seqs, end) = replayed(&[source(9, &bytes)]);
    assert_eq!(seqs, up_to(seqs.len() as u64));
    let error = end.unwrap_err();
    assert!(error.starts_with("damaged log in 000009.log at offset "), "{error}");
}

fn log_of(number: u64, seqs: std::ops::RangeInclusive<u64>) -> Vec<u8> {
    let (log, wal) = open(number);
    for seq in seqs {
        put(&wal, seq, 2000).unwrap();
    }
    wal.finish().unwrap();
    assert!(put(&wal, 1000, 1).is_err());
    log.state.lock().bytes.clone()
}

#[test]
fn logs_follow_one_another_without_a_gap() {
    let (first, second) = (log_of(1, 1..=20), log_of(2, 21..=40));
    let whole = |first: &[u8], second: &[u8]| replayed(&[source(1, first), source(2, second)]);
    assert_eq!(whole(&first, &second).0, up_to(40));
    // Only the newest log may be torn.
    let torn = |bytes: &[u8]| bytes[..bytes.len() - BLOCK_LEN_BYTES].to_vec();
    let (seqs, end) = whole(&first, &torn(&second));
    assert_eq!(seqs, up_to(seqs.len() as u64));
    assert!(seqs.len() > 20);
    let cut = end.unwrap().cut.unwrap();
    assert_eq!(cut.file, "000002.log");
    let (seqs, end) = whole(&torn(&first), &second);
    assert_eq!(seqs, up_to(seqs.len() as u64));
    assert!(seqs.len() < 20);
    assert!(end.unwrap_err().contains("000001.log"));
    // Cut at a frame boundary, the first log looks whole. Only the numbers show the gap.
    let (seqs, end) = whole(&log_of(1, 1..=19), &second);
    assert_eq!(seqs, up_to(19));
    assert_eq!(
        end.unwrap_err(),
        "damaged log in 000002.log at offset 56: batch begins with write 21, expected 20"
    );
}

#[test]
fn the_logs_continue_what_is_in_tables() {
    let log = [source(1, &log_of(1, 11..=20))];
    let goes_on = |before| replay(&log, before, &mut |_, _| Ok(())).is_ok();
    assert!(goes_on(Before::Flushed(Seq(10))));
    assert!(goes_on(Before::Flushed(Seq(15))));
    assert!(!goes_on(Before::Flushed(Seq(9))));
    assert!(goes_on(Before::After(Seq(9))), "some may be missing");
    assert!(!goes_on(Before::After(Seq(11))), "numbers never go back");
}

/// Without its last frame, a log looks whole. If its successor has no frame yet, only the length of
/// the log's file shows the loss.
#[test]
fn a_finished_log_ends_where_its_file_does() {
    let (log, wal) = open(1);
    for seq in 1..=20 {
        // Each sync ends a frame, so the last frame begins with a record.
        put(&wal, seq, 2000).unwrap();
        wal.sync().unwrap();
    }
    wal.finish().unwrap();
    let mut bytes = log.state.lock().bytes.clone();
    let finished = |bytes: &[u8]| LogSource { is_finished: true, ..source(1, bytes) };
    assert_eq!(replayed(&[finished(&bytes), source(2, &[])]).0, up_to(20));
    let mut blocks = bytes.chunks_mut(BLOCK_LEN_BYTES);
    blocks.rfind(|block| block.starts_with(b"RLOG")).unwrap().fill(0);
    let (seqs, end) = replayed(&[source(1, &bytes), source(2, &[])]);
    assert!(seqs == up_to(19) && end.is_ok(), "{end:?}");
    let error = replayed(&[finished(&bytes), source(2, &[])]).1.unwrap_err();
    assert!(error.starts_with("damaged log in 000001.log at offset "), "{error}");
}

#[test]
fn a_full_drive_refuses_a_record_and_takes_the_next() {
    let (log, wal) = open(5);
    put(&wal, 1, 100).unwrap();
    log.state.lock().room_bytes = Some(0);
    // Frames fill up in memory until one must go to the file.
    let refused = (2..).find(|&seq| put(&wal, seq, 3000).is_err()).unwrap();
    assert!(put(&wal, refused, 3000).is_err());
    assert!(matches!(wal.sync(), Err(EngineError::Files { .. })));
    assert!(!wal.is_closed());
    log.state.lock().room_bytes = None;
    put(&wal, refused, 3000).unwrap();
    wal.finish().unwrap();
    let (seqs, end) = replayed(&[source(5, &log.state.lock().bytes), source(6, &[])]);
    assert_eq!(seqs, up_to(refused));
    assert!(end.is_ok_and(|end| end.cut.is_none()));
}

/// A record in pieces whose rest finds no space must not take later records with it, or make a log
/// that has a successor look torn.
#[test]
fn half_a_record_is_disowned() {
    for is_followed in [true, false] {
        let (log, wal) = open(5);
        put(&wal, 1, 100).unwrap();
        log.state.lock().room_bytes = Some(2 << 20);
        assert!(put(&wal, 2, 4 << 20).is_err());
        assert!(log.len_bytes() > 1 << 20);
        log.state.lock().room_bytes = None;
        if is_followed {
            put(&wal, 2, 100).unwrap();
            put(&wal, 3, 3 << 20).unwrap();
        }
        wal.finish().unwrap();
        let (seqs, end) = replayed(&[source(5, &log.state.lock().bytes), source(6, &[])]);
        assert_eq!(seqs, up_to(if is_followed { 3 } else { 1 }));
        assert_eq!(end.unwrap().cut, None);
    }
}

/// Each attempt to end a log after an incomplete record used to need one more frame than the
/// attempt before.
#[test]
fn a_log_that_finds_no_room_to_end_needs_no_more_with_each_try() {
    let (log, wal) = open(5);
    put(&wal, 1, 100).unwrap();
    log.state.lock().room_bytes = Some(2 << 20);
    assert!(put(&wal, 2, 4 << 20).is_err());
    log.state.lock().room_bytes = Some(0);
    for _ in 0..3 {
        assert!(matches!(wal.finish(), Err(EngineError::Files { .. })));
    }
    log.state.lock().room_bytes = Some(BLOCK_LEN_BYTES);
    wal.finish().unwrap();
    let (seqs, end) = replayed(&[source(5, &log.state.lock().bytes), source(6, &[])]);
    assert_eq!((seqs, end.unwrap().cut), (up_to(1), None));
}

#[test]
fn a_failed_write_closes_the_log() {
    let (log, wal) = open(5);
    put(&wal, 1, 100).unwrap();
    log.state.lock().fails = true;
    assert!(matches!(wal.sync(), Err(EngineError::Files { .. })));
    assert!(wal.is_closed());
    log.state.lock().fails = false;
    assert!(matches!(put(&wal, 2, 1), Err(EngineError::Poisoned { .. })));
    assert!(matches!(wal.finish(), Err(EngineError::Poisoned { .. })));
}

/// If any block of a log is lost, salvage still returns all other batches. This holds for the last
/// block too, even if the log has a successor.
#[test]
fn a_damaged_log_is_salvaged_but_for_what_was_hit() {
    let (log, wal) = open(1);
    for seq in 1..=40 {
        let position = put(&wal, seq, 3000).unwrap();
        if seq % 4 == 0 {
            wal.sync_to(position).unwrap();
        }
    }
    let bytes = log.state.lock().bytes.clone();
    for lost in 0..bytes.len() / BLOCK_LEN_BYTES {
        for is_newest in [true, false] {
            let mut bytes = bytes.clone();
            bytes[lost * BLOCK_LEN_BYTES..][..BLOCK_LEN_BYTES].fill(0xdd);
            let losses = Losses::default();
            let log = LogSource { is_finished: !is_newest, ..source(1, &bytes) };
            let mut seqs = Vec::new();
            let mut logs = vec![log];
            logs.extend((!is_newest).then(|| source(2, &[])));
            let before = Before::Flushed(Seq(0));
            let replayed = salvage(&logs, before, &losses, &mut |_, batch| {
                for (seq, op) in batch.ops() {
                    assert!(op.value.iter().all(|&byte| byte == seq.0 as u8));
                    seqs.push(seq.0);
                }
                Ok(())
            });
            let replayed = replayed.unwrap().remove(0);
            assert!(seqs.is_sorted() && seqs.len() >= 34, "block {lost}: {seqs:?}");
            assert_eq!(replayed.last_seq, seqs.last().copied().map(Seq));
            // No later frame shows that the last write was synced. In the newest log, its loss is a
            // crash's suffix.
            let is_torn = is_newest && replayed.cut.is_some();
            assert_eq!(
                losses.sentences().is_empty(),
                is_torn,
                "block {lost}: {:?}",
                losses.sentences()
            );
            assert!(seqs.len() < 40, "block {lost}");
        }
    }
}

/// The losses of a salvage, one sentence each.
fn losses_of(logs: &[LogSource]) -> Vec<String> {
    let losses = Losses::default();
    salvage(logs, Before::Flushed(Seq(0)), &losses, &mut |_, _| Ok(())).unwrap();
    assert_eq!(losses.keys().is_empty(), losses.sentences().is_empty());
    losses.sentences()
}

/// Once, a flipped bit in the magic of a log's last frame made the log look whole, only shorter. The
/// store was refused for the gap before the next log, and its salvage reported no loss.
#[test]
fn what_a_replay_refuses_is_a_loss_of_a_salvage() {
    type Damage = fn(&mut Vec<u8>, usize);
    let damages: [(&str, Damage); 4] = [
        ("a foreign block", |bytes, at| bytes[at..][..BLOCK_LEN_BYTES].fill(0xdd)),
        ("a block of zeros", |bytes, at| bytes[at..][..BLOCK_LEN_BYTES].fill(0)),
        ("a bit of the magic", |bytes, at| bytes[at + 2] ^= 4),
        ("a file cut short", |bytes, at| bytes.truncate(at)),
    ];
    let agree = |what: &str, logs: &[LogSource]| {
        let refused = replay(logs, Before::Flushed(Seq(0)), &mut |_, _| Ok(())).err();
        let losses = losses_of(logs);
        assert_eq!(refused.is_some(), !losses.is_empty(), "{what}: {refused:?}, {losses:?}");
        refused.is_some()
    };
    let logs = [log_of(1, 1..=8), log_of(2, 9..=16), log_of(3, 17..=24)];
    let mut refused_count = 0;
    for (index, is_finished) in [(0, true), (0, false), (1, true), (1, false), (2, false)] {
        let sources = |bytes: &[u8], lost: Option<Lost>| {
            let source_of = |nth: usize| {
                let bytes = if nth == index { bytes } else { &logs[nth] };
                let number = nth as u64 + 1;
                let lost = lost.filter(|_| nth == index);
                let is_finished = is_finished && nth + 1 < logs.len();
                LogSource { is_finished, ..source_without(number, bytes, lost) }
            };
            (0..logs.len()).map(source_of).collect::<Vec<_>>()
        };
        assert!(!agree("no damage", &sources(&logs[index], None)));
        for block in 0..logs[index].len() / BLOCK_LEN_BYTES {
            let words = |what: &str| format!("{what}, block {block} of log {index}, {is_finished}");
            for (what, damage) in damages {
                let mut bytes = logs[index].clone();
                damage(&mut bytes, block * BLOCK_LEN_BYTES);
                refused_count += usize::from(agree(&words(what), &sources(&bytes, None)));
            }
            for (what, error) in
                [("unreadable", unreadable as fn(u64) -> _), ("gone", past_the_end)]
            {
                let sources = sources(&logs[index], Some((block, error)));
                refused_count += usize::from(agree(&words(what), &sources));
            }
        }
    }
    assert!(refused_count > 50, "{refused_count}");
    // Whole logs are missing.
    let [first, second, third] = [0, 1, 2].map(|nth| source(nth as u64 + 1, &logs[nth]));
    assert!(agree("no first log", &[second.clone(), third.clone()]));
    assert!(!agree("no last log", &[first.clone(), second]));
    assert_eq!(
        losses_of(&[first, third]),
        ["a gap in the logs; lost: writes 9 to 16, before 000003.log at offset 56"]
    );
}

/// A power cut makes a block that was being written unreadable, which used to prevent the open. In
/// the newest log it is a torn end if nothing behind it was synced; anywhere else it is damage.
#[test]
fn a_block_that_cannot_be_read_is_a_torn_end_or_damage() {
    let (log, wal) = open(1);
    for seq in 1..=8 {
        put(&wal, seq, 3000).unwrap();
        if seq <= 6 {
            wal.sync().unwrap();
        }
    }
    // Frames of one block each, except the last frame, which has two.
    wal.sync().unwrap();
    let bytes = log.state.lock().bytes.clone();
    let block_count = bytes.len() / BLOCK_LEN_BYTES;
    assert_eq!(block_count, 8);
    let (next_log, next) = open(2);
    put(&next, 9, 10).unwrap();
    next.sync().unwrap();
    let next_bytes = next_log.state.lock().bytes.clone();
    for lost in 0..block_count {
        let newest = source_without(1, &bytes, Some((lost, unreadable)));
        let (seqs, end) = replayed(std::slice::from_ref(&newest));
        match end {
            Ok(replayed) => {
                assert!(6 <= lost, "block {lost}");
                assert_eq!(seqs, up_to(6));
                let cut = replayed.cut.unwrap();
                assert_eq!(cut.offset, 6 * BLOCK_LEN_BYTES as u64);
                assert!(cut.reason.contains("cannot be read"), "{}", cut.reason);
            }
            Err(error) => assert!(lost < 6 && error.contains("cannot be read"), "{lost}: {error}"),
        }
        let finished = LogSource { is_finished: true, ..newest.clone() };
        assert!(replayed(&[finished]).1.is_err(), "block {lost} of a log that was finished");
        let (_, end) = replayed(&[newest, source(2, &next_bytes)]);
        assert!(end.is_err(), "block {lost} of a log with a successor");
    }
    // Other data was being appended to the file of a closed log.
    let mut with_table = bytes;
    with_table.resize(with_table.len() + 4 * BLOCK_LEN_BYTES, 7);
    let closed = source_without(1, &with_table, Some((block_count, unreadable)));
    let (seqs, end) = replayed(&[closed, source(2, &next_bytes)]);
    end.unwrap();
    assert_eq!(seqs, up_to(9));
}
