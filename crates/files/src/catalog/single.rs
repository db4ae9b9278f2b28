//! Which region is the catalog if its format is older than version 4: the other region then holds
//! an older checkpoint and no copy.
//!
//! Damage, as opposed to a torn write, is an error: a silent return to the older region would lose
//! acknowledged commits.

use super::content::{corrupt, place, reading};
use super::format::log_id;
use super::found::RegionContent;
use crate::error::FilesError;
use crate::region::Region;
use imbrex_disk::{BLOCK_LEN_BYTES, Blocks, Disk, DiskError};
use imbrex_record_log::log_id_of;

/// How much is read at a time in a region whose header is lost.
const LOOK_LEN: Blocks = Blocks::new(256);

/// The other region alone could be older than the last commit.
const NO_HEADER: &str = "it is neither a header nor blank; restore the drive from a copy";

/// Resolves an unreadable header. Its region was being cleared or completed when the power failed,
/// and the other region is the catalog. It is an error if the other region holds no catalog, or if
/// a commit follows the unreadable header.
pub(super) fn settle_unreadable(
    disk: &dyn Disk,
    regions: &[Region; 2],
    found: &mut [RegionContent; 2],
) -> Result<(), FilesError> {
    for (index, region) in regions.iter().enumerate() {
        let RegionContent::Unreadable(at) = found[index] else { continue };
        let is_settled = match &found[1 - index] {
            // In zones a header is written first, so something follows it.
            RegionContent::Whole(other) if !region.is_sequential() => {
                let newer = log_id(other.format_id, other.sequence + 1);
                !holds_frame_of(disk, region, newer).map_err(reading("the catalog's log"))?
            }
            _ => false,
        };
        if !is_settled {
            return Err(reading("the catalog's header")(DiskError::Medium { at }));
        }
        found[index] = RegionContent::Unfinished(None);
    }
    Ok(())
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

/// The index of the region that is the catalog.
///
/// # Errors
/// [`FilesError::Corrupt`], [`FilesError::NotFormatted`].
pub(super) fn choose(
    regions: &[Region; 2],
    found: &[RegionContent; 2],
) -> Result<usize, FilesError> {
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
                "the drive belongs to something else, or its catalog is damaged"
            } else {
                "if it never held one, format it first; if it did, do not"
            };
            let reason = format!("region A is {}, region B is {}; {advice}", a.word(), b.word());
            Err(FilesError::NotFormatted { reason })
        }
    }
}
