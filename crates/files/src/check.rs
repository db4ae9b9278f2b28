//! Checks a file layer against its disk, and describes its catalog in words.

use crate::catalog::{CatalogImage, InvalidEdit, compare_copies, read_image};
use crate::commit::Committer;
use crate::error::FilesError;
use crate::space::{Space, ZoneRole, ZoneSpace};
use imbrex_disk::{BlockRange, Blocks, Disk, ZoneId, ZoneKind, ZoneState};
use std::collections::BTreeSet;
use std::fmt;

/// What [`FileLayer::check`](crate::FileLayer::check) examined and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Files checked.
    pub file_count: u64,
    /// Extents checked.
    pub extent_count: u64,
    /// Zones compared with the drive's report.
    pub zone_count: u64,
    /// Catalog records read back, including the checkpoint.
    pub catalog_record_count: u64,
    /// The faults found; empty if there are none.
    pub findings: Vec<Finding>,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which structure: "extent", "zone", "catalog", "catalog copy", "backup of rewritten tracks".
    pub structure: &'static str,
    /// Where.
    pub place: String,
    /// What was expected and found.
    pub problem: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.structure, self.place, self.problem)
    }
}

/// The parts of a file layer that a check examines.
pub(crate) struct Checker<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) space: &'a Space,
    pub(crate) committer: &'a Committer,
}

impl Checker<'_> {
    pub(crate) fn check(&self) -> Result<CheckReport, FilesError> {
        let mut report = CheckReport::default();
        self.check_extents(&mut report);
        if let Some(flaw) = self.committer.lock().flaw() {
            report.find("backup of rewritten tracks", flaw.place.clone(), flaw.reason.clone());
        }
        let map = self.space.with(|map| map.clone());
        if let Err(broken) = map.check() {
            report.find("space map", "memory".to_owned(), broken);
        }
        for zone in map.zones() {
            report.zone_count += 1;
            self.check_zone(zone, &mut report);
        }
        self.check_catalog(&mut report)?;
        Ok(report)
    }

    fn check_extents(&self, report: &mut CheckReport) {
        let live = self.committer.lock();
        let map = self.space.with(|map| map.clone());
        let mut ranges: Vec<(BlockRange, u64)> = Vec::new();
        let spans: BTreeSet<BlockRange> = map.spans().map(|(span, _)| span).collect();
        let mut named = vec![Blocks::ZERO; map.zones().len()];
        for file in live.namespace.files() {
            report.file_count += 1;
            if let Some(span) = file.span.filter(|span| !spans.contains(span)) {
                let problem = "it is not accounted for";
                report.find("span", format!("{}, {span}", file.id), problem.to_owned());
            }
            for extent in &file.extents {
                report.extent_count += 1;
                let range = extent.range();
                if !self.disk.geometry().holds(range) {
                    report.find("extent", format!("{}, {range}", file.id), "past the disk".into());
                    continue;
                }
                if let Some(zone) = map.zone_at(range.start) {
                    named[zone.id.0 as usize] += range.len;
                    if zone.next < range.end() || range.start < zone.start {
                        let problem = format!("outside what {} has handed out", zone.id);
                        report.find("extent", format!("{}, {range}", file.id), problem);
                    }
                }
                let is_inside =
                    |span: BlockRange| span.start <= range.start && range.end() <= span.end();
                if file.span.is_some_and(|span| !is_inside(span)) {
                    let problem = "outside the span of its file".to_owned();
                    report.find("extent", format!("{}, {range}", file.id), problem);
                }
                ranges.push((range, file.id.0));
            }
        }
        ranges.sort();
        for pair in ranges.windows(2).filter(|pair| pair[0].0.overlaps(pair[1].0)) {
            let place = format!("{} and {}", pair[0].0, pair[1].0);
            report.find("extent", place, format!("files {} and {}", pair[0].1, pair[1].1));
        }
        for zone in map.zones().iter().filter(|z| z.named != named[z.id.0 as usize]) {
            let counted = named[zone.id.0 as usize];
            let problem = format!("{} are accounted to files, but they hold {counted}", zone.named);
            report.find("zone", zone.id.to_string(), problem);
        }
    }

    fn check_zone(&self, zone: &ZoneSpace, report: &mut CheckReport) {
        let is_ours = zone.role == ZoneRole::Data && !zone.owned && !zone.failed;
        if !is_ours || zone.kind == ZoneKind::Conventional {
            return;
        }
        let Some(info) = self.disk.zone(zone.id) else {
            return report.find("zone", zone.id.to_string(), "the drive does not report it".into());
        };
        let pointer = match info.state {
            ZoneState::Full => zone.end(),
            state => state.write_pointer(zone.start).unwrap_or(zone.end()),
        };
        if pointer != zone.written {
            let problem = format!("write pointer {pointer}, expected {}", zone.written);
            report.find("zone", zone.id.to_string(), problem);
        }
    }

    fn check_catalog(&self, report: &mut CheckReport) -> Result<(), FilesError> {
        let image = match read_image(self.disk) {
            Ok(image) => image,
            Err(error @ FilesError::Disk { .. }) => return Err(error),
            Err(error) => {
                report.find("catalog", "disk".to_owned(), error.to_string());
                return Ok(());
            }
        };
        report.catalog_record_count = 1 + image.records.len() as u64;
        self.check_copies(&image, report)?;
        let names = |namespace: &crate::catalog::Namespace| -> Vec<(String, u64)> {
            namespace.list("").map(|(name, file)| (name.to_owned(), file.id.0)).collect()
        };
        match image.namespace() {
            Err(error) => report.find("catalog", "disk".to_owned(), error.to_string()),
            Ok(mut on_disk) => {
                let live = self.committer.lock();
                for edit in &live.deferred {
                    if let Err(InvalidEdit(reason)) = on_disk.apply(edit.clone()) {
                        report.find("catalog", "edits not written yet".to_owned(), reason);
                    }
                }
                let is_same = names(&on_disk) == names(&live.namespace)
                    && on_disk.app_records() == live.namespace.app_records();
                if !is_same {
                    let problem = "names or application records differ from those in use";
                    report.find("catalog", "disk".to_owned(), problem.to_owned());
                }
            }
        }
        Ok(())
    }
}

impl Checker<'_> {
    /// Reads both copies of the catalog. A damaged one is written anew with the next change.
    fn check_copies(
        &self,
        image: &CatalogImage,
        report: &mut CheckReport,
    ) -> Result<(), FilesError> {
        self.committer.with_store(|store| {
            if !store.is_mirrored() {
                // A power cut may have left the copies different.
                for flaw in &image.flaws {
                    report.find("catalog copy", flaw.place.clone(), flaw.problem.clone());
                }
                return Ok(());
            }
            // No commit is under way now.
            for (index, flaw) in compare_copies(self.disk, &read_image(self.disk)?)? {
                store.renew(1 - index);
                report.find("catalog copy", flaw.place, flaw.problem);
            }
            Ok(())
        })
    }
}

impl CheckReport {
    pub(crate) fn find(&mut self, structure: &'static str, place: String, problem: String) {
        self.findings.push(Finding { structure, place, problem });
    }
}

/// Describes the catalog of a disk in words, without opening the file layer.
///
/// # Errors
/// As for [`FileLayer::open`](crate::FileLayer::open).
pub fn describe_catalog(disk: &dyn Disk) -> Result<Vec<String>, FilesError> {
    let image: CatalogImage = read_image(disk)?;
    let header = &image.header;
    let region = &image.regions[image.current];
    let mut lines = vec![
        format!(
            "checkpoint {} at {}: placement {}, layout {:?}, format id {}",
            header.sequence,
            region.pieces()[0].start,
            header.placement,
            header.layout,
            header.format_id
        ),
        format!("  body of {} bytes, next file id {}", header.body_len_bytes, header.next_file_id),
    ];
    lines.extend(image.body.iter().map(|edit| format!("  {edit}")));
    for (at, edits) in &image.records {
        lines.push(format!("record at block {} of the region", at.get()));
        lines.extend(edits.iter().map(|edit| format!("  {edit}")));
    }
    lines.push(image.end);
    let zones: Vec<String> = region.zones().iter().map(ZoneId::to_string).collect();
    if !zones.is_empty() {
        lines.push(format!("the region is {}", zones.join(", ")));
    }
    Ok(lines)
}
