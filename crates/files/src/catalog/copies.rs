//! Which region is the catalog in version 4, where both regions hold it: the highest sequence
//! number of a whole checkpoint (K5). Damaged parts are read from the other region.
//!
//! ```text
//!   A: 8   B: 8          the ordinary state
//!   A: 8   B: cut short  9 was being written to B: nothing rests on it; its header knows where the
//!                        log of 8 ends
//!   A: 8   B: 9          9 was to be written to A as well: nothing was acknowledged on it
//!   A: cut short   B: 9  likewise
//!   A: 8   B: damaged    whichever of these it was, A lacks nothing that was acknowledged
//! ```

use super::content::{Content, corrupt, place, read_content};
use super::format::Header;
use super::found::RegionContent;
use crate::error::FilesError;
use crate::region::Region;
use imbrex_disk::{Blocks, Disk};

/// Damage in one region of a catalog whose content is whole in the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyFlaw {
    pub(crate) place: String,
    pub(crate) problem: String,
}

/// The region that was chosen, with everything in it.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) index: usize,
    pub(super) content: Content,
    pub(super) flaws: Vec<CopyFlaw>,
}

/// The highest sequence number, if its checkpoint is one of version 4.
pub(super) fn newest(found: &[RegionContent; 2]) -> Option<&Header> {
    let headers = found.iter().filter_map(RegionContent::header);
    headers.max_by_key(|header| header.sequence).filter(|header| header.is_mirrored)
}

/// Chooses the region and reads it.
///
/// # Errors
/// [`FilesError::Corrupt`], [`FilesError::Version`], [`FilesError::Disk`].
pub(super) fn choose(
    disk: &dyn Disk,
    regions: &[Region; 2],
    found: &[RegionContent; 2],
    newest: &Header,
) -> Result<Chosen, FilesError> {
    if let [RegionContent::Whole(a), RegionContent::Whole(b)] = found
        && a.sequence == b.sequence
        && a != b
    {
        let reason = format!("the two copies of checkpoint {} differ", a.sequence);
        return Err(corrupt("catalog header", place(&regions[1], Blocks::ZERO), reason));
    }
    let flaws = header_flaws(disk, regions, found)?;
    let is_writable = |index: usize| regions[index].unwritable_zone(disk).is_none();
    let mut holders: Vec<usize> =
        (0..2).filter(|&index| found[index].header() == Some(newest)).collect();
    // The next checkpoint goes to the region that is not chosen.
    holders.sort_by_key(|&index| is_writable(index));
    let mut best: Result<Chosen, FilesError> = Err(nothing(regions));
    for &index in &holders {
        let least_end = found[1 - index].end_of(newest.sequence).unwrap_or_default();
        let mut chosen = match read_in(disk, regions, index, newest, least_end) {
            Err(error) if error.is_damage() => {
                best = best.or(Err(error));
                continue;
            }
            chosen => chosen?,
        };
        let is_whole = chosen.content.copied_count == 0;
        if let (true, Ok(mended)) = (is_whole, &best) {
            chosen.flaws = mended.flaws.clone();
        }
        if is_whole || best.is_err() {
            chosen.flaws.extend(flaws.iter().cloned());
            best = Ok(chosen);
        }
        if is_whole {
            break;
        }
    }
    best.or_else(|error| older(disk, regions, found, &holders, error))
}

/// The flaws of regions without a header (K5).
///
/// # Errors
/// [`FilesError::Corrupt`]: the whole region takes no writes, so it may be older than the other.
fn header_flaws(
    disk: &dyn Disk,
    regions: &[Region; 2],
    found: &[RegionContent; 2],
) -> Result<Vec<CopyFlaw>, FilesError> {
    let mut flaws = Vec::new();
    for (index, content) in found.iter().enumerate() {
        let problem = match content {
            RegionContent::Damaged(reason) => reason.clone(),
            // The power may have failed while it was written.
            RegionContent::Unreadable(at) => format!("{at} cannot be read"),
            RegionContent::Foreign => "it is neither a header nor blank".to_owned(),
            _ => continue,
        };
        let place = place(&regions[index], Blocks::ZERO);
        if let Some((zone, state)) = regions[1 - index].unwritable_zone(disk) {
            let reason = format!("{problem}; the other copy is in {zone}, which is {state}");
            return Err(corrupt("catalog header", place, reason));
        }
        if !matches!(content, RegionContent::Unreadable(_)) {
            flaws.push(CopyFlaw { place, problem });
        }
    }
    Ok(flaws)
}

fn read_in(
    disk: &dyn Disk,
    regions: &[Region; 2],
    index: usize,
    header: &Header,
    least_end: Blocks,
) -> Result<Chosen, FilesError> {
    let other = &regions[1 - index];
    let copy = other.lost_zone(disk).is_none().then_some(other);
    let content = read_content(disk, &regions[index], copy, header, least_end)?;
    let flaws = if content.damaged_count > 0 {
        let count = content.damaged_count;
        let problem = format!("{count} damaged parts are whole in the copy at {}", start_of(other));
        vec![CopyFlaw { place: place(&regions[index], Blocks::ZERO), problem }]
    } else {
        Vec::new()
    };
    Ok(Chosen { index, content, flaws })
}

/// The checkpoint before the newest one. It is still there, so the newest was not written to both
/// regions, and nothing was acknowledged on it (K4).
fn older(
    disk: &dyn Disk,
    regions: &[Region; 2],
    found: &[RegionContent; 2],
    holders: &[usize],
    error: FilesError,
) -> Result<Chosen, FilesError> {
    let &[newer] = holders else { return Err(error) };
    let older = 1 - newer;
    let is_frozen = regions[older].unwritable_zone(disk).is_some();
    let Some(header) = found[older].header().filter(|_| !is_frozen) else { return Err(error) };
    let least_end = found[newer].end_of(header.sequence).unwrap_or_default();
    let content = read_content(disk, &regions[older], None, header, least_end)?;
    let place = place(&regions[newer], Blocks::ZERO);
    Ok(Chosen {
        index: older,
        content,
        flaws: vec![CopyFlaw { place, problem: error.to_string() }],
    })
}

fn nothing(regions: &[Region; 2]) -> FilesError {
    let reason = "no region holds a whole checkpoint".to_owned();
    corrupt("catalog", place(&regions[0], Blocks::ZERO), reason)
}

fn start_of(region: &Region) -> imbrex_disk::Lba {
    region.pieces()[0].start
}
