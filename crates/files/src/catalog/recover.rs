//! Reads a catalog: chooses the valid region, reads its checkpoint and the records that follow.
//!
//! ```text
//!   both headers -> the higher sequence that is whole -> body -> log, cut at the last valid record
//! ```
//!
//! This code only reads. Which region is the catalog depends on its version: `copies` for a catalog
//! with a copy, `single` for older ones. Damage that no copy heals is an error, as opposed to a torn
//! write, and names the structure and its location.

use super::content::{Content, corrupt, place, read_content};
use super::copies::{self, Chosen, CopyFlaw};
use super::format::{Header, Shape};
use super::found::{RegionContent, look};
use super::single;
use super::state::{Edit, InvalidEdit, Namespace};
use crate::error::FilesError;
use crate::region::{Region, regions};
use imbrex_disk::{Blocks, Disk};

const NO_CHECKPOINT: &str = "no region holds a whole checkpoint";

/// The content of a catalog on the disk.
#[derive(Debug)]
pub(crate) struct CatalogImage {
    pub(crate) header: Header,
    pub(crate) regions: [Region; 2],
    pub(crate) current: usize,
    /// Greater than every sequence number that a region may hold.
    pub(crate) next_sequence: u64,
    /// The block of the current region where its log ends, without frames that only the other
    /// region has.
    pub(crate) log_end: Blocks,
    /// The edits of the checkpoint.
    pub(crate) body: Vec<Edit>,
    /// The records of the log, each with its block in the region.
    pub(crate) records: Vec<(Blocks, Vec<Edit>)>,
    /// How the log ended, in words.
    pub(crate) end: String,
    /// Damage whose content came from the other region.
    pub(crate) flaws: Vec<CopyFlaw>,
}

/// Reads the catalog of `disk`.
///
/// # Errors
/// [`FilesError::NotFormatted`], [`FilesError::Version`], [`FilesError::Geometry`],
/// [`FilesError::Corrupt`], [`FilesError::Disk`].
pub(crate) fn read_image(disk: &dyn Disk) -> Result<CatalogImage, FilesError> {
    let not_formatted = |reason: String| FilesError::NotFormatted { reason };
    let regions = regions(disk.geometry()).map_err(not_formatted)?;
    let mut found = [look(disk, &regions[0])?, look(disk, &regions[1])?];
    let is_unknown = found.iter().any(RegionContent::is_unknown);
    let chosen = match copies::newest(&found) {
        Some(newest) => {
            check_shape(disk, newest)?;
            copies::choose(disk, &regions, &found, newest)?
        }
        None => {
            single::settle_unreadable(disk, &regions, &mut found)?;
            let index = single::choose(&regions, &found)?;
            let whole = found[index].header();
            let header = whole.ok_or_else(|| not_formatted(NO_CHECKPOINT.to_owned()))?;
            check_shape(disk, header)?;
            let content = read_content(disk, &regions[index], None, header, Blocks::ZERO)?;
            Chosen { index, content, flaws: Vec::new() }
        }
    };
    let Chosen { index, content, flaws } = chosen;
    let Content { body, records, end, own_end: log_end, .. } = content;
    let sequences = found.iter().filter_map(RegionContent::header).map(|header| header.sequence);
    let next_sequence = 1 + sequences.max().unwrap_or_default() + u64::from(is_unknown);
    let whole = found[index].header().cloned();
    let mut header = whole.ok_or_else(|| not_formatted(NO_CHECKPOINT.to_owned()))?;
    let ids = records.iter().flat_map(|(_, edits)| edits).filter_map(|edit| match edit {
        Edit::Add { file, .. } => Some(file.id.0),
        Edit::Gone { id } => Some(id.0),
        _ => None,
    });
    // N2: an id in the log is used, even if the log removes the file again.
    header.next_file_id = ids.fold(header.next_file_id, |next, id| next.max(id + 1));
    let current = index;
    Ok(CatalogImage { header, regions, current, next_sequence, log_end, body, records, end, flaws })
}

fn check_shape(disk: &dyn Disk, header: &Header) -> Result<(), FilesError> {
    let shape = Shape::of(disk.geometry());
    if header.shape == shape {
        return Ok(());
    }
    let (expected, got) = (format!("{:?}", header.shape), format!("{shape:?}"));
    Err(FilesError::Geometry { expected, got })
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
