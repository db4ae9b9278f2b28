//! Running totals of what the file layer has done since it was opened.

use crate::catalog::CatalogCounts;
use std::sync::atomic::{AtomicU64, Ordering};

/// Running totals of one file layer since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilesStats {
    /// Durable commits, without those of logs and cleaning.
    pub commits: u64,
    /// Records of the catalog.
    pub catalog_records: u64,
    /// Checkpoints of the catalog.
    pub catalog_checkpoints: u64,
    /// Bytes written to the catalog, to both copies.
    pub catalog_written_bytes: u64,
    /// Damaged parts of the catalog that were found when it was opened, and read from their copy.
    /// The first change writes both copies anew.
    pub catalog_mended: u64,
    /// Bytes of files written for callers: tables and logs.
    pub file_written_bytes: u64,
    /// Zones emptied by cleaning.
    pub cleaned_zones: u64,
    /// How often cleaning stopped because the drive failed or had no room for moved data.
    pub failed_cleanings: u64,
    /// Bytes that cleaning moved: writes that no caller asked for.
    pub cleaning_moved_bytes: u64,
    /// How long cleaning took, including waits for the drive.
    pub cleaning_ns: u64,
    /// How long the drive itself worked while cleaning ran, by its own counter: without the waits.
    /// This includes work of that time for earlier writes, and excludes later work for the
    /// cleaner's writes. With threads it includes the work of others. 0 on a drive without
    /// mechanics.
    pub cleaning_busy_ns: u64,
    /// Zones reset.
    pub reset_zones: u64,
    /// How often bottom tracks were written below live data.
    pub rewrites: u64,
    /// Top tracks that were backed up and moved back for that.
    pub rewritten_tracks: u64,
    /// Bytes that were moved back; as many were backed up.
    pub rewritten_bytes: u64,
    /// Syncs that writes of tables to interlaced tracks asked for, besides those of commits.
    pub track_syncs: u64,
}

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

    /// The totals so far, with those of the catalog.
    pub(crate) fn stats(&self, catalog: CatalogCounts) -> FilesStats {
        FilesStats {
            commits: self.commits.load(Ordering::Relaxed),
            catalog_records: catalog.records,
            catalog_checkpoints: catalog.checkpoints,
            catalog_written_bytes: catalog.written_bytes,
            catalog_mended: catalog.mended,
            file_written_bytes: self.file_written_bytes.load(Ordering::Relaxed),
            cleaned_zones: self.cleaned_zones.load(Ordering::Relaxed),
            failed_cleanings: self.failed_cleanings.load(Ordering::Relaxed),
            cleaning_moved_bytes: self.cleaning_moved_bytes.load(Ordering::Relaxed),
            cleaning_ns: self.cleaning_ns.load(Ordering::Relaxed),
            cleaning_busy_ns: self.cleaning_busy_ns.load(Ordering::Relaxed),
            reset_zones: self.reset_zones.load(Ordering::Relaxed),
            rewrites: self.rewrites.load(Ordering::Relaxed),
            rewritten_tracks: self.rewritten_tracks.load(Ordering::Relaxed),
            rewritten_bytes: self.rewritten_bytes.load(Ordering::Relaxed),
            track_syncs: self.track_syncs.load(Ordering::Relaxed),
        }
    }
}
