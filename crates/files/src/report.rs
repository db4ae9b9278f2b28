//! What the file layer did and how the disk looks: counters and the map of zones.

use crate::hints::FileKind;
use crate::layer::{FileLayer, Inner};
use crate::space::{ZoneRole, ZoneSpace};
use imbrex_disk::{BlockRange, Blocks, Lba, ZoneState};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Running totals of one file layer since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilesStats {
    /// Commits made durable, without those of logs and cleaning.
    pub commits: u64,
    /// Records of the catalog.
    pub catalog_records: u64,
    /// Checkpoints of the catalog.
    pub catalog_checkpoints: u64,
    /// Bytes written to the catalog.
    pub catalog_written_bytes: u64,
    /// Bytes of files written for callers: tables and logs.
    pub file_written_bytes: u64,
    /// Zones emptied by cleaning.
    pub cleaned_zones: u64,
    /// Times that cleaning stopped because the drive failed or had no room to move things to.
    pub failed_cleanings: u64,
    /// Bytes that cleaning moved: what the layer wrote of its own accord.
    pub cleaning_moved_bytes: u64,
    /// How long cleaning took, waiting for the drive behind others included.
    pub cleaning_ns: u64,
    /// How long the drive itself worked while cleaning ran, by its own counter: without the waiting.
    /// What the drive does meanwhile for earlier writes counts too, and what it does later for the
    /// cleaner's does not; with threads, others' work counts as well. 0 on a drive without mechanics.
    pub cleaning_busy_ns: u64,
    /// Zones reset.
    pub reset_zones: u64,
    /// Times that bottom tracks were written below live data.
    pub rewrites: u64,
    /// Top tracks that were backed up and moved back for it.
    pub rewritten_tracks: u64,
    /// Bytes that were moved back; as many were backed up.
    pub rewritten_bytes: u64,
    /// Syncs that writing tables to interlaced tracks asked for, besides those of commits.
    pub track_syncs: u64,
}

/// What a piece of the disk is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneUseKind {
    /// The catalog, and nothing else.
    Catalog,
    /// Files, or nothing yet; part of it may be the catalog's.
    Files,
    /// Read-only or offline.
    Unusable,
}

/// One zone, or on a disk without zones one slice of it, for drawing the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneUse {
    /// The zone's number, or the slice's.
    pub zone: u32,
    /// Its blocks.
    pub range: BlockRange,
    /// What it is used for.
    pub kind: ZoneUseKind,
    /// How much of it is kept for the catalog.
    pub catalog_bytes: u64,
    /// The drive's word on it; `NoPointer` for a slice.
    pub state: ZoneState,
    /// Bytes of live files.
    pub live_bytes: u64,
    /// Bytes written and dead.
    pub dead_bytes: u64,
    /// Live bytes of logs.
    pub log_bytes: u64,
    /// Live bytes of other files by level, in order of level.
    pub levels: Vec<(u8, u64)>,
}

/// How many slices a disk without zones is drawn in.
const SLICE_COUNT: u64 = 64;

#[derive(Debug, Default)]
pub(crate) struct Counts {
    commits: AtomicU64,
    file_written_bytes: AtomicU64,
    cleaned_zones: AtomicU64,
    failed_cleanings: AtomicU64,
    cleaning_moved_bytes: AtomicU64,
    cleaning_ns: AtomicU64,
    cleaning_busy_ns: AtomicU64,
    reset_zones: AtomicU64,
    rewrites: AtomicU64,
    rewritten_tracks: AtomicU64,
    rewritten_bytes: AtomicU64,
    track_syncs: AtomicU64,
}

impl Counts {
    pub(crate) fn commit(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
    }
    pub(crate) fn wrote(&self, len_bytes: u64) {
        self.file_written_bytes.fetch_add(len_bytes, Ordering::Relaxed);
    }
    pub(crate) fn cleaned_zone(&self) {
        self.cleaned_zones.fetch_add(1, Ordering::Relaxed);
    }
    pub(crate) fn cleaning_failed(&self) {
        self.failed_cleanings.fetch_add(1, Ordering::Relaxed);
    }
    pub(crate) fn moved(&self, len_bytes: u64) {
        self.cleaning_moved_bytes.fetch_add(len_bytes, Ordering::Relaxed);
    }
    pub(crate) fn cleaned_for(&self, ns: u64, busy_ns: u64) {
        self.cleaning_ns.fetch_add(ns, Ordering::Relaxed);
        self.cleaning_busy_ns.fetch_add(busy_ns, Ordering::Relaxed);
    }
    pub(crate) fn reset_zone(&self) {
        self.reset_zones.fetch_add(1, Ordering::Relaxed);
    }
    pub(crate) fn rewrote(&self, track_count: u64, len_bytes: u64) {
        self.rewrites.fetch_add(1, Ordering::Relaxed);
        self.rewritten_tracks.fetch_add(track_count, Ordering::Relaxed);
        self.rewritten_bytes.fetch_add(len_bytes, Ordering::Relaxed);
    }
    pub(crate) fn synced_tracks(&self) {
        self.track_syncs.fetch_add(1, Ordering::Relaxed);
    }
}

impl FileLayer {
    /// What the layer did since it was opened.
    pub fn stats(&self) -> FilesStats {
        let catalog = self.inner.committer.with_store(|store| store.counts());
        let counts = &self.inner.counts;
        FilesStats {
            commits: counts.commits.load(Ordering::Relaxed),
            catalog_records: catalog.records,
            catalog_checkpoints: catalog.checkpoints,
            catalog_written_bytes: catalog.written_bytes,
            file_written_bytes: counts.file_written_bytes.load(Ordering::Relaxed),
            cleaned_zones: counts.cleaned_zones.load(Ordering::Relaxed),
            failed_cleanings: counts.failed_cleanings.load(Ordering::Relaxed),
            cleaning_moved_bytes: counts.cleaning_moved_bytes.load(Ordering::Relaxed),
            cleaning_ns: counts.cleaning_ns.load(Ordering::Relaxed),
            cleaning_busy_ns: counts.cleaning_busy_ns.load(Ordering::Relaxed),
            reset_zones: counts.reset_zones.load(Ordering::Relaxed),
            rewrites: counts.rewrites.load(Ordering::Relaxed),
            rewritten_tracks: counts.rewritten_tracks.load(Ordering::Relaxed),
            rewritten_bytes: counts.rewritten_bytes.load(Ordering::Relaxed),
            track_syncs: counts.track_syncs.load(Ordering::Relaxed),
        }
    }

    /// How each zone is used now, in order of address.
    pub fn zone_map(&self) -> Vec<ZoneUse> {
        let mut uses = self.inner.empty_uses();
        let live = self.inner.committer.lock();
        let mut levels: Vec<BTreeMap<u8, u64>> = vec![BTreeMap::new(); uses.len()];
        for file in live.namespace.files() {
            for range in file.extents.iter().map(|e| e.range()) {
                let first = uses.partition_point(|u| u.range.end() <= range.start);
                let touched = uses.iter_mut().enumerate().skip(first);
                for (index, zone) in touched.take_while(|(_, u)| u.range.overlaps(range)) {
                    let start = zone.range.start.max(range.start);
                    let len_bytes = (zone.range.end().min(range.end()) - start).bytes();
                    zone.live_bytes += len_bytes;
                    if file.kind == FileKind::Log {
                        zone.log_bytes += len_bytes;
                    } else {
                        *levels[index].entry(file.level).or_default() += len_bytes;
                    }
                }
            }
        }
        for (zone, levels) in uses.iter_mut().zip(levels) {
            zone.levels = levels.into_iter().collect();
            zone.dead_bytes = zone.dead_bytes.saturating_sub(zone.live_bytes);
        }
        uses
    }
}

impl Inner {
    /// The zones or slices with nothing live; `dead_bytes` is all that is handed out.
    fn empty_uses(&self) -> Vec<ZoneUse> {
        let zones: Vec<ZoneSpace> = self.space.with(|map| map.zones().to_vec());
        // On interlaced tracks all before the files is for the catalog's sake, or for the backup's.
        let reserved = self
            .rewriter
            .as_ref()
            .map(|rewriter| [BlockRange::new(Lba::new(0), rewriter.files_start() - Lba::new(0))]);
        let catalog_pieces = match &reserved {
            Some(all) => &all[..],
            None => self.committer.catalog_pieces(),
        };
        let unused = |zone, range, kind, state, handed_out: Blocks| ZoneUse {
            zone,
            range,
            kind,
            catalog_bytes: catalog_pieces
                .iter()
                .filter(|piece| piece.overlaps(range))
                .map(|piece| piece.end().min(range.end()) - piece.start.max(range.start))
                .sum::<Blocks>()
                .bytes(),
            state,
            live_bytes: 0,
            dead_bytes: handed_out.bytes(),
            log_bytes: 0,
            levels: Vec::new(),
        };
        if zones.is_empty() {
            let len = self.disk.geometry().len().get();
            let slice_len = len.div_ceil(SLICE_COUNT);
            let slices = (0..len.div_ceil(slice_len)).map(|slice| {
                let start = slice * slice_len;
                let len = Blocks::new(slice_len.min(len - start));
                let range = BlockRange::new(Lba::new(start), len);
                let state = ZoneState::NoPointer;
                unused(slice as u32, range, ZoneUseKind::Files, state, len)
            });
            let mut slices: Vec<ZoneUse> = slices.collect();
            // Neither free nor the catalog's: held by a file, or dead in a set that is not.
            for blank in self.space.with(|map| map.blank_runs()) {
                let first = slices.partition_point(|slice| slice.range.end() <= blank.start);
                let touched = slices[first..].iter_mut();
                for slice in touched.take_while(|slice| slice.range.overlaps(blank)) {
                    let start = slice.range.start.max(blank.start);
                    let len = slice.range.end().min(blank.end()) - start;
                    slice.dead_bytes -= len.bytes();
                }
            }
            for slice in &mut slices {
                slice.dead_bytes = slice.dead_bytes.saturating_sub(slice.catalog_bytes);
            }
            return slices;
        }
        zones
            .iter()
            .map(|zone| {
                let kind = match zone.role {
                    ZoneRole::Catalog => ZoneUseKind::Catalog,
                    ZoneRole::Data => ZoneUseKind::Files,
                    ZoneRole::Unusable => ZoneUseKind::Unusable,
                };
                let state = self.disk.zone(zone.id).map_or(ZoneState::Offline, |info| info.state);
                let range = self.disk.geometry().zone_range(zone.id).unwrap_or_default();
                unused(zone.id.0, range, kind, state, zone.next - zone.start)
            })
            .collect()
    }
}
