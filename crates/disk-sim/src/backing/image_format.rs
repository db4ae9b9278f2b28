#![doc = include_str!("../../docs/formats/image_header.md")]

use crate::rule::Mark;
use imbrex_disk::{
    BLOCK_LEN_BYTES, Blocks, Geometry, GeometrySpec, NeighbourSpec, Rule, ShingleSpec, ZoneId,
    ZoneMark, ZoneRecord, ZoneSpec, flipped_bit,
};

/// The newest version that this program reads and writes. A new image gets the oldest version that
/// can describe it.
pub(crate) const FORMAT_VERSION: u32 = 3;
const FORMAT_VERSION_WITHOUT_TRACKS: u32 = 1;
const FORMAT_VERSION_OF_SHINGLES: u32 = 2;
pub(crate) const MAGIC: [u8; 8] = *b"IMBREXDK";

const RULE: usize = 12;
const IMAGE_ID: usize = RULE + 4;
const LEN: usize = IMAGE_ID + 8;
const ZONE_LEN: usize = LEN + 8;
const ZONE_CAPACITY: usize = ZONE_LEN + 8;
const CONVENTIONAL: usize = ZONE_CAPACITY + 8;
const OPEN_LIMIT: usize = CONVENTIONAL + 4;
const ACTIVE_LIMIT: usize = OPEN_LIMIT + 4;
const FLAGS: usize = ACTIVE_LIMIT + 4;
const WRITE_CACHE: usize = FLAGS + 4;
const DATA_OFFSET: usize = WRITE_CACHE + 8;
const PROFILE_LEN: usize = DATA_OFFSET + 8;
const PROFILE_CRC: usize = PROFILE_LEN + 4;
const LABEL: usize = PROFILE_CRC + 4;
const PROFILE_NAME: usize = LABEL + NAME_LEN_BYTES_MAX;
const TRACK_LEN: usize = PROFILE_NAME + NAME_LEN_BYTES_MAX;
const OVERLAP: usize = TRACK_LEN + 8;
const RESERVED_1: usize = OVERLAP + 4;
const TOP_TRACK_LEN: usize = RESERVED_1 + 4;
const RESERVED: usize = TOP_TRACK_LEN + 8;
const CRC: usize = HEADER_LEN_BYTES - 4;
const _: () = assert!(TRACK_LEN == 216 && TOP_TRACK_LEN == 232 && RESERVED <= CRC);

/// The largest length of a label or a profile name.
pub(crate) const NAME_LEN_BYTES_MAX: usize = 64;
pub(crate) const HEADER_LEN_BYTES: usize = BLOCK_LEN_BYTES;
pub(crate) const PROFILE_OFFSET: u64 = HEADER_LEN_BYTES as u64;
pub(crate) const PROFILE_LEN_BYTES_MAX: usize = 61_440;
pub(crate) const ZONE_TABLE_OFFSET: u64 = PROFILE_OFFSET + PROFILE_LEN_BYTES_MAX as u64;
pub(crate) const ZONE_RECORD_LEN_BYTES: usize = 32;
/// The track map is stored where a zoned drive has its zone table.
pub(crate) const TRACK_MAP_OFFSET: u64 = ZONE_TABLE_OFFSET;
const DATA_ALIGNMENT_BYTES: u64 = 1 << 20;
const ZONE_RECORD_CRC: usize = ZONE_RECORD_LEN_BYTES - 4;

const RULE_CONVENTIONAL: u32 = 1;
const RULE_ZONED: u32 = 2;
const RULE_SHINGLED: u32 = 3;
const RULE_INTERLACED: u32 = 4;
const FLAG_STRICT_READS: u32 = 1;

/// The content of the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) image_id: u64,
    pub(crate) geometry: Geometry,
    pub(crate) write_cache: Blocks,
    pub(crate) profile_len_bytes: u32,
    pub(crate) profile_crc: u32,
    pub(crate) label: String,
    pub(crate) profile_name: String,
}

/// Why bytes are not a valid header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    /// The magic does not match.
    Magic,
    /// The version is unknown.
    Version { got: u32 },
    /// The checksum fails.
    Checksum { expected: u32, got: u32 },
    /// A field has a value that no writer of this version writes.
    Field { field: &'static str },
}

/// The offset of the data in an image of `geometry`.
pub(crate) fn data_offset_bytes(geometry: &Geometry) -> u64 {
    let table_len = match geometry.rule() {
        Rule::IsolationDistance(_) | Rule::Neighbours(_) => geometry.len().get(),
        _ => u64::from(geometry.zone_count()) * ZONE_RECORD_LEN_BYTES as u64,
    };
    (ZONE_TABLE_OFFSET + table_len).next_multiple_of(DATA_ALIGNMENT_BYTES)
}

/// The length of an image of `geometry`.
pub(crate) fn image_len_bytes(geometry: &Geometry) -> Option<u64> {
    let data_len = geometry.len().get().checked_mul(BLOCK_LEN_BYTES as u64)?;
    // Checked first: if the data is short enough, its table is even shorter.
    i64::try_from(data_len).ok()?;
    data_offset_bytes(geometry).checked_add(data_len).filter(|&len| len <= i64::MAX as u64)
}

impl Header {
    /// The header's bytes. The label and the name fit their fields.
    pub(crate) fn encode(&self) -> [u8; HEADER_LEN_BYTES] {
        let mut bytes = [0; HEADER_LEN_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        put_u32(&mut bytes, 8, version_of(self.geometry.rule()));
        put_u64(&mut bytes, IMAGE_ID, self.image_id);
        put_u64(&mut bytes, LEN, self.geometry.len().get());
        put_u32(&mut bytes, RULE, RULE_CONVENTIONAL);
        if let Some(zones) = self.geometry.zones() {
            put_u32(&mut bytes, RULE, RULE_ZONED);
            put_u64(&mut bytes, ZONE_LEN, zones.zone_len.get());
            put_u64(&mut bytes, ZONE_CAPACITY, zones.zone_capacity.get());
            put_u32(&mut bytes, CONVENTIONAL, zones.conventional_zone_count);
            put_u32(&mut bytes, OPEN_LIMIT, zones.open_zone_limit.unwrap_or(0));
            put_u32(&mut bytes, ACTIVE_LIMIT, zones.active_zone_limit.unwrap_or(0));
            put_u32(&mut bytes, FLAGS, if zones.strict_reads { FLAG_STRICT_READS } else { 0 });
        }
        if let Rule::IsolationDistance(shingle) = self.geometry.rule() {
            put_u32(&mut bytes, RULE, RULE_SHINGLED);
            put_u64(&mut bytes, TRACK_LEN, shingle.track_len.get());
            put_u32(&mut bytes, OVERLAP, shingle.overlap_tracks);
        }
        if let Some(tracks) = self.geometry.interlaced() {
            put_u32(&mut bytes, RULE, RULE_INTERLACED);
            put_u64(&mut bytes, TRACK_LEN, tracks.bottom_track_len.get());
            put_u64(&mut bytes, TOP_TRACK_LEN, tracks.top_track_len.get());
        }
        put_u64(&mut bytes, WRITE_CACHE, self.write_cache.get());
        put_u64(&mut bytes, DATA_OFFSET, data_offset_bytes(&self.geometry));
        put_u32(&mut bytes, PROFILE_LEN, self.profile_len_bytes);
        put_u32(&mut bytes, PROFILE_CRC, self.profile_crc);
        bytes[LABEL..LABEL + self.label.len()].copy_from_slice(self.label.as_bytes());
        let name = self.profile_name.as_bytes();
        bytes[PROFILE_NAME..PROFILE_NAME + name.len()].copy_from_slice(name);
        let crc = crc32c::crc32c(&bytes[..CRC]);
        put_u32(&mut bytes, CRC, crc);
        bytes
    }

    /// Reads a header back.
    pub(crate) fn decode(bytes: &[u8; HEADER_LEN_BYTES]) -> Result<Header, HeaderFault> {
        if bytes[..8] != MAGIC {
            return Err(HeaderFault::Magic);
        }
        // Another version may lay out the remaining fields differently, including the checksum.
        let version = get_u32(bytes, 8);
        let (expected, got) = (get_u32(bytes, CRC), crc32c::crc32c(&bytes[..CRC]));
        match ((1..=FORMAT_VERSION).contains(&version), expected == got) {
            (true, true) => {}
            (true, false) => return Err(HeaderFault::Checksum { expected, got }),
            (false, _) => return Err(HeaderFault::Version { got: version }),
        }
        let is_zero = |range: std::ops::Range<usize>| bytes[range].iter().all(|&b| b == 0);
        if !is_zero(RESERVED_1..TOP_TRACK_LEN) || !is_zero(RESERVED..CRC) {
            return Err(HeaderFault::Field { field: "reserved" });
        }
        let geometry = decode_geometry(bytes)?;
        if version != version_of(geometry.rule()) {
            return Err(HeaderFault::Field { field: "format_version" });
        }
        if image_len_bytes(&geometry).is_none() {
            return Err(HeaderFault::Field { field: "len_blocks" });
        }
        if get_u64(bytes, DATA_OFFSET) != data_offset_bytes(&geometry) {
            return Err(HeaderFault::Field { field: "data_offset_bytes" });
        }
        let profile_len_bytes = get_u32(bytes, PROFILE_LEN);
        if profile_len_bytes as usize > PROFILE_LEN_BYTES_MAX {
            return Err(HeaderFault::Field { field: "profile_len_bytes" });
        }
        Ok(Header {
            image_id: get_u64(bytes, IMAGE_ID),
            geometry,
            write_cache: Blocks::new(get_u64(bytes, WRITE_CACHE)),
            profile_len_bytes,
            profile_crc: get_u32(bytes, PROFILE_CRC),
            label: get_name(bytes, LABEL).ok_or(HeaderFault::Field { field: "label" })?,
            profile_name: get_name(bytes, PROFILE_NAME)
                .ok_or(HeaderFault::Field { field: "profile_name" })?,
        })
    }
}

fn version_of(rule: &Rule) -> u32 {
    match rule {
        Rule::Neighbours(_) => FORMAT_VERSION,
        Rule::IsolationDistance(_) => FORMAT_VERSION_OF_SHINGLES,
        Rule::Anywhere | Rule::AtPointer(_) => FORMAT_VERSION_WITHOUT_TRACKS,
    }
}

fn decode_geometry(bytes: &[u8]) -> Result<Geometry, HeaderFault> {
    let flags = get_u32(bytes, FLAGS);
    let is_zero = |range: std::ops::Range<usize>| bytes[range].iter().all(|&b| b == 0);
    let rule = get_u32(bytes, RULE);
    let has_tracks = matches!(rule, RULE_SHINGLED | RULE_INTERLACED);
    if !has_tracks && !is_zero(TRACK_LEN..RESERVED) {
        return Err(HeaderFault::Field { field: "track_len_blocks" });
    }
    if rule == RULE_SHINGLED && !is_zero(TOP_TRACK_LEN..RESERVED) {
        return Err(HeaderFault::Field { field: "top_track_len_blocks" });
    }
    if rule == RULE_INTERLACED && !is_zero(OVERLAP..RESERVED_1) {
        return Err(HeaderFault::Field { field: "overlap_tracks" });
    }
    let rule = match rule {
        RULE_CONVENTIONAL if is_zero(ZONE_LEN..WRITE_CACHE) => Rule::Anywhere,
        RULE_SHINGLED if is_zero(ZONE_LEN..WRITE_CACHE) => Rule::IsolationDistance(ShingleSpec {
            track_len: Blocks::new(get_u64(bytes, TRACK_LEN)),
            overlap_tracks: get_u32(bytes, OVERLAP),
        }),
        RULE_INTERLACED if is_zero(ZONE_LEN..WRITE_CACHE) => Rule::Neighbours(NeighbourSpec {
            bottom_track_len: Blocks::new(get_u64(bytes, TRACK_LEN)),
            top_track_len: Blocks::new(get_u64(bytes, TOP_TRACK_LEN)),
        }),
        RULE_CONVENTIONAL | RULE_SHINGLED | RULE_INTERLACED => {
            return Err(HeaderFault::Field { field: "zone_len_blocks" });
        }
        RULE_ZONED if flags & !FLAG_STRICT_READS != 0 => {
            return Err(HeaderFault::Field { field: "flags" });
        }
        RULE_ZONED => Rule::AtPointer(ZoneSpec {
            zone_len: Blocks::new(get_u64(bytes, ZONE_LEN)),
            zone_capacity: Blocks::new(get_u64(bytes, ZONE_CAPACITY)),
            conventional_zone_count: get_u32(bytes, CONVENTIONAL),
            open_zone_limit: Some(get_u32(bytes, OPEN_LIMIT)).filter(|&limit| limit != 0),
            active_zone_limit: Some(get_u32(bytes, ACTIVE_LIMIT)).filter(|&limit| limit != 0),
            strict_reads: flags & FLAG_STRICT_READS != 0,
        }),
        _ => return Err(HeaderFault::Field { field: "rule" }),
    };
    let len = Blocks::new(get_u64(bytes, LEN));
    Geometry::new(GeometrySpec { len, rule }).map_err(|_| HeaderFault::Field { field: "geometry" })
}

/// The bytes of one zone's record.
pub(crate) fn encode_zone(zone: ZoneId, record: ZoneRecord) -> [u8; ZONE_RECORD_LEN_BYTES] {
    let mut bytes = [0; ZONE_RECORD_LEN_BYTES];
    put_u32(&mut bytes, 0, record.mark as u32);
    put_u32(&mut bytes, 4, zone.0);
    put_u64(&mut bytes, 8, record.written.get());
    let crc = crc32c::crc32c(&bytes[..ZONE_RECORD_CRC]);
    put_u32(&mut bytes, ZONE_RECORD_CRC, crc);
    bytes
}

/// Decodes the record of `zone`. `None` if it is damaged or belongs to another zone.
pub(crate) fn decode_zone(
    zone: ZoneId,
    capacity: Blocks,
    bytes: &[u8; ZONE_RECORD_LEN_BYTES],
) -> Option<ZoneRecord> {
    let mark = match get_u32(bytes, 0) {
        1 => ZoneMark::Writable,
        2 => ZoneMark::Full,
        3 => ZoneMark::ReadOnly,
        4 => ZoneMark::Offline,
        _ => return None,
    };
    let written = Blocks::new(get_u64(bytes, 8));
    let is_sound = get_u32(bytes, ZONE_RECORD_CRC) == crc32c::crc32c(&bytes[..ZONE_RECORD_CRC])
        && get_u32(bytes, 4) == zone.0
        && bytes[16..ZONE_RECORD_CRC].iter().all(|&b| b == 0)
        && written <= capacity;
    is_sound.then_some(ZoneRecord { mark, written })
}

/// Corrects one flipped bit of a header or of a zone's record, which end in their checksum. Returns
/// whether there was one.
pub(crate) fn correct_bit(bytes: &mut [u8]) -> bool {
    let body_len_bytes = bytes.len() - 4;
    let stored = get_u32(bytes, body_len_bytes);
    let computed = crc32c::crc32c(&bytes[..body_len_bytes]);
    let bit = flipped_bit(body_len_bytes, stored, computed);
    bit.is_some_and(|bit| {
        bytes[bit / 8] ^= 1 << (bit % 8);
        true
    })
}

/// The byte of the track map that differs from `byte` in one bit; `None` if there is none.
pub(crate) fn correct_mark(byte: u8) -> Option<u8> {
    let marks = [None, Some(Mark::Valid), Some(Mark::Destroyed)].map(encode_mark);
    marks.into_iter().find(|mark| (mark ^ byte).count_ones() == 1)
}

/// The byte of a block in the track map.
pub(crate) fn encode_mark(mark: Option<Mark>) -> u8 {
    mark.map_or(0, |mark| mark as u8)
}

/// Decodes the byte of a block. `Err` if it is invalid.
pub(crate) fn decode_mark(byte: u8) -> Result<Option<Mark>, ()> {
    match byte {
        0 => Ok(None),
        0x0F => Ok(Some(Mark::Valid)),
        0x33 => Ok(Some(Mark::Destroyed)),
        _ => Err(()),
    }
}

fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// A name, then zeros to the end of its field.
fn get_name(bytes: &[u8], at: usize) -> Option<String> {
    let field = &bytes[at..at + NAME_LEN_BYTES_MAX];
    let len = field.iter().position(|&b| b == 0).unwrap_or(field.len());
    let is_padded = field[len..].iter().all(|&b| b == 0);
    is_padded.then(|| std::str::from_utf8(&field[..len]).ok().map(str::to_owned))?
}

#[cfg(test)]
mod tests;
