//! Formatting a disk for files: everything is checked before the first byte is written.
//!
//! ```text
//!   plan    does the policy suit, is there room?  -> the new format's id, known before it is there
//!   write   old catalogs away, zones reset, the first checkpoint
//! ```

use crate::catalog::{
    CatalogStore, Edit, Header, NAME_LEN_BYTES_MAX, Shape, encode_edits, sequences,
};
use crate::error::FilesError;
use crate::placement::{PlacementKind, PlacementOptions};
use crate::region::{Region, regions};
use crate::restore::data_zone_count;
use crate::rewrite::files_start;
use imbrex_disk::{Blocks, Disk, DiskError, Geometry, Lba};
use std::sync::Arc;

/// The layout's name that a flash drive records, which is none.
pub const FLASH_LAYOUT_NAME: &str = "flash-drive";

/// How a disk is formatted; recorded on it and found again by [`FileLayer::open`](crate::FileLayer::open).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatOptions {
    /// The policy that places files.
    pub placement: PlacementKind,
    /// Numbers for the policy, recorded with its name.
    pub placement_options: PlacementOptions,
    /// The layout's name, at most 64 bytes; opaque here.
    pub layout_name: String,
    /// Tells this format of the drive from others; any number will do for a drive alone. On a drive that had
    /// a catalog before it is mixed with the number of that. Pairs of drives ([`crate::tiers::TieredFiles`]) are told
    /// apart by it alone: no two may have the same, or each takes the other's flash drive for its own.
    pub format_id: u64,
}

impl FormatOptions {
    /// Options with an empty layout name and a format id of 0.
    pub fn new(placement: PlacementKind) -> FormatOptions {
        FormatOptions {
            placement,
            placement_options: PlacementOptions::default(),
            layout_name: String::new(),
            format_id: 0,
        }
    }

    /// Whether a drive of `geometry` can be formatted so, as far as that tells: how many of its zones take writes, the
    /// drive knows. For who makes the drive first.
    ///
    /// # Errors
    /// [`FilesError::Unsuitable`].
    pub fn check(&self, geometry: &Geometry) -> Result<(), FilesError> {
        self.fit(geometry).map(drop)
    }

    /// Where the catalog lies on a drive of `geometry`, and what files may use of one without zones.
    fn fit(&self, geometry: &Geometry) -> Result<([Region; 2], Blocks), FilesError> {
        let unsuitable = |reason: String| self.unsuitable(reason);
        let placement = self.placement.build_with(&self.placement_options);
        self.placement_options.check().map_err(unsuitable)?;
        placement.suits(geometry).map_err(unsuitable)?;
        let regions = regions(geometry).map_err(unsuitable)?;
        let mut room = Blocks::ZERO;
        if geometry.zones().is_none() {
            let unit_len = self.placement_options.unit_len;
            let start = files_start(geometry, &regions, unit_len).map_err(unsuitable)?;
            room = geometry.len().saturating_sub(start - Lba::new(0));
            let needed = placement.room_needed(geometry);
            if room < needed {
                return Err(unsuitable(format!(
                    "it has {room} for files, and {needed} are needed for a few tables with their \
                     guards; use a larger drive or shorter tables"
                )));
            }
        }
        if self.layout_name.len() > NAME_LEN_BYTES_MAX {
            return Err(unsuitable("the layout's name is longer than 64 bytes".to_owned()));
        }
        Ok((regions, room))
    }

    fn unsuitable(&self, reason: String) -> FilesError {
        FilesError::Unsuitable { placement: self.placement.name().to_owned(), reason }
    }
}

/// What tells this format of a drive from others: as chosen on a drive without a catalog, and never
/// the same again on one that had `sequence` checkpoints.
fn format_id(chosen: u64, sequence: u64) -> u64 {
    chosen ^ sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A format that can be written.
pub(crate) struct Plan {
    disk: Arc<dyn Disk>,
    regions: [Region; 2],
    sequences: [u64; 2],
    header: Header,
    /// What files may use of a disk without zones.
    room: Blocks,
}

impl Plan {
    /// Writes nothing.
    ///
    /// # Errors
    /// [`FilesError::Unsuitable`].
    pub(crate) fn new(disk: Arc<dyn Disk>, options: &FormatOptions) -> Result<Plan, FilesError> {
        let geometry = *disk.geometry();
        let (regions, room) = options.fit(&geometry)?;
        let placement = options.placement.build_with(&options.placement_options);
        if geometry.zones().is_some() {
            let count = data_zone_count(&*disk, &regions);
            let needed = placement.zones_needed();
            if count < needed {
                let reason = format!("it has {count} zones for files; {needed} are needed");
                return Err(options.unsuitable(reason));
            }
        }
        let sequences = sequences(&*disk, &regions);
        let sequence = sequences[0].max(sequences[1]);
        let header = Header {
            is_paired: false,
            is_sealed: true,
            shape: Shape::of(&geometry),
            sequence,
            log_id: 0,
            body_len_bytes: 0,
            body_crc32c: 0,
            placement: placement.name().to_owned(),
            placement_options: options.placement_options,
            layout: options.layout_name.clone(),
            next_file_id: 1,
            format_id: format_id(options.format_id, sequence),
        };
        Ok(Plan { disk, regions, sequences, header, room })
    }

    /// What tells the format from those before it.
    pub(crate) fn format_id(&self) -> u64 {
        self.header.format_id
    }

    /// What files may use of a disk without zones.
    pub(crate) fn room(&self) -> Blocks {
        self.room
    }

    /// Writes the format, with `edits` in its first checkpoint.
    ///
    /// # Errors
    /// [`FilesError::Disk`].
    pub(crate) fn write(mut self, edits: &[Edit]) -> Result<(), FilesError> {
        let failed = |source: DiskError| FilesError::Disk {
            what: "formatting the drive".to_owned(),
            source,
        };
        let disk = &*self.disk;
        // Zones that a killed process had reset may be so in the drive's cache alone, and are not reset again.
        disk.flush().map_err(failed)?;
        let [a, b] = self.sequences;
        // The catalog in use goes last: a cut in between must not bring the one before it back.
        let (other, in_use) = if a <= b { (0, 1) } else { (1, 0) };
        let replaced = self.regions[in_use].clone();
        // Zones keep nothing when they are reset. Elsewhere the frames behind a header stay: what tells them from the
        // new catalog's is its number, so one that is greater has to be there before the one in use goes.
        let keeps_frames = !replaced.is_sequential();
        if !keeps_frames {
            self.regions[other].clear(disk).map_err(failed)?;
            replaced.clear(disk).map_err(failed)?;
            disk.reset_zones().map_err(failed)?;
        }
        self.header.is_paired = edits.iter().any(|edit| matches!(edit, Edit::Pair { .. }));
        let disk = Arc::clone(&self.disk);
        let mut store = CatalogStore::new(self.disk, self.regions, in_use, self.header);
        store.checkpoint(encode_edits(edits), 1).map_err(failed)?;
        if keeps_frames {
            replaced.clear(&*disk).map_err(failed)?;
            disk.reset_zones().map_err(failed)?;
        }
        Ok(())
    }
}
