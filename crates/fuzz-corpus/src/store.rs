//! The store's files: tables, logs of batches, version records, read as `imbrex dump` reads them.

use crate::target::Target;
use imbrex_clockwork::{Order, Runtime};
use imbrex_disk::{BlockRange, Blocks, Disk};
use imbrex_disk_sim::SimDisk;
use imbrex_engine::inspect::{dump_log, dump_records, dump_table};
use imbrex_engine::{Db, Options, WriteBatch, WriteOptions};
use imbrex_files::{
    FileKind, FileLayer, FileReader, Files, FilesError, FormatOptions, PlacementKind,
};
use imbrex_record_log::{BLOCK_LEN_BYTES, Decoder, Encoder, LogBounds};
use std::convert::Infallible;
use std::sync::Arc;

pub(crate) const TABLE: Target = Target { name: "table", feed: feed_table, seeds: table_seeds };
pub(crate) const BATCH: Target = Target { name: "wal_batch", feed: feed_batch, seeds: batch_seeds };
pub(crate) const VERSIONS: Target =
    Target { name: "version_edit", feed: feed_versions, seeds: version_seeds };

/// A file in memory, with the name that its seed had.
#[derive(Debug)]
struct MemoryFile {
    name: &'static str,
    bytes: Vec<u8>,
}

impl FileReader for MemoryFile {
    fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn name(&self) -> &str {
        self.name
    }

    fn read_at<'a>(
        &self,
        offset: u64,
        len_bytes: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], FilesError> {
        let rest = usize::try_from(offset).ok().and_then(|start| self.bytes.get(start..));
        let found = rest.and_then(|rest| rest.get(..len_bytes));
        let found = found.ok_or_else(|| FilesError::PastEnd {
            name: self.name.to_owned(),
            offset,
            len_bytes,
            file_len_bytes: self.len_bytes(),
        })?;
        scratch.clear();
        scratch.extend_from_slice(found);
        Ok(scratch)
    }

    fn extents(&self) -> Vec<BlockRange> {
        Vec::new()
    }
}

/// Reads every block and entry, or fails on the way.
fn feed_table(bytes: &[u8]) {
    let file = MemoryFile { name: "000001.tbl", bytes: bytes.to_vec() };
    let _ = dump_table(Arc::new(file), &mut |_| ());
}

/// The input is one record of a log whose frames are sound, so the batch decoder sees all of it.
fn feed_batch(bytes: &[u8]) {
    let mut encoder = Encoder::new(LOG_ID);
    if encoder.push(&[bytes]).is_err() {
        return;
    }
    encoder.seal();
    let mut log = Vec::new();
    encoder.take_ready(&mut log);
    let file = MemoryFile { name: "000001.log", bytes: log };
    let _ = dump_log(&file, 0, &mut |_| ());
}

/// The id of the log named `000001.log`.
const LOG_ID: u64 = 1;

fn feed_versions(bytes: &[u8]) {
    let _ = dump_records(&[bytes.to_vec()], &mut |_| ());
}

/// A small store that uses every feature, written in virtual time: the same bytes in every run.
fn files_of_a_store() -> FileLayer {
    let disk = Arc::new(SimDisk::tiny_zoned(16, Blocks::new(1024)));
    let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
    let placement = PlacementKind::by_name("zone-per-level").expect("it comes with the crate");
    let files = FileLayer::format(disk as Arc<dyn Disk>, &FormatOptions::new(placement), &runtime)
        .expect("the drive suits the placement");
    let options = Options { memtable_len_bytes: 1 << 20, ..Options::default() };
    let db = Db::open(Arc::new(files.clone()), runtime, options).expect("an empty store opens");
    let keyspace = db.default_keyspace();
    let write = |round: u32| {
        let mut batch = WriteBatch::new();
        for n in 0..300_u32 {
            let value = "v".repeat((n * 7 % 90) as usize);
            batch.put(&keyspace, format!("key{n:04}"), format!("{round}{value}"))?;
        }
        batch.delete(&keyspace, "key0007")?;
        batch.delete_range(&keyspace, "key0100", "key0120")?;
        db.write(batch, WriteOptions::SYNC)
    };
    write(1).and_then(|()| db.flush()).and_then(|()| write(2)).expect("the drive has room");
    db.close().expect("the disk has no faults");
    files
}

/// The first file of a kind: its name and its bytes.
fn file_of_kind(kind: FileKind) -> (String, Vec<u8>) {
    let files = files_of_a_store();
    let file = files.list("").into_iter().find(|file| file.kind == kind);
    let file = file.expect("the store has a table and a log");
    let reader = files.open(&file.name).expect("a listed file opens");
    let mut scratch = Vec::new();
    let bytes = reader.read_at(0, file.len_bytes as usize, &mut scratch);
    (file.name, bytes.expect("the disk has no faults").to_vec())
}

fn table_seeds() -> Vec<(&'static str, Vec<u8>)> {
    vec![("store", file_of_kind(FileKind::Table).1)]
}

/// The batches of the store's log.
fn batch_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let (name, log) = file_of_kind(FileKind::Log);
    let log_id = name.trim_end_matches(".log").parse().expect("a log is named by its number");
    let len_blocks = (log.len() / BLOCK_LEN_BYTES) as u64;
    let read = |offset: u64, buf: &mut [u8]| -> Result<(), Infallible> {
        buf.copy_from_slice(&log[offset as usize..][..buf.len()]);
        Ok(())
    };
    let mut decoder = Decoder::new(LogBounds { log_id, len_blocks, durable_blocks: 0 }, read);
    let mut seeds = Vec::new();
    while let Ok(Some(record)) = decoder.next_record() {
        if !record.bytes.is_empty() {
            seeds.push(("store", record.bytes.to_vec()));
        }
    }
    assert_eq!(seeds.len(), 1, "the store's log holds the one batch after its flush");
    seeds
}

fn version_seeds() -> Vec<(&'static str, Vec<u8>)> {
    const NAMES: [&str; 4] = ["record_0", "record_1", "record_2", "record_3"];
    NAMES.into_iter().zip(files_of_a_store().app_records()).collect()
}
