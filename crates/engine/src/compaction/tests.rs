//! The planner as scripts: shapes of a tree, and the plans they give.
//!
//! `version` sets the tables, a line each: `L0 run=9 id=10 a..f mb=16 [deletes=n]
//! [tombstones=n] [unit=n]`;
//! `plan` prints the next plan; with `apply` it is carried out on paper (a merge yields one table
//! over its inputs' range); with `start` it keeps running.

use super::*;
use crate::key::Seq;
use crate::options::{VictimGrowth, VictimOrder};
use crate::version::TableMeta;
use imbrex_files::GroupId;
use std::fmt::Write;

#[derive(Default)]
struct Paper {
    version: Version,
    options: KeyspaceOptions,
    busy: Busy,
    cursors: [Bytes; LEVEL_COUNT],
    windows: Windows,
    units: Units,
    is_space_short: bool,
    room_mb: Option<u64>,
    next_id: u64,
}

/// The reclaim units that a script gave to tables.
#[derive(Debug, Default)]
struct Units(BTreeMap<TableId, UnitId>);

impl TableFacts for Units {
    fn unit_of(&self, table: &TableSlot) -> Option<UnitId> {
        self.0.get(&table.meta.id).copied()
    }

    fn properties(&self, _table: &TableSlot) -> Option<TableProperties> {
        None
    }
}

impl Paper {
    fn situation(&self) -> Situation<'_> {
        Situation {
            version: &self.version,
            options: &self.options,
            busy: &self.busy,
            cursors: &self.cursors,
            windows: &self.windows,
            facts: &self.units,
            is_space_short: self.is_space_short,
            room_len_bytes: self.room_mb.map_or(u64::MAX, |mb| mb << 20),
        }
    }

    fn add(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let level: u8 = words.next().unwrap()[1..].parse().unwrap();
        let mut meta = meta(0, "a", "a", 1 << 20);
        let mut run = RunId::ONLY;
        let mut unit = None;
        for word in words {
            match word.split_once('=') {
                Some(("run", value)) => run = RunId(value.parse().unwrap()),
                Some(("id", value)) => meta.id = TableId(value.parse().unwrap()),
                Some(("unit", value)) => unit = Some(UnitId(value.parse().unwrap())),
                Some(("mb", value)) => meta.len_bytes = value.parse::<u64>().unwrap() << 20,
                Some(("deletes", value)) => meta.delete_count = value.parse().unwrap(),
                Some(("tombstones", value)) => meta.range_tombstone_count = value.parse().unwrap(),
                _ => {
                    let (from, to) = word.split_once("..").unwrap();
                    meta.largest_excluded = to.ends_with(')');
                    meta.smallest = Bytes::copy_from_slice(from.as_bytes());
                    meta.largest = Bytes::copy_from_slice(to.trim_end_matches(')').as_bytes());
                }
            }
        }
        self.next_id = self.next_id.max(meta.id.0 + 1);
        self.units.0.extend(unit.map(|unit| (meta.id, unit)));
        self.version.insert(level, run, TableSlot::new(meta));
    }

    fn apply(&mut self, plan: &Plan) {
        let level = plan.inputs[0].level;
        self.cursors[usize::from(level)] =
            KeyRange::of(plan.inputs[0].tables.iter().map(|t| &t.meta)).unwrap().largest;
        for table in plan.tables() {
            self.version.remove(table.meta.id).unwrap();
        }
        if plan.work == Work::Move {
            for table in plan.tables() {
                self.version.insert(plan.output().level, plan.output().run, Arc::clone(table));
            }
        } else {
            let mut meta = meta(self.next_id, "", "", plan.len_bytes());
            self.next_id += 1;
            meta.smallest = plan.range.smallest.clone();
            meta.largest = plan.range.largest.clone();
            self.version.insert(plan.output().level, plan.output().run, TableSlot::new(meta));
        }
        self.version.check().unwrap();
    }
}

fn meta(id: u64, smallest: &str, largest: &str, len_bytes: u64) -> TableMeta {
    TableMeta {
        id: TableId(id),
        len_bytes,
        smallest: Bytes::copy_from_slice(smallest.as_bytes()),
        largest: Bytes::copy_from_slice(largest.as_bytes()),
        largest_excluded: false,
        seq_min: Seq(1),
        seq_max: Seq(9),
        entry_count: 100,
        delete_count: 0,
        range_tombstone_count: 0,
        raw_len_bytes: len_bytes,
        group: GroupId(1),
        group_table_count: 1,
    }
}

fn option(options: &mut KeyspaceOptions, line: &str) {
    let (name, value) = line.split_once('=').unwrap();
    let number = || value.parse::<u64>().unwrap();
    match name {
        "table_mb" => options.table_len_bytes = number() << 20,
        "base_mb" => options.base_level_len_bytes = number() << 20,
        "factor" => options.level_factor = number() as u32,
        "l0" => options.l0_compact_run_count = number() as u32,
        "grandparents" => options.grandparent_table_count_max = number() as u32,
        "victim" if value == "round-robin" => options.victim_order = VictimOrder::RoundRobin,
        "growth" if value == "single" => options.victim_growth = VictimGrowth::Single,
        "like" if value == "leveldb" => *options = KeyspaceOptions::leveldb_1_19(),
        other => panic!("no option {other}"),
    }
}

#[test]
fn scripts() {
    datadriven::walk("testdata/compaction", |file| {
        let mut paper = Paper::default();
        file.run(|case| {
            let mut out = String::new();
            match case.directive.as_str() {
                "options" => case.input.lines().for_each(|line| option(&mut paper.options, line)),
                "version" => {
                    paper.version = Version::default();
                    paper.busy = Busy::default();
                    case.input.lines().for_each(|line| paper.add(line));
                    out = paper.version.check().err().unwrap_or_default();
                }
                "space-short" => paper.is_space_short = true,
                "room" => paper.room_mb = Some(case.args["mb"][0].parse().unwrap()),
                "show" => out = paper.version.to_string(),
                "plan" => {
                    let policy = policy(CompactionKind::Leveled);
                    let times = case.args.get("times").map_or(1, |n| n[0].parse().unwrap());
                    for _ in 0..times {
                        let Some(plan) = policy.plan(&paper.situation()) else {
                            out.push_str("nothing to do\n");
                            break;
                        };
                        writeln!(out, "{plan}").unwrap();
                        if case.args.contains_key("apply") {
                            paper.apply(&plan);
                        }
                        if case.args.contains_key("start") {
                            paper.busy.start(&plan);
                        }
                    }
                }
                "manual" => out = manual(&mut paper),
                "pressure" => {
                    let policy = policy(CompactionKind::Leveled);
                    writeln!(out, "{:?}", policy.pressure(&paper.version, &paper.options)).unwrap();
                }
                other => panic!("no directive {other}"),
            }
            if out.is_empty() {
                out.push_str("ok");
            }
            if out.ends_with('\n') { out } else { out + "\n" }
        });
    });
}

fn manual(paper: &mut Paper) -> String {
    let mut out = String::new();
    let range = ManualRange { start: None, end: None, run_max: RunId(u64::MAX) };
    for level in 0..LEVEL_COUNT as u8 - 1 {
        let mut after: Option<Bytes> = None;
        loop {
            let policy = policy(CompactionKind::Leveled);
            match policy.plan_manual(&paper.situation(), level, &range, after.as_deref()) {
                ManualPlan::Run(plan) => {
                    writeln!(out, "{plan}").unwrap();
                    after = (level > 0).then(|| plan.range.largest.clone());
                    paper.apply(&plan);
                }
                ManualPlan::Wait => {
                    out.push_str("wait\n");
                    break;
                }
                ManualPlan::LevelDone => break,
            }
        }
    }
    out
}
