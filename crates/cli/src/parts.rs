//! The parts of a store: which keyspace, partition and level each file serves, from the catalog alone.
//!
//! ```text
//!   catalog's records  -->  keyspaces, partitions   -->  `dump DRIVE partitions`
//!   list of files      -->  part of each file       -->  `dump DRIVE`, `drive zones`
//! ```

use crate::count::grouped;
use crate::error::{CliError, Context};
use crate::output::{Output, Table};
use imbrex_disk::ByteSize;
use imbrex_engine::inspect::{
    BaseMergeMetrics, KeyspaceParts, LevelMetrics, PartitionShape, PartitionTotals, TablePart,
    store_parts,
};
use imbrex_files::{FileInfo, FileKind, Files};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// Longer keys are cut in tables.
const SHOWN_KEY_LEN_BYTES: usize = 32;

/// What a file is part of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Log,
    /// A table above the base, or of a layout without a base.
    Level(u8),
    Base,
    /// A table that the catalog's records do not name, or a file of no kind of the store.
    Other,
}

impl Part {
    pub(crate) fn name(&self) -> String {
        match self {
            Part::Log => "log".to_owned(),
            Part::Level(level) => format!("level {level}"),
            Part::Base => "base".to_owned(),
            Part::Other => "other".to_owned(),
        }
    }
}

/// The part that a file is, and what it serves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) part: Part,
    /// The keyspace of a table.
    pub(crate) keyspace: Option<String>,
    /// The partition where a table begins, with lazy leveling.
    pub(crate) partition: Option<usize>,
}

impl fmt::Display for Place {
    /// `log`, `level 1 of default`, or `base of default/3` for partition 3.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.part.name())?;
        let Some(keyspace) = &self.keyspace else { return Ok(()) };
        write!(f, " of {keyspace}")?;
        self.partition.map_or(Ok(()), |partition| write!(f, "/{partition}"))
    }
}

/// The parts of a store.
pub(crate) struct Parts {
    keyspaces: Vec<KeyspaceParts>,
    places: BTreeMap<String, Place>,
}

impl Parts {
    /// The parts of the store in `files`; without a store there are none.
    pub(crate) fn of(files: &dyn Files) -> Result<Parts, CliError> {
        let keyspaces = store_parts(&files.app_records())
            .context(|| "cannot read the store's records in the catalog")?;
        let mut places = BTreeMap::new();
        for keyspace in &keyspaces {
            for table in &keyspace.tables {
                places.insert(table.file_name.clone(), place_of(keyspace, table));
            }
        }
        Ok(Parts { keyspaces, places })
    }

    /// Whether a keyspace has partitions.
    pub(crate) fn has_partitions(&self) -> bool {
        self.keyspaces.iter().any(|keyspace| keyspace.partitions.is_some())
    }

    pub(crate) fn place_of(&self, file: &FileInfo) -> Place {
        if let Some(place) = self.places.get(&file.name) {
            return place.clone();
        }
        let part = if file.kind == FileKind::Log { Part::Log } else { Part::Other };
        Place { part, keyspace: None, partition: None }
    }

    /// Prints the partitions: a summary of each keyspace, then a line for each partition.
    pub(crate) fn print(&self, out: &mut Output) -> Result<(), CliError> {
        if out.is_json()? {
            let keyspaces: Vec<_> = self.keyspaces.iter().map(keyspace_json).collect();
            return out.json(&json!(keyspaces));
        }
        for (at, keyspace) in self.keyspaces.iter().enumerate() {
            if at > 0 {
                out.line("")?;
            }
            print_keyspace(keyspace, out)?;
        }
        Ok(())
    }
}

fn place_of(keyspace: &KeyspaceParts, table: &TablePart) -> Place {
    Place {
        part: if table.is_base { Part::Base } else { Part::Level(table.level) },
        keyspace: Some(keyspace.name.clone()),
        partition: table.partition,
    }
}

fn print_keyspace(keyspace: &KeyspaceParts, out: &mut Output) -> Result<(), CliError> {
    let Some(partitions) = &keyspace.partitions else {
        let count = grouped(keyspace.tables.len() as u64);
        return out.line(format!("keyspace {}: {count} tables, without partitions", keyspace.name));
    };
    out.line(format!(
        "keyspace {}: {} {}, {}",
        keyspace.name,
        grouped(partitions.len() as u64),
        if partitions.len() == 1 { "partition" } else { "partitions" },
        totals_words(&PartitionTotals::of(partitions))
    ))?;
    if let Some(merge) = &keyspace.base_merge {
        out.line(format!("base merge: {}", merge_words(merge)))?;
    }
    out.line("")?;
    let header =
        ["partition", "begins at", "base", "tables", "above", "dead, at most", "upper runs"];
    let mut table = Table::new(&header);
    for (at, shape) in partitions.iter().enumerate() {
        table.row(vec![
            at.to_string(),
            start_words(&shape.start),
            ByteSize(shape.base.len_bytes).to_string(),
            grouped(table_count(shape)),
            ByteSize(shape.upper_len_bytes()).to_string(),
            ByteSize(shape.dead_len_bytes_max).to_string(),
            upper_words(shape),
        ]);
    }
    out.bytes(table.text().as_bytes())
}

fn table_count(shape: &PartitionShape) -> u64 {
    shape.upper_levels.iter().chain([&shape.base]).map(|level| level.table_count as u64).sum()
}

/// `L0: 3 of 12 MiB, L1: 1 of 30 MiB`: runs by level.
fn upper_words(shape: &PartitionShape) -> String {
    let words = |level: &LevelMetrics| {
        format!("L{}: {} of {}", level.level, level.run_count, ByteSize(level.len_bytes))
    };
    let words: Vec<_> = shape.upper_levels.iter().map(words).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

fn totals_words(totals: &PartitionTotals) -> String {
    format!(
        "{} in the base, {} above it, of both at most {} dead",
        ByteSize(totals.base_len_bytes),
        ByteSize(totals.upper_len_bytes),
        ByteSize(totals.dead_len_bytes_max)
    )
}

/// How far a base merge is.
pub(crate) fn merge_words(merge: &BaseMergeMetrics) -> String {
    let end = merge.end.as_deref().map_or_else(|| "the end".to_owned(), shown);
    let start = start_words(&merge.start);
    format!(
        "{start} to {end}: {} of runs left, base at {} of {}, continues at key {}",
        ByteSize(merge.left_len_bytes),
        ByteSize(merge.base_done_len_bytes),
        ByteSize(merge.base_len_bytes),
        shown(&merge.next_key)
    )
}

/// The same for programs.
pub(crate) fn merge_json(merge: &BaseMergeMetrics) -> Value {
    json!({
        "start": escaped(&merge.start),
        "end": merge.end.as_deref().map(escaped),
        "next_key": escaped(&merge.next_key),
        "left_len_bytes": merge.left_len_bytes,
        "base_done_len_bytes": merge.base_done_len_bytes,
        "base_len_bytes": merge.base_len_bytes,
    })
}

fn keyspace_json(keyspace: &KeyspaceParts) -> Value {
    let partitions = keyspace.partitions.as_ref().map(|partitions| {
        let all: Vec<_> = partitions.iter().map(partition_json).collect();
        all
    });
    json!({
        "keyspace": keyspace.name,
        "table_count": keyspace.tables.len(),
        "base_merge": keyspace.base_merge.as_ref().map(merge_json),
        "partitions": partitions,
    })
}

fn partition_json(shape: &PartitionShape) -> Value {
    let level = |level: &LevelMetrics| {
        json!({
            "level": level.level,
            "run_count": level.run_count,
            "table_count": level.table_count,
            "len_bytes": level.len_bytes,
            "entry_count": level.entry_count,
        })
    };
    let upper: Vec<_> = shape.upper_levels.iter().map(level).collect();
    json!({
        "start": escaped(&shape.start),
        "end": shape.end.as_deref().map(escaped),
        "base": level(&shape.base),
        "upper_levels": upper,
        "upper_len_bytes": shape.upper_len_bytes(),
        "len_bytes": shape.len_bytes(),
        "dead_len_bytes_max": shape.dead_len_bytes_max,
        "tables_merged_in_part": shape.front_count,
    })
}

fn escaped(key: &[u8]) -> String {
    key.escape_ascii().to_string()
}

fn start_words(key: &[u8]) -> String {
    if key.is_empty() { "the start".to_owned() } else { shown(key) }
}

/// A key in quotes; only the start of a long one.
fn shown(key: &[u8]) -> String {
    let head = &key[..key.len().min(SHOWN_KEY_LEN_BYTES)];
    let rest = if head.len() < key.len() { "..." } else { "" };
    format!("\"{}\"{rest}", head.escape_ascii())
}
