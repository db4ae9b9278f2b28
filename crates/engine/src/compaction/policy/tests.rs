//! The planner as scripts: shapes of a tree, and the plans they give.
//!
//! `version` sets the tables, a line each: `L0 run=9 id=10 a..f mb=16 [deletes=n] [tombstones=n]
//! [unit=n] [set=group/tables] [shares=a:2,c:1] [kept=yes] [logged=yes] [front=yes] [flash=yes|slice] [aside=why]`.
//! `shares` says where the bytes are, in MB; `kept`: a checkpoint keeps the table; `logged`: it was
//! a log; `flash`: it is on flash, and was a log there unless it is a slice; `aside`: it was set aside.
//! With `front` the table has a front, at its first key.
//!
//! `plan` prints the next plan and where its routes lead. With `apply` the plan is carried out on
//! paper: a merge yields one table over its inputs' range; with routes, each input consists of its
//! two end keys, which follow their routes. `slack` sets how much may be written before puts are
//! refused, `flash` how much too much is on flash, `cuts` where partitions begin; `version-add` adds tables, `version-remove` removes some.
//! With `start` the plan keeps running. `windows` prints the windows that gear chose.

use super::*;
use crate::batch::KeyspaceId;
use crate::compaction::busy::{Busy, Plans};
use crate::compaction::plan::{Plan, TableFacts, Windows, Work};
use crate::compaction::policy::as_leveldb::flush_level;
use crate::compaction::situation::Room;
use crate::compaction::situation::{ManualPlan, ManualRange, Situation};
use crate::key::Seq;
use crate::options::KeyspaceOptions;
use crate::options::{GearDepth, VictimGrowth, VictimOrder};
use crate::table::TableProperties;
use crate::table::{Histogram, HistogramBuilder};
use crate::version::TableMeta;
use crate::version::{KeyRange, LEVEL_COUNT, RunId, TableId, TableSlot, Version};
use bytes::Bytes;
use imbrex_files::GroupId;
use imbrex_files::UnitId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

#[derive(Default)]
struct Paper {
    version: Version,
    options: KeyspaceOptions,
    busy: Busy,
    cursors: [Bytes; LEVEL_COUNT],
    windows: Windows,
    facts: Facts,
    missed: Option<(u8, TableId)>,
    is_space_short: bool,
    is_eager: bool,
    room: Option<Room>,
    slack_bytes: Option<u64>,
    flash_excess_bytes: u64,
    next_id: u64,
}

/// The facts that a script gives about tables, besides their metadata.
#[derive(Debug, Default)]
struct Facts {
    units: BTreeMap<TableId, UnitId>,
    histograms: BTreeMap<TableId, Arc<Histogram>>,
    kept: BTreeSet<TableId>,
    /// Units that are not full yet.
    filling: BTreeSet<UnitId>,
    /// Tables that cleaning has moved out of their sets.
    moved: BTreeSet<TableId>,
}

impl TableFacts for Facts {
    fn unit_of(&self, table: &TableSlot) -> Option<UnitId> {
        self.units.get(&table.meta.id).copied()
    }

    fn gives_no_zone_back(&self, table: &TableSlot) -> bool {
        self.kept.contains(&table.meta.id) || table.is_on_flash()
    }

    fn is_filling(&self, unit: UnitId) -> bool {
        self.filling.contains(&unit)
    }

    fn is_in_set(&self, table: &TableSlot) -> bool {
        !self.moved.contains(&table.meta.id)
    }

    fn properties(&self, table: &TableSlot) -> Option<TableProperties> {
        let histogram = Some(Arc::clone(self.histograms.get(&table.meta.id)?));
        Some(TableProperties { histogram, ..TableProperties::default() })
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
            facts: &self.facts,
            missed: self.missed,
            is_space_short: self.is_space_short,
            is_eager: self.is_eager,
            room: self.room.unwrap_or(Room::unbounded(0)),
            slack_bytes: self.slack_bytes.unwrap_or(u64::MAX),
            flash_excess_bytes: self.flash_excess_bytes,
        }
    }

    fn add(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let level: u8 = words.next().unwrap()[1..].parse().unwrap();
        let mut meta = meta(0, "a", "a", 1 << 20);
        let mut run = RunId::ONLY;
        let (mut unit, mut histogram, mut is_on_flash) = (None, None, false);
        for word in words {
            match word.split_once('=') {
                Some(("run", value)) => run = RunId(value.parse().unwrap()),
                Some(("id", value)) => meta.id = TableId(value.parse().unwrap()),
                Some(("unit", value)) => unit = Some(UnitId(value.parse().unwrap())),
                Some(("set", value)) => {
                    let (group, count) = value.split_once('/').unwrap();
                    meta.group = GroupId(group.parse().unwrap());
                    meta.group_table_count = count.parse().unwrap();
                }
                Some(("aside", why)) => _ = self.busy.set_aside.insert(meta.id, why.to_owned()),
                Some(("kept", _)) => _ = self.facts.kept.insert(meta.id),
                Some(("moved", _)) => _ = self.facts.moved.insert(meta.id),
                Some(("front", _)) => meta.has_front = true,
                Some(("logged", _)) => meta.is_logged = true,
                Some(("flash", what)) => (is_on_flash, meta.is_logged) = (true, what != "slice"),
                Some(("shares", value)) => histogram = Some(shares(value)),
                Some(("mb", value)) => meta.len_bytes = value.parse::<u64>().unwrap() << 20,
                Some(("entries", value)) => meta.entry_count = value.parse().unwrap(),
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
        self.facts.units.extend(unit.map(|unit| (meta.id, unit)));
        self.facts.histograms.extend(histogram.map(|made| (meta.id, Arc::new(made))));
        let new = if is_on_flash { TableSlot::new_on_flash } else { TableSlot::new };
        self.version.insert(level, run, new(meta));
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
        } else if plan.routes.is_some() || !plan.output().staying.is_empty() {
            self.apply_by_key(plan);
        } else {
            let mut meta = meta(self.next_id, "", "", plan.len_bytes());
            self.next_id += 1;
            meta.smallest = plan.range.smallest.clone();
            meta.largest = plan.range.largest.clone();
            meta.largest_excluded = plan.range.largest_excluded;
            self.version.insert(plan.output().level, plan.output().run, TableSlot::new(meta));
        }
        for (level, run, meta) in plan.stop.iter().flat_map(|stop| &stop.rest) {
            let old = plan.tables().find(|table| table.meta.id == meta.id).unwrap();
            self.version.insert(*level, *run, Arc::clone(old).moved_to(meta).unwrap());
        }
        if let Some(partitions) = &plan.partitions {
            self.version.partitions = partitions.clone();
        }
        self.version.check().unwrap();
    }

    /// Gives each output level the end keys that go to it, in tables that end before the next staying
    /// one.
    fn apply_by_key(&mut self, plan: &Plan) {
        let mut keys: BTreeMap<(usize, Bytes), u64> = BTreeMap::new();
        for input in &plan.inputs {
            for table in &input.tables {
                let ends = BTreeSet::from([&table.meta.smallest, &table.meta.largest]);
                let len_bytes = table.meta.len_bytes / ends.len() as u64;
                for key in ends {
                    let routes = plan.routes.as_ref();
                    let output = routes.map_or(0, |routes| routes.at(input.level, key).output);
                    *keys.entry((output, key.clone())).or_default() += len_bytes;
                }
            }
        }
        for (at, output) in plan.outputs.iter().enumerate() {
            let keys = keys.iter().filter(|((to, _), _)| *to == at);
            let mut tables: BTreeMap<usize, TableMeta> = BTreeMap::new();
            for ((_, key), len_bytes) in keys {
                let passed = output.staying.partition_point(|t| t.meta.smallest <= *key);
                let table = tables.entry(passed).or_insert_with(|| {
                    let text = std::str::from_utf8(key).unwrap();
                    meta(self.next_id + passed as u64, text, text, 0)
                });
                table.largest = key.clone();
                table.len_bytes += len_bytes;
            }
            self.next_id += output.staying.len() as u64 + 1;
            for (_, meta) in tables {
                self.version.insert(output.level, output.run, TableSlot::new(meta));
            }
        }
    }

    fn show_windows(&self) -> String {
        let mut out = String::new();
        for (level, window) in self.windows.iter().enumerate().filter(|(_, w)| !w.is_empty()) {
            write!(out, "L{level}:").unwrap();
            window.iter().for_each(|id| write!(out, " {id}").unwrap());
            out.push('\n');
        }
        out
    }
}

/// A line per level: `from L2: L3, f.. L2, k.. L3 or L2 (bottom)`.
fn show_routes(plan: &Plan, out: &mut String) {
    let Some(routes) = &plan.routes else { return };
    for output in &plan.outputs {
        write!(out, "  from L{}:", output.level).unwrap();
        for (index, segment) in routes.of_level(output.level).iter().enumerate() {
            if index > 0 {
                write!(out, ", {}..", segment.start.escape_ascii()).unwrap();
            }
            let route = segment.route;
            write!(out, " L{}", plan.outputs[route.output].level).unwrap();
            if let Some(short_to) = route.short_to {
                write!(out, " or L{}", plan.outputs[short_to].level).unwrap();
            }
            out.push_str(if route.is_bottom { " (bottom)" } else { "" });
        }
        out.push('\n');
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
        is_logged: false,
        has_front: false,
    }
}

/// `a:2,c:1`: 2 MB from a on, 1 MB from c on.
fn shares(words: &str) -> Histogram {
    let mut builder = HistogramBuilder::new(4096);
    for word in words.split(',') {
        let (start, mb) = word.split_once(':').unwrap();
        builder.add(start.as_bytes(), start.len() - 1, false, mb.parse::<u64>().unwrap() << 20);
    }
    builder.finish()
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
        "gear" if value == "full-levels" => options.gear_depth = GearDepth::FullLevels,
        "compaction" if value == "gear" => options.compaction = CompactionKind::Gear,
        "victim" if value == "round-robin" => options.victim_order = VictimOrder::RoundRobin,
        "victim" if value == "dead-first" => options.victim_order = VictimOrder::DeadFirst,
        "growth" if value == "single" => options.victim_growth = VictimGrowth::Single,
        "overlaps" => options.overlap_count_max = number() as u32,
        "like" if value == "leveldb" => *options = KeyspaceOptions::leveldb_1_19(),
        "like" if value == "set-aware" => *options = KeyspaceOptions::set_aware(),
        "compaction" if value == "lazy" => options.compaction = CompactionKind::Lazy,
        "like" if value == "smrdb" => *options = KeyspaceOptions::smrdb(4 << 20),
        other => panic!("no option {other}"),
    }
}

#[test]
fn scripts() {
    datadriven::walk("testdata/compaction", |file| {
        let mut paper = Paper::default();
        // The scripts assume a limit of four runs, whatever the default is.
        paper.options.l0_compact_run_count = 4;
        file.run(|case| {
            let mut out = String::new();
            match case.directive.as_str() {
                "options" => case.input.lines().for_each(|line| option(&mut paper.options, line)),
                "version" => {
                    paper.version = Version::default();
                    paper.busy = Busy::default();
                    paper.facts = Facts::default();
                    case.input.lines().for_each(|line| paper.add(line));
                    out = paper.version.check().err().unwrap_or_default();
                }
                "version-add" => case.input.lines().for_each(|line| paper.add(line)),
                "version-remove" => case.input.lines().for_each(|line| {
                    paper.version.remove(TableId(line.parse().unwrap())).unwrap();
                }),
                "filling" => paper.facts.filling = units(&case.input),
                "space-short" => paper.is_space_short = true,
                "slack" => {
                    paper.slack_bytes =
                        case.args.get("mb").map(|n| n[0].parse::<u64>().unwrap() << 20);
                }
                "flash" => {
                    paper.flash_excess_bytes =
                        case.args.get("mb").map_or(0, |n| n[0].parse::<u64>().unwrap() << 20);
                }
                "cuts" => {
                    let keys = case.input.split_whitespace();
                    let keys = keys.map(|key| Bytes::copy_from_slice(key.as_bytes()));
                    paper.version.partitions.cuts = keys.collect();
                }
                "eager" => paper.is_eager = true,
                "missed" => paper.missed = Some(missed(case)),
                "flush" => out = flush(&paper, &case.input),
                "room" => {
                    let number = |name: &str| {
                        case.args.get(name).map(|n| n[0].parse::<u64>().unwrap() << 20)
                    };
                    let len_bytes = number("mb").unwrap();
                    paper.room = Some(Room {
                        len_bytes,
                        gaining_len_bytes: number("gaining").unwrap_or(len_bytes),
                        hiding_len_bytes: number("hiding").unwrap_or(len_bytes),
                        grain_bytes: number("grain").unwrap_or_default(),
                    });
                }
                "show" => out = paper.version.to_string(),
                "plan" => {
                    let times = case.args.get("times").map_or(1, |n| n[0].parse().unwrap());
                    let is_set = |name: &str| case.args.contains_key(name);
                    plan(&mut paper, times, (is_set("apply"), is_set("start")), &mut out);
                }
                "windows" => out = paper.show_windows(),
                "manual" => out = manual(&mut paper),
                "pressure" => {
                    let policy = policy(paper.options.compaction);
                    let slack_bytes = paper.slack_bytes.unwrap_or(u64::MAX);
                    let pressure = policy.pressure(&paper.version, &paper.options, slack_bytes);
                    writeln!(out, "{pressure:?}").unwrap();
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

/// Units by their numbers.
fn units(words: &str) -> BTreeSet<UnitId> {
    words.split_whitespace().map(|word| UnitId(word.parse().unwrap())).collect()
}

/// The table `id`, of `level`.
fn missed(case: &datadriven::TestCase) -> (u8, TableId) {
    let number = |name: &str| case.args[name][0].parse::<u64>().unwrap();
    (number("level") as u8, TableId(number("id")))
}

/// The level for a flush of a range.
fn flush(paper: &Paper, range: &str) -> String {
    let (from, to) = range.trim().split_once("..").unwrap();
    let range = KeyRange::of([&meta(0, from, to, 1)]).unwrap();
    format!("level {}", flush_level(&paper.version, &paper.options, &paper.busy, &range))
}

/// Plans up to `times` times. `follow_up` says whether each plan is applied, and whether it starts.
fn plan(paper: &mut Paper, times: usize, follow_up: (bool, bool), out: &mut String) {
    let policy = policy(paper.options.compaction);
    for _ in 0..times {
        let Some(plan) = policy.plan(&paper.situation()) else {
            out.push_str("nothing to do\n");
            return;
        };
        writeln!(out, "{plan}").unwrap();
        show_routes(&plan, out);
        if let Some(windows) = &plan.windows {
            paper.windows = (**windows).clone();
        }
        if follow_up.0 {
            paper.apply(&plan);
        }
        if follow_up.1 {
            paper.busy.start(&plan);
        }
    }
}

fn manual(paper: &mut Paper) -> String {
    let mut out = String::new();
    let range = ManualRange { start: None, end: None, run_max: RunId(u64::MAX) };
    for level in 0..LEVEL_COUNT as u8 {
        let mut from: Option<Bytes> = None;
        loop {
            let policy = policy(paper.options.compaction);
            match policy.plan_manual(&paper.situation(), level, &range, from.as_deref()) {
                ManualPlan::Run(plan) => {
                    writeln!(out, "{plan}").unwrap();
                    from = (level > 0).then(|| plan.range.end());
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

/// A flush of any keyspace used to delay a drop, and with steady writes to other keyspaces one was
/// always running.
#[test]
fn a_keyspace_is_idle_beside_the_flush_of_another() {
    let [a, b] = [KeyspaceId(1), KeyspaceId(2)];
    let mut plans = Plans { flushing: Some(a), ..Plans::default() };
    assert!(!plans.is_idle_for(a) && plans.is_idle_for(b) && !plans.is_idle());
    plans.flushing = None;
    let range = KeyRange::of([&meta(1, "a", "c", 1)]).unwrap();
    plans.keyspaces.entry(b).or_default().busy.outputs.push((1, range));
    assert!(plans.is_idle_for(a) && !plans.is_idle_for(b) && !plans.is_idle());
    plans.keyspaces.clear();
    assert!(plans.is_idle_for(b) && plans.is_idle());
}
