//! Results of runs: counters of every phase, states at milestones, one line per compaction.

use crate::arrivals::{ArrivalReport, ArrivalSpec};
use crate::client_phase::ClientLatencies;
use crate::replays::ReplaySpec;
use crate::spec::{Phase, RunSpec};
use crate::work::Work;
use imbrex_bench::latency::LatencySummary;
use imbrex_bench::replay::ReplayReport;
use imbrex_engine::inspect::CompactionLine;
use serde::Serialize;
use std::collections::BTreeMap;

/// Running totals of a stack since its creation; subtract two for an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// The time of the run's clock.
    pub at_ns: u64,
    /// Bytes of keys and values written to the store.
    pub user_bytes: u64,
    /// Written to the log.
    pub log_bytes: u64,
    /// The part of it in logs started while a compaction ran.
    pub offloaded_bytes: u64,
    /// Written by flushes.
    pub flush_bytes: u64,
    /// The duration of flushes.
    pub flush_ns: u64,
    /// Read by compactions.
    pub compaction_in_bytes: u64,
    /// Written by compactions.
    pub compaction_out_bytes: u64,
    /// Compactions, without moves.
    pub compaction_count: u64,
    /// Compactions that only moved tables to another level.
    pub move_count: u64,
    /// Durable commits of the file layer, except those of logs and of cleaning.
    pub commit_count: u64,
    /// Time that writers waited for background work.
    pub stall_ns: u64,
    /// Moved by cleaning.
    pub cleaned_bytes: u64,
    /// The busy time of the drive during cleaning.
    pub cleaning_busy_ns: u64,
    /// Read requests to the drive.
    pub drive_reads: u64,
    /// Bytes that the drive read.
    pub drive_read_bytes: u64,
    /// Bytes that the drive wrote.
    pub drive_written_bytes: u64,
    /// The part of them that a translation layer added.
    pub added_read_bytes: u64,
    /// The part of them that a translation layer added.
    pub added_written_bytes: u64,
    /// Requests that moved the head.
    pub seeks: u64,
    /// The busy time of the drive.
    pub busy_ns: u64,
    /// Top tracks that were backed up and moved back.
    pub rewritten_tracks: u64,
    /// Syncs for writing tables to tracks, in addition to those of commits.
    pub track_syncs: u64,
}

impl std::ops::Sub for Totals {
    type Output = Totals;
    fn sub(self, before: Totals) -> Totals {
        Totals {
            at_ns: self.at_ns - before.at_ns,
            user_bytes: self.user_bytes - before.user_bytes,
            log_bytes: self.log_bytes - before.log_bytes,
            offloaded_bytes: self.offloaded_bytes - before.offloaded_bytes,
            flush_bytes: self.flush_bytes - before.flush_bytes,
            flush_ns: self.flush_ns - before.flush_ns,
            compaction_in_bytes: self.compaction_in_bytes - before.compaction_in_bytes,
            compaction_out_bytes: self.compaction_out_bytes - before.compaction_out_bytes,
            compaction_count: self.compaction_count - before.compaction_count,
            move_count: self.move_count - before.move_count,
            commit_count: self.commit_count - before.commit_count,
            stall_ns: self.stall_ns - before.stall_ns,
            cleaned_bytes: self.cleaned_bytes - before.cleaned_bytes,
            cleaning_busy_ns: self.cleaning_busy_ns - before.cleaning_busy_ns,
            drive_reads: self.drive_reads - before.drive_reads,
            drive_read_bytes: self.drive_read_bytes - before.drive_read_bytes,
            drive_written_bytes: self.drive_written_bytes - before.drive_written_bytes,
            added_read_bytes: self.added_read_bytes - before.added_read_bytes,
            added_written_bytes: self.added_written_bytes - before.added_written_bytes,
            seeks: self.seeks - before.seeks,
            busy_ns: self.busy_ns - before.busy_ns,
            rewritten_tracks: self.rewritten_tracks - before.rewritten_tracks,
            track_syncs: self.track_syncs - before.track_syncs,
        }
    }
}

impl Totals {
    /// WA: bytes written by flushes and compactions per user byte.
    pub fn write_amp_ratio(&self) -> f64 {
        ratio(self.flush_bytes + self.compaction_out_bytes, self.user_bytes)
    }

    /// AWA: bytes that the drive wrote per byte of write requests, with cleaning counted as added.
    pub fn added_write_amp_ratio(&self) -> f64 {
        let added = self.added_written_bytes + self.cleaned_bytes;
        ratio(self.drive_written_bytes, self.drive_written_bytes.saturating_sub(added))
    }

    /// MWA = WA x AWA.
    pub fn multiplied_write_amp_ratio(&self) -> f64 {
        self.write_amp_ratio() * self.added_write_amp_ratio()
    }
}

/// The state of the drive's space at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SpaceState {
    /// The space available to files.
    pub capacity_bytes: u64,
    /// Held by live files.
    pub valid_bytes: u64,
    /// Dead data, whose space is freed only with the whole zone or set.
    pub dead_bytes: u64,
    /// Space that cannot be written until something dies: valid data, dead data and fragments; on a
    /// drive with zones, whole zones.
    pub occupied_bytes: u64,
    /// The highest extent ever used, from the first byte for files.
    pub reach_bytes: u64,
    /// Bytes in free runs shorter than the mean set.
    pub fragment_bytes: u64,
    /// The number of such runs.
    pub fragment_count: u64,
    /// Space kept blank because a write there would destroy valid data.
    pub guard_bytes: u64,
    /// The mean length of sets; 0 without sets.
    pub mean_set_bytes: u64,
}

/// The state at one moment of a load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Milestone {
    /// Operations done.
    pub ops: u64,
    /// All counters.
    pub totals: Totals,
    /// The space.
    pub space: SpaceState,
    /// Per zone in use: its valid share, in thousandths.
    pub zone_valid_permille: Vec<u32>,
    /// The number of compactions so far, including moves: where the lines of the run are cut.
    pub line_count: usize,
}

/// The results of one phase.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseResult {
    /// The phase.
    pub phase: Phase,
    /// Operations done.
    pub ops: u64,
    /// The number of reads that found a value.
    pub found: u64,
    /// From the start of the first operation to the end of the last.
    pub elapsed_ns: u64,
    /// From the start of the first operation to the end of the background work.
    pub settled_ns: u64,
    /// Latency of single operations.
    pub latency: LatencySummary,
    /// The counters of the phase, including background work.
    pub totals: Totals,
    /// Its counters when its last operation ended.
    pub totals_at_last_op: Totals,
    /// The milestones, for a load.
    pub milestones: Vec<Milestone>,
    /// The levels at the start of the phase.
    pub levels: Vec<LevelState>,
    /// The tiers when its last operation ended.
    pub tiers: TierState,
    /// The latencies of clients, if there were any.
    pub offered: Option<ClientLatencies>,
}

/// Unsorted data, and data on the second drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TierState {
    /// Bytes of level 0 that are in write order, on either drive.
    pub unsorted_bytes: u64,
    /// Bytes on the second drive.
    pub beside_bytes: u64,
    /// The number of files there.
    pub beside_file_count: u64,
    /// Files that did not fit there and are on the main drive.
    pub fallback_count: u64,
}

/// A level that has tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LevelState {
    /// Its number.
    pub level: u8,
    /// Sorted runs.
    pub run_count: usize,
    /// Tables.
    pub table_count: usize,
    /// Their total length.
    pub len_bytes: u64,
}

impl PhaseResult {
    /// Operations per second of the run's clock, up to the end of the last operation.
    pub fn ops_per_second(&self) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { self.ops as f64 * 1e9 / self.elapsed_ns as f64 }
    }

    /// Operations per second, up to the end of the background work.
    pub fn settled_ops_per_second(&self) -> f64 {
        if self.settled_ns == 0 { 0.0 } else { self.ops as f64 * 1e9 / self.settled_ns as f64 }
    }

    /// The state at a share of the load; `None` for a phase without milestones.
    pub fn at_share(&self, share: f64) -> Option<&Milestone> {
        let wanted = (self.ops as f64 * share).round() as u64;
        self.milestones.iter().find(|m| m.ops >= wanted).or(self.milestones.last())
    }
}

/// The results of one run.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    /// The phases, in order.
    pub phases: Vec<PhaseResult>,
    /// Every compaction of the run that wrote output, in order of its end.
    #[serde(skip)]
    pub lines: Vec<CompactionLine>,
}

impl RunResult {
    /// The first phase for which `is` is true.
    pub fn phase(&self, is: impl Fn(&Phase) -> bool) -> Option<&PhaseResult> {
        self.phases.iter().find(|p| is(&p.phase))
    }

    /// The load.
    pub fn load(&self) -> Option<&PhaseResult> {
        self.phase(|p| matches!(p, Phase::Load { .. }))
    }

    /// Random reads.
    pub fn read_random(&self) -> Option<&PhaseResult> {
        self.phase(|p| matches!(p, Phase::ReadRandom { .. }))
    }

    /// Sequential reads with this read-ahead.
    pub fn read_sequential(&self, read_ahead: usize) -> Option<&PhaseResult> {
        let is = |p: &Phase| match p {
            Phase::ReadSequential { read_ahead_len_bytes, .. } => {
                *read_ahead_len_bytes == read_ahead
            }
            _ => false,
        };
        self.phase(is)
    }

    /// The compactions that ended within the first `share` of the load.
    pub fn lines_until(&self, share: f64) -> &[CompactionLine] {
        let end =
            self.load().and_then(|l| l.at_share(share)).map_or(self.lines.len(), |m| m.line_count);
        &self.lines[..end.min(self.lines.len())]
    }
}

/// The results of one run of any kind.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Store(RunResult),
    Replay(Box<ReplayReport>),
    Arrivals(Box<ArrivalReport>),
}

/// The results of all requested runs; a failed run has its reason.
#[derive(Clone, Debug, Default)]
pub struct Results {
    found: BTreeMap<Work, Result<Outcome, String>>,
}

impl Results {
    pub(super) fn insert(&mut self, work: Work, result: Result<Outcome, String>) {
        self.found.insert(work, result);
    }

    /// The reason of the first failure, if nothing succeeded.
    pub(super) fn fault_of_all(&self) -> Option<&str> {
        let first = self.found.values().next()?.as_ref().err()?;
        self.found.values().all(Result::is_err).then_some(first)
    }

    /// The results of `spec`.
    ///
    /// # Errors
    /// Why there are none.
    pub fn get(&self, spec: &RunSpec) -> Result<&RunResult, String> {
        match self.outcome(Work::Store(spec.clone()))? {
            Outcome::Store(result) => Ok(result),
            _ => Err("it is no store".to_owned()),
        }
    }

    /// The results of the replay `spec`.
    ///
    /// # Errors
    /// Why there are none.
    pub fn replay(&self, spec: &ReplaySpec) -> Result<&ReplayReport, String> {
        match self.outcome(Work::Replay(*spec))? {
            Outcome::Replay(report) => Ok(report),
            _ => Err("it is no replay".to_owned()),
        }
    }

    /// The results of the series `spec`.
    ///
    /// # Errors
    /// Why there are none.
    pub fn arrivals(&self, spec: &ArrivalSpec) -> Result<&ArrivalReport, String> {
        match self.outcome(Work::Arrivals(*spec))? {
            Outcome::Arrivals(report) => Ok(report),
            _ => Err("it is no series".to_owned()),
        }
    }

    fn outcome(&self, work: Work) -> Result<&Outcome, String> {
        match self.found.get(&work) {
            Some(found) => found.as_ref().map_err(String::clone),
            None => Err("it was not run".to_owned()),
        }
    }
}

/// `part / whole`; 0 if there is no whole.
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
