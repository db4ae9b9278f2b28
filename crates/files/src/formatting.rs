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

/// The layout name that a flash drive records; it is no layout.
pub const FLASH_LAYOUT_NAME: &str = "flash-drive";

/// How a disk is formatted. The disk records it, and [`FileLayer::open`](crate::FileLayer::open)
/// reads it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatOptions {
    /// The policy that places files.
    pub placement: PlacementKind,
    /// Parameters of the policy, recorded with its name.
    pub placement_options: PlacementOptions,
    /// The layout's name, at most 64 bytes; opaque to this layer.
    pub layout_name: String,
    /// Distinguishes this format of the drive from others. For a single drive any number will do.
    /// If the drive had a catalog before, the number is mixed with that of the old catalog.
    ///
    /// This number alone distinguishes pairs of drives ([`crate::tiers::TieredFiles`]). No two
    /// pairs may share it, or each accepts the other's flash drive as its own.
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

    /// Whether a drive of `geometry` can be formatted this way, for a caller that has yet to make
    /// the drive. The geometry does not show how many zones take writes; only the drive knows.
    ///
    /// # Errors
    /// [`FilesError::Unsuitable`].
    pub fn check(&self, geometry: &Geometry) -> Result<(), FilesError> {
        self.fit(geometry).map(drop)
    }

    /// The catalog's regions on a drive of `geometry`, and the space for files if the drive has no
    /// zones.
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

/// The number that distinguishes this format: the chosen one on a drive without a catalog, and
/// never the same again on a drive that had `sequence` checkpoints.
fn format_id(chosen: u64, sequence: u64) -> u64 {
    chosen ^ sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A format that is checked and can be written.
pub(crate) struct Plan {
    disk: Arc<dyn Disk>,
    regions: [Region; 2],
    sequences: [u64; 2],
    header: Header,
    /// The space for files on a disk without zones.
    room: Blocks,
}

impl Plan {
    /// Checks the options against the disk. Writes nothing.
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
            is_mirrored: true,
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
            predecessor: 0,
            predecessor_end: Blocks::ZERO,
            is_unfinished: false,
        };
        Ok(Plan { disk, regions, sequences, header, room })
    }

    /// The number that distinguishes this format from earlier ones.
    pub(crate) fn format_id(&self) -> u64 {
        self.header.format_id
    }

    /// The space for files on a disk without zones.
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
        // A killed process may have reset zones in the drive's cache alone. Those are not reset
        // again, so the cache is flushed.
        disk.flush().map_err(failed)?;
        let [a, b] = self.sequences;
        // The catalog in use goes last: a power cut in between must not bring back the one before
        // it.
        let (other, in_use) = if a <= b { (0, 1) } else { (1, 0) };
        let replaced = self.regions[in_use].clone();
        // A reset empties zones. Elsewhere the frames after a header stay, and only the sequence
        // number distinguishes them from those of the new catalog. The new catalog must therefore
        // have a greater number, and be in place before the old one is overwritten.
        let keeps_frames = !replaced.is_sequential();
        if !keeps_frames {
            self.regions[other].clear(disk, &[]).map_err(failed)?;
            replaced.clear(disk, &[]).map_err(failed)?;
            disk.reset_zones().map_err(failed)?;
        }
        self.header.is_paired = edits.iter().any(|edit| matches!(edit, Edit::Pair { .. }));
        let disk = Arc::clone(&self.disk);
        let mut store = CatalogStore::blank(self.disk, self.regions, in_use, self.header);
        store.checkpoint(encode_edits(edits), 1).map_err(failed)?;
        if keeps_frames {
            disk.reset_zones().map_err(failed)?;
        }
        Ok(())
    }
}
