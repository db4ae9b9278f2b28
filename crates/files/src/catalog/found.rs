//! The state in which each region is found, before it is known which of them is the catalog.

use super::content::{read_body, reading};
use super::format::{FORMAT_VERSION, Header, HeaderFlaw, lacks_seal};
use crate::error::FilesError;
use crate::region::Region;
use imbrex_disk::{BLOCK_LEN_BYTES, Blocks, Disk, DiskError, Lba};

/// The state in which a region was found.
#[derive(Debug)]
pub(super) enum RegionContent {
    Blank,
    /// A checkpoint that a power cut left unfinished, with its header if there is one.
    Unfinished(Option<Header>),
    Whole(Header),
    Foreign,
    Damaged(String),
    /// The header cannot be read: the power may have failed while it was written or cleared.
    Unreadable(Lba),
}

impl RegionContent {
    /// The header of a whole checkpoint.
    pub(super) fn header(&self) -> Option<&Header> {
        match self {
            RegionContent::Whole(header) => Some(header),
            _ => None,
        }
    }

    /// Where the log of checkpoint `sequence` ended, if this region holds its successor, whole or
    /// not.
    pub(super) fn end_of(&self, sequence: u64) -> Option<Blocks> {
        match self {
            RegionContent::Whole(header) | RegionContent::Unfinished(Some(header)) => {
                (header.predecessor == sequence).then_some(header.predecessor_end)
            }
            _ => None,
        }
    }

    /// Whether a checkpoint of unknown sequence number may be there.
    pub(super) fn is_unknown(&self) -> bool {
        match self {
            RegionContent::Foreign | RegionContent::Damaged(_) | RegionContent::Unreadable(_) => {
                true
            }
            RegionContent::Blank | RegionContent::Unfinished(_) | RegionContent::Whole(_) => false,
        }
    }

    pub(super) fn word(&self) -> &'static str {
        match self {
            RegionContent::Blank => "blank",
            RegionContent::Unfinished(_) => "an unfinished checkpoint",
            RegionContent::Whole(_) => "a checkpoint",
            RegionContent::Foreign => "something else",
            RegionContent::Damaged(_) => "damaged",
            RegionContent::Unreadable(_) => "unreadable",
        }
    }
}

/// Looks at the header of a region, and whether its checkpoint was completed.
///
/// # Errors
/// [`FilesError::Version`], [`FilesError::Disk`].
pub(super) fn look(disk: &dyn Disk, region: &Region) -> Result<RegionContent, FilesError> {
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
            return Ok(RegionContent::Unfinished(None));
        }
        Err(DiskError::Medium { at }) => return Ok(RegionContent::Unreadable(at)),
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
            let lacks_end = || region.is_pointerless(disk) && lacks_its_end(disk, region, &header);
            if header.is_unfinished || is_cut || lacks_end() {
                RegionContent::Unfinished(Some(header))
            } else {
                RegionContent::Whole(header)
            }
        }
    })
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
    header.is_sealed
        && lacks_seal(&block)
        && read_body(disk, region, header).is_err_and(|error| error.is_damage())
}

/// Whether the body of a checkpoint is blank from some block on, and the block after it as well.
/// The write pointer no longer shows that the body was never finished.
fn lacks_its_end(disk: &dyn Disk, region: &Region, header: &Header) -> bool {
    let len = header.body_len();
    if len.is_zero()
        || region.len() < Blocks::new(1) + len
        || !read_body(disk, region, header).is_err_and(|error| error.is_damage())
    {
        return false;
    }
    let behind = Blocks::new(1).min(region.len() - Blocks::new(1) - len);
    let mut end = vec![0; (Blocks::new(1) + behind).bytes() as usize];
    region.read(disk, len, &mut end).is_ok() && end.iter().all(|&byte| byte == end[0])
}
