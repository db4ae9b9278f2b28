//! The store's files in words: the content of a table, a log or the version records, one line per
//! fact.
//!
//! ```text
//!   dump_table    a file's bytes, by the table reader    -> properties, tombstones, entries
//!   dump_log      a file's bytes, by the log decoder     -> batches, operations, how it ends
//!   dump_records  the catalog's application records      -> what each commit changed
//! ```
//!
//! These functions accept any bytes, open no store and change nothing. They serve operators who
//! inspect a drive, and fuzzing of the decoders behind them.

use crate::EngineError;
use crate::batch::{BatchView, Op};
use crate::key::{Kind, Seq};
use crate::table::Table;
use crate::table::cache::BlockCache;
use crate::totals::Total;
use crate::version::edit::{LogId, ValuesPlaced, VersionEdit};
use crate::version::format;
use crate::version::partitions::BaseMerge;
use imbrex_files::{FileReader, FilesError};
use imbrex_record_log::{BLOCK_LEN_BYTES, Decoder, LogBounds};
use std::sync::Arc;

/// Receives the lines.
pub type DumpSink<'a> = &'a mut dyn FnMut(&str);

/// Longer keys and values are cut.
const SHOWN_LEN_BYTES_MAX: usize = 60;

/// Prints the content of the table in `file`: its properties, its range tombstones, every entry.
///
/// Cost: reads the whole file and verifies every checksum.
///
/// # Errors
/// [`EngineError::Corrupt`], [`EngineError::Files`]. Lines printed before the error are valid.
pub fn dump_table(file: Arc<dyn FileReader>, sink: DumpSink<'_>) -> Result<(), EngineError> {
    Table::open_any(file, Arc::new(BlockCache::new(0)))?.describe(true, sink)
}

/// Prints the content of the log in `file`: every batch and operation, and how the log ends.
///
/// The number in the log's frames follows from the file's name and the file layer's `format_id`.
///
/// # Errors
/// [`EngineError::Corrupt`] if a record passes its checksum but is not a batch, or if the name is
/// not that of a log. [`EngineError::Files`]. Lines printed before the error are valid.
pub fn dump_log(
    file: &dyn FileReader,
    format_id: u64,
    sink: DumpSink<'_>,
) -> Result<(), EngineError> {
    let damaged = |offset: u64, reason: String| EngineError::Corrupt {
        structure: "log",
        file: file.name().to_owned(),
        offset,
        reason,
    };
    let log = LogId::of_file_name(file.name())
        .ok_or_else(|| damaged(0, "expected a name such as 000012.log".to_owned()))?;
    let mut scratch = Vec::new();
    let read = |offset: u64, buf: &mut [u8]| -> Result<(), FilesError> {
        buf.copy_from_slice(file.read_at(offset, buf.len(), &mut scratch)?);
        Ok(())
    };
    let len_blocks = file.len_bytes() / BLOCK_LEN_BYTES as u64;
    let log_id = log.frame_id(format_id);
    let extent = LogBounds { log_id, len_blocks, durable_blocks: 0 };
    let mut decoder = Decoder::passing(extent, read, FilesError::is_unreadable).looking_far();
    sink(&format!("log {} in {}, {len_blocks} blocks at most", log.0, file.name()));
    loop {
        let record = decoder.next_record().map_err(|source| EngineError::Files {
            what: format!("reading the log {}", file.name()),
            source,
        })?;
        let Some(record) = record else { break };
        if record.bytes.is_empty() {
            continue;
        }
        let position = record.position;
        let offset = position.frame_blocks * BLOCK_LEN_BYTES as u64;
        let batch = BatchView::decode(record.bytes).map_err(|damage| {
            damaged(offset, format!("{} at byte {}", damage.reason, damage.offset))
        })?;
        batch_lines(offset, &batch, sink);
    }
    if let Some(end) = decoder.end() {
        sink(&end.to_string());
    }
    Ok(())
}

fn batch_lines(offset: u64, batch: &BatchView<'_>, sink: DumpSink<'_>) {
    sink(&format!("batch of {} in the frame at byte {offset}", batch.op_count()));
    for (seq, Op { keyspace, kind, key, value, .. }) in batch.ops() {
        let line = operation(seq, Some(kind), key, value);
        sink(&format!("  keyspace {} {line}", keyspace.0));
    }
}

/// Prints what each of the engine's records in the catalog changed.
///
/// `records` is the result of [`imbrex_files::Files::app_records`].
///
/// # Errors
/// [`EngineError::Corrupt`], [`EngineError::Version`]. Lines printed before the error are valid.
pub fn dump_records(records: &[Vec<u8>], sink: DumpSink<'_>) -> Result<(), EngineError> {
    for (number, bytes) in records.iter().enumerate() {
        let (kind, edit) = format::decode(bytes).map_err(|malformed| match malformed {
            format::Malformed::Version { got } => EngineError::Version {
                what: "a version record",
                got,
                known: format::FORMAT_VERSION_KNOWN,
            },
            format::Malformed::At { offset, reason } => EngineError::Corrupt {
                structure: "version record",
                file: format!("application record {number}"),
                offset: offset as u64,
                reason,
            },
        })?;
        edit_lines(number, kind, &edit, sink);
    }
    Ok(())
}

fn edit_lines(number: usize, kind: format::RecordKind, edit: &VersionEdit, sink: DumpSink<'_>) {
    let what = match kind {
        format::RecordKind::Edit => "edit",
        format::RecordKind::Snapshot => "snapshot of the whole state",
    };
    sink(&format!("record {number}: {what}"));
    if let Some(counters) = &edit.counters {
        sink(&format!(
            "  next file {}, next keyspace {}, tables hold writes to #{}",
            counters.next_id, counters.next_keyspace_id, counters.last_seq
        ));
    }
    totals_line(edit, sink);
    for created in &edit.keyspaces_created {
        sink(&format!("  keyspace {} is {:?}: {:?}", created.id.0, created.name, created.options));
    }
    for (keyspace, table) in &edit.tables_removed {
        sink(&format!("  keyspace {}: without {table}", keyspace.0));
    }
    for add in &edit.tables_added {
        let meta = &add.meta;
        let front = if meta.has_front { ", entries before that are dead" } else { "" };
        sink(&format!(
            "  keyspace {}: {} in level {}, run {}: {} bytes, {} to {}{front}",
            add.keyspace.0,
            meta.id,
            add.level,
            add.run.0,
            meta.len_bytes,
            shown(&meta.smallest),
            shown(&meta.largest)
        ));
    }
    for (keyspace, log) in &edit.log_floors {
        sink(&format!("  keyspace {}: logs before {} are in tables", keyspace.0, log.file_name()));
    }
    for (keyspace, cuts) in &edit.cuts {
        let cuts: Vec<_> = cuts.iter().map(|cut| shown(cut)).collect();
        sink(&format!("  keyspace {}: partitions begin at {}", keyspace.0, cuts.join(", ")));
    }
    for (keyspace, merge) in &edit.base_merges {
        let Some(BaseMerge { run_max, start, next, end }) = merge else {
            sink(&format!("  keyspace {}: no base merge is under way", keyspace.0));
            continue;
        };
        let end = end.as_ref().map_or_else(|| "the end".to_owned(), |end| shown(end));
        sink(&format!(
            "  keyspace {}: base merge of {} to {end}, runs up to {}, continues at {}",
            keyspace.0,
            shown(start),
            run_max.0,
            shown(next)
        ));
    }
    values_lines(edit, sink);
    for dropped in &edit.keyspaces_dropped {
        sink(&format!("  keyspace {} is dropped", dropped.0));
    }
    for created in &edit.checkpoints_created {
        sink(&format!("  checkpoint {:?}", created.name));
    }
    for dropped in &edit.checkpoints_dropped {
        sink(&format!("  checkpoint {dropped:?} is dropped"));
    }
}

/// The totals that an edit changes.
fn totals_line(edit: &VersionEdit, sink: DumpSink<'_>) {
    if !edit.totals.is_empty() {
        let name = |number: u8| {
            let known = Total::ALL.iter().find(|total| **total as u8 == number);
            known.map_or_else(|| format!("total {number}"), |total| total.name().to_owned())
        };
        let totals: Vec<_> =
            edit.totals.iter().map(|(number, value)| format!("{} {value}", name(number))).collect();
        sink(&format!("  totals: {}", totals.join(", ")));
    }
}

/// What an edit says about values apart.
fn values_lines(edit: &VersionEdit, sink: DumpSink<'_>) {
    for ValuesPlaced { keyspace, origin, file, len_bytes } in &edit.values_placed {
        let id = keyspace.0;
        sink(&format!(
            "  keyspace {id}: {len_bytes} bytes of values of table {origin} in table {file}"
        ));
    }
    for (keyspace, origin, file) in &edit.values_moved {
        sink(&format!(
            "  keyspace {}: the values of table {origin} are in table {file}",
            keyspace.0
        ));
    }
    for (keyspace, origin, len_bytes) in &edit.values_released {
        let id = keyspace.0;
        sink(&format!("  keyspace {id}: {len_bytes} bytes of values of table {origin} are dead"));
    }
}

fn operation(seq: Seq, kind: Option<Kind>, key: &[u8], value: &[u8]) -> String {
    let (seq, key) = (seq.0, shown(key));
    match kind {
        Some(Kind::Put) => format!("#{seq} put {key} = {}", shown(value)),
        Some(Kind::Delete) => format!("#{seq} delete {key}"),
        Some(Kind::RangeDelete) => format!("#{seq} delete {key}..{}", shown(value)),
        Some(Kind::PutAt | Kind::PutApart) | None => format!("#{seq} of no known kind: {key}"),
    }
}

/// Text as text, other bytes in hexadecimal; only the start of long ones.
fn shown(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(SHOWN_LEN_BYTES_MAX)];
    // The cut may split a character; the text before it is still shown as text.
    let text = match std::str::from_utf8(head) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&head[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    };
    let mut line = match text {
        Some(text) => format!("{text:?}"),
        None => head.iter().fold("0x".to_owned(), |hex, byte| hex + &format!("{byte:02x}")),
    };
    if bytes.len() > head.len() {
        line.push_str(&format!("... ({} bytes)", bytes.len()));
    }
    line
}

#[cfg(test)]
mod tests;
