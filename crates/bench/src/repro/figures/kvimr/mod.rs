//! KVIMR (Liang et al., USENIX ATC 2021): the runs that its figures share.
//!
//! Setting of the paper: RocksDB on 100 GB of a conventional ST500DM002, cut into tracks of 2 MB, which
//! are written as if they were interlaced; 75 million pairs of 1 KB, every key once in random order;
//! tables and memtables of 64 MB, level 1 of 256 MB, filters of 10 bits, compactions that read 2 MB. The
//! paper keeps log and manifest on an SSD; here they lie on the drive, on all five stores.
//!
//! Our engine stands for RocksDB: leveled, one victim at a time. The paper's CMR allocates tracks in
//! three phases on the conventional drive, ours first fit, which does the same where nothing overlaps.
//!
//! At a small scale tables of 64 MB would leave no levels. They shrink with the drive, but less than it,
//! and to no less than four tracks, because how many tracks a table has is what merging is about;
//! memtables shrink with them, and level 0 stops writers at 12 runs instead of 36, which would fill the
//! drive. Level 1 is the paper's level 1, 2 or 3, scaled as the drive is, so that the largest level has
//! the paper's share of it: whether it finds place in the bottom tracks decides. Tracks stay as long as
//! they are. At every scale a table ends a thirty-second before whole tracks, so
//! that its index and filter do not cost it another one.

pub(super) mod load;
pub(super) mod mixes;
pub(super) mod motivation;
pub(super) mod table_len;

use super::{GB, MIB, need};
use crate::repro::spec::{DriveRule, DriveSpec, LoadOrder, Phase, RunSpec, Size, Tune};
use crate::repro::{Page, PhaseResult, Results, RunResult};

/// The paper's schemes, slowest first, and the drive on which nothing overlaps.
const STORES: [&str; 5] = ["imr-seq", "imr-3phase", "imr-n", "imr-m", "kvimr-cmr"];
const NAMES: [&str; 5] = ["Seq", "3Phase", "KVIMR-N", "KVIMR-M", "CMR"];

const DRIVE_BYTES: u64 = 100 * GB;
/// A pair is 1 KB, 16 bytes of it the key.
const VALUE_LEN_BYTES: usize = 1008;
const LOAD_BYTES: u64 = 75_000_000 * 1024;
const TRACK_LEN_BYTES: u64 = 2 * MIB;
const TABLE_LEN_BYTES: u64 = 64 * MIB;
const TABLE_LEN_BYTES_MIN: u64 = 8 * MIB;
/// Tables of a fiftieth of the drive are 8 MB, an eighth of the paper's.
const TABLE_SCALE: f64 = 6.0;

/// Below this a drive has no room for backup region, reserve and a level of compaction.
const SCALE_LEAST: f64 = 0.02;

/// The sizes of this paper's figures.
fn sized(asked: &Size) -> Size {
    Size { scale: asked.scale.max(SCALE_LEAST), ..*asked }
}

/// `bytes` of the paper's tables at this scale, whole tracks.
fn table_len_bytes(size: &Size, paper_bytes: u64) -> u64 {
    let share = (sized(size).scale * TABLE_SCALE).min(1.0);
    let wanted = (paper_bytes as f64 * share) as u64 / TRACK_LEN_BYTES * TRACK_LEN_BYTES;
    wanted.max(TABLE_LEN_BYTES_MIN * paper_bytes / TABLE_LEN_BYTES).min(paper_bytes)
}

/// Of the paper's levels, scaled, the first that is at least four tables long.
fn base_level_len_bytes(size: &Size) -> u64 {
    let mut len_bytes = (4.0 * TABLE_LEN_BYTES as f64 * sized(size).scale) as u64;
    while len_bytes < 4 * table_len_bytes(size, TABLE_LEN_BYTES) {
        len_bytes *= 10;
    }
    len_bytes
}

/// What a table may hold so that with its index and filter it fits `len_bytes`.
fn within_tracks(len_bytes: u64) -> u64 {
    len_bytes - len_bytes / 32
}

/// A store with tables as long as the paper's `table_bytes`.
fn spec_of(size: &Size, layout: &'static str, table_bytes: u64, phases: Vec<Phase>) -> RunSpec {
    let rule = match layout {
        "kvimr-cmr" => DriveRule::Conventional,
        _ => DriveRule::Interlaced { track_len_bytes: TRACK_LEN_BYTES },
    };
    let drive = DriveSpec::whole("st500dm002", rule, sized(size).bytes(DRIVE_BYTES));
    let usual = table_len_bytes(size, TABLE_LEN_BYTES);
    let tune = Tune {
        memtable_len_bytes: Some(within_tracks(usual)),
        table_len_bytes: Some(within_tracks(table_len_bytes(size, table_bytes))),
        base_level_len_bytes: Some(base_level_len_bytes(size)),
        l0_run_counts: (usual < TABLE_LEN_BYTES).then_some((4, 8, 12)),
        ..Tune::default()
    };
    RunSpec::new(layout, drive, phases).tuned(tune)
}

fn load_phase(size: &Size) -> Phase {
    Phase::load(LoadOrder::Once, sized(size).bytes(LOAD_BYTES), VALUE_LEN_BYTES)
}

/// The paper's load.
fn load(size: &Size, layout: &'static str) -> RunSpec {
    spec_of(size, layout, TABLE_LEN_BYTES, vec![load_phase(size)])
}

/// What a load came to.
#[derive(Clone, Copy, Debug, Default)]
struct Loaded {
    rate: f64,
    compactions: f64,
    compaction_s: f64,
    rewritten_tracks: f64,
    syncs: f64,
}

impl Loaded {
    fn of(run: &RunResult, load: &PhaseResult) -> Loaded {
        let merges = super::merges(&run.lines);
        let ns: u64 = merges.map(|line| line.end_ns.saturating_sub(line.start_ns)).sum();
        let totals = load.totals;
        Loaded {
            rate: load.ops_per_second(),
            compactions: totals.compaction_count as f64,
            compaction_s: ns as f64 / 1e9,
            rewritten_tracks: totals.rewritten_tracks as f64,
            // The last sync of a table is that of its commit.
            syncs: (totals.track_syncs + totals.commit_count) as f64,
        }
    }

    fn seconds_each(&self) -> f64 {
        super::over(self.compaction_s, self.compactions)
    }
}

/// The five stores' loads; nothing measured where a run is missing.
fn loads(page: &mut Page, size: &Size, results: &Results) -> [Loaded; 5] {
    STORES.map(|store| {
        let run = need(page, results, &load(size, store));
        let load = run.and_then(|run| Some((run, run.load()?)));
        load.map_or_else(Loaded::default, |(run, load)| Loaded::of(run, load))
    })
}

/// By how many percent `ours` is below `theirs`.
fn percent_below(ours: f64, theirs: f64) -> f64 {
    if theirs == 0.0 { 0.0 } else { (1.0 - ours / theirs) * 100.0 }
}

/// By how many percent `ours` is above `theirs`.
fn percent_above(ours: f64, theirs: f64) -> f64 {
    if theirs == 0.0 { 0.0 } else { (ours / theirs - 1.0) * 100.0 }
}

fn conditions(size: &Size) -> String {
    let sized = sized(size);
    format!(
        "A drive of {} MB in tracks of 2 MB, {} MB loaded, tables of {} MB, level 1 of {} MB. The log \
         lies on the drive too; the paper's on an SSD.",
        sized.bytes(DRIVE_BYTES) / 1_000_000,
        sized.bytes(LOAD_BYTES) / 1_000_000,
        table_len_bytes(size, TABLE_LEN_BYTES) / MIB,
        base_level_len_bytes(size) / MIB,
    )
}
