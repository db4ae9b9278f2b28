//! Compares the copies of an open catalog, for checks.

use super::content::{place, read_content};
use super::copies::CopyFlaw;
use super::found::{RegionContent, look};
use super::recover::CatalogImage;
use crate::error::FilesError;
use imbrex_disk::{Blocks, Disk};

/// Reads both regions of the open catalog `image`, each without the help of the other. Returns the
/// flaws, with the index of their region.
///
/// # Errors
/// [`FilesError::Version`], [`FilesError::Disk`].
pub(crate) fn compare_copies(
    disk: &dyn Disk,
    image: &CatalogImage,
) -> Result<Vec<(usize, CopyFlaw)>, FilesError> {
    let mut flaws = Vec::new();
    for (index, region) in image.regions.iter().enumerate() {
        let problem = match look(disk, region)? {
            RegionContent::Whole(header) if header.sequence == image.header.sequence => {
                match read_content(disk, region, None, &header, Blocks::ZERO) {
                    Ok(content) if content.records.len() == image.records.len() => continue,
                    Ok(content) => {
                        let (got, all) = (content.records.len(), image.records.len());
                        format!("only {got} of {all} records: {}", content.end)
                    }
                    Err(error) if error.is_damage() => error.to_string(),
                    Err(error) => return Err(error),
                }
            }
            RegionContent::Damaged(reason) => reason,
            other => format!("{}, where a copy of the catalog should be", other.word()),
        };
        flaws.push((index, CopyFlaw { place: place(region, Blocks::ZERO), problem }));
    }
    Ok(flaws)
}
