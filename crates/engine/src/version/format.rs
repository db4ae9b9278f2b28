#![doc = include_str!("../../docs/formats/version_edit.md")]

use super::edit::{
    CheckpointRecord, Counters, KeyspaceId, KeyspaceRecord, LogId, TableAdd, ValuesPlaced,
    VersionEdit,
};
use super::holders::HOLDER_LEVEL;
use super::partitions::BaseMerge;
use super::{RunId, TableId, TableMeta};
use crate::key::Seq;
use crate::options::{
    CompactionKind, Compression, GearDepth, KeyspaceOptions, VictimGrowth, VictimOrder,
};
use crate::table::varint::{put_varint, read_varint};
use crate::totals::Totals;
use bytes::Bytes;
use imbrex_files::GroupId;

const MAGIC: [u8; 4] = *b"IXVE";
/// The version of a record that has nothing of a later one, so that older programs can read it.
const FORMAT_VERSION_MIN: u16 = 2;
/// Fronts of tables, partitions.
const FORMAT_VERSION_PARTITIONS: u16 = 3;
/// Totals.
const FORMAT_VERSION_TOTALS: u16 = 4;
/// Values apart.
const FORMAT_VERSION_VALUES: u16 = 5;
/// The order of victims and the cuts of set-aware compaction, the depth of gear compaction.
const FORMAT_VERSION_SETS: u16 = 6;
/// LevelDB's habits apart from the growth of victims.
const FORMAT_VERSION: u16 = 7;
const HEADER_LEN_BYTES: usize = 16;
const CRC_AT: usize = 12;

/// The highest format version that this program can read.
pub(crate) const FORMAT_VERSION_KNOWN: u32 = FORMAT_VERSION as u32;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RecordKind {
    /// A change to the state.
    Edit = 1,
    /// The whole state.
    Snapshot = 2,
}

const TAG_COUNTERS: u8 = 1;
const TAG_KEYSPACE_CREATED: u8 = 2;
const TAG_KEYSPACE_DROPPED: u8 = 3;
const TAG_TABLE_REMOVED: u8 = 4;
const TAG_TABLE_ADDED: u8 = 5;
const TAG_LOG_FLOOR: u8 = 6;
const TAG_CHECKPOINT_CREATED: u8 = 7;
const TAG_CHECKPOINT_DROPPED: u8 = 8;

const TAG_CUTS: u8 = 9;
const TAG_BASE_MERGE: u8 = 10;
const TAG_TOTALS: u8 = 11;
const TAG_VALUES_PLACED: u8 = 12;
const TAG_VALUES_MOVED: u8 = 13;
const TAG_VALUES_RELEASED: u8 = 14;

const FLAG_LARGEST_EXCLUDED: u8 = 1;
const FLAG_LOGGED: u8 = 2;
const FLAG_FRONT: u8 = 4;

/// In the byte of `victim_growth`.
const FLAG_FLUSHES_PASS_LEVELS: u8 = 16;
const FLAG_MISSED_TABLES_GO_DOWN: u8 = 32;
const FLAG_CUTS_AT_SETS: u8 = 64;
const FLAG_FULL_LEVELS: u8 = 128;

const MERGE_UNDER_WAY: u32 = 1;
const MERGE_HAS_END: u32 = 2;

/// Why bytes are not a valid version edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// A newer program wrote them.
    Version { got: u32 },
    /// They are damaged at this offset in the record.
    At { offset: usize, reason: String },
}

/// Encodes `edit`.
pub(crate) fn encode(kind: RecordKind, edit: &VersionEdit) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(&MAGIC);
    let version = version_of(edit);
    out.extend_from_slice(&version.to_le_bytes());
    out.extend_from_slice(&[kind as u8, 0]);
    out.extend_from_slice(&[0; 8]);
    if let Some(counters) = &edit.counters {
        item(&mut out, TAG_COUNTERS, |out| put_counters(out, counters));
    }
    if !edit.totals.is_empty() {
        item(&mut out, TAG_TOTALS, |out| put_totals(out, &edit.totals));
    }
    for record in &edit.keyspaces_created {
        item(&mut out, TAG_KEYSPACE_CREATED, |out| put_keyspace(out, version, record));
    }
    for (keyspace, table) in &edit.tables_removed {
        item(&mut out, TAG_TABLE_REMOVED, |out| put_pair(out, *keyspace, table.0));
    }
    for add in &edit.tables_added {
        item(&mut out, TAG_TABLE_ADDED, |out| put_table(out, add));
    }
    for (keyspace, log) in &edit.log_floors {
        item(&mut out, TAG_LOG_FLOOR, |out| put_pair(out, *keyspace, log.0));
    }
    for (keyspace, cuts) in &edit.cuts {
        item(&mut out, TAG_CUTS, |out| put_cuts(out, *keyspace, cuts));
    }
    for (keyspace, merge) in &edit.base_merges {
        item(&mut out, TAG_BASE_MERGE, |out| put_base_merge(out, *keyspace, merge.as_ref()));
    }
    for ValuesPlaced { keyspace, origin, file, len_bytes } in &edit.values_placed {
        item(&mut out, TAG_VALUES_PLACED, |out| {
            put_pair(out, *keyspace, origin.0);
            out.extend_from_slice(&file.0.to_le_bytes());
            out.extend_from_slice(&len_bytes.to_le_bytes());
        });
    }
    let moved =
        edit.values_moved.iter().map(|&(keyspace, origin, file)| (keyspace, origin, file.0));
    for (tag, (keyspace, origin, number)) in moved
        .map(|item| (TAG_VALUES_MOVED, item))
        .chain(edit.values_released.iter().map(|&item| (TAG_VALUES_RELEASED, item)))
    {
        item(&mut out, tag, |out| {
            put_pair(out, keyspace, origin.0);
            out.extend_from_slice(&number.to_le_bytes());
        });
    }
    for id in &edit.keyspaces_dropped {
        item(&mut out, TAG_KEYSPACE_DROPPED, |out| out.extend_from_slice(&id.0.to_le_bytes()));
    }
    for record in &edit.checkpoints_created {
        item(&mut out, TAG_CHECKPOINT_CREATED, |out| {
            out.extend_from_slice(&(record.name.len() as u32).to_le_bytes());
            out.extend_from_slice(record.name.as_bytes());
            out.extend_from_slice(&record.snapshot);
        });
    }
    for name in &edit.checkpoints_dropped {
        item(&mut out, TAG_CHECKPOINT_DROPPED, |out| out.extend_from_slice(name.as_bytes()));
    }
    let body_len_bytes = (out.len() - HEADER_LEN_BYTES) as u32;
    out[8..CRC_AT].copy_from_slice(&body_len_bytes.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&out[..CRC_AT]), &out[HEADER_LEN_BYTES..]);
    out[CRC_AT..HEADER_LEN_BYTES].copy_from_slice(&crc.to_le_bytes());
    out
}

/// The lowest format version that has everything in `edit`.
fn version_of(edit: &VersionEdit) -> u16 {
    let has_front = edit.tables_added.iter().any(|add| add.meta.has_front);
    let has_partitions = !edit.cuts.is_empty() || !edit.base_merges.is_empty();
    let has_values = !edit.values_placed.is_empty()
        || !edit.values_released.is_empty()
        || !edit.values_moved.is_empty()
        || edit.tables_added.iter().any(|add| add.level == HOLDER_LEVEL)
        || edit.keyspaces_created.iter().any(|made| made.options.values_apart_from_bytes > 0);
    let is_any = |has: fn(&KeyspaceOptions) -> bool| {
        edit.keyspaces_created.iter().any(|made| has(&made.options))
    };
    if is_any(has_own_habits) {
        FORMAT_VERSION
    } else if is_any(has_set_options) {
        FORMAT_VERSION_SETS
    } else if has_values {
        FORMAT_VERSION_VALUES
    } else if !edit.totals.is_empty() {
        FORMAT_VERSION_TOTALS
    } else if has_front || has_partitions {
        FORMAT_VERSION_PARTITIONS
    } else {
        FORMAT_VERSION_MIN
    }
}

/// Whether `options` say what no record before version 6 can say. There the order of victims of
/// set-aware compaction had no number of its own.
fn has_set_options(options: &KeyspaceOptions) -> bool {
    options.compaction == CompactionKind::SetAware
        || options.victim_order == VictimOrder::DeadFirst
        || set_flags(options) != 0
}

/// Whether `options` say what no record before version 7 can say.
fn has_own_habits(options: &KeyspaceOptions) -> bool {
    (options.flushes_pass_levels, options.missed_tables_go_down)
        != implied_habits(options.compaction, options.victim_growth)
}

/// LevelDB's habits in records before version 7: whether flushes pass levels, and whether missed tables go
/// down. There they came with the growth of victims, and the first one with gear compaction too.
fn implied_habits(compaction: CompactionKind, growth: VictimGrowth) -> (bool, bool) {
    let is_single = growth == VictimGrowth::Single;
    (is_single || compaction == CompactionKind::Gear, is_single)
}

/// The flags that a record of `version` has beside the growth of victims.
fn growth_flags(version: u16, options: &KeyspaceOptions) -> u8 {
    let habits = [
        (options.flushes_pass_levels, FLAG_FLUSHES_PASS_LEVELS),
        (options.missed_tables_go_down, FLAG_MISSED_TABLES_GO_DOWN),
    ];
    let habits = habits.iter().map(|&(has, flag)| if has { flag } else { 0 });
    let habits = if version < FORMAT_VERSION { 0 } else { habits.sum() };
    habits | set_flags(options)
}

fn set_flags(options: &KeyspaceOptions) -> u8 {
    let cuts = if options.cuts_at_sets { FLAG_CUTS_AT_SETS } else { 0 };
    match options.gear_depth {
        GearDepth::Overlaps => cuts,
        GearDepth::FullLevels => cuts | FLAG_FULL_LEVELS,
    }
}

/// The bits of the growth's byte that are flags in a record of `version`.
fn known_growth_flags(version: u16) -> u8 {
    match version {
        FORMAT_VERSION.. => {
            FLAG_CUTS_AT_SETS
                | FLAG_FULL_LEVELS
                | FLAG_FLUSHES_PASS_LEVELS
                | FLAG_MISSED_TABLES_GO_DOWN
        }
        FORMAT_VERSION_SETS => FLAG_CUTS_AT_SETS | FLAG_FULL_LEVELS,
        _ => 0,
    }
}

fn item(out: &mut Vec<u8>, tag: u8, payload: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&[tag, 0, 0, 0, 0, 0, 0, 0]);
    let start = out.len();
    payload(out);
    let len_bytes = (out.len() - start) as u32;
    out[start - 4..start].copy_from_slice(&len_bytes.to_le_bytes());
}

fn put_pair(out: &mut Vec<u8>, keyspace: KeyspaceId, number: u64) {
    out.extend_from_slice(&keyspace.0.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_counters(out: &mut Vec<u8>, counters: &Counters) {
    out.extend_from_slice(&counters.next_id.to_le_bytes());
    out.extend_from_slice(&counters.last_seq.to_le_bytes());
    out.extend_from_slice(&counters.next_keyspace_id.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
}

fn put_totals(out: &mut Vec<u8>, totals: &Totals) {
    for (number, value) in totals.iter() {
        out.push(number);
        put_varint(out, value);
    }
}

fn put_keyspace(out: &mut Vec<u8>, version: u16, record: &KeyspaceRecord) {
    let options = &record.options;
    out.extend_from_slice(&record.id.0.to_le_bytes());
    out.extend_from_slice(&[options.compression as u8, options.compaction as u8]);
    out.extend_from_slice(&[
        options.victim_order as u8,
        options.victim_growth as u8 | growth_flags(version, options),
    ]);
    out.extend_from_slice(&options.table_len_bytes.to_le_bytes());
    out.extend_from_slice(&options.base_level_len_bytes.to_le_bytes());
    for number in [
        options.block_len_bytes,
        options.filter_bits_per_key,
        options.l0_compact_run_count,
        options.l0_slowdown_run_count,
        options.l0_stop_run_count,
        options.level_factor,
        options.grandparent_table_count_max,
        options.histogram_len_bytes,
        options.overlap_count_max,
        options.values_apart_from_bytes,
    ] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(record.name.as_bytes());
}

fn put_table(out: &mut Vec<u8>, add: &TableAdd) {
    let meta = &add.meta;
    let flags = if meta.largest_excluded { FLAG_LARGEST_EXCLUDED } else { 0 }
        | if meta.is_logged { FLAG_LOGGED } else { 0 }
        | if meta.has_front { FLAG_FRONT } else { 0 };
    out.extend_from_slice(&add.keyspace.0.to_le_bytes());
    out.extend_from_slice(&[add.level, flags, 0, 0]);
    for number in [
        meta.id.0,
        add.run.0,
        meta.group.0,
        meta.len_bytes,
        meta.entry_count,
        meta.delete_count,
        meta.range_tombstone_count,
        meta.raw_len_bytes,
        meta.seq_min.0,
        meta.seq_max.0,
    ] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&meta.group_table_count.to_le_bytes());
    out.extend_from_slice(&(meta.smallest.len() as u32).to_le_bytes());
    out.extend_from_slice(&(meta.largest.len() as u32).to_le_bytes());
    out.extend_from_slice(&meta.smallest);
    out.extend_from_slice(&meta.largest);
}

fn put_cuts(out: &mut Vec<u8>, keyspace: KeyspaceId, cuts: &[Bytes]) {
    out.extend_from_slice(&keyspace.0.to_le_bytes());
    out.extend_from_slice(&(cuts.len() as u32).to_le_bytes());
    for cut in cuts {
        out.extend_from_slice(&(cut.len() as u32).to_le_bytes());
        out.extend_from_slice(cut);
    }
}

fn put_base_merge(out: &mut Vec<u8>, keyspace: KeyspaceId, merge: Option<&BaseMerge>) {
    out.extend_from_slice(&keyspace.0.to_le_bytes());
    let Some(merge) = merge else {
        out.extend_from_slice(&[0; 4]);
        return;
    };
    let flags = MERGE_UNDER_WAY | if merge.end.is_some() { MERGE_HAS_END } else { 0 };
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&merge.run_max.0.to_le_bytes());
    let keys = [&merge.start[..], &merge.next, merge.end.as_deref().unwrap_or_default()];
    for key in keys {
        out.extend_from_slice(&(key.len() as u32).to_le_bytes());
    }
    for key in keys {
        out.extend_from_slice(key);
    }
}

/// Decodes `bytes`, which must be one whole record.
///
/// # Errors
/// [`Malformed`]. No input makes it panic.
pub(crate) fn decode(bytes: &[u8]) -> Result<(RecordKind, VersionEdit), Malformed> {
    let mut header = Cursor { bytes, at: 0 };
    if header.take(4)? != MAGIC {
        return Err(Malformed::At { offset: 0, reason: "no magic \"IXVE\"".to_owned() });
    }
    let version = header.u16()?;
    if !(FORMAT_VERSION_MIN..=FORMAT_VERSION).contains(&version) {
        return Err(Malformed::Version { got: u32::from(version) });
    }
    let kind = match header.u8()? {
        1 => RecordKind::Edit,
        2 => RecordKind::Snapshot,
        other => return Err(header.bad(format!("kind {other}"))),
    };
    header.zeroes(1)?;
    let body_len_bytes = header.u32()? as usize;
    let crc_stored = header.u32()?;
    let body = header.rest();
    if body.len() != body_len_bytes {
        let reason = format!("a body of {} bytes, the header says {body_len_bytes}", body.len());
        return Err(Malformed::At { offset: 8, reason });
    }
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..CRC_AT]), body);
    if crc != crc_stored {
        let reason = format!("checksum {crc:#010x}, expected {crc_stored:#010x}");
        return Err(Malformed::At { offset: CRC_AT, reason });
    }
    let mut edit = VersionEdit::default();
    let mut cursor = Cursor { bytes, at: HEADER_LEN_BYTES };
    while cursor.at < bytes.len() {
        let tag = cursor.u8()?;
        cursor.zeroes(3)?;
        let len_bytes = cursor.u32()? as usize;
        let start = cursor.at;
        cursor.take(len_bytes)?;
        let mut payload = Cursor { bytes: &bytes[..start + len_bytes], at: start };
        take_item(tag, version, &mut payload, &mut edit)?;
        if payload.at != payload.bytes.len() {
            return Err(payload.bad(format!("item {tag} is longer than its fields")));
        }
    }
    Ok((kind, edit))
}

fn take_item(
    tag: u8,
    version: u16,
    from: &mut Cursor<'_>,
    edit: &mut VersionEdit,
) -> Result<(), Malformed> {
    match tag {
        TAG_COUNTERS => {
            let (next_id, last_seq) = (from.u64()?, from.seq()?.0);
            let next_keyspace_id = from.u32()?;
            from.zeroes(4)?;
            edit.counters = Some(Counters { next_id, next_keyspace_id, last_seq });
        }
        TAG_TOTALS => take_totals(from, &mut edit.totals)?,
        TAG_KEYSPACE_CREATED => edit.keyspaces_created.push(take_keyspace(version, from)?),
        TAG_KEYSPACE_DROPPED => edit.keyspaces_dropped.push(KeyspaceId(from.u32()?)),
        TAG_TABLE_REMOVED => {
            let (keyspace, number) = from.pair()?;
            edit.tables_removed.push((keyspace, TableId(number)));
        }
        TAG_TABLE_ADDED => edit.tables_added.push(take_table(from)?),
        TAG_LOG_FLOOR => {
            let (keyspace, number) = from.pair()?;
            edit.log_floors.push((keyspace, LogId(number)));
        }
        TAG_VALUES_PLACED => {
            let (keyspace, origin) = from.pair()?;
            let (origin, file, len_bytes) = (TableId(origin), TableId(from.u64()?), from.u64()?);
            edit.values_placed.push(ValuesPlaced { keyspace, origin, file, len_bytes });
        }
        TAG_VALUES_MOVED => {
            let (keyspace, origin) = from.pair()?;
            edit.values_moved.push((keyspace, TableId(origin), TableId(from.u64()?)));
        }
        TAG_VALUES_RELEASED => {
            let (keyspace, origin) = from.pair()?;
            edit.values_released.push((keyspace, TableId(origin), from.u64()?));
        }
        TAG_CUTS => edit.cuts.push(take_cuts(from)?),
        TAG_BASE_MERGE => edit.base_merges.push(take_base_merge(from)?),
        TAG_CHECKPOINT_CREATED => {
            let name_len_bytes = from.u32()? as usize;
            let name = from.text(name_len_bytes)?;
            let snapshot = from.rest().to_vec();
            edit.checkpoints_created.push(CheckpointRecord { name, snapshot });
        }
        TAG_CHECKPOINT_DROPPED => {
            let name_len_bytes = from.left();
            edit.checkpoints_dropped.push(from.text(name_len_bytes)?);
        }
        other => return Err(from.bad(format!("unknown item {other}"))),
    }
    Ok(())
}

fn take_totals(from: &mut Cursor<'_>, totals: &mut Totals) -> Result<(), Malformed> {
    let mut last = 0;
    while from.left() > 0 {
        let number = from.u8()?;
        if number <= last {
            return Err(from.bad("totals do not ascend".to_owned()));
        }
        let value = from.varint()?;
        if value == 0 {
            return Err(from.bad(format!("total {number} is 0")));
        }
        totals.raise(number, value);
        last = number;
    }
    Ok(())
}

fn take_keyspace(version: u16, from: &mut Cursor<'_>) -> Result<KeyspaceRecord, Malformed> {
    let id = KeyspaceId(from.u32()?);
    let compression = match from.u8()? {
        1 => Compression::None,
        2 => Compression::Lz4,
        3 => Compression::Zstd,
        other => return Err(from.bad(format!("compression {other}"))),
    };
    let compaction = match from.u8()? {
        1 => CompactionKind::Leveled,
        2 => CompactionKind::SetAware,
        3 => CompactionKind::Smrdb,
        4 => CompactionKind::Gear,
        5 => CompactionKind::Lazy,
        other => return Err(from.bad(format!("compaction policy {other}"))),
    };
    let victim_order = match from.u8()? {
        1 => VictimOrder::RoundRobin,
        2 => VictimOrder::MinOverlap,
        3 if version >= FORMAT_VERSION_SETS => VictimOrder::DeadFirst,
        other => return Err(from.bad(format!("victim order {other}"))),
    };
    let growth_byte = from.u8()?;
    let flags = growth_byte & known_growth_flags(version);
    let victim_order = match compaction {
        // Before version 6, set-aware compaction knew one order.
        CompactionKind::SetAware if version < FORMAT_VERSION_SETS => VictimOrder::DeadFirst,
        _ => victim_order,
    };
    let victim_growth = match growth_byte - flags {
        1 => VictimGrowth::Neighbours,
        2 => VictimGrowth::Single,
        other => return Err(from.bad(format!("victim growth {other}"))),
    };
    let (flushes_pass_levels, missed_tables_go_down) = match version {
        FORMAT_VERSION.. => {
            (flags & FLAG_FLUSHES_PASS_LEVELS != 0, flags & FLAG_MISSED_TABLES_GO_DOWN != 0)
        }
        _ => implied_habits(compaction, victim_growth),
    };
    let options = KeyspaceOptions {
        compression,
        compaction,
        victim_order,
        victim_growth,
        flushes_pass_levels,
        missed_tables_go_down,
        cuts_at_sets: flags & FLAG_CUTS_AT_SETS != 0,
        gear_depth: match flags & FLAG_FULL_LEVELS {
            0 => GearDepth::Overlaps,
            _ => GearDepth::FullLevels,
        },
        table_len_bytes: from.u64()?,
        base_level_len_bytes: from.u64()?,
        block_len_bytes: from.u32()?,
        filter_bits_per_key: from.u32()?,
        l0_compact_run_count: from.u32()?,
        l0_slowdown_run_count: from.u32()?,
        l0_stop_run_count: from.u32()?,
        level_factor: from.u32()?,
        grandparent_table_count_max: from.u32()?,
        histogram_len_bytes: from.u32()?,
        overlap_count_max: from.u32()?,
        values_apart_from_bytes: from.u32()?,
    };
    options.check().map_err(|error| from.bad(error.to_string()))?;
    let name_len_bytes = from.left();
    Ok(KeyspaceRecord { id, name: from.text(name_len_bytes)?, options })
}

fn take_table(from: &mut Cursor<'_>) -> Result<TableAdd, Malformed> {
    let keyspace = KeyspaceId(from.u32()?);
    let level = from.u8()?;
    let flags = from.u8()?;
    if flags & !(FLAG_LARGEST_EXCLUDED | FLAG_LOGGED | FLAG_FRONT) != 0 {
        return Err(from.bad(format!("unknown flags {flags:#04x}")));
    }
    from.zeroes(2)?;
    let id = TableId(from.u64()?);
    let run = RunId(from.u64()?);
    let group = GroupId(from.u64()?);
    let len_bytes = from.u64()?;
    let entry_count = from.u64()?;
    let delete_count = from.u64()?;
    let range_tombstone_count = from.u64()?;
    let raw_len_bytes = from.u64()?;
    let (seq_min, seq_max) = (from.seq()?, from.seq()?);
    let group_table_count = from.u32()?;
    let (smallest_len, largest_len) = (from.u32()? as usize, from.u32()? as usize);
    let smallest = Bytes::copy_from_slice(from.take(smallest_len)?);
    let largest = Bytes::copy_from_slice(from.take(largest_len)?);
    if smallest > largest {
        return Err(from.bad(format!("table {id} ends before it starts")));
    }
    let meta = TableMeta {
        id,
        len_bytes,
        smallest,
        largest,
        largest_excluded: flags & FLAG_LARGEST_EXCLUDED != 0,
        seq_min,
        seq_max,
        entry_count,
        delete_count,
        range_tombstone_count,
        raw_len_bytes,
        group,
        group_table_count,
        is_logged: flags & FLAG_LOGGED != 0,
        has_front: flags & FLAG_FRONT != 0,
    };
    Ok(TableAdd { keyspace, level, run, meta })
}

fn take_cuts(from: &mut Cursor<'_>) -> Result<(KeyspaceId, Vec<Bytes>), Malformed> {
    let keyspace = KeyspaceId(from.u32()?);
    let count = from.u32()?;
    let mut cuts: Vec<Bytes> = Vec::new();
    for _ in 0..count {
        let len_bytes = from.u32()? as usize;
        let cut = Bytes::copy_from_slice(from.take(len_bytes)?);
        if cut.is_empty() || cuts.last().is_some_and(|last| cut <= *last) {
            return Err(from.bad("cuts of partitions do not ascend".to_owned()));
        }
        cuts.push(cut);
    }
    Ok((keyspace, cuts))
}

fn take_base_merge(from: &mut Cursor<'_>) -> Result<(KeyspaceId, Option<BaseMerge>), Malformed> {
    let keyspace = KeyspaceId(from.u32()?);
    let flags = from.u32()?;
    if flags == 0 {
        return Ok((keyspace, None));
    }
    if flags & MERGE_UNDER_WAY == 0 || flags & !(MERGE_UNDER_WAY | MERGE_HAS_END) != 0 {
        return Err(from.bad(format!("flags {flags:#x} of a base merge")));
    }
    let run_max = RunId(from.u64()?);
    let lens_bytes = [from.u32()?, from.u32()?, from.u32()?].map(|len| len as usize);
    let mut key = |len_bytes| from.take(len_bytes).map(Bytes::copy_from_slice);
    let (start, next, end) = (key(lens_bytes[0])?, key(lens_bytes[1])?, key(lens_bytes[2])?);
    let has_end = flags & MERGE_HAS_END != 0;
    if next < start || (has_end && end <= next) || (!has_end && !end.is_empty()) {
        return Err(from.bad("a base merge continues outside its range".to_owned()));
    }
    let end = has_end.then_some(end);
    Ok((keyspace, Some(BaseMerge { run_max, start, next, end })))
}

/// Reads fields from the front of untrusted bytes.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn bad(&self, reason: String) -> Malformed {
        Malformed::At { offset: self.at, reason }
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn take(&mut self, len_bytes: usize) -> Result<&'a [u8], Malformed> {
        if self.left() < len_bytes {
            return Err(self.bad(format!("{len_bytes} bytes wanted, {} left", self.left())));
        }
        let taken = &self.bytes[self.at..self.at + len_bytes];
        self.at += len_bytes;
        Ok(taken)
    }

    fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        self.at = self.bytes.len();
        rest
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let taken = self.take(N)?;
        Ok(taken.try_into().expect("take returns as many bytes as asked for"))
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let bytes = self.bytes;
        let value = read_varint(bytes, &mut self.at);
        value.ok_or_else(|| self.bad("an integer is cut off or too long".to_owned()))
    }

    fn seq(&mut self) -> Result<Seq, Malformed> {
        let number = self.u64()?;
        if number > Seq::MAX.0 {
            return Err(self.bad(format!("sequence number {number} is beyond 2^56")));
        }
        Ok(Seq(number))
    }

    fn pair(&mut self) -> Result<(KeyspaceId, u64), Malformed> {
        let keyspace = KeyspaceId(self.u32()?);
        self.zeroes(4)?;
        Ok((keyspace, self.u64()?))
    }

    fn text(&mut self, len_bytes: usize) -> Result<String, Malformed> {
        let bytes = self.take(len_bytes)?.to_vec();
        String::from_utf8(bytes).map_err(|_| self.bad("a name is not UTF-8".to_owned()))
    }

    fn zeroes(&mut self, len_bytes: usize) -> Result<(), Malformed> {
        if self.take(len_bytes)?.iter().any(|&byte| byte != 0) {
            return Err(self.bad("reserved bytes are not zero".to_owned()));
        }
        Ok(())
    }
}
