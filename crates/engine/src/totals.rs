//! Totals: counters of everything that was done for a store, since the opening or over its lifetime.
//!
//! ```text
//!   tally of the store, counters of the files and the drive  -> totals since the opening
//!   + totals that the last opening read from the catalog     -> totals of the lifetime
//! ```
//!
//! Each commit of the store records the totals that have changed, and so does a close after writes. No
//! write is made for them otherwise, so a power cut loses what was counted since the last commit, and a
//! store that was only read records nothing. The drive's times by activity are recorded by closes alone.
//!
//! Invariants
//!   G1  A total never decreases.
//!   G2  A number means the same total forever. A program keeps the totals that it does not know.

use imbrex_files::{Activity, Work};
use std::collections::BTreeMap;

/// Declares the totals: number on the drive, name for programs.
macro_rules! totals {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// One total. Its number is what the catalog records.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Total {
            $($(#[$doc])* $name = $number,)*
        }

        impl Total {
            /// All of them, in order of their numbers.
            pub const ALL: &[Total] = &[$(Total::$name),*];

            /// Its name for programs, which does not change.
            pub fn name(self) -> &'static str {
                match self { $(Total::$name => $text,)* }
            }
        }
    };
}

totals! {
    /// Operations written by the user.
    UserWrites = 1, "user_writes";
    /// Keys and values written by the user.
    UserBytes = 2, "user_bytes";
    /// Bytes written to logs.
    LogBytes = 3, "log_bytes";
    /// Flushes.
    Flushes = 4, "flushes";
    /// Bytes written by flushes.
    FlushedBytes = 5, "flushed_bytes";
    /// Compactions, including moves.
    Compactions = 6, "compactions";
    /// Compactions that only moved tables to another level.
    Moves = 7, "moves";
    /// Bytes read by compactions.
    CompactionRead = 8, "compaction_read";
    /// Bytes written by compactions.
    CompactionWritten = 9, "compaction_written";
    /// Writes that waited for a flush or for compaction.
    Stops = 10, "stops";
    /// How long they waited.
    StopNs = 11, "stop_ns";
    /// Writes that were slowed to the pace of compaction.
    Slowdowns = 12, "slowdowns";
    /// How long they waited.
    SlowdownNs = 13, "slowdown_ns";
    /// Writes that were delayed because the flash drive holds many files.
    OffloadDelays = 14, "offload_delays";
    /// How long they waited.
    OffloadDelayNs = 15, "offload_delay_ns";
    /// Part of the user's bytes: written to a log on the flash drive because a compaction ran.
    OffloadedBytes = 16, "offloaded_bytes";

    /// Durable commits, without those of logs and cleaning.
    Commits = 32, "commits";
    /// Bytes written to the catalog, to both copies.
    CatalogBytes = 33, "catalog_bytes";
    /// Bytes of files written: tables and logs.
    FileBytes = 34, "file_bytes";
    /// Zones emptied by cleaning.
    CleanedZones = 35, "cleaned_zones";
    /// Bytes that cleaning moved.
    CleaningMoved = 36, "moved_by_cleaning";
    /// Top tracks that were backed up and moved back.
    RewrittenTracks = 37, "rewritten_tracks";
    /// Bytes that were moved back.
    RewrittenBytes = 38, "rewritten_bytes";
    /// Syncs that writes of tables to interlaced tracks asked for.
    TrackSyncs = 39, "syncs_for_tracks";
    /// Zones reset by the file layer.
    ResetZones = 40, "reset_zones";

    /// Read requests to the main drive.
    DriveReads = 48, "drive_reads";
    /// Bytes read from it.
    DriveReadBytes = 49, "drive_read_bytes";
    /// Write requests to it.
    DriveWrites = 50, "drive_writes";
    /// Bytes written to it.
    DriveWrittenBytes = 51, "drive_written_bytes";
    /// Bytes that a translation layer read for itself.
    TranslationRead = 52, "read_by_translation";
    /// Bytes that a translation layer wrote for itself.
    TranslationWritten = 53, "written_by_translation";
    /// Flush requests.
    DriveFlushes = 54, "drive_flushes";
    /// Requests that moved the head to another track.
    Seeks = 55, "seeks";
    /// How long the modelled drive was busy; 0 without mechanics.
    BusyNs = 56, "busy_ns";
    /// Part of that: the head moved to another track.
    SeekNs = 57, "seek_ns";
    /// Part of that: the head waited for the platter to turn.
    TurnNs = 58, "turn_ns";
    /// Part of that: blocks passed below the head.
    TransferNs = 59, "transfer_ns";

    /// Bytes written to the flash drive of a pair, with its catalog. They wear it.
    FlashWrittenBytes = 64, "flash_written_bytes";
    /// Files meant for the flash drive that went to the main drive, because flash had no room.
    FlashFallbacks = 65, "files_without_room_on_flash";

    /// Part of the busy time: reads that a user waited for.
    UserBusyNs = 72, "busy_ns_for_user";
    /// Part of it: logs.
    LogBusyNs = 73, "busy_ns_for_log";
    /// Part of it: memtables that became tables.
    FlushBusyNs = 74, "busy_ns_for_flush";
    /// Part of it: what compactions read and wrote.
    CompactionBusyNs = 75, "busy_ns_for_compaction";
    /// Part of it: live data moved out of the way, by cleaning and by rewrites of tracks and bands.
    CleaningBusyNs = 76, "busy_ns_for_cleaning";
    /// Part of it: the catalog, and the maps of translation layers.
    CatalogBusyNs = 77, "busy_ns_for_catalog";
    /// Part of it: everything else.
    OtherBusyNs = 78, "busy_ns_for_other";
}

impl Total {
    /// Whether it counts bytes.
    pub fn is_bytes(self) -> bool {
        const BYTES: [Total; 15] = [
            Total::UserBytes,
            Total::LogBytes,
            Total::FlushedBytes,
            Total::CompactionRead,
            Total::CompactionWritten,
            Total::OffloadedBytes,
            Total::CatalogBytes,
            Total::FileBytes,
            Total::CleaningMoved,
            Total::RewrittenBytes,
            Total::DriveReadBytes,
            Total::DriveWrittenBytes,
            Total::TranslationRead,
            Total::TranslationWritten,
            Total::FlashWrittenBytes,
        ];
        BYTES.contains(&self)
    }

    /// The drive's busy time for `activity`.
    pub fn busy_for(activity: Activity) -> Total {
        match activity {
            Activity::User => Total::UserBusyNs,
            Activity::Log => Total::LogBusyNs,
            Activity::Flush => Total::FlushBusyNs,
            Activity::Compaction => Total::CompactionBusyNs,
            Activity::Cleaning => Total::CleaningBusyNs,
            Activity::Catalog => Total::CatalogBusyNs,
            Activity::Other => Total::OtherBusyNs,
        }
    }
}

/// Totals by number; those that are 0 are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals(BTreeMap<u8, u64>);

impl Totals {
    /// The totals of the file layer and the drive below it.
    pub(crate) fn of_files(work: &Work) -> Totals {
        let (files, drive) = (&work.files, &work.drive);
        let totals = [
            (Total::Commits, files.commits),
            (Total::CatalogBytes, files.catalog_written_bytes),
            (Total::FileBytes, files.file_written_bytes),
            (Total::CleanedZones, files.cleaned_zones),
            (Total::CleaningMoved, files.cleaning_moved_bytes),
            (Total::RewrittenTracks, files.rewritten_tracks),
            (Total::RewrittenBytes, files.rewritten_bytes),
            (Total::TrackSyncs, files.track_syncs),
            (Total::ResetZones, files.reset_zones),
            (Total::DriveReads, drive.reads),
            (Total::DriveReadBytes, drive.read_bytes),
            (Total::DriveWrites, drive.writes),
            (Total::DriveWrittenBytes, drive.written_bytes),
            (Total::TranslationRead, drive.added_read_bytes),
            (Total::TranslationWritten, drive.added_written_bytes),
            (Total::DriveFlushes, drive.flushes),
            (Total::Seeks, drive.seeks),
            (Total::BusyNs, drive.busy_ns),
            (Total::SeekNs, drive.seek_ns),
            (Total::TurnNs, drive.turn_ns),
            (Total::TransferNs, drive.transfer_ns),
            (Total::FlashWrittenBytes, work.flash_written_bytes),
            (Total::FlashFallbacks, work.flash_fallbacks),
        ];
        let times = drive.by_activity.iter();
        let times = times.map(|(activity, own)| (Total::busy_for(activity), own.busy_ns));
        Totals::of(totals.into_iter().chain(times))
    }

    pub(crate) fn of(totals: impl IntoIterator<Item = (Total, u64)>) -> Totals {
        let mut all = Totals::default();
        totals.into_iter().for_each(|(total, value)| all.raise(total as u8, value));
        all
    }

    /// The value of `total`.
    pub fn get(&self, total: Total) -> u64 {
        self.at(total as u8)
    }

    /// The value of the total with this number.
    pub(crate) fn at(&self, number: u8) -> u64 {
        self.0.get(&number).copied().unwrap_or(0)
    }

    /// Whether all totals are 0.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All that are not 0, by number, with those that this program does not know.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u8, u64)> {
        self.0.iter().map(|(&number, &value)| (number, value))
    }

    /// Raises one total to `value` (G1).
    pub(crate) fn raise(&mut self, number: u8, value: u64) {
        if value > 0 {
            let total = self.0.entry(number).or_default();
            *total = value.max(*total);
        }
    }

    /// Raises each total to its value in `newer`.
    pub(crate) fn raise_to(&mut self, newer: &Totals) {
        newer.iter().for_each(|(number, value)| self.raise(number, value));
    }

    /// These totals and those of `more` together.
    pub(crate) fn plus(mut self, more: &Totals) -> Totals {
        for (number, value) in more.iter() {
            let total = self.0.entry(number).or_default();
            *total = total.saturating_add(value);
        }
        self
    }

    /// What was counted after `before`.
    pub(crate) fn since(&self, before: &Totals) -> Totals {
        let grown =
            self.iter().map(|(number, value)| (number, value.saturating_sub(before.at(number))));
        Totals(grown.filter(|&(_, value)| value > 0).collect())
    }

    /// Leaves out the times by activity. They are records of closes alone, because they would lengthen
    /// every commit.
    pub(crate) fn leave_out_times(&mut self) {
        let times = Total::UserBusyNs as u8..=Total::OtherBusyNs as u8;
        self.0.retain(|number, _| !times.contains(number));
    }

    /// The totals that differ from those in `recorded`, with their whole values.
    pub(crate) fn changed_from(&self, recorded: &Totals) -> Totals {
        let is_new = |&(number, value): &(u8, u64)| recorded.0.get(&number) != Some(&value);
        Totals(self.iter().filter(is_new).collect())
    }
}

/// The totals at the moment when a store was opened.
#[derive(Debug)]
pub(crate) struct TotalsBefore {
    /// What the catalog recorded.
    pub(crate) recorded: Totals,
    /// What the open files had counted: they may serve more than one opening.
    pub(crate) of_files: Totals,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_grow_and_keep_what_this_program_does_not_know() {
        let mut totals = Totals::of([(Total::UserWrites, 7), (Total::Seeks, 0)]);
        totals.raise(200, 9);
        totals.raise(Total::UserWrites as u8, 5);
        assert_eq!(totals.iter().collect::<Vec<_>>(), [(1, 7), (200, 9)]);
        let more = totals.clone().plus(&Totals::of([(Total::UserWrites, 3), (Total::Seeks, 2)]));
        assert_eq!(more.iter().collect::<Vec<_>>(), [(1, 10), (55, 2), (200, 9)]);
        assert_eq!(more.since(&totals), Totals::of([(Total::UserWrites, 3), (Total::Seeks, 2)]));
        let changed = more.changed_from(&totals);
        assert_eq!(changed, Totals::of([(Total::UserWrites, 10), (Total::Seeks, 2)]));
        totals.raise_to(&changed);
        assert_eq!(totals, more);
    }

    #[test]
    fn numbers_ascend_and_names_differ() {
        let mut names: Vec<_> = Total::ALL.iter().map(|total| total.name()).collect();
        assert!(Total::ALL.is_sorted_by(|a, b| a < b));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Total::ALL.len());
    }
}
