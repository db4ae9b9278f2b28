//! Invented results, for tests of pages: each run has its own numbers.

use crate::arrivals::ArrivalReport;
use crate::client_phase::ClientLatencies;
use crate::results::Results;
use crate::results::{
    LevelState, Milestone, Outcome, PhaseResult, RunResult, SpaceState, TierState, Totals,
};
use crate::spec::Phase;
use crate::spec::Size;
use crate::work::Work;
use imbrex_bench::latency::LatencySummary;
use imbrex_bench::replay::{BytesWritten, ReplayReport, RequestFigures, Survey, TableFigures};
use imbrex_clockwork::Prng;
use imbrex_engine::inspect::{CompactionLine, OutputTable};
use imbrex_workload::arrivals::{Correlation, SeriesFigures};
use imbrex_workload::statistics::{Estimator, Hurst};

/// The results of all `works`.
pub(super) fn results(works: &[Work]) -> Results {
    let mut results = Results::default();
    works.iter().for_each(|work| results.insert(work.clone(), Ok(outcome(work))));
    results
}

/// All runs of `figure`, each once.
pub(super) fn works(figure: &super::Figure, size: &Size) -> Vec<Work> {
    let mut works: Vec<Work> = Vec::new();
    for work in figure.runs.works(size) {
        if !works.contains(&work) {
            works.push(work);
        }
    }
    works
}

pub(super) fn outcome(work: &Work) -> Outcome {
    let mut prng = Prng::new(1).derive(&format!("{work:?}"));
    match work {
        Work::Store(spec) => {
            let phases = spec.phases.iter().map(|phase| self::phase(*phase, &mut prng)).collect();
            let lines = (0..40).map(|at| line(at, &mut prng)).collect();
            Outcome::Store(RunResult { phases, lines })
        }
        Work::Replay(_) => Outcome::Replay(Box::new(replay(&mut prng))),
        Work::Arrivals(_) => Outcome::Arrivals(Box::new(arrivals(&mut prng))),
    }
}

fn about(prng: &mut Prng, number: u64) -> u64 {
    number / 2 + prng.below(number)
}

/// All counters of a load; half of it by `at_ns`.
fn totals(prng: &mut Prng, at_ns: u64) -> Totals {
    let mut n = |number: u64| about(prng, number);
    Totals {
        at_ns,
        user_bytes: n(1_000_000_000),
        log_bytes: n(1_000_000_000),
        offloaded_bytes: n(500_000_000),
        flush_bytes: n(1_000_000_000),
        flush_ns: n(10_000_000_000),
        compaction_in_bytes: n(5_000_000_000),
        compaction_out_bytes: n(5_000_000_000),
        compaction_count: n(1000),
        move_count: n(100),
        commit_count: n(1000),
        stall_ns: n(10_000_000_000),
        cleaned_bytes: n(1_000_000_000),
        cleaning_busy_ns: n(at_ns / 4),
        drive_reads: n(100_000),
        drive_read_bytes: n(5_000_000_000),
        drive_written_bytes: 10_000_000_000,
        added_read_bytes: n(1_000_000_000),
        added_written_bytes: n(1_000_000_000),
        seeks: n(100_000),
        busy_ns: n(at_ns / 2),
        rewritten_tracks: n(1000),
        track_syncs: n(1000),
    }
}

/// A number of fortieths of `all`.
fn part(all: &Totals, at: u64) -> Totals {
    let of = |number: u64| (u128::from(number) * u128::from(at) / 40) as u64;
    Totals {
        at_ns: of(all.at_ns),
        user_bytes: of(all.user_bytes),
        log_bytes: of(all.log_bytes),
        offloaded_bytes: of(all.offloaded_bytes),
        flush_bytes: of(all.flush_bytes),
        flush_ns: of(all.flush_ns),
        compaction_in_bytes: of(all.compaction_in_bytes),
        compaction_out_bytes: of(all.compaction_out_bytes),
        compaction_count: of(all.compaction_count),
        move_count: of(all.move_count),
        commit_count: of(all.commit_count),
        stall_ns: of(all.stall_ns),
        cleaned_bytes: of(all.cleaned_bytes),
        cleaning_busy_ns: of(all.cleaning_busy_ns),
        drive_reads: of(all.drive_reads),
        drive_read_bytes: of(all.drive_read_bytes),
        drive_written_bytes: of(all.drive_written_bytes),
        added_read_bytes: of(all.added_read_bytes),
        added_written_bytes: of(all.added_written_bytes),
        seeks: of(all.seeks),
        busy_ns: of(all.busy_ns),
        rewritten_tracks: of(all.rewritten_tracks),
        track_syncs: of(all.track_syncs),
    }
}

/// A load that progresses steadily up to its last operation and then rests for a third of its time.
pub(super) fn phase(phase: Phase, prng: &mut Prng) -> PhaseResult {
    let (ops, settled_ns) = (phase.op_count(), 4 * about(prng, 100_000_000_000));
    let mut totals = totals(prng, settled_ns);
    let at_last_op = part(&totals, 30);
    totals.cleaning_busy_ns += settled_ns / 10;
    let mut milestones: Vec<Milestone> =
        (1..=40).map(|at| milestone(at, ops, part(&at_last_op, at), prng)).collect();
    milestones[39].totals = totals;
    let mut offered = ClientLatencies::default();
    for ms in 0..100 {
        let ns = about(prng, 150_000_000);
        offered.service.note(ns);
        offered.response.note(2 * ns);
        offered.trace.note(ms * 1_000_000, ns);
    }
    PhaseResult {
        phase,
        ops,
        found: ops,
        elapsed_ns: at_last_op.at_ns,
        settled_ns,
        latency: latency(prng),
        totals,
        totals_at_last_op: at_last_op,
        milestones,
        levels: vec![LevelState { level: 0, run_count: 3, table_count: 3, len_bytes: 1 << 20 }],
        tiers: TierState {
            unsorted_bytes: about(prng, 100_000_000),
            beside_bytes: about(prng, 100_000_000),
            beside_file_count: 1,
            fallback_count: 0,
        },
        offered: Some(offered),
    }
}

/// Up to three quarters of the space are valid.
fn milestone(at: u64, ops: u64, totals: Totals, prng: &mut Prng) -> Milestone {
    let mut n = |number: u64| about(prng, number);
    let capacity_bytes = 1_000_000_000;
    Milestone {
        ops: ops * at / 40,
        totals,
        space: SpaceState {
            capacity_bytes,
            valid_bytes: capacity_bytes * 3 / 4 * at / 40,
            dead_bytes: n(100_000_000),
            occupied_bytes: n(1_000_000_000),
            reach_bytes: n(1_000_000_000),
            fragment_bytes: n(10_000_000),
            fragment_count: n(100),
            guard_bytes: n(10_000_000),
            mean_set_bytes: n(30_000_000),
        },
        zone_valid_permille: (0..20).map(|_| 200 + prng.below(800) as u32).collect(),
        line_count: at as usize,
    }
}

fn line(at: u64, prng: &mut Prng) -> CompactionLine {
    let start_ns = at * 1_000_000_000;
    CompactionLine {
        start_ns,
        end_ns: start_ns + about(prng, 500_000_000),
        in_len_bytes: about(prng, 40_000_000),
        outputs: vec![OutputTable {
            table: at,
            level: 2,
            len_bytes: 4 << 20,
            extents: vec![(prng.below(1 << 20), 1 << 10), (prng.below(1 << 20), 1 << 10)],
        }],
        ..compaction(about(prng, 40_000_000))
    }
}

/// A compaction from level 0 or 1 to level 2.
pub(super) fn compaction(out_len_bytes: u64) -> CompactionLine {
    CompactionLine {
        start_ns: 0,
        end_ns: 0,
        keyspace: "default".to_owned(),
        plan: String::new(),
        level: (out_len_bytes % 2) as u8,
        output_level: 2,
        input_table_count: 1 + (out_len_bytes % 7) as usize,
        output_table_count: 1 + (out_len_bytes % 5) as usize,
        set_count: 1 + (out_len_bytes % 3) as usize,
        in_len_bytes: out_len_bytes,
        out_len_bytes,
        outputs: Vec::new(),
        entry_count: 0,
        dropped_count: 0,
    }
}

fn latency(prng: &mut Prng) -> LatencySummary {
    let mut n = |number: u64| about(prng, number);
    LatencySummary {
        mean_ns: n(10_000_000),
        p50_ns: n(10_000_000),
        p90_ns: n(20_000_000),
        p99_ns: n(50_000_000),
        p999_ns: n(100_000_000),
        p9999_ns: n(200_000_000),
        max_ns: n(1_000_000_000),
    }
}

fn replay(prng: &mut Prng) -> ReplayReport {
    let table = |entry_sectors| TableFigures {
        entry_sectors,
        evicted_sectors: 1_000_000,
        written_sectors: 1_000_000 + prng.clone().below(100_000) * entry_sectors,
        memory_bytes: 1 << 20,
    };
    let tables = vec![table(1), table(10), table(100)];
    ReplayReport {
        is_complete: true,
        survey: Survey::default(),
        device_bytes: 1 << 30,
        drive_bytes: 1 << 30,
        prefilled_bytes: 0,
        requests: RequestFigures {
            reads: 1000,
            read_bytes: 1 << 22,
            writes: 1000,
            written_bytes: 1 << 22,
            edge_blocks: 0,
            elapsed_ns: 1_000_000_000,
            read_latency: latency(prng),
            write_latency: latency(prng),
            write_stall_ns_max: about(prng, 1_000_000),
        },
        journal_evicted_bytes: 0,
        written: BytesWritten::default(),
        mapping_nodes: about(prng, 1000),
        mapping_bytes: about(prng, 100_000),
        timely_cleanings: 10,
        urgent_cleanings: 1,
        merged_nodes_mean: about(prng, 1000) as f64 / 10.0,
        garbage_percent: about(prng, 600) as f64 / 10.0,
        tables,
    }
}

fn arrivals(prng: &mut Prng) -> ArrivalReport {
    let mut series = || SeriesFigures {
        values: 120,
        mean: 1.0,
        deviation: 1.0,
        min: 0.0,
        max: 2.0,
        autocorrelation: vec![Correlation { lag: 1, value: Some(prng.below(1000) as f64 / 1e3) }],
        hurst: Some(Estimator::ALL.map(|by| {
            let exponent = about(prng, 1000) as f64 / 1e3;
            Hurst { by, exponent, margin: None }
        })),
    };
    ArrivalReport {
        operations: 1_200_000,
        few_gaps: series(),
        many_gaps: series(),
        shuffled_gaps: series(),
        whole: series(),
        milliseconds: vec![10.0; 100],
        tenths: vec![1000.0; 600],
        seconds: vec![10_000.0; 120],
    }
}
