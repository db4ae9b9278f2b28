#![doc = include_str!("../../docs/formats/catalog.md")]

use super::state::{Edit, FileId, FileRecord};
use crate::extent::Extent;
use crate::hints::{FileKind, GroupId};
use crate::names::FILE_NAME_LEN_BYTES_MAX;
use crate::placement::PlacementOptions;
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Geometry, Lba, Rule};

pub(crate) const MAGIC_BYTES: [u8; 8] = *b"IMBXCAT\n";
pub(crate) const FORMAT_VERSION: u32 = 4;
/// Like version 4, but the other region holds an older checkpoint instead of a copy.
const FORMAT_VERSION_SINGLE: u32 = 3;
/// The checksum is the last field of the block, and the body has no seal.
const FORMAT_VERSION_UNSEALED: u32 = 1;
/// Like version 1, on a drive of a pair.
const FORMAT_VERSION_UNSEALED_PAIR: u32 = 2;
pub(crate) const NAME_LEN_BYTES_MAX: usize = 64;
/// An upper bound for everything that counts up from 1: files, checkpoints, commits. A thousand a
/// second reach it in nine thousand years.
pub(crate) const COUNT_END: u64 = 1 << 48;

/// Part of every log id, so that a log of the catalog is never mistaken for the log of a file.
const LOG_ID_TAG: u64 = 0xca7a_0000_0000_0000;

const MAGIC: usize = 0;
const VERSION: usize = MAGIC + 8;
const RULE: usize = VERSION + 4;
const SEQUENCE: usize = RULE + 4;
const LOG_ID: usize = SEQUENCE + 8;
const BODY_LEN: usize = LOG_ID + 8;
const BODY_CRC: usize = BODY_LEN + 8;
const PLACEMENT_LEN: usize = BODY_CRC + 4;
const LAYOUT_LEN: usize = PLACEMENT_LEN + 2;
const PLACEMENT: usize = LAYOUT_LEN + 2;
const LAYOUT: usize = PLACEMENT + NAME_LEN_BYTES_MAX;
const DISK_LEN: usize = LAYOUT + NAME_LEN_BYTES_MAX;
const ZONE_LEN: usize = DISK_LEN + 8;
const ZONE_CAPACITY: usize = ZONE_LEN + 8;
const CONVENTIONAL: usize = ZONE_CAPACITY + 8;
const FLAGS: usize = CONVENTIONAL + 4;
const NEXT_FILE_ID: usize = FLAGS + 4;
const FORMAT_ID: usize = NEXT_FILE_ID + 8;
const FREE_PERCENT: usize = FORMAT_ID + 8;
const UNIT_LEN: usize = FREE_PERCENT + 8;
const RESERVED_SINGLE: usize = UNIT_LEN + 8;
const PREDECESSOR: usize = RESERVED_SINGLE;
const PREDECESSOR_END: usize = PREDECESSOR + 8;
const RESERVED: usize = PREDECESSOR_END + 8;
const CRC: usize = 508;
const _: () = assert!(RESERVED_SINGLE == 240 && RESERVED < CRC);
const CRC_UNSEALED: usize = BLOCK_LEN_BYTES - 4;
/// The header's length. No power cut tears it, however short the sectors of a drive are.
const HEADER_LEN_BYTES: usize = 512;

const FLAG_PAIRED: u32 = 1;
const FLAG_UNFINISHED: u32 = 2;
/// Fills a body up to the end of its block, with one byte at least. A power cut that leaves part of
/// the block filled up with zeros therefore leaves a block that does not end in this byte.
const SEAL_BYTE: u8 = 0xff;

const FLAG_GROUP: u8 = 1;
const FLAG_OPEN: u8 = 2;
const FLAG_SPAN: u8 = 4;
const FLAG_BESIDE: u8 = 8;
const FLAG_MOVED: u8 = 16;

/// The geometry that the header records, for comparison with the drive's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) rule: u32,
    pub(crate) disk_len_blocks: u64,
    pub(crate) zone_len_blocks: u64,
    pub(crate) zone_capacity_blocks: u64,
    pub(crate) conventional_zone_count: u32,
}

impl Shape {
    pub(crate) fn of(geometry: &Geometry) -> Shape {
        let (rule, zone_len_blocks, zone_capacity_blocks, conventional_zone_count) = match geometry
            .rule()
        {
            Rule::Anywhere => (1, 0, 0, 0),
            Rule::AtPointer(zones) => {
                (2, zones.zone_len.get(), zones.zone_capacity.get(), zones.conventional_zone_count)
            }
            Rule::IsolationDistance(s) => (3, s.track_len.get(), s.overlap_tracks.into(), 0),
            Rule::Neighbours(n) => (4, n.bottom_track_len.get(), n.top_track_len.get(), 0),
        };
        Shape {
            rule,
            disk_len_blocks: geometry.len().get(),
            zone_len_blocks,
            zone_capacity_blocks,
            conventional_zone_count,
        }
    }
}

/// The header of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Whether the drive belongs to a pair, so that some files of the catalog may be on the flash
    /// drive.
    pub(crate) is_paired: bool,
    /// Whether a seal follows the body; versions 1 and 2 have none.
    pub(crate) is_sealed: bool,
    /// Whether the other region holds a copy (K1); before version 4 it holds an older checkpoint.
    pub(crate) is_mirrored: bool,
    pub(crate) shape: Shape,
    pub(crate) sequence: u64,
    pub(crate) log_id: u64,
    pub(crate) body_len_bytes: u64,
    pub(crate) body_crc32c: u32,
    pub(crate) placement: String,
    pub(crate) placement_options: PlacementOptions,
    pub(crate) layout: String,
    pub(crate) next_file_id: u64,
    pub(crate) format_id: u64,
    /// The sequence number of the checkpoint before this one, and the block of its region where its
    /// log ended; zero if there is none or it is unknown.
    pub(crate) predecessor: u64,
    pub(crate) predecessor_end: Blocks,
    /// The checkpoint is being written. The header says so only where it can be replaced.
    pub(crate) is_unfinished: bool,
}

/// Why a block is not a valid header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeaderFlaw {
    /// All zeros: never written, or cleared.
    Blank,
    /// The block of something else.
    Foreign,
    /// A catalog header of another version.
    Version(u32),
    /// A catalog header, but damaged.
    Damaged(String),
}

impl Header {
    /// Encodes the header in the newest version.
    pub(crate) fn encode(&self) -> Vec<u8> {
        assert!(self.placement.len() <= NAME_LEN_BYTES_MAX, "a policy's name is short");
        assert!(self.layout.len() <= NAME_LEN_BYTES_MAX, "checked when formatting");
        assert!(self.is_sealed && self.is_mirrored, "older versions are not written");
        let mut block = vec![0; BLOCK_LEN_BYTES];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(MAGIC, &MAGIC_BYTES);
        put(VERSION, &FORMAT_VERSION.to_le_bytes());
        put(RULE, &self.shape.rule.to_le_bytes());
        put(SEQUENCE, &self.sequence.to_le_bytes());
        put(LOG_ID, &self.log_id.to_le_bytes());
        put(BODY_LEN, &self.body_len_bytes.to_le_bytes());
        put(BODY_CRC, &self.body_crc32c.to_le_bytes());
        put(PLACEMENT_LEN, &(self.placement.len() as u16).to_le_bytes());
        put(LAYOUT_LEN, &(self.layout.len() as u16).to_le_bytes());
        put(PLACEMENT, self.placement.as_bytes());
        put(LAYOUT, self.layout.as_bytes());
        put(DISK_LEN, &self.shape.disk_len_blocks.to_le_bytes());
        put(ZONE_LEN, &self.shape.zone_len_blocks.to_le_bytes());
        put(ZONE_CAPACITY, &self.shape.zone_capacity_blocks.to_le_bytes());
        put(CONVENTIONAL, &self.shape.conventional_zone_count.to_le_bytes());
        let paired = if self.is_paired { FLAG_PAIRED } else { 0 };
        let unfinished = if self.is_unfinished { FLAG_UNFINISHED } else { 0 };
        put(FLAGS, &(paired | unfinished).to_le_bytes());
        put(NEXT_FILE_ID, &self.next_file_id.to_le_bytes());
        put(FORMAT_ID, &self.format_id.to_le_bytes());
        let PlacementOptions { free_percent_least, unit_len } = self.placement_options;
        put(FREE_PERCENT, &u64::from(free_percent_least).to_le_bytes());
        put(UNIT_LEN, &unit_len.get().to_le_bytes());
        put(PREDECESSOR, &self.predecessor.to_le_bytes());
        put(PREDECESSOR_END, &self.predecessor_end.get().to_le_bytes());
        let crc = crc32c::crc32c(&block[..CRC]);
        block[CRC..HEADER_LEN_BYTES].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// How many blocks the body occupies with its seal.
    pub(crate) fn body_len(&self) -> Blocks {
        Blocks::holding(self.body_len_bytes.saturating_add(u64::from(self.is_sealed)))
    }

    /// Never panics, whatever the bytes are.
    pub(crate) fn decode(block: &[u8]) -> Result<Header, HeaderFlaw> {
        let damaged = |reason: &str| HeaderFlaw::Damaged(reason.to_owned());
        let version = sound_version(block)?;
        let zero = |at: std::ops::Range<usize>| block[at].iter().all(|&byte| byte == 0);
        let is_sealed = matches!(version, FORMAT_VERSION | FORMAT_VERSION_SINGLE);
        let flags = u32_at(block, FLAGS);
        let is_mirrored = version == FORMAT_VERSION;
        let (flags_known, reserved) = match version {
            FORMAT_VERSION => (FLAG_PAIRED | FLAG_UNFINISHED, RESERVED..CRC),
            FORMAT_VERSION_SINGLE => (FLAG_PAIRED, RESERVED_SINGLE..CRC),
            _ => (0, RESERVED_SINGLE..CRC_UNSEALED),
        };
        if flags & !flags_known != 0 || !zero(reserved) {
            return Err(damaged("reserved bytes are not zero"));
        }
        let text = |at: usize, len_at: usize| {
            let len = usize::from(u16_at(block, len_at));
            let padded = block[at..at + NAME_LEN_BYTES_MAX].split_at_checked(len);
            let (text, padding) = padded.ok_or_else(|| damaged("a name is too long"))?;
            if padding.iter().any(|&byte| byte != 0) {
                return Err(damaged("a name is not padded with zeros"));
            }
            String::from_utf8(text.to_vec()).map_err(|_| damaged("a name is not UTF-8"))
        };
        let placement_options = PlacementOptions {
            free_percent_least: u64_at(block, FREE_PERCENT)
                .try_into()
                .map_err(|_| damaged("a share in percent is too large"))?,
            unit_len: Blocks::new(u64_at(block, UNIT_LEN)),
        };
        placement_options.check().map_err(|reason| damaged(&reason))?;
        let header = Header {
            is_paired: version == FORMAT_VERSION_UNSEALED_PAIR || flags & FLAG_PAIRED != 0,
            is_sealed,
            is_mirrored,
            shape: Shape {
                rule: u32_at(block, RULE),
                disk_len_blocks: u64_at(block, DISK_LEN),
                zone_len_blocks: u64_at(block, ZONE_LEN),
                zone_capacity_blocks: u64_at(block, ZONE_CAPACITY),
                conventional_zone_count: u32_at(block, CONVENTIONAL),
            },
            sequence: u64_at(block, SEQUENCE),
            log_id: u64_at(block, LOG_ID),
            body_len_bytes: u64_at(block, BODY_LEN),
            body_crc32c: u32_at(block, BODY_CRC),
            placement: text(PLACEMENT, PLACEMENT_LEN)?,
            placement_options,
            layout: text(LAYOUT, LAYOUT_LEN)?,
            next_file_id: u64_at(block, NEXT_FILE_ID),
            format_id: u64_at(block, FORMAT_ID),
            // Zero in older versions.
            predecessor: u64_at(block, PREDECESSOR),
            predecessor_end: Blocks::new(u64_at(block, PREDECESSOR_END)),
            is_unfinished: flags & FLAG_UNFINISHED != 0,
        };
        if header.sequence == 0 || header.next_file_id == 0 || header.placement.is_empty() {
            return Err(damaged("a field that must not be zero is zero"));
        }
        let (sequence, next_file_id) = (header.sequence, header.next_file_id);
        if sequence >= COUNT_END || next_file_id >= COUNT_END {
            return Err(HeaderFlaw::Damaged(format!(
                "checkpoint {sequence} and next file id {next_file_id}; no drive gets that far"
            )));
        }
        Ok(header)
    }
}

/// The id of the log that follows checkpoint `sequence` (K3).
pub(super) fn log_id(format_id: u64, sequence: u64) -> u64 {
    format_id.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32) ^ sequence ^ LOG_ID_TAG
}

/// The blocks that a checkpoint writes after its header: the body and its seal.
pub(crate) fn seal(mut body: Vec<u8>) -> Vec<u8> {
    body.push(SEAL_BYTE);
    body.resize(body.len().next_multiple_of(BLOCK_LEN_BYTES), SEAL_BYTE);
    body
}

/// Whether the blocks of a body lack the seal, so that a power cut left part of the last one.
pub(crate) fn lacks_seal(blocks: &[u8]) -> bool {
    blocks.last() != Some(&SEAL_BYTE)
}

/// The version of a block, if the block is a header whose checksum matches.
fn sound_version(block: &[u8]) -> Result<u32, HeaderFlaw> {
    let damaged = |reason: &str| HeaderFlaw::Damaged(reason.to_owned());
    if block.len() != BLOCK_LEN_BYTES {
        return Err(damaged("it is not one block long"));
    }
    if block[..HEADER_LEN_BYTES].iter().all(|&byte| byte == 0) {
        return Err(HeaderFlaw::Blank);
    }
    let is_ours = |crc_at: usize| {
        let sum = crc32c::crc32c_append(crc32c::crc32c(&MAGIC_BYTES), &block[VERSION..crc_at]);
        sum == u32_at(block, crc_at)
    };
    if block[MAGIC..VERSION] != MAGIC_BYTES {
        return Err(if is_ours(CRC) || is_ours(CRC_UNSEALED) {
            damaged("its first bytes are not those of a header, but the others are")
        } else {
            HeaderFlaw::Foreign
        });
    }
    let version = u32_at(block, VERSION);
    let is_unsealed = matches!(version, FORMAT_VERSION_UNSEALED | FORMAT_VERSION_UNSEALED_PAIR);
    let crc_at = if is_unsealed { CRC_UNSEALED } else { CRC };
    if !is_ours(crc_at) {
        let (stored, computed) = (u32_at(block, crc_at), crc32c::crc32c(&block[..crc_at]));
        return Err(HeaderFlaw::Damaged(format!(
            "its checksum is {computed:#010x}, but {stored:#010x} is stored"
        )));
    }
    if is_unsealed || matches!(version, FORMAT_VERSION | FORMAT_VERSION_SINGLE) {
        return Ok(version);
    }
    Err(HeaderFlaw::Version(version))
}

/// Encodes a list of edits.
pub(crate) fn encode_edits(edits: &[Edit]) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 * edits.len() + 4);
    out.extend_from_slice(&(edits.len() as u32).to_le_bytes());
    edits.iter().for_each(|edit| encode_edit(edit, &mut out));
    out
}

fn encode_edit(edit: &Edit, out: &mut Vec<u8>) {
    match edit {
        Edit::Add { name, file } => encode_add(name, file, out),
        Edit::Remove { name } => {
            out.push(2);
            put_name(name, out);
        }
        Edit::Rename { from, to } => {
            out.push(3);
            put_name(from, out);
            put_name(to, out);
        }
        Edit::Link { existing, name } => {
            out.push(4);
            put_name(existing, out);
            put_name(name, out);
        }
        Edit::SetLevel { name, level } => {
            out.push(5);
            put_name(name, out);
            out.push(*level);
        }
        Edit::Grow { id, extent } => {
            out.push(6);
            out.extend_from_slice(&id.0.to_le_bytes());
            put_extent(extent, out);
        }
        Edit::Finish { id, extents } => {
            out.push(7);
            out.extend_from_slice(&id.0.to_le_bytes());
            put_extents(extents, out);
        }
        Edit::Move { id, extents } => {
            out.push(8);
            out.extend_from_slice(&id.0.to_le_bytes());
            put_extents(extents, out);
        }
        Edit::AppAppend(record) => {
            out.push(9);
            put_bytes(record, out);
        }
        Edit::AppReplace(record) => {
            out.push(10);
            put_bytes(record, out);
        }
        Edit::Pair { flash_id, age } => {
            out.push(11);
            out.extend_from_slice(&flash_id.to_le_bytes());
            out.extend_from_slice(&age.to_le_bytes());
        }
        Edit::Gone { id } => {
            out.push(12);
            out.extend_from_slice(&id.0.to_le_bytes());
        }
        Edit::Swept { id } => {
            out.push(13);
            out.extend_from_slice(&id.0.to_le_bytes());
        }
    }
}

fn encode_add(name: &str, file: &FileRecord, out: &mut Vec<u8>) {
    out.push(1);
    put_name(name, out);
    out.extend_from_slice(&file.id.0.to_le_bytes());
    out.push(kind_to_byte(file.kind));
    out.push(file.level);
    let group = if file.group.is_some() { FLAG_GROUP } else { 0 };
    let span = if file.span.is_some() { FLAG_SPAN } else { 0 };
    let beside = if file.is_beside { FLAG_BESIDE } else { 0 };
    let moved = if file.written_level != file.level { FLAG_MOVED } else { 0 };
    out.push(group | span | beside | moved | if file.is_open { FLAG_OPEN } else { 0 });
    out.extend_from_slice(&file.group.map_or(0, |GroupId(g)| g).to_le_bytes());
    out.extend_from_slice(&file.stream.to_le_bytes());
    if file.written_level != file.level {
        out.push(file.written_level);
    }
    if let Some(span) = file.span {
        out.extend_from_slice(&span.start.get().to_le_bytes());
        out.extend_from_slice(&span.len.get().to_le_bytes());
    }
    put_extents(&file.extents, out);
}

/// Decodes a list of edits. Never panics, and allocates no more than a few times `bytes`.
pub(crate) fn decode_edits(bytes: &[u8]) -> Result<Vec<Edit>, String> {
    let mut input = Input { bytes, at: 0 };
    let count = input.u32()?;
    let mut edits = Vec::new();
    for _ in 0..count {
        edits.push(decode_edit(&mut input)?);
    }
    if input.at != bytes.len() {
        return Err(format!("{} bytes follow the last edit", bytes.len() - input.at));
    }
    Ok(edits)
}

fn decode_edit(input: &mut Input<'_>) -> Result<Edit, String> {
    Ok(match input.u8()? {
        1 => decode_add(input)?,
        2 => Edit::Remove { name: input.name()? },
        3 => Edit::Rename { from: input.name()?, to: input.name()? },
        4 => Edit::Link { existing: input.name()?, name: input.name()? },
        5 => Edit::SetLevel { name: input.name()?, level: input.u8()? },
        6 => Edit::Grow { id: input.id()?, extent: input.extent()? },
        7 => Edit::Finish { id: input.id()?, extents: input.extents()? },
        8 => Edit::Move { id: input.id()?, extents: input.extents()? },
        9 => Edit::AppAppend(input.bytes()?),
        10 => Edit::AppReplace(input.bytes()?),
        11 => Edit::Pair { flash_id: input.u64()?, age: input.count()? },
        12 => Edit::Gone { id: input.id()? },
        13 => Edit::Swept { id: input.id()? },
        tag => return Err(format!("edit tag {tag} at byte {}; 1 to 13 are known", input.at - 1)),
    })
}

fn decode_add(input: &mut Input<'_>) -> Result<Edit, String> {
    let name = input.name()?;
    let id = input.id()?;
    let kind = kind_from_byte(input.u8()?)?;
    let level = input.u8()?;
    let flags = input.u8()?;
    let group = input.u64()?;
    let stream = input.u32()?;
    if flags & !(FLAG_GROUP | FLAG_OPEN | FLAG_SPAN | FLAG_BESIDE | FLAG_MOVED) != 0 {
        return Err(format!("flags {flags:#04x} of {name:?}; bits 0 to 4 are known"));
    }
    let written_level = if flags & FLAG_MOVED != 0 { input.u8()? } else { level };
    if flags & FLAG_MOVED != 0 && written_level == level {
        return Err(format!("{name:?} was moved from level {level} to level {level}"));
    }
    let span = if flags & FLAG_SPAN != 0 { Some(input.span()?) } else { None };
    let extents = input.extents()?;
    let group = match (flags & FLAG_GROUP != 0, group) {
        (true, group) => Some(GroupId(group)),
        (false, 0) => None,
        (false, group) => return Err(format!("group {group} of {name:?} without its flag")),
    };
    let is_open = flags & FLAG_OPEN != 0;
    let is_beside = flags & FLAG_BESIDE != 0;
    if is_beside && (is_open || span.is_some() || !extents.is_empty()) {
        return Err(format!("{name:?} lies on the flash drive, but has blocks here"));
    }
    let file = FileRecord {
        id,
        kind,
        level,
        written_level,
        group,
        stream,
        is_open,
        is_beside,
        span,
        extents,
    };
    Ok(Edit::Add { name, file })
}

fn kind_to_byte(kind: FileKind) -> u8 {
    match kind {
        FileKind::Log => 1,
        FileKind::Table => 2,
        FileKind::Metadata => 3,
        FileKind::Other => 4,
    }
}

fn kind_from_byte(byte: u8) -> Result<FileKind, String> {
    match byte {
        1 => Ok(FileKind::Log),
        2 => Ok(FileKind::Table),
        3 => Ok(FileKind::Metadata),
        4 => Ok(FileKind::Other),
        other => Err(format!("file kind {other}; 1 to 4 are known")),
    }
}

fn put_name(name: &str, out: &mut Vec<u8>) {
    assert!(name.len() <= FILE_NAME_LEN_BYTES_MAX, "names are checked when they come in");
    out.extend_from_slice(&(name.len() as u16).to_le_bytes());
    out.extend_from_slice(name.as_bytes());
}

fn put_extents(extents: &[Extent], out: &mut Vec<u8>) {
    out.extend_from_slice(&(extents.len() as u32).to_le_bytes());
    extents.iter().for_each(|extent| put_extent(extent, out));
}

fn put_extent(extent: &Extent, out: &mut Vec<u8>) {
    out.extend_from_slice(&extent.start.get().to_le_bytes());
    out.extend_from_slice(&extent.len_bytes.to_le_bytes());
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Bytes being decoded, with the position reached.
struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], String> {
        let rest = self.bytes.len() - self.at;
        if rest < len {
            return Err(format!("{len} bytes wanted at byte {}, but {rest} are left", self.at));
        }
        self.at += len;
        Ok(&self.bytes[self.at - len..self.at])
    }

    fn u8(&mut self) -> Result<u8, String> {
        self.take(1).map(|b| b[0])
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.take(4).map(|b| u32_at(b, 0))
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.take(8).map(|b| u64_at(b, 0))
    }

    fn count(&mut self) -> Result<u64, String> {
        let at = self.at;
        match self.u64()? {
            count if count < COUNT_END => Ok(count),
            count => Err(format!("{count} at byte {at}; no drive gets that far")),
        }
    }

    fn id(&mut self) -> Result<FileId, String> {
        self.count().map(FileId).map_err(|reason| format!("file id {reason}"))
    }

    fn name(&mut self) -> Result<String, String> {
        let len = usize::from(u16_at(self.take(2)?, 0));
        let at = self.at;
        let name = std::str::from_utf8(self.take(len)?)
            .map_err(|_| format!("the name at byte {at} is not UTF-8"))?;
        match crate::names::flaw(name) {
            Some(reason) => Err(format!("the name at byte {at}: {reason}")),
            None => Ok(name.to_owned()),
        }
    }

    fn extent(&mut self) -> Result<Extent, String> {
        let (start, len_bytes) = (self.u64()?, self.u64()?);
        let start_bytes = start.checked_mul(BLOCK_LEN_BYTES as u64);
        if len_bytes == 0 || start_bytes.and_then(|s| s.checked_add(len_bytes)).is_none() {
            return Err(format!("extent of {len_bytes} bytes at block {start} is impossible"));
        }
        Ok(Extent { start: Lba::new(start), len_bytes })
    }

    fn span(&mut self) -> Result<BlockRange, String> {
        let (start, len) = (self.u64()?, self.u64()?);
        let end_bytes =
            start.checked_add(len).and_then(|end| end.checked_mul(BLOCK_LEN_BYTES as u64));
        if len == 0 || end_bytes.is_none() {
            return Err(format!("span of {len} blocks at block {start} is impossible"));
        }
        Ok(BlockRange::new(Lba::new(start), Blocks::new(len)))
    }

    fn extents(&mut self) -> Result<Vec<Extent>, String> {
        let count = self.u32()?;
        (0..count).map(|_| self.extent()).collect()
    }

    fn bytes(&mut self) -> Result<Vec<u8>, String> {
        let len = self.u32()?;
        self.take(len as usize).map(<[u8]>::to_vec)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}
