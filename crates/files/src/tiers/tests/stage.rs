//! Two small drives that form a pair.

use crate::tests::stage::{Stage, Zones, conventional, zoned};
use crate::tiers::{FlashOptions, TieredFiles};
use crate::{FileKind, FilesError, FormatOptions, Hints, PlacementKind, PlacementOptions, Tier};
use imbrex_clockwork::Prng;
use imbrex_disk::{BLOCK_LEN_BYTES, Blocks, Disk, Lba, Persist};
use imbrex_disk_sim::SimDisk;
use std::sync::Arc;

/// A zoned drive and a flash drive; the world is the main drive's.
pub(super) struct Pair {
    pub(super) main: Stage,
    pub(super) flash: Arc<SimDisk>,
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Main,
    Flash,
}

impl Pair {
    pub(super) fn new(zones: Zones, flash_blocks: u64, cache: u64) -> Pair {
        Pair { main: zoned(zones, cache), flash: conventional(flash_blocks, cache).disk }
    }

    pub(super) fn small() -> Pair {
        let zones = Zones { count: 14, len: 64, conventional: 1, active_limit: None };
        Pair::new(zones, 300, 256)
    }

    pub(super) fn disk(&self, side: Side) -> &SimDisk {
        match side {
            Side::Main => &self.main.disk,
            Side::Flash => &self.flash,
        }
    }

    pub(super) fn flash(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.flash) as Arc<dyn Disk>
    }

    pub(super) fn format(&self) -> Result<TieredFiles, FilesError> {
        self.format_for_logs(0)
    }

    pub(super) fn format_as(&self, format_id: u64) -> Result<TieredFiles, FilesError> {
        self.format_with(format_id, 0)
    }

    pub(super) fn format_for_logs(
        &self,
        log_len_bytes_max: u64,
    ) -> Result<TieredFiles, FilesError> {
        self.format_with(7, log_len_bytes_max)
    }

    fn format_with(
        &self,
        format_id: u64,
        log_len_bytes_max: u64,
    ) -> Result<TieredFiles, FilesError> {
        self.format_placed("zone-per-level", format_id, log_len_bytes_max)
    }

    /// Like [`Pair::format`], for main drives of another rule.
    pub(super) fn format_on(&self, placement: &str) -> Result<TieredFiles, FilesError> {
        self.format_placed(placement, 7, 0)
    }

    /// Like [`Pair::format_on`], for tables of a few blocks instead of 4 MiB.
    pub(super) fn format_small(&self, placement: &str) -> Result<TieredFiles, FilesError> {
        let unit_len = Blocks::new(16);
        let placement_options = PlacementOptions { unit_len, ..PlacementOptions::default() };
        let placement = PlacementKind::by_name(placement).unwrap();
        self.format_by(FormatOptions { placement_options, ..FormatOptions::new(placement) }, 0)
    }

    fn format_placed(
        &self,
        placement: &str,
        format_id: u64,
        log_len_bytes_max: u64,
    ) -> Result<TieredFiles, FilesError> {
        let placement = PlacementKind::by_name(placement).unwrap();
        let options = FormatOptions { format_id, ..FormatOptions::new(placement) };
        self.format_by(options, log_len_bytes_max)
    }

    fn format_by(
        &self,
        options: FormatOptions,
        log_len_bytes_max: u64,
    ) -> Result<TieredFiles, FilesError> {
        let options = FormatOptions { layout_name: "test".into(), ..options };
        let flash = FlashOptions { log_len_bytes_max };
        TieredFiles::format(self.main.disk(), self.flash(), &options, &flash, &self.main.runtime)
    }

    pub(super) fn open(&self) -> Result<TieredFiles, FilesError> {
        TieredFiles::open(self.main.disk(), self.flash(), &self.main.runtime)
    }

    pub(super) fn power_cycle(&self, side: Side, seed: u64) {
        self.disk(side).power_cycle(&mut Prng::new(seed)).unwrap();
    }
}

pub(super) fn hints(kind: FileKind, tier: Tier) -> Hints {
    let purpose = crate::CommitKind::Upkeep;
    Hints { tier, purpose, ..Hints::new(kind) }
}

/// Another drive with the same blocks, like a copy made by an operator.
pub(super) fn copy(disk: &SimDisk) -> Arc<SimDisk> {
    let len = disk.geometry().len();
    let other = conventional(len.get(), 0).disk;
    let mut block = vec![0; BLOCK_LEN_BYTES];
    for at in 0..len.get() {
        disk.read(Lba::new(at), &mut block).unwrap();
        other.write(Lba::new(at), &block, Persist::Through).unwrap();
    }
    assert_eq!(other.geometry().len(), Blocks::new(len.get()));
    other
}
