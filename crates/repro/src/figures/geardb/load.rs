//! Loads and reads: GearDB compared with LevelDB on a cleaned log.

use super::{
    DEEP, EQUAL_READS, STORES, by_level, conditions, deep, equal_reads, random, roomy, sequential,
};
use crate::chart::{Axis, Chart};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{MIB, READ_COST, megabytes, need, over, rate, read_cost, seconds};
use crate::page::{Better, Claim, Page, Table};
use crate::results::{PhaseResult, Results, RunResult};
use crate::spec::{FILE_READ_AHEAD_LEN_BYTES, TABLE_READ_AHEAD_LEN_BYTES};
use crate::spec::{RunSpec, Size};
use imbrex_bench::svg::short;

/// The paper's stores, then the same stores under other conditions.
fn all(size: &Size) -> [(&'static str, RunSpec); 8] {
    let [gear, greedy, cost_benefit] = STORES.map(|store| random(size, store));
    let [gear_128k, greedy_8m] = equal_reads(size);
    [
        ("gear", gear),
        ("greedy", greedy),
        ("cost-benefit", cost_benefit),
        ("level's zones", by_level(size)),
        ("gear, 128 KB", gear_128k),
        ("greedy, 8 MB", greedy_8m),
        ("greedy, 110 GB", roomy(size, "leveldb-greedy")),
        ("gear, deep", deep(size)),
    ]
}

/// The measurements of a random load.
#[derive(Clone, Copy, Default)]
struct Loaded {
    rate: f64,
    full: f64,
    cleaned: f64,
}

impl Loaded {
    /// Takes the measurements from `load` and adds them to `table`.
    fn of(name: &str, spec: &RunSpec, load: &PhaseResult, table: &mut Table) -> Loaded {
        let space = load.milestones.last().map(|m| m.space).unwrap_or_default();
        let (valid, dead) = (space.valid_bytes as f64, space.dead_bytes as f64);
        let loaded = Loaded {
            rate: load.ops_per_second(),
            full: over(valid, space.occupied_bytes as f64) * 100.0,
            cleaned: megabytes(load.totals.cleaned_bytes),
        };
        let unit = spec.tune.compaction_read_len_bytes.unwrap_or(match spec.layout {
            "gear" => 8 * MIB,
            _ => 128 << 10,
        });
        table.row(
            format!("{name}: reads of {} KB", unit >> 10),
            &[
                loaded.rate,
                load.settled_ops_per_second(),
                loaded.full,
                over(valid, valid + dead) * 100.0,
                load.totals.write_amp_ratio(),
                load.totals.added_write_amp_ratio(),
                loaded.cleaned,
            ],
        );
        loaded
    }
}

const LOAD_HEADER: [&str; 8] = [
    "store",
    "puts/s",
    "puts/s settled",
    "valid % of zones",
    "valid % of written",
    "WA",
    "AWA",
    "MB cleaned",
];

pub(in super::super) const LOAD: Figure = Figure {
    name: "geardb-load",
    title: "random load and space utilisation",
    paper: "GearDB, what it has achieved: 1.7 times LevelDB, 90 % utilisation",
    runs: Runs::Stores(|size| all(size).into_iter().map(|(_, spec)| spec).collect()),
    page: |size, results| {
        let mut page = Page::default();
        let mut table = Table::new("random load", &LOAD_HEADER);
        let found = all(size).map(|(name, spec)| {
            let load = need(&mut page, results, &spec).and_then(RunResult::load);
            load.map_or_else(Loaded::default, |load| Loaded::of(name, &spec, load, &mut table))
        });
        let [gear, greedy, cost_benefit, by_level, gear_128k, greedy_8m, greedy_110, deep] = found;
        page.claims = vec![
            write_claim("random load, GearDB over greedy", 1.71, &found, greedy.rate),
            write_claim("random load, GearDB over cost-benefit", 1.73, &found, cost_benefit.rate),
            Claim::new("utilisation of GearDB", Better::Larger, 90.0, gear.full, "%")
                .under(DEEP, deep.full)
                .under("both read 128 KB at a time in compactions", gear_128k.full),
            Claim::new("utilisation of greedy", Better::Same, 60.0, greedy.full, "%")
                .under("in 110 GB instead of 100", greedy_110.full)
                .under("both read 8 MB at a time in compactions", greedy_8m.full)
                .under("each level has zones of its own", by_level.full),
            Claim::shown("MB that GearDB cleaned (the paper: none)", gear.cleaned, "MB"),
        ];
        let groups = all(size).map(|(name, _)| name.to_owned()).to_vec();
        let rates = found.iter().map(|loaded| loaded.rate).collect();
        let y = Axis::linear("puts/s");
        page.charts.push(Chart::bars("random load", groups, y, vec![("puts/s".to_owned(), rates)]));
        page.tables.push(table);
        page.notes.push(conditions(size));
        page.notes.push(
            "`level's zones` is a fairer baseline that the paper omits: the same LevelDB with the \
             same cleaning, but no two levels share a zone. Its compactions read 128 KB at a time."
                .to_owned(),
        );
        page
    },
};

/// GearDB's lead in random puts over `baseline`, with its lead over greedy under other conditions.
fn write_claim(what: &str, paper: f64, found: &[Loaded; 8], baseline: f64) -> Claim {
    let [gear, _, _, by_level, gear_128k, greedy_8m, greedy_110, deep] = found;
    Claim::new(what, Better::Larger, paper, over(gear.rate, baseline), "x")
        .at_equal(EQUAL_READS, over(gear_128k.rate, baseline))
        .under(DEEP, over(deep.rate, baseline))
        .under("both read 8 MB at a time in compactions", over(gear.rate, greedy_8m.rate))
        .under("greedy, with zones of its own for each level", over(gear.rate, by_level.rate))
        .under("greedy has 110 GB instead of 100", over(gear.rate, greedy_110.rate))
}

pub(in super::super) const MICRO: Figure = Figure {
    name: "geardb-micro",
    title: "random and sequential writes and reads",
    paper: "GearDB, write and read performance",
    runs: Runs::Stores(|size| {
        let stores = STORES.iter().flat_map(|s| [random(size, s), sequential(size, s)]);
        stores.chain(equal_reads(size)).chain([deep(size)]).collect()
    }),
    page: |size, results| {
        let mut page = Page::default();
        let mut rows: Vec<[f64; 4]> = Vec::new();
        for store in STORES {
            let in_order = need(&mut page, results, &sequential(size, store));
            let mut row = random_rates(&mut page, results, &random(size, store));
            row[1] = rate(in_order.and_then(RunResult::load));
            rows.push(row);
        }
        let [gear, greedy] = equal_reads(size).map(|s| random_rates(&mut page, results, &s));
        let deep = random_rates(&mut page, results, &deep(size));
        page.claims = micro_claims(&rows, gear, greedy, deep);
        let groups = ["random write", "sequential write", "random read", "sequential read"];
        let norm = |row: &[f64; 4]| row.iter().zip(rows[1]).map(|(r, b)| over(*r, b)).collect();
        let series = STORES.iter().zip(&rows).map(|(s, row)| (s.to_string(), norm(row))).collect();
        let labels = rows.iter().map(|r| r.iter().map(|v| short(*v)).collect()).collect();
        let y = Axis::linear("multiple of greedy");
        let groups = groups.map(str::to_owned).to_vec();
        let title = "relative to greedy; labels are operations per second";
        page.charts.push(Chart::bars(title, groups, y, series).labelled(labels));
        page.tables.push(sequential_loads(size, results));
        page.tables.push(gets(size, results));
        page.notes.push(conditions(size));
        page.notes.push(
            "Sequential reads read 128 KB ahead for LevelDB, and 4 MB ahead for GearDB, which \
             knows the place of its tables. A turn that goes as deep as tables overlap writes \
             entries that overlap nothing below as deep as it can. More levels then hold data than \
             LevelDB's, and without filters a get reads each of them."
                .to_owned(),
        );
        page
    },
};

/// Rates of puts, gets and sequential reads after a random load, with the store's own read-ahead.
/// The second element is left 0 for the sequential load.
fn random_rates(page: &mut Page, results: &Results, spec: &RunSpec) -> [f64; 4] {
    let Some(run) = need(page, results, spec) else { return [0.0; 4] };
    let ahead = match spec.layout {
        "gear" => TABLE_READ_AHEAD_LEN_BYTES,
        _ => FILE_READ_AHEAD_LEN_BYTES,
    };
    [rate(run.load()), 0.0, rate(run.read_random()), rate(run.read_sequential(ahead))]
}

/// Claims on the paper's stores, with the condition that both have filters and the other's read
/// unit.
fn micro_claims(rows: &[[f64; 4]], gear: [f64; 4], greedy: [f64; 4], deep: [f64; 4]) -> Vec<Claim> {
    let times = |i: usize, other: usize| over(rows[0][i], rows[other][i]);
    let claim = |what: &str, paper, ours| Claim::new(what, Better::Larger, paper, ours, "x");
    vec![
        claim("random write, GearDB over greedy", 1.71, times(0, 1))
            .at_equal(EQUAL_READS, over(gear[0], rows[1][0]))
            .under(DEEP, over(deep[0], rows[1][0]))
            .under("both read 8 MB at a time in compactions", over(rows[0][0], greedy[0])),
        claim("random write, GearDB over cost-benefit", 1.73, times(0, 2))
            .at_equal(EQUAL_READS, over(gear[0], rows[2][0]))
            .under(DEEP, over(deep[0], rows[2][0])),
        claim("sequential write, GearDB over greedy", 1.37, times(1, 1)),
        claim("sequential write, GearDB over cost-benefit", 1.39, times(1, 2)),
        Claim::shown("random read, GearDB over greedy", times(2, 1), "x")
            .under("both have filters", over(gear[2], greedy[2]))
            .under(DEEP, over(deep[2], rows[1][2])),
        Claim::shown("sequential read, GearDB over greedy", times(3, 1), "x"),
    ]
}

/// The parts of a sequential load: tables only move, so only the commits differ.
fn sequential_loads(size: &Size, results: &Results) -> Table {
    let mut table = Table::new(
        "sequential load",
        &[
            "store",
            "disk busy s",
            "MB logged",
            "MB flushed",
            "moves",
            "commits",
            "seeks",
            "MB cleaned",
        ],
    );
    for store in STORES {
        let load = results.get(&sequential(size, store)).ok().and_then(RunResult::load);
        let Some(t) = load.map(|load| load.totals) else { continue };
        table.row(
            store,
            &[
                seconds(t.busy_ns),
                megabytes(t.log_bytes),
                megabytes(t.flush_bytes),
                t.move_count as f64,
                t.commit_count as f64,
                t.seeks as f64,
                megabytes(t.cleaned_bytes),
            ],
        );
    }
    table
}

fn gets(size: &Size, results: &Results) -> Table {
    let mut table = Table::new("random reads by sorted runs and filters", &READ_COST);
    let [gear, greedy] = equal_reads(size);
    let rows = [
        ("gear", random(size, "gear")),
        ("leveldb-greedy", random(size, "leveldb-greedy")),
        ("gear, filters", gear),
        ("leveldb-greedy, filters", greedy),
        ("gear, deep", deep(size)),
    ];
    for (name, spec) in rows {
        if let Some(reads) = results.get(&spec).ok().and_then(RunResult::read_random) {
            table.row(name, &read_cost(reads));
        }
    }
    table
}
