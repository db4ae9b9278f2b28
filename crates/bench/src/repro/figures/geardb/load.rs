//! Loads and reads: GearDB beside LevelDB over a cleaned log.

use super::{STORES, conditions, random, sequential};
use crate::repro::chart::short;
use crate::repro::figures::{MIB, need, over};
use crate::repro::spec::Tune;
use crate::repro::{
    Axis, Better, Chart, Claim, Figure, Page, PhaseResult, RunResult, RunSpec, Size, Table,
};

pub(in super::super) const LOAD: Figure = Figure {
    name: "geardb-load",
    title: "random load and space utilisation",
    paper: "GearDB, what it has achieved: 1.7 times LevelDB, 90 % utilisation",
    runs: |size| {
        let stores = STORES.iter().map(|store| random(size, store));
        stores.chain([by_level(size)]).chain(equal_reads(size)).collect()
    },
    page: |size, results| {
        let mut page = Page::default();
        let mut table = Table::new(
            "random load",
            &[
                "store",
                "puts/s",
                "puts/s settled",
                "valid % of zones",
                "valid % of written",
                "WA",
                "AWA",
                "MB cleaned",
            ],
        );
        let (mut rates, mut fulls, mut cleaned) = (Vec::new(), Vec::new(), Vec::new());
        let mut names: Vec<RunSpec> = STORES.iter().map(|store| random(size, store)).collect();
        names.push(by_level(size));
        names.extend(equal_reads(size));
        for spec in &names {
            let found = need(&mut page, results, spec);
            let Some(load) = found.and_then(RunResult::load) else {
                rates.push(0.0);
                fulls.push(0.0);
                cleaned.push(f64::NAN);
                continue;
            };
            let space = load.milestones.last().map(|m| m.space).unwrap_or_default();
            let full = over(space.valid_bytes as f64, space.occupied_bytes as f64) * 100.0;
            let moved = load.totals.cleaned_bytes as f64 / 1e6;
            let unit = spec.tune.compaction_read_len_bytes.unwrap_or(match spec.layout {
                "gear" => 8 * MIB,
                _ => 128 << 10,
            });
            table.row(
                format!("{}, reads {} KB", spec.layout, unit >> 10),
                &[
                    load.ops_per_second(),
                    load.settled_ops_per_second(),
                    full,
                    over(space.valid_bytes as f64, (space.valid_bytes + space.dead_bytes) as f64)
                        * 100.0,
                    load.totals.write_amp_ratio(),
                    load.totals.added_write_amp_ratio(),
                    moved,
                ],
            );
            rates.push(load.ops_per_second());
            fulls.push(full);
            cleaned.push(moved);
        }
        let claim =
            |what: &str, paper, ours, unit| Claim::new(what, Better::Larger, paper, ours, unit);
        page.claims = vec![
            claim("random load, GearDB over greedy", 1.71, over(rates[0], rates[1]), "x"),
            claim("random load, GearDB over cost-benefit", 1.73, over(rates[0], rates[2]), "x"),
            claim("utilisation of GearDB", 90.0, fulls[0], "%"),
            Claim::new("utilisation of greedy", Better::Same, 60.0, fulls[1], "%"),
            Claim::shown("MB that GearDB cleaned (the paper: none)", cleaned[0], "MB"),
            Claim::shown(
                "random load, GearDB over LevelDB with a level's zones its own",
                over(rates[0], rates[3]),
                "x",
            ),
            Claim::shown(
                "random load, GearDB over greedy, both compact with 8 MB reads",
                over(rates[0], rates[5]),
                "x",
            ),
            Claim::shown(
                "random load, GearDB over greedy, both compact with 128 KB reads",
                over(rates[4], rates[1]),
                "x",
            ),
        ];
        let mut groups: Vec<String> = names.iter().map(|s| s.layout.to_owned()).collect();
        groups[4] = "gear, 128 KB".to_owned();
        groups[5] = "greedy, 8 MB".to_owned();
        let y = Axis::linear("puts/s");
        page.charts.push(Chart::bars("random load", groups, y, vec![("puts/s".to_owned(), rates)]));
        page.tables.push(table);
        page.notes.push(conditions(size));
        page.notes.push(
            "`leveldb-zones` is the fairer baseline that the paper leaves out: the same LevelDB, the \
             same cleaning, but no two levels share a zone."
                .to_owned(),
        );
        page
    },
};

pub(in super::super) const MICRO: Figure = Figure {
    name: "geardb-micro",
    title: "random and sequential writes and reads",
    paper: "GearDB, write and read performance",
    runs: |size| STORES.iter().flat_map(|s| [random(size, s), sequential(size, s)]).collect(),
    page: |size, results| {
        let mut page = Page::default();
        let rate = |phase: Option<&PhaseResult>| phase.map_or(0.0, PhaseResult::ops_per_second);
        let mut rows: Vec<[f64; 4]> = Vec::new();
        for store in STORES {
            let by_chance = need(&mut page, results, &random(size, store));
            let in_order = need(&mut page, results, &sequential(size, store));
            rows.push([
                rate(by_chance.and_then(RunResult::load)),
                rate(in_order.and_then(RunResult::load)),
                rate(by_chance.and_then(RunResult::read_random)),
                rate(by_chance.and_then(RunResult::read_sequential)),
            ]);
        }
        let times = |i: usize, other: usize| over(rows[0][i], rows[other][i]);
        let claim = |what: &str, paper, ours| Claim::new(what, Better::Larger, paper, ours, "x");
        page.claims = vec![
            claim("random write, GearDB over greedy", 1.71, times(0, 1)),
            claim("random write, GearDB over cost-benefit", 1.73, times(0, 2)),
            claim("sequential write, GearDB over greedy", 1.37, times(1, 1)),
            claim("sequential write, GearDB over cost-benefit", 1.39, times(1, 2)),
            Claim::shown("random read, GearDB over greedy", times(2, 1), "x"),
            Claim::shown("sequential read, GearDB over greedy", times(3, 1), "x"),
        ];
        let groups = ["random write", "sequential write", "random read", "sequential read"];
        let norm = |row: &[f64; 4]| row.iter().zip(rows[1]).map(|(r, b)| over(*r, b)).collect();
        let series = STORES.iter().zip(&rows).map(|(s, row)| (s.to_string(), norm(row))).collect();
        let labels = rows.iter().map(|r| r.iter().map(|v| short(*v)).collect()).collect();
        let y = Axis::linear("times greedy's");
        let groups = groups.map(str::to_owned).to_vec();
        let title = "normalised to greedy; on top, operations per second";
        page.charts.push(Chart::bars(title, groups, y, series).labelled(labels));
        page.notes.push(conditions(size));
        page
    },
};

/// Either store with the other's read unit of compaction.
fn equal_reads(size: &Size) -> [RunSpec; 2] {
    let reads = |layout, bytes| {
        let tune = Tune { compaction_read_len_bytes: Some(bytes), ..Tune::default() };
        random(size, layout).tuned(tune)
    };
    [reads("gear", 128 << 10), reads("leveldb-greedy", 8 * MIB)]
}

fn by_level(size: &Size) -> RunSpec {
    random(size, "leveldb-zones")
}
