//! Dumps of files made by the store's own writers, and of garbage.

use super::*;
use crate::batch::{KeyspaceId, WriteBatch};
use crate::key::Trailer;
use crate::table::{TableBuilder, TableOptions};
use crate::version::edit::Counters;
use imbrex_clockwork::Prng;
use imbrex_disk::BlockRange;
use imbrex_files::{FileBuffer, FileKind, Hints};
use imbrex_record_log::Encoder;

#[derive(Debug)]
struct MemoryFile(&'static str, Vec<u8>);

impl FileReader for MemoryFile {
    fn len_bytes(&self) -> u64 {
        self.1.len() as u64
    }

    fn name(&self) -> &str {
        self.0
    }

    fn read_at<'a>(
        &self,
        offset: u64,
        len_bytes: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], FilesError> {
        let rest = usize::try_from(offset).ok().and_then(|start| self.1.get(start..));
        let bytes = rest.and_then(|rest| rest.get(..len_bytes)).ok_or(FilesError::PastEnd {
            name: self.0.to_owned(),
            offset,
            len_bytes,
            file_len_bytes: self.len_bytes(),
        })?;
        scratch.clear();
        scratch.extend_from_slice(bytes);
        Ok(scratch)
    }

    fn extents(&self) -> Vec<BlockRange> {
        Vec::new()
    }
}

fn table() -> Vec<u8> {
    let file = FileBuffer::new("000003.table", Hints::new(FileKind::Table));
    let mut builder = TableBuilder::new(file, TableOptions::default());
    builder.add(b"a", Trailer::new(Seq(7), Kind::Put), b"\xff\x00");
    builder.add("ä".as_bytes(), Trailer::new(Seq(8), Kind::Delete), b"");
    builder.add_range_tombstone(b"m", b"q", Seq(9));
    builder.finish().0.chunks().concat()
}

fn log() -> Vec<u8> {
    let mut batch = WriteBatch::new();
    batch.put(KeyspaceId(1), "k", "v".repeat(70)).unwrap();
    batch.delete_range(KeyspaceId(2), "a", "b").unwrap();
    let mut encoder = Encoder::with_frame_len(12, BLOCK_LEN_BYTES);
    encoder.push(&[batch.encode(Seq(5))]).unwrap();
    encoder.seal();
    let mut bytes = Vec::new();
    encoder.take_ready(&mut bytes);
    bytes
}

fn records() -> Vec<Vec<u8>> {
    let counters = Counters { next_id: 4, next_keyspace_id: 2, last_seq: 9 };
    let edit = VersionEdit {
        counters: Some(counters),
        log_floors: vec![(KeyspaceId(0), LogId(3))],
        ..VersionEdit::default()
    };
    vec![format::encode(format::RecordKind::Snapshot, &edit)]
}

fn lines(
    dump: impl FnOnce(DumpSink<'_>) -> Result<(), EngineError>,
) -> (Vec<String>, Result<(), EngineError>) {
    let mut lines = Vec::new();
    let result = dump(&mut |line| lines.push(line.to_owned()));
    (lines, result)
}

#[test]
fn a_table_tells_its_entries() {
    let (lines, result) =
        lines(|sink| dump_table(Arc::new(MemoryFile("000003.table", table())), sink));
    result.unwrap();
    let text = lines.join("\n");
    for part in ["000003.table", "\"m\"..\"q\" #9", "\\xff\\x00"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_log_tells_its_batches_and_its_end() {
    let file = MemoryFile("000012.log", log());
    let (lines, result) = lines(|sink| dump_log(&file, 0, sink));
    result.unwrap();
    assert_eq!(lines[1], "batch of 2 in the frame at byte 0");
    let cut = format!("  keyspace 1 #5 put \"k\" = {:?}... (70 bytes)", "v".repeat(60));
    assert_eq!(lines[2], cut);
    assert_eq!(lines[3], "  keyspace 2 #6 delete \"a\"..\"b\"");
    assert!(lines[4].starts_with("the log ends"), "{}", lines[4]);
    let other = MemoryFile("notes.txt", Vec::new());
    assert!(dump_log(&other, 0, &mut |_| ()).is_err());
}

#[test]
fn records_tell_what_changed() {
    let (lines, result) = lines(|sink| dump_records(&records(), sink));
    result.unwrap();
    assert_eq!(
        lines,
        [
            "record 0: snapshot of the whole state",
            "  next file 4, next keyspace 2, tables hold writes to #9",
            "  keyspace 0: logs before 000003.log are in tables",
        ]
    );
}

#[test]
fn garbage_is_an_error_and_no_panic() {
    let mut prng = Prng::new(1);
    let mut sink = |_: &str| ();
    for _ in 0..2_000 {
        for (is_log, mut bytes) in [(false, table()), (true, log())] {
            let at = prng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << prng.below(8);
            bytes.truncate(bytes.len() - prng.below(3) as usize * 100);
            if is_log {
                let _ = dump_log(&MemoryFile("000012.log", bytes), 0, &mut sink);
            } else {
                let _ = dump_table(Arc::new(MemoryFile("000003.table", bytes)), &mut sink);
            }
        }
        let mut records = records();
        let at = prng.below(records[0].len() as u64) as usize;
        records[0][at] ^= 1 << prng.below(8);
        assert!(dump_records(&records, &mut sink).is_err(), "a record has a checksum");
    }
}
