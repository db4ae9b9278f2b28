//! Reads a catalog: chooses the valid region, reads its checkpoint and the records that follow.
//!
//! ```text
//!   both headers -> the higher sequence that is whole -> body -> log, cut at the last valid record
//! ```
//!
//! This code only reads. Damage, as opposed to a torn write, is an error that names the structure
//! and its location: a silent return to the older region would lose acknowledged commits.

use super::format::{FORMAT_VERSION, HeaderFlaw, lacks_seal};
use super::{Edit, Header, InvalidEdit, Namespace, Shape, decode_edits, log_id};
use crate::error::FilesError;
use crate::region::{Region, regions};
use imbrex_disk::{BLOCK_LEN_BYTES, Blocks, Disk, DiskError, Lba};
use imbrex_record_log::{Decoder, End, LogBounds, log_id_of};

/// How much is read at a time in a region whose header is lost.
const LOOK_LEN: Blocks = Blocks::new(256);

/// The content of a catalog on the disk.
#[derive(Debug)]
pub(crate) struct CatalogImage {
    pub(crate) header: Header,
    pub(crate) regions: [Region; 2],
    pub(crate) current: usize,
    /// The edits of the checkpoint.
    pub(crate) body: Vec<Edit>,
    /// The records of the log, each with its block in the region.
    pub(crate) records: Vec<(Blocks, Vec<Edit>)>,
    /// How the log ended, in words.
    pub(crate) end: String,
}

/// The state in which a region was found.
#[derive(Debug)]
enum RegionContent {
    Blank,
    /// A checkpoint that a power cut left unfinished.
    Unfinished,
    Whole(Header),
    Foreign,
    Damaged(String),
    /// The header cannot be read: the power may have failed while it was written or cleared.
    Unreadable(Lba),
}

/// Reads the catalog of `disk`.
///
/// # Errors
/// [`FilesError::NotFormatted`], [`FilesError::Version`], [`FilesError::Geometry`],
/// [`FilesError::Corrupt`], [`FilesError::Disk`].
pub(crate) fn read_image(disk: &dyn Disk) -> Result<CatalogImage, FilesError> {
    let not_formatted = |reason: String| FilesError::NotFormatted { reason };
    let regions = regions(disk.geometry()).map_err(not_formatted)?;
    let found = [look(disk, &regions[0])?, look(disk, &regions[1])?];
    let found = settle_unreadable(disk, &regions, found)?;
    let current = choose(&regions, &found)?;
    let [a, b] = found;
    let RegionContent::Whole(mut header) = (if current == 0 { a } else { b }) else {
        return Err(not_formatted("no region holds a whole checkpoint".to_owned()));
    };
    let shape = Shape::of(disk.geometry());
    if header.shape != shape {
        let (expected, got) = (format!("{:?}", header.shape), format!("{shape:?}"));
        return Err(FilesError::Geometry { expected, got });
    }
    let region = &regions[current];
    let body = read_body(disk, region, &header)?;
    let (records, end) = read_log(disk, region, &header)?;
    let ids = records.iter().flat_map(|(_, edits)| edits).filter_map(|edit| match edit {
        Edit::Add { file, .. } => Some(file.id.0),
        Edit::Gone { id } => Some(id.0),
        _ => None,
    });
    // N2: an id in the log is used, even if the log removes the file again.
    header.next_file_id = ids.fold(header.next_file_id, |next, id| next.max(id + 1));
    Ok(CatalogImage { header, regions, current, body, records, end })
}

/// The sequence number in each region's header, or 0 without one: a new format must exceed them.
pub(crate) fn sequences(disk: &dyn Disk, regions: &[Region; 2]) -> [u64; 2] {
    regions.each_ref().map(|region| match look(disk, region) {
        Ok(RegionContent::Whole(header)) => header.sequence,
        _ => 0,
    })
}

impl CatalogImage {
    /// Applies the checkpoint and the records.
    pub(crate) fn namespace(&self) -> Result<Namespace, FilesError> {
        let mut namespace = Namespace::default();
        let region = &self.regions[self.current];
        let body = std::iter::once((Blocks::new(1), &self.body));
        let records = self.records.iter().map(|(at, edits)| (*at, edits));
        for (at, edits) in body.chain(records) {
            for edit in edits {
                namespace.apply(edit.clone()).map_err(|InvalidEdit(reason)| {
                    corrupt("catalog record", place(region, at), reason)
                })?;
            }
        }
        Ok(namespace)
    }
}

fn look(disk: &dyn Disk, region: &Region) -> Result<RegionContent, FilesError> {
    if let Some(zone) = region.lost_zone(disk) {
        return Ok(RegionContent::Damaged(format!("{zone} is offline")));
    }
    let written = region.written(disk);
    if written.is_zero() {
        return Ok(RegionContent::Blank);
    }
    let mut block = vec![0; BLOCK_LEN_BYTES];
    match region.read(disk, Blocks::ZERO, &mut block) {
        // In zones the header is written first: if the power cut hit it, nothing follows it.
        Err(DiskError::Medium { .. }) if region.is_sequential() && written == Blocks::new(1) => {
            return Ok(RegionContent::Unfinished);
        }
        Err(DiskError::Medium { at }) if !region.is_sequential() => {
            return Ok(RegionContent::Unreadable(at));
        }
        result => result.map_err(reading("the catalog's header"))?,
    }
    Ok(match Header::decode(&block) {
        Err(HeaderFlaw::Blank) => RegionContent::Blank,
        Err(HeaderFlaw::Foreign) => RegionContent::Foreign,
        Err(HeaderFlaw::Damaged(reason)) => RegionContent::Damaged(reason),
        Err(HeaderFlaw::Version(got)) => {
            return Err(FilesError::Version { what: "catalog", got, known: FORMAT_VERSION });
        }
        Ok(header) => {
            let end = header.body_len() + Blocks::new(1);
            let is_cut = region.is_sequential()
                && (written < end || written == end && is_torn(disk, region, &header));
            if is_cut || (region.is_pointerless(disk) && lacks_its_end(disk, region, &header)) {
                RegionContent::Unfinished
            } else {
                RegionContent::Whole(header)
            }
        }
    })
}

/// Resolves an unreadable header. Its region was being cleared or completed when the power failed,
/// and the other region is the catalog. It is an error if the other region holds no catalog, or if
/// a commit follows the unreadable header.
fn settle_unreadable(
    disk: &dyn Disk,
    regions: &[Region; 2],
    mut found: [RegionContent; 2],
) -> Result<[RegionContent; 2], FilesError> {
    for (index, region) in regions.iter().enumerate() {
        let RegionContent::Unreadable(at) = found[index] else { continue };
        let is_settled = match &found[1 - index] {
            RegionContent::Whole(other) => {
                let newer = log_id(other.format_id, other.sequence + 1);
                !holds_frame_of(disk, region, newer).map_err(reading("the catalog's log"))?
            }
            _ => false,
        };
        if !is_settled {
            return Err(reading("the catalog's header")(DiskError::Medium { at }));
        }
        found[index] = RegionContent::Unfinished;
    }
    Ok(found)
}

/// Whether a block of the region begins a frame of that log.
fn holds_frame_of(disk: &dyn Disk, region: &Region, log_id: u64) -> Result<bool, DiskError> {
    let mut piece = vec![0; LOOK_LEN.bytes() as usize];
    let begins = |block: &[u8]| log_id_of(block) == Some(log_id);
    let mut at = Blocks::new(1);
    while at < region.len() {
        let len = (region.len() - at).min(LOOK_LEN);
        let buf = &mut piece[..len.bytes() as usize];
        match region.read(disk, at, buf) {
            Ok(()) if buf.chunks(BLOCK_LEN_BYTES).any(begins) => return Ok(true),
            Err(DiskError::Medium { .. }) if len > Blocks::new(1) => {
                for (index, block) in (0..).zip(buf.chunks_mut(BLOCK_LEN_BYTES)) {
                    match region.read(disk, at + Blocks::new(index), block) {
                        Ok(()) if begins(block) => return Ok(true),
                        Ok(()) | Err(DiskError::Medium { .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            Ok(()) | Err(DiskError::Medium { .. }) => {}
            Err(error) => return Err(error),
        }
        at += len;
    }
    Ok(false)
}

/// Whether a power cut left a body unfinished that lies below the write pointer, with nothing after
/// it. Either part of its last block is there, filled up with zeros; or that block, or the last of
/// a zone, is unreadable.
fn is_torn(disk: &dyn Disk, region: &Region, header: &Header) -> bool {
    let mut block = vec![0; BLOCK_LEN_BYTES];
    let last = header.body_len();
    let ends = region.piece_ends().take_while(|end| *end < last).chain([last]);
    for end in ends {
        match region.read(disk, end, &mut block) {
            Err(DiskError::Medium { .. }) => return true,
            Err(_) => return false,
            Ok(()) => {}
        }
    }
    header.is_sealed && lacks_seal(&block) && read_body(disk, region, header).is_err()
}

/// Whether the body of a checkpoint is blank from some block on, and the block after it as well.
/// The write pointer no longer shows that the body was never finished.
fn lacks_its_end(disk: &dyn Disk, region: &Region, header: &Header) -> bool {
    let len = header.body_len();
    if len.is_zero()
        || region.len() < Blocks::new(1) + len
        || read_body(disk, region, header).is_ok()
    {
        return false;
    }
    let behind = Blocks::new(1).min(region.len() - Blocks::new(1) - len);
    let mut end = vec![0; (Blocks::new(1) + behind).bytes() as usize];
    region.read(disk, len, &mut end).is_ok() && end.iter().all(|&byte| byte == end[0])
}

/// The other region alone could be older than the last commit.
const NO_HEADER: &str = "it is neither a header nor blank; restore the drive from a copy";

fn choose(regions: &[Region; 2], found: &[RegionContent; 2]) -> Result<usize, FilesError> {
    let damaged = |index: usize, reason: &str| {
        Err(corrupt("catalog header", place(&regions[index], Blocks::ZERO), reason.to_owned()))
    };
    match found {
        [RegionContent::Unreadable(_), _] | [_, RegionContent::Unreadable(_)] => {
            unreachable!("settled or an error before")
        }
        [RegionContent::Damaged(reason), _] => damaged(0, reason),
        [_, RegionContent::Damaged(reason)] => damaged(1, reason),
        [RegionContent::Whole(_), RegionContent::Foreign] => damaged(1, NO_HEADER),
        [RegionContent::Foreign, RegionContent::Whole(_)] => damaged(0, NO_HEADER),
        [RegionContent::Whole(a), RegionContent::Whole(b)] if a.sequence == b.sequence => {
            damaged(1, "both regions have the same sequence number")
        }
        [RegionContent::Whole(a), RegionContent::Whole(b)] => {
            Ok(usize::from(a.sequence < b.sequence))
        }
        [RegionContent::Whole(_), _] => Ok(0),
        [_, RegionContent::Whole(_)] => Ok(1),
        [a, b] => {
            let is_foreign = [a, b].iter().any(|found| matches!(found, RegionContent::Foreign));
            // Advice to format could destroy a catalog that is there after all.
            let advice = if is_foreign {
                "the drive belongs to something else, or its catalog is damaged; in that case restore it from a copy"
            } else {
                "format it first"
            };
            let reason = format!("region A is {}, region B is {}; {advice}", a.word(), b.word());
            Err(FilesError::NotFormatted { reason })
        }
    }
}

impl RegionContent {
    fn word(&self) -> &'static str {
        match self {
            RegionContent::Blank => "blank",
            RegionContent::Unfinished => "an unfinished checkpoint",
            RegionContent::Whole(_) => "a checkpoint",
            RegionContent::Foreign => "something else",
            RegionContent::Damaged(_) => "damaged",
            RegionContent::Unreadable(_) => "unreadable",
        }
    }
}

fn read_body(disk: &dyn Disk, region: &Region, header: &Header) -> Result<Vec<Edit>, FilesError> {
    let at = Blocks::new(1);
    let damaged = |reason: String| corrupt("catalog checkpoint", place(region, at), reason);
    let (len, room) = (header.body_len(), region.len() - at);
    if room < len {
        let (got, room) = (header.body_len_bytes, room.bytes());
        return Err(damaged(format!("{got} bytes, but {room} fit")));
    }
    let mut body = vec![0; len.bytes() as usize];
    if !body.is_empty() {
        region.read(disk, at, &mut body).map_err(reading("the catalog's checkpoint"))?;
    }
    body.truncate(header.body_len_bytes as usize);
    let got = crc32c::crc32c(&body);
    if got != header.body_crc32c {
        return Err(damaged(format!(
            "its checksum is {got:#010x}, but the header has {:#010x}",
            header.body_crc32c
        )));
    }
    decode_edits(&body).map_err(damaged)
}

type Records = Vec<(Blocks, Vec<Edit>)>;

fn read_log(
    disk: &dyn Disk,
    region: &Region,
    header: &Header,
) -> Result<(Records, String), FilesError> {
    let start = Blocks::new(1) + header.body_len();
    let len_blocks = region.written(disk).saturating_sub(start).get();
    let extent = LogBounds { log_id: header.log_id, len_blocks, durable_blocks: 0 };
    let read = |offset: u64, buf: &mut [u8]| -> Result<(), DiskError> {
        region.read(disk, start + Blocks::holding(offset), buf)
    };
    // A record that was being written when the power failed was not acknowledged, so nothing after
    // the end was lost.
    let mut decoder = Decoder::passing(extent, read, DiskError::is_unreadable);
    let mut records = Vec::new();
    let failed = reading("the catalog's log");
    while let Some(record) = decoder.next_record().map_err(&failed)? {
        let at = start + Blocks::new(record.position.frame_blocks);
        let edits = decode_edits(record.bytes)
            .map_err(|reason| corrupt("catalog record", place(region, at), reason))?;
        records.push((at, edits));
    }
    let ended = decoder.end().copied();
    let end = ended.map(|end| end.to_string()).unwrap_or_default();
    match ended {
        Some(End::Corrupt { at_blocks, .. }) => {
            let at = start + Blocks::new(at_blocks);
            Err(corrupt("catalog log", place(region, at), end))
        }
        Some(End::Version { got, .. }) => {
            Err(FilesError::Version { what: "catalog log", got: u32::from(got), known: 1 })
        }
        _ => Ok((records, end)),
    }
}

fn place(region: &Region, at: Blocks) -> String {
    let start = region.pieces()[0].start;
    format!("block {} of the region at {start}", at.get())
}

fn corrupt(structure: &'static str, place: String, reason: String) -> FilesError {
    FilesError::Corrupt { structure, place, reason }
}

fn reading(what: &'static str) -> impl Fn(DiskError) -> FilesError {
    move |source| FilesError::Disk { what: format!("reading {what}"), source }
}
