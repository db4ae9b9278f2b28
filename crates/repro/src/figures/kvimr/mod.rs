//! KVIMR (Liang et al., USENIX ATC 2021): the runs that its figures share.
//!
//! The paper's setting: RocksDB on 100 GB of a conventional ST500DM002, cut into tracks of 2 MB
//! that are written as if they were interlaced. The load is 75 million pairs of 1 KB, every key
//! once in random order. Tables and memtables have 64 MB, level 1 has 256 MB, filters have 10 bits
//! per key, and compactions read 2 MB at a time. The log and the manifest are on an SSD. Here logs are
//! on a flash drive beside the drive, which keeps no tracks for them, and another flash device takes the
//! catalog's writes; neither has modelled time. The paper's *CMR* is the conventional drive with
//! tracks allocated in three phases.
//!
//! Our engine stands in for RocksDB: leveled, one victim at a time, one compaction at a time. Flushes stay
//! in level 0, and gets start no compaction; LevelDB differs in both.
//!
//! At a small scale, tables of 64 MB would leave no levels. They shrink with the drive, but less
//! than the drive, and to no less than four tracks, because merging depends on how many tracks a
//! table has. Memtables shrink with them. Up to a third of the paper's size, level 0 stops writers
//! at 12 runs instead of 36: 36 runs are 3 % of the paper's load, but a larger share of a shorter
//! one, or more than the drive holds. Level 1 is the paper's level 1, 2 or 3, scaled as the drive
//! is. So the largest level has the paper's share of the drive, which decides whether it fits into
//! the bottom tracks. Tracks keep their length. At every scale a table ends just below a whole
//! number of tracks, so that its end needs no further track.
//!
//! Other conditions of the same load are a [`Setting`] each.

pub(super) mod databases;
pub(super) mod fill;
pub(super) mod load;
pub(super) mod mixes;
pub(super) mod motivation;
pub(super) mod overwrite;
pub(super) mod table_len;

use crate::client_phase::ClientPhase;
use crate::figures::measures::{GB, MIB, merges, milestones, need, over, seconds, start_ns};
use crate::page::Page;
use crate::results::{Milestone, PhaseResult, Results, RunResult, Totals};
use crate::spec::{LoadOrder, Phase, RunSpec, Size, Tune};
use imbrex::stack::table_len_bytes_in;
use imbrex_bench::emulated::{DriveRule, DriveSpec};
use imbrex_workload::ycsb::presets::YcsbWorkload;

/// The paper's schemes, slowest first, and the drive without overlap.
const STORES: [&str; 5] = ["imr-seq", "imr-3phase", "imr-n", "imr-m", CMR];
const CMR: &str = "kvimr-cmr";
/// Not in the paper: KVIMR-M with tiers chosen by the fullest level.
const FULLEST: &str = "imr-fullest";
const NAMES: [&str; 5] = ["Seq", "3Phase", "KVIMR-N", "KVIMR-M", "CMR"];

const DRIVE_BYTES: u64 = 100 * GB;
/// A pair has 1 KB, of which the key has 16 bytes.
const VALUE_LEN_BYTES: usize = 1008;

/// Points of figure 6, each of a million pairs.
const POINT_COUNT: u32 = 75;

/// So that an eighth and a twentieth of a load end at a milestone too.
const MILESTONES_A_POINT: u32 = 8;
const LOAD_BYTES: u64 = 75_000_000 * 1024;
const MIX_OPS: u64 = 7_500_000;
const READ_PERCENTS: [u8; 3] = [90, 50, 10];
const TRACK_LEN_BYTES: u64 = 2 * MIB;
const TABLE_LEN_BYTES: u64 = 64 * MIB;
const TABLE_LEN_BYTES_MIN: u64 = 8 * MIB;
/// At a fiftieth of the drive, tables have 8 MB, an eighth of the paper's.
const TABLE_SCALE: f64 = 6.0;
/// At this scale and above, tables are as long as the paper's.
const WHOLE_TABLES_SCALE: f64 = 0.17;

/// Below this scale, level 0 stops writers at 12 runs. The paper's 36 would be a larger share of
/// the load.
const WHOLE_LEVEL_0_SCALE: f64 = 1.0 / 3.0;

/// The second drive holds the logs of so many memtables. A store has fewer.
const LOG_TABLE_COUNT: u64 = 16;

/// Below this scale, a drive has no room for the backup region, the reserve and a level of
/// compaction.
const SCALE_LEAST: f64 = 0.02;

/// Up to this scale, one run serves the load and the mixes.
const MIXES_SCALE_MAX: f64 = 0.1;

/// The sizes of this paper's figures.
fn sized(asked: &Size) -> Size {
    asked.at_least(SCALE_LEAST)
}

/// The length of a table that has `paper_bytes` in the paper, at this scale, in whole tracks.
fn table_len_bytes(size: &Size, paper_bytes: u64) -> u64 {
    let share = (sized(size).scale * TABLE_SCALE).min(1.0);
    let wanted = (paper_bytes as f64 * share) as u64 / TRACK_LEN_BYTES * TRACK_LEN_BYTES;
    wanted.max(TABLE_LEN_BYTES_MIN * paper_bytes / TABLE_LEN_BYTES).min(paper_bytes)
}

/// The first of the paper's scaled levels that is at least four tables long.
fn base_level_len_bytes(size: &Size, table_len_bytes: u64) -> u64 {
    let mut len_bytes = (4.0 * TABLE_LEN_BYTES as f64 * sized(size).scale) as u64;
    while len_bytes < 4 * table_len_bytes {
        len_bytes *= 10;
    }
    len_bytes
}

/// How a load differs from the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    /// The paper's setting.
    Paper,
    /// The log and the catalog are on the drive too, as in our own store.
    LogsOnDrive,
    /// Tracks are an eighth as long, so that a table has as many tracks as the paper's.
    ShortTracks,
    /// CMR fills the lowest free addresses, without regard to tracks.
    FirstFit,
    /// The drive's buffer keeps what it wrote last, so that a rewrite reads back no track that it has just
    /// saved. Makers do not publish whether a buffer does.
    KeepsWrites,
}

/// The settings in words.
const LOGS_ON_DRIVE: &str = "log and catalog on the drive";
const SHORT_TRACKS: &str = "32 tracks of 256 KB per table";
const FIRST_FIT: &str = "CMR places first fit";
const KEEPS_WRITES: &str = "a drive buffer that keeps 8 MB of what it wrote";
const BY_FULLEST: &str = "KVIMR-M's tiers by the fullest level (imr-fullest)";
const AT_REST: &str = "including the work left after the load";

/// The run of `phases` on `layout`, with tables that have `table_bytes` in the paper.
fn spec_of(
    size: &Size,
    layout: &'static str,
    setting: Setting,
    table_bytes: u64,
    phases: Vec<Phase>,
) -> RunSpec {
    let track_len_bytes = match setting {
        Setting::ShortTracks => TRACK_LEN_BYTES / 8,
        _ => TRACK_LEN_BYTES,
    };
    let rule = match layout {
        CMR if setting == Setting::FirstFit => DriveRule::Conventional,
        CMR => DriveRule::Phased { track_len_bytes },
        _ => DriveRule::Interlaced { track_len_bytes },
    };
    let mut drive = DriveSpec::whole("st500dm002", rule, sized(size).bytes(DRIVE_BYTES));
    if setting != Setting::LogsOnDrive {
        drive = drive.with_logs_on_flash(LOG_TABLE_COUNT * table_len_bytes(size, TABLE_LEN_BYTES));
    }
    if setting == Setting::KeepsWrites {
        drive = drive.keeping_what_it_writes();
    }
    let usual = table_len_bytes(size, TABLE_LEN_BYTES);
    let tune = Tune {
        memtable_len_bytes: Some(table_len_bytes_in(usual)),
        table_len_bytes: Some(table_len_bytes_in(table_len_bytes(size, table_bytes))),
        base_level_len_bytes: Some(base_level_len_bytes(size, usual)),
        l0_run_counts: (sized(size).scale < WHOLE_LEVEL_0_SCALE).then_some((4, 8, 12)),
        ..Tune::default()
    };
    RunSpec::new(layout, drive, phases).tuned(tune)
}

fn load_phase(size: &Size) -> Phase {
    let load = Phase::load(LoadOrder::Once, sized(size).bytes(LOAD_BYTES), VALUE_LEN_BYTES);
    load.measured(POINT_COUNT * MILESTONES_A_POINT)
}

/// Whether one run serves the load and the mixes. At a larger scale, the random reads of the mixes
/// would take longer than the loads.
fn serves_load_and_mixes(size: &Size) -> bool {
    sized(size).scale <= MIXES_SCALE_MAX
}

/// The paper's load, for the figures about it.
fn load(size: &Size, layout: &'static str) -> RunSpec {
    if serves_load_and_mixes(size) {
        load_and_mixes(size, layout)
    } else {
        load_in(size, layout, Setting::Paper)
    }
}

/// The paper's load, then its mixes of reads and writes. Each mix starts when the store is at rest.
fn load_and_mixes(size: &Size, layout: &'static str) -> RunSpec {
    let mixes = READ_PERCENTS.map(|read_percent| mix_phase(size, read_percent));
    let phases = [load_phase(size)].into_iter().chain(mixes).collect();
    spec_of(size, layout, Setting::Paper, TABLE_LEN_BYTES, phases)
}

/// The load, then one mix right after it, while the work that the load left is still pending.
fn load_then_mix(size: &Size, layout: &'static str, read_percent: u8) -> RunSpec {
    let phases = vec![load_phase(size), mix_phase(size, read_percent)];
    let spec = spec_of(size, layout, Setting::Paper, TABLE_LEN_BYTES, phases);
    let tune = spec.tune.without_rest();
    spec.tuned(tune)
}

fn mix_phase(size: &Size, read_percent: u8) -> Phase {
    let workload = YcsbWorkload::Mix { read_percent };
    Phase::Ycsb { workload, count: mix_op_count(size), sync: false }
}

fn mix_op_count(size: &Size) -> u64 {
    sized(size).count(MIX_OPS, 10_000)
}

/// The load, then the mixes by several clients, each of which asks again when it has its answer.
fn load_and_mixes_by(size: &Size, layout: &'static str, client_count: u32) -> RunSpec {
    let mixes = READ_PERCENTS.map(|read_percent| {
        Phase::Clients(ClientPhase {
            workload: YcsbWorkload::Mix { read_percent },
            count: mix_op_count(size),
            value_len_bytes: VALUE_LEN_BYTES,
            client_count,
            arrivals: None,
            call_ns: 0,
            scans_in_memory: false,
        })
    });
    let phases = [load_phase(size)].into_iter().chain(mixes).collect();
    spec_of(size, layout, Setting::Paper, TABLE_LEN_BYTES, phases)
}

/// The load alone, in another setting.
fn load_in(size: &Size, layout: &'static str, setting: Setting) -> RunSpec {
    spec_of(size, layout, setting, TABLE_LEN_BYTES, vec![load_phase(size)])
}

/// Counters up to some moment.
#[derive(Clone, Copy, Debug)]
struct Counts {
    compactions: f64,
    compaction_s: f64,
    rewritten_tracks: f64,
    /// Syncs that writing tables needs.
    track_syncs: f64,
    /// One sync per commit: the last sync of one table or of several.
    commits: f64,
}

impl Counts {
    const NONE: Counts = Counts {
        compactions: f64::NAN,
        compaction_s: f64::NAN,
        rewritten_tracks: f64::NAN,
        track_syncs: f64::NAN,
        commits: f64::NAN,
    };

    fn of(run: &RunResult, totals: &Totals, until_ns: u64) -> Counts {
        let done = merges(&run.lines).filter(|line| line.end_ns <= until_ns);
        let ns: u64 = done.map(|line| line.end_ns.saturating_sub(line.start_ns)).sum();
        Counts {
            compactions: totals.compaction_count as f64,
            compaction_s: seconds(ns),
            rewritten_tracks: totals.rewritten_tracks as f64,
            track_syncs: totals.track_syncs as f64,
            commits: totals.commit_count as f64,
        }
    }

    fn syncs(&self) -> f64 {
        self.track_syncs + self.commits
    }

    fn seconds_each(&self) -> f64 {
        over(self.compaction_s, self.compactions)
    }
}

/// The measurements of a load.
#[derive(Clone, Copy, Debug)]
struct Loaded {
    /// Puts per second, up to the last put.
    rate: f64,
    /// Puts per second of the last eighth.
    rate_at_end: f64,
    /// Puts per second of the last point of figure 6.
    rate_of_last_point: f64,
    /// Up to the last put.
    put: Counts,
    /// Until the store is at rest.
    rest: Counts,
}

impl Loaded {
    const NONE: Loaded = Loaded {
        rate: f64::NAN,
        rate_at_end: f64::NAN,
        rate_of_last_point: f64::NAN,
        put: Counts::NONE,
        rest: Counts::NONE,
    };

    fn of(run: &RunResult, load: &PhaseResult) -> Loaded {
        let start_ns = start_ns(load);
        let put_ns = start_ns + load.elapsed_ns;
        Loaded {
            rate: load.ops_per_second(),
            rate_at_end: rate_between(load, 0.875, 1.0),
            rate_of_last_point: rate_between(load, last_point(), 1.0),
            put: Counts::of(run, &load.totals_at_last_op, put_ns),
            rest: Counts::of(run, &load.totals, start_ns + load.settled_ns),
        }
    }
}

/// Where the last point of figure 6 begins, as a share of the load.
fn last_point() -> f64 {
    1.0 - 1.0 / f64::from(POINT_COUNT)
}

/// Puts per second between two shares of a load.
fn rate_between(load: &PhaseResult, from: f64, to: f64) -> f64 {
    let milestones = milestones(load);
    let at = |share: f64| {
        let wanted = (load.ops as f64 * share).round() as u64;
        let found = milestones.iter().find(|m| wanted <= m.ops);
        let of = |m: &Milestone| (m.ops, m.totals.at_ns);
        if wanted == 0 { Some((0, start_ns(load))) } else { found.map(of) }
    };
    let (Some((first, from_ns)), Some((last, to_ns))) = (at(from), at(to)) else { return f64::NAN };
    over(last.saturating_sub(first) as f64, seconds(to_ns.saturating_sub(from_ns)))
}

/// The measurements of the load of `spec`; all NaN if the run is missing.
fn loaded(page: &mut Page, results: &Results, spec: &RunSpec) -> Loaded {
    let run = need(page, results, spec);
    let load = run.and_then(|run| Some((run, run.load()?)));
    load.map_or(Loaded::NONE, |(run, load)| Loaded::of(run, load))
}

/// The loads of the five stores in the paper's setting.
fn loads(page: &mut Page, size: &Size, results: &Results) -> [Loaded; 5] {
    STORES.map(|store| loaded(page, results, &load(size, store)))
}

/// The loads of the five stores with the log and the catalog on the drive.
fn loads_with_logs(page: &mut Page, size: &Size, results: &Results) -> [Loaded; 5] {
    STORES.map(|store| loaded(page, results, &load_in(size, store, Setting::LogsOnDrive)))
}

/// The loads of the five stores on a drive whose buffer keeps what it wrote.
fn loads_kept(page: &mut Page, size: &Size, results: &Results) -> [Loaded; 5] {
    STORES.map(|store| loaded(page, results, &load_in(size, store, Setting::KeepsWrites)))
}

/// By how many percent `ours` is below `theirs`; NaN if either is NaN or `theirs` is 0.
fn percent_below(ours: f64, theirs: f64) -> f64 {
    if theirs == 0.0 { f64::NAN } else { (1.0 - ours / theirs) * 100.0 }
}

/// By how many percent `ours` is above `theirs`, with the same exceptions.
fn percent_above(ours: f64, theirs: f64) -> f64 {
    if theirs == 0.0 { f64::NAN } else { (ours / theirs - 1.0) * 100.0 }
}

fn conditions(size: &Size) -> String {
    conditions_with(size, sized(size).bytes(LOAD_BYTES), table_len_bytes(size, TABLE_LEN_BYTES))
}

fn conditions_with(size: &Size, loaded_bytes: u64, table_len_bytes: u64) -> String {
    format!(
        "A drive of {} MB in tracks of 2 MB; {} MB loaded; tables of {} MB; level 1 of {} MB. Logs \
         are on a second drive, and the catalog's writes go to flash, both without modelled time; \
         the paper's log and manifest are on an SSD.",
        sized(size).bytes(DRIVE_BYTES) / 1_000_000,
        loaded_bytes / 1_000_000,
        table_len_bytes / MIB,
        base_level_len_bytes(size, table_len_bytes) / MIB,
    )
}
