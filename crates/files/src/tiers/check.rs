//! Checks a pair: each drive by itself, and the two against each other.

use super::TieredFiles;
use super::format::parse_name;
use crate::catalog::FileId;
use crate::check::CheckReport;
use crate::error::FilesError;
use std::collections::BTreeSet;

impl TieredFiles {
    /// Verifies both drives like [`FileLayer::check`](crate::FileLayer::check). Also verifies that
    /// the flash drive has the files that the main drive names there, and no others except those
    /// awaiting removal.
    ///
    /// The counts are the sums over both drives.
    ///
    /// # Errors
    /// [`FilesError::Disk`] if a catalog cannot be read at all.
    pub fn check(&self) -> Result<CheckReport, FilesError> {
        let mut report = self.main.check()?;
        let Some(flash) = &self.flash else { return Ok(report) };
        let of_flash = flash.files.check()?;
        report.file_count += of_flash.file_count;
        report.extent_count += of_flash.extent_count;
        report.zone_count += of_flash.zone_count;
        report.catalog_record_count += of_flash.catalog_record_count;
        for finding in of_flash.findings {
            report.find(finding.structure, format!("flash, {}", finding.place), finding.problem);
        }
        let mut found: BTreeSet<FileId> = BTreeSet::new();
        for (name, _) in flash.files.inner.committer.lock().namespace.list("") {
            match parse_name(name) {
                Some((id, _)) => drop(found.insert(id)),
                None => report.find("flash", format!("{name:?}"), "it has no number".to_owned()),
            }
        }
        let to_remove = flash.commits.lock().to_remove.clone();
        let live = self.main.inner.committer.lock();
        for file in live.namespace.files().filter(|file| file.is_beside) {
            // The file is counted on the main drive for its name, and on the flash drive for its
            // blocks.
            report.file_count -= 1;
            if !found.remove(&file.id) {
                report.find(
                    "flash",
                    file.id.to_string(),
                    "main names it, flash lacks it".to_owned(),
                );
            }
        }
        for id in found.difference(&to_remove) {
            report.find("flash", id.to_string(), "no name leads to it".to_owned());
        }
        Ok(report)
    }
}
