//! KVIMR's load on the three databases: pairs of 1 KB, almost every key once, in random order.
//!
//! The load has two parts, and the database is closed in between: the first seven eighths, and the last eighth, with
//! the drive nearly full. A part is counted until the database is closed, which ends running compactions.

use super::db_bench::{PAIR_LEN_BYTES, db_bench, measure, within};
use crate::adapters::build::{Built, Database};
use crate::adapters::counters::Counters;
use crate::adapters::session::Session;
use crate::report::Report;
use crate::spread::{mean, with_range};
use anyhow::{Result, ensure};
use std::path::Path;

/// The paper's schemes, slowest first, and a drive without overlap.
pub(super) const SCHEMES: [(&str, &str); 5] = [
    ("Seq", "imr-seq"),
    ("3Phase", "imr-3phase"),
    ("KVIMR-N", "imr-n"),
    ("KVIMR-M", "imr-m"),
    ("CMR, first fit", "kvimr-cmr"),
];

/// A drive and a load, scaled together.
pub(super) struct Scale {
    pub(super) drive: &'static str,
    track_len_bytes: u64,
    pub(super) table_len_bytes: u64,
    pub(super) base_level_len_bytes: u64,
    pub(super) load_len_bytes: u64,
    /// The length of HyperLevelDB's tables.
    hyper_table_len_bytes: u64,
}

const MIB: u64 = 1 << 20;

/// The usual scale of `imbrex repro kvimr`: 1/50 of the paper's drive and load.
pub(super) const RUN: Scale = Scale {
    drive: "2GB",
    track_len_bytes: 2 * MIB,
    table_len_bytes: 8 * MIB,
    base_level_len_bytes: 51 * MIB,
    load_len_bytes: 1_536_000_000,
    hyper_table_len_bytes: 64 * MIB,
};

/// LevelDB's level sizes are fixed. With twice the load its largest level holds about the same share as in the paper,
/// 60 %.
const RUN_LEVELDB: Scale = Scale { drive: "4GB", load_len_bytes: 3_072_000_000, ..RUN };

/// HyperLevelDB's level sizes are fixed too, and larger. It compacts up to half a GB at a time, which needs room.
const RUN_HYPERLEVELDB: Scale = Scale { drive: "3GB", load_len_bytes: 2_304_000_000, ..RUN };

/// For tables up to eight times as long: a drive that holds the same number of them.
pub(super) const RUN_LONG_TABLES: Scale =
    Scale { drive: "4GB", base_level_len_bytes: 102 * MIB, load_len_bytes: 3_072_000_000, ..RUN };

pub(super) const TEST: Scale = Scale {
    drive: "128MiB",
    track_len_bytes: MIB / 8,
    table_len_bytes: MIB / 2,
    base_level_len_bytes: 4 * MIB,
    load_len_bytes: 88_000_000,
    hyper_table_len_bytes: 64 * MIB,
};

/// A database and its options.
#[derive(Clone, Copy)]
struct Store {
    name: &'static str,
    database: Database,
    /// Further options of `db_bench`.
    more: &'static [&'static str],
}

const ROCKSDB: Store = Store { name: "RocksDB", database: Database::Rocksdb, more: &[] };

/// In the paper the log is on an SSD. Here RocksDB runs without a log; the others cannot.
const ROCKSDB_WITHOUT_LOG: Store =
    Store { name: "RocksDB without its log", more: &["--disable_wal=1"], ..ROCKSDB };

/// Compaction in LevelDB's order, instead of least overlap first.
const ROCKSDB_ROUND_ROBIN: Store =
    Store { name: "RocksDB, tables go down by key", more: &["--compaction_pri=4"], ..ROCKSDB };

const LEVELDB: Store = Store { name: "LevelDB", database: Database::Leveldb, more: &[] };
const HYPERLEVELDB: Store =
    Store { name: "HyperLevelDB", database: Database::Hyperleveldb, more: &[] };

impl Scale {
    /// The same database with tables of another length.
    pub(super) fn with_tables(&self, table_len_bytes: u64) -> Scale {
        Scale { table_len_bytes, ..*self }
    }

    /// An empty drive for `layout`.
    pub(super) fn drive_for(
        &self,
        root: &Path,
        dir: &Path,
        layout: &'static str,
    ) -> Result<Session> {
        let lens = [self.track_len_bytes, self.table_len_bytes].map(|len| len.to_string());
        let profile = ["--profile", "st500dm002", "--capacity", self.drive, "--seed", "1"];
        let tracks = ["--track-len", &lens[0], "--table-len", &lens[1]];
        let kind: &[&str] =
            if layout == "kvimr-cmr" { &["--rule", "conventional"] } else { &tracks };
        Session::new(root, dir, layout, &[&profile, kind].concat())
    }
}

/// The result of a load.
struct Loaded {
    pairs: f64,
    all: Counters,
    last_eighth: Counters,
}

impl Loaded {
    /// Pairs per second of the drive's time.
    fn rate(&self) -> Result<f64> {
        Ok(self.pairs / (self.all.get("busy_ns")? / 1e9))
    }

    fn rate_at_end(&self) -> Result<f64> {
        Ok(self.pairs / 8.0 / (self.last_eighth.get("busy_ns")? / 1e9))
    }
}

/// Loads a fresh drive once.
fn load(
    built: &Built,
    dir: &Path,
    scale: &Scale,
    store: Store,
    layout: &'static str,
    run: u32,
) -> Result<Loaded> {
    let hyper = store.database == Database::Hyperleveldb;
    let table_len_bytes = if hyper { scale.hyper_table_len_bytes } else { scale.table_len_bytes };
    let mut session = scale.with_tables(table_len_bytes).drive_for(&built.root, dir, layout)?;
    if let (true, Some(prefix)) = (hyper, &built.hyperleveldb) {
        session.libraries = Some(prefix.join("lib"));
    }
    let pairs = scale.load_len_bytes / PAIR_LEN_BYTES;
    let (first, last) = (pairs - pairs / 8, pairs / 8);
    let part =
        |at: u64, count: u64| measure(&session, &program(&session, scale, store, run, at, count)?);
    let early = part(0, first)?;
    let last_eighth = part(first, last)?;
    session.remove_drive()?;
    let all = early.then(&last_eighth);
    Ok(Loaded { pairs: pairs as f64, all, last_eighth })
}

/// The command that loads `count` pairs from number `at` on.
fn program(
    session: &Session,
    scale: &Scale,
    store: Store,
    run: u32,
    at: u64,
    count: u64,
) -> Result<Vec<String>> {
    let table_len_bytes = within(scale.table_len_bytes);
    let name = match store.database {
        Database::Rocksdb => {
            let more = [
                // `fillrandom` starts with an empty database; otherwise the two are alike.
                format!("--benchmarks={}", if at > 0 { "overwrite" } else { "fillrandom" }),
                // Keys are drawn from so many that almost none comes twice.
                format!("--num={}", 1_u64 << 40),
                format!("--writes={count}"),
                format!("--seed={}", 1 + 2 * run + u32::from(at > 0)),
                format!("--use_existing_db={}", u32::from(at > 0)),
            ];
            let own = store.more.iter().map(|&arg| arg.to_owned());
            let more: Vec<String> = more.into_iter().chain(own).collect();
            return Ok(db_bench(table_len_bytes, scale.base_level_len_bytes, &more));
        }
        Database::Leveldb => "pairs_program",
        Database::Hyperleveldb => "hyperleveldb/pairs_program",
    };
    // A table consists of whole blocks; it still ends before the tracks do.
    let block_len_bytes = within(scale.track_len_bytes);
    let first = u64::from(run) * scale.load_len_bytes + at;
    let numbers = [first, count, table_len_bytes, block_len_bytes].map(|number| number.to_string());
    let named = [session.program(name)?, "/db".to_owned()];
    Ok(named.into_iter().chain(numbers).collect())
}

/// Runs the measurement.
pub(super) fn run(built: &Built, dir: &Path, runs: u32, report: &mut Report) -> Result<()> {
    if built.rocksdb {
        for store in [ROCKSDB, ROCKSDB_WITHOUT_LOG, ROCKSDB_ROUND_ROBIN] {
            compare(built, dir, &RUN, store, runs, report)?;
        }
    }
    if built.leveldb {
        compare(built, dir, &RUN_LEVELDB, LEVELDB, runs, report)?;
    }
    if built.hyperleveldb.is_some() {
        compare(built, dir, &RUN_HYPERLEVELDB, HYPERLEVELDB, runs, report)?;
    }
    Ok(())
}

/// The paper's values: of RocksDB, and the least gain of KVIMR-N and KVIMR-M over Seq and 3Phase for each database.
const PAPER_ROCKSDB: [(&str, usize, usize, f64); 4] = [
    ("KVIMR-N over Seq", 2, 0, 2.21),
    ("KVIMR-N over 3Phase", 2, 1, 1.44),
    ("KVIMR-M over 3Phase", 3, 1, 1.55),
    ("KVIMR-M over KVIMR-N", 3, 2, 1.07),
];
const PAPER_LEVELDB: [f64; 2] = [1.5543, 1.2116];
const PAPER_HYPERLEVELDB: [f64; 2] = [1.6041, 1.2359];

/// RocksDB's pairs per second of the drive's time on `layout`.
pub(super) fn rate_of_load(
    built: &Built,
    dir: &Path,
    scale: &Scale,
    layout: &'static str,
) -> Result<f64> {
    load(built, dir, scale, ROCKSDB, layout, 0)?.rate()
}

/// One database under all schemes, as two tables.
fn compare(
    built: &Built,
    dir: &Path,
    scale: &Scale,
    store: Store,
    runs: u32,
    report: &mut Report,
) -> Result<()> {
    let runs_shown = if runs == 1 { "one run".to_owned() } else { format!("{runs} runs") };
    let title = format!(
        "{}, {} MB on a drive of {}, {runs_shown}",
        store.name,
        scale.load_len_bytes / 1_000_000,
        scale.drive
    );
    report.table(
        &title,
        &[
            "scheme",
            "pairs/s of the drive's time",
            "of the last eighth",
            "rewritten tracks",
            "syncs of rewrites",
            "commits",
            "seeks",
            "read, GB",
            "written, GB",
            "full, %",
        ],
    );
    let mut rates = Vec::new();
    for (scheme, layout) in SCHEMES {
        let loads = (0..runs).map(|run| load(built, dir, scale, store, layout, run));
        let loads = loads.collect::<Result<Vec<Loaded>>>()?;
        let each = |of: &dyn Fn(&Loaded) -> Result<f64>| {
            loads.iter().map(of).collect::<Result<Vec<f64>>>()
        };
        let count = |name: &'static str| each(&move |load| load.all.get(name));
        let (all, end) = (each(&Loaded::rate)?, each(&Loaded::rate_at_end)?);
        let full =
            each(
                &|load| Ok(100.0 * load.all.get("live_bytes")? / load.all.get("capacity_bytes")?),
            )?;
        report.row(vec![
            scheme.to_owned(),
            with_range(&all),
            with_range(&end),
            with_range(&count("rewritten_tracks")?),
            with_range(&count("track_syncs")?),
            format!("{:.0}", mean(&count("commits")?)),
            format!("{:.0}", mean(&count("seeks")?)),
            format!("{:.1}", mean(&count("read_bytes")?) / 1e9),
            format!("{:.1}", mean(&count("written_bytes")?) / 1e9),
            format!("{:.0}", mean(&full)),
        ]);
        rates.push((mean(&all), mean(&end)));
    }
    ratios(store, &rates, report);
    Ok(())
}

/// The ratios of the means, with the paper's.
fn ratios(store: Store, rates: &[(f64, f64)], report: &mut Report) {
    report.table(
        &format!("{}, ratios of throughput", store.name),
        &["throughput", "paper", "here", "paper, at the end", "here, of the last eighth"],
    );
    let over = |a: usize, b: usize| (rates[a].0 / rates[b].0, rates[a].1 / rates[b].1);
    let mut show = |what: &str, paper: Option<f64>, at_end: Option<f64>, (all, end): (f64, f64)| {
        let or_none = |value: Option<f64>| value.map_or(String::new(), |v| format!("{v:.2}"));
        let cells = [or_none(paper), format!("{all:.2}"), or_none(at_end), format!("{end:.2}")];
        report.row([&[what.to_owned()], &cells[..]].concat());
    };
    let at_end = |a: usize, b: usize| match (store.database, a, b) {
        (Database::Rocksdb, 3, 1) => Some(2.17),
        (Database::Rocksdb, 3, 2) => Some(1.26),
        _ => None,
    };
    for (what, a, b, paper) in PAPER_ROCKSDB {
        let paper = (store.database == Database::Rocksdb).then_some(paper);
        show(what, paper, at_end(a, b), over(a, b));
    }
    let least = |other| {
        let (naive, merged) = (over(2, other), over(3, other));
        (naive.0.min(merged.0), naive.1.min(merged.1))
    };
    let papers = match store.database {
        Database::Rocksdb => [None, None],
        Database::Leveldb => PAPER_LEVELDB.map(Some),
        Database::Hyperleveldb => PAPER_HYPERLEVELDB.map(Some),
    };
    show("the lesser of both over Seq", papers[0], None, least(0));
    show("the lesser of both over 3Phase", papers[1], None, least(1));
    show("KVIMR-M over CMR, first fit", None, None, over(3, 4));
}

/// On a small drive, with each database: a scheme that merges rewrites by level rewrites less than one that does not
/// know levels.
pub(super) fn test(built: &Built, dir: &Path) -> Result<()> {
    for (is_built, store) in [(built.rocksdb, ROCKSDB), (built.leveldb, LEVELDB)] {
        if !is_built {
            continue;
        }
        let name = store.name;
        let count = |layout| load(built, dir, &TEST, store, layout, 0)?.all.get("rewritten_tracks");
        let (phases, merged) = (count("imr-3phase")?, count("imr-m")?);
        println!("  {name}: imr-m rewrote {merged} tracks, imr-3phase {phases}");
        ensure!(phases > 0.0, "{name} on imr-3phase rewrote no track: the test tests nothing");
        ensure!(
            merged < phases,
            "{name}: imr-m rewrote {merged} tracks, imr-3phase {phases}: it knows no levels"
        );
    }
    Ok(())
}
