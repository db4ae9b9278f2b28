//! What runs found: counters of every phase, states at milestones, one line a compaction.

use crate::arrivals::{ArrivalReport, ArrivalSpec};
use crate::client_phase::ClientLatencies;
use crate::replays::ReplaySpec;
use crate::spec::{Phase, RunSpec};
use crate::work::Work;
use imbrex_bench::latency::LatencySummary;
use imbrex_bench::replay::ReplayReport;
use imbrex_engine::CompactionLine;
use serde::Serialize;
use std::collections::BTreeMap;

/// Running totals of a stack since it was made; subtract two to get an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// By the run's clock.
    pub at_ns: u64,
    /// Keys and values handed to the store.
    pub user_bytes: u64,
    /// Written to the log.
    pub log_bytes: u64,
    /// Of that, written to logs begun while a compaction ran.
    pub offloaded_bytes: u64,
    /// Written by flushes.
    pub flush_bytes: u64,
    /// How long flushes took.
    pub flush_ns: u64,
    /// Read by compactions.
    pub compaction_in_bytes: u64,
    /// Written by compactions.
    pub compaction_out_bytes: u64,
    /// Compactions, without moves.
    pub compaction_count: u64,
    /// Compactions that only moved tables to another level.
    pub move_count: u64,
    /// Commits of the file layer made durable, without those of logs and cleaning.
    pub commit_count: u64,
    /// Time that writers waited for background work.
    pub stall_ns: u64,
    /// Moved by cleaning.
    pub cleaned_bytes: u64,
    /// How long the drive worked while cleaning ran.
    pub cleaning_busy_ns: u64,
    /// Read requests to the drive.
    pub drive_reads: u64,
    /// Bytes that the drive read.
    pub drive_read_bytes: u64,
    /// Bytes that the drive wrote.
    pub drive_written_bytes: u64,
    /// Of those, what a translation layer added.
    pub added_read_bytes: u64,
    /// Of those, what a translation layer added.
    pub added_written_bytes: u64,
    /// Requests that moved the head.
    pub seeks: u64,
    /// How long the drive was busy.
    pub busy_ns: u64,
    /// Top tracks that were backed up and moved back.
    pub rewritten_tracks: u64,
    /// Syncs that writing tables to tracks asked for, besides those of commits.
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

    /// AWA: bytes the drive wrote per byte it was told to write, cleaning counted as added.
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
    /// All that files could use.
    pub capacity_bytes: u64,
    /// Held by live files.
    pub valid_bytes: u64,
    /// Dead, and given back only when the zone or the set is: cleaning or time brings it back.
    pub dead_bytes: u64,
    /// What cannot be written until something dies: valid, dead and fragments; on a drive with
    /// zones, whole zones.
    pub occupied_bytes: u64,
    /// The longest stretch, from the first byte for files, that was ever used.
    pub reach_bytes: u64,
    /// In free runs shorter than the mean set.
    pub fragment_bytes: u64,
    /// How many such runs there are.
    pub fragment_count: u64,
    /// Kept blank because a write there would destroy valid data.
    pub guard_bytes: u64,
    /// How long sets are on average; 0 without sets.
    pub mean_set_bytes: u64,
}

/// State at one moment of a load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Milestone {
    /// Operations done.
    pub ops: u64,
    /// All counters.
    pub totals: Totals,
    /// The space.
    pub space: SpaceState,
    /// Of each zone that holds anything, the share that is valid, in thousandths.
    pub zone_valid_permille: Vec<u32>,
    /// Compactions so far, moves included: where the lines of the run are cut.
    pub line_count: usize,
}

/// What one phase found.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseResult {
    /// The phase.
    pub phase: Phase,
    /// Operations done.
    pub ops: u64,
    /// Of the reads, how many found a value.
    pub found: u64,
    /// From the first operation's start to the last one's end.
    pub elapsed_ns: u64,
    /// The same to the end of the background work.
    pub settled_ns: u64,
    /// Of single operations.
    pub latency: LatencySummary,
    /// What the phase added to all counters, background work included.
    pub totals: Totals,
    /// What it had added when its last operation ended.
    pub totals_at_last_op: Totals,
    /// States, for a load.
    pub milestones: Vec<Milestone>,
    /// The levels when the phase began.
    pub levels: Vec<LevelState>,
    /// What lay unsorted and beside when its last operation ended.
    pub tiers: TierState,
    /// What clients saw, where there were any.
    pub offered: Option<ClientLatencies>,
}

/// What lies unsorted, and what on the drive beside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TierState {
    /// Of level 0, what lies in the order of its writes, on either drive.
    pub unsorted_bytes: u64,
    /// On the drive beside.
    pub beside_bytes: u64,
    /// So many files.
    pub beside_file_count: u64,
    /// Files that were to lie there and lie on the main drive for want of room.
    pub fallback_count: u64,
}

/// A level that has tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LevelState {
    /// Which.
    pub level: u8,
    /// Sorted runs.
    pub run_count: usize,
    /// Tables.
    pub table_count: usize,
    /// How long they are together.
    pub len_bytes: u64,
}

impl PhaseResult {
    /// Operations per second of the run's clock, up to the last operation's end.
    pub fn ops_per_second(&self) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { self.ops as f64 * 1e9 / self.elapsed_ns as f64 }
    }

    /// Operations per second until the background work was done as well.
    pub fn settled_ops_per_second(&self) -> f64 {
        if self.settled_ns == 0 { 0.0 } else { self.ops as f64 * 1e9 / self.settled_ns as f64 }
    }

    /// The state when a share of the load was done; `None` for a phase without milestones.
    pub fn at_share(&self, share: f64) -> Option<&Milestone> {
        let wanted = (self.ops as f64 * share).round() as u64;
        self.milestones.iter().find(|m| m.ops >= wanted).or(self.milestones.last())
    }
}

/// What one run found.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    /// The phases, in order.
    pub phases: Vec<PhaseResult>,
    /// Every compaction of the whole run that wrote something, in order of its end.
    #[serde(skip)]
    pub lines: Vec<CompactionLine>,
}

impl RunResult {
    /// The first phase that `is` true of.
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

    /// Sequential reads with so much read ahead.
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

/// What one run of any kind found.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Store(RunResult),
    Replay(Box<ReplayReport>),
    Arrivals(Box<ArrivalReport>),
}

/// The results of all runs that were asked for; a run that could not be made has its reason.
#[derive(Clone, Debug, Default)]
pub struct Results {
    found: BTreeMap<Work, Result<Outcome, String>>,
}

impl Results {
    pub(super) fn insert(&mut self, work: Work, result: Result<Outcome, String>) {
        self.found.insert(work, result);
    }

    /// Why the first failed, if nothing succeeded.
    pub(super) fn fault_of_all(&self) -> Option<&str> {
        let first = self.found.values().next()?.as_ref().err()?;
        self.found.values().all(Result::is_err).then_some(first)
    }

    /// What `spec` found.
    ///
    /// # Errors
    /// Why there is nothing.
    pub fn get(&self, spec: &RunSpec) -> Result<&RunResult, String> {
        match self.outcome(Work::Store(spec.clone()))? {
            Outcome::Store(result) => Ok(result),
            _ => Err("it is no store".to_owned()),
        }
    }

    /// What the replay `spec` found.
    ///
    /// # Errors
    /// Why there is nothing.
    pub fn replay(&self, spec: &ReplaySpec) -> Result<&ReplayReport, String> {
        match self.outcome(Work::Replay(*spec))? {
            Outcome::Replay(report) => Ok(report),
            _ => Err("it is no replay".to_owned()),
        }
    }

    /// What the series `spec` came to.
    ///
    /// # Errors
    /// Why there is nothing.
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
