//! Plans over random trees: every plan includes the tables that must accompany its inputs, whatever
//! the shape. Scenarios are scripts, in `testdata/compaction/smrdb_*.txt`.

use super::*;
use crate::compaction::busy::{Busy, KeyspacePlans};
use crate::compaction::plan::TableFacts;
use crate::compaction::situation::Room;
use crate::key::Seq;
use crate::table::TableProperties;
use crate::version::RunId;
use bytes::Bytes;
use imbrex_clockwork::Prng;
use imbrex_files::GroupId;
use imbrex_files::UnitId;

#[derive(Debug)]
struct NoFacts;

impl TableFacts for NoFacts {
    fn unit_of(&self, _table: &TableSlot) -> Option<UnitId> {
        None
    }

    fn gives_no_zone_back(&self, _table: &TableSlot) -> bool {
        false
    }

    fn is_filling(&self, _unit: UnitId) -> bool {
        false
    }

    fn is_in_set(&self, _table: &TableSlot) -> bool {
        false
    }

    fn properties(&self, _table: &TableSlot) -> Option<TableProperties> {
        None
    }
}

struct Tree {
    version: Version,
    options: KeyspaceOptions,
    plans: KeyspacePlans,
    next_id: u64,
}

fn key(number: u64) -> Bytes {
    Bytes::from(format!("{number:04}"))
}

fn number(key: &Bytes) -> u64 {
    std::str::from_utf8(key).unwrap().parse().unwrap()
}

impl Tree {
    fn new() -> Tree {
        let options = KeyspaceOptions { overlap_count_max: 3, ..KeyspaceOptions::smrdb(1 << 20) };
        Tree { version: Version::default(), options, plans: KeyspacePlans::default(), next_id: 1 }
    }

    fn situation(&self) -> Situation<'_> {
        Situation {
            version: &self.version,
            options: &self.options,
            busy: &self.plans.busy,
            cursors: &self.plans.cursors,
            windows: &self.plans.windows,
            facts: &NoFacts,
            missed: None,
            is_space_short: false,
            is_eager: false,
            room: Room::unbounded(0),
            slack_bytes: u64::MAX,
            flash_excess_bytes: 0,
        }
    }

    fn add(&mut self, prng: &mut Prng, level: u8, run: u64, (from, to): (u64, u64)) {
        let meta = TableMeta {
            id: TableId(self.next_id),
            len_bytes: 1 << 20,
            smallest: key(from),
            largest: key(to),
            largest_excluded: to > from && prng.chance(1, 8),
            seq_min: Seq(1),
            seq_max: Seq(9),
            entry_count: 100,
            delete_count: if prng.chance(1, 8) { 60 } else { 0 },
            range_tombstone_count: 0,
            raw_len_bytes: 1 << 20,
            group: GroupId(1),
            group_table_count: 1,
            is_logged: false,
            has_front: false,
        };
        self.next_id += 1;
        self.version.insert(level, RunId(run), TableSlot::new(meta));
    }

    /// Adds a run of disjoint tables, wide and narrow ones.
    fn add_run(&mut self, prng: &mut Prng, level: u8) {
        let run = self.version.levels[usize::from(level)].runs.first().map_or(1, |r| r.id.0 + 1);
        let width = [10, 80, 400][prng.below(3) as usize];
        let mut from = prng.below(500);
        loop {
            let to = from + prng.below(width);
            self.add(prng, level, run, (from, to));
            from = to + 1 + prng.below(200);
            if from > 900 || prng.chance(1, 3) {
                break;
            }
        }
    }

    /// Carries out a plan. A merge makes as many tables as it had inputs that end, over equal parts of
    /// the range.
    fn apply(&mut self, prng: &mut Prng, plan: &Plan) {
        let (level, run) = (plan.output().level, plan.output().run);
        let tables: Vec<_> = plan.tables().cloned().collect();
        for table in &tables {
            self.version.remove(table.meta.id).unwrap();
        }
        if plan.work == Work::Move {
            tables.into_iter().for_each(|table| self.version.insert(level, run, table));
        } else {
            let (from, to) = (number(&plan.range.smallest), number(&plan.range.largest));
            let to = if plan.stop.is_some() { to - 1 } else { to };
            let ended = tables.iter().filter(|table| !plan.keeps_rest_of(table)).count();
            let count = (ended.max(1) as u64).min(to - from + 1);
            let border = |part: u64| from + (to + 1 - from) * part / count;
            for part in 0..count {
                self.add(prng, level, run.0, (border(part), border(part + 1) - 1));
            }
            for (level, run, meta) in plan.stop.iter().flat_map(|stop| &stop.rest) {
                let old = tables.iter().find(|table| table.meta.id == meta.id).unwrap();
                self.version.insert(*level, *run, Arc::clone(old).moved_to(meta).unwrap());
            }
        }
        self.version.check().unwrap();
    }

    /// Checks B1 to B3 of a plan against their definitions, independently of how the plan was made. The
    /// output of a manual compaction is as old as its newest input, or overlaps nothing.
    fn check(&self, plan: &Plan) {
        if plan.reason == Reason::Manual && plan.work == Work::Merge {
            return self.check_manual(plan);
        }
        let is_input = |table: &TableSlot| plan.tables().any(|t| t.meta.id == table.meta.id);
        let [level_0, level_1, ..] = &self.version.levels;
        for (number, level) in [level_0, level_1].into_iter().enumerate() {
            for (run, tables) in level.runs.iter().enumerate() {
                let moves = plan.work == Work::Move && number == 1;
                for table in tables.tables.iter().filter(|table| is_input(table) && !moves) {
                    let range = table.meta.range();
                    let beside = if number == 0 { run + 1..level.runs.len() } else { 0..run };
                    for other in level.runs[beside].iter().flat_map(|r| r.overlapping(&range)) {
                        assert!(is_input(other), "B1, B2: {} stays: {plan}", other.meta.id);
                    }
                }
            }
        }
        let newest = level_1.runs.first().map_or(0, |run| run.id.0);
        let staying: Vec<_> =
            level_1.overlapping(&plan.range).into_iter().filter(|table| !is_input(table)).collect();
        if plan.work == Work::Merge || (plan.inputs[0].level == 0 && !staying.is_empty()) {
            assert!(plan.output().run.0 > newest, "B1: not the newest: {plan}");
        }
        if plan.work == Work::Merge {
            for number in number(&plan.range.smallest)..=number(&plan.range.largest) {
                let key = key(number);
                let hides = staying.iter().any(|table| table.meta.place(&key).is_eq());
                for level in [0, 1] {
                    let is_bottom = plan
                        .routes
                        .as_ref()
                        .map_or(plan.output().is_bottom, |routes| routes.at(level, &key).is_bottom);
                    assert_eq!(is_bottom, !hides, "B3 at {key:?}: {plan}");
                }
            }
        }
    }

    /// Checks that no table of level 1 that stays is between an input and the output in age, and that
    /// deletes disappear only where no staying table is.
    fn check_manual(&self, plan: &Plan) {
        let is_input = |table: &TableSlot| plan.tables().any(|t| t.meta.id == table.meta.id);
        let level = &self.version.levels[1];
        let staying: Vec<_> =
            level.overlapping(&plan.range).into_iter().filter(|table| !is_input(table)).collect();
        for (run, tables) in level.runs.iter().enumerate() {
            for table in tables.tables.iter().filter(|table| is_input(table)) {
                let between = level.runs[..run].iter().filter(|run| run.id <= plan.output().run);
                for other in between.flat_map(|run| run.overlapping(&plan.range)) {
                    assert!(is_input(other), "M2: {} stays over {}", other.meta.id, table.meta.id);
                }
            }
        }
        let mut of_run = level.runs.iter().filter(|run| run.id == plan.output().run);
        let beside = of_run.find_map(|run| {
            run.overlapping(&plan.range).iter().find(|table| !is_input(table)).cloned()
        });
        assert!(beside.is_none(), "V1: the output would overlap {beside:?}");
        assert_eq!(plan.output().is_bottom, staying.is_empty(), "B3: {plan}");
    }

    /// Carries out every plan that is due.
    fn settle(&mut self, prng: &mut Prng) {
        for step in 0.. {
            let Some(plan) = Smrdb.plan(&self.situation()) else { break };
            self.check(&plan);
            self.apply(prng, &plan);
            assert!(step < 300, "there is always something to do: {plan}\n{}", self.version);
        }
        assert!(self.version.levels[0].runs.len() < 4);
    }
}

#[test]
fn whatever_the_shape_nothing_newer_is_left_behind() {
    for seed in 0..60 {
        let prng = &mut Prng::new(seed);
        let mut tree = Tree::new();
        for _ in 0..prng.below(12) {
            tree.add_run(prng, 1);
        }
        for _ in 0..6 {
            for _ in 0..prng.below(7) {
                tree.add_run(prng, 0);
            }
            tree.settle(prng);
        }
        let crowded = overlap_counts(&tree.version.levels[1]);
        for (count, (_, table)) in crowded {
            let range = table.meta.range();
            let expected = tree.version.levels[1].overlapping(&range).len() - 1;
            assert_eq!(count, expected, "overlaps of {}", table.meta.id);
        }
    }
}

#[test]
fn a_manual_compaction_ends_with_one_run() {
    for seed in 0..60 {
        let prng = &mut Prng::new(seed);
        let mut tree = Tree::new();
        (0..prng.below(20)).for_each(|_| tree.add_run(prng, 1));
        (0..prng.below(6)).for_each(|_| tree.add_run(prng, 0));
        let range = ManualRange { start: None, end: None, run_max: RunId(u64::MAX) };
        for level in 0..2 {
            let mut after: Option<Bytes> = None;
            for step in 0.. {
                let next = Smrdb.plan_manual(&tree.situation(), level, &range, after.as_deref());
                let ManualPlan::Run(plan) = next else { break };
                tree.check(&plan);
                after = after.max((level > 0).then(|| plan.range.largest.clone()));
                tree.apply(prng, &plan);
                assert!(step < 300, "it does not end: {plan}");
            }
        }
        assert!(tree.version.levels[0].runs.is_empty());
        assert!(tree.version.levels[1].runs.len() <= 1, "{}", tree.version);
    }
}

/// A step writes all its outputs before its inputs give their space back. So a store may be longer than
/// what is left of its drive, and still comes into order.
#[test]
fn a_manual_compaction_needs_no_room_for_all_tables_at_once() {
    const MIB: u64 = 1 << 20;
    let (mut piece_count, mut window_count) = (0, 0);
    for seed in 0..40 {
        let prng = &mut Prng::new(seed);
        let mut tree = Tree::new();
        // Some flushes over all keys, over older runs in which tables are short.
        let wide_count = prng.below(60);
        for run in 1..8 {
            let width = 20 + prng.below(40);
            (0..20).for_each(|at| tree.add(prng, 1, run, (50 * at, 50 * at + width.min(49))));
        }
        (0..wide_count).for_each(|at| tree.add(prng, 1, 8 + at, (at % 9, 990)));
        let count = |tree: &Tree| tree.version.levels[1].tables().count() as u64;
        let drive_len_bytes = count(&tree) * MIB * 10 / 6;
        let range = ManualRange { start: None, end: None, run_max: RunId(u64::MAX) };
        for step in 0.. {
            let len_bytes = drive_len_bytes.saturating_sub(count(&tree) * MIB);
            let room = Room {
                len_bytes,
                gaining_len_bytes: len_bytes,
                hiding_len_bytes: len_bytes,
                grain_bytes: 0,
            };
            let situation = Situation { room, ..tree.situation() };
            let ManualPlan::Run(plan) = Smrdb.plan_manual(&situation, 1, &range, None) else {
                break;
            };
            tree.check(&plan);
            assert!(plan.len_bytes() <= room.len_bytes, "seed {seed}, {room:?}: {plan}");
            assert!(plan.len_bytes() <= 40 * MIB, "seed {seed}: {plan}");
            piece_count += u64::from(plan.stop.is_some());
            window_count += u64::from(plan.routes.is_some());
            tree.apply(prng, &plan);
            assert!(step < 300, "it does not end: {plan}");
        }
        assert_eq!(tree.version.levels[1].runs.len(), 1, "seed {seed}: {}", tree.version);
    }
    assert!(piece_count > 100 && window_count > 10, "{piece_count} and {window_count}");
}

/// Of two concurrent plans, neither writes into the other's range or takes a table that the other
/// needs.
#[test]
fn plans_that_run_together_do_not_meet() {
    let mut met = 0;
    for seed in 0..60 {
        let prng = &mut Prng::new(seed);
        let mut tree = Tree::new();
        (0..6).for_each(|_| tree.add_run(prng, 1));
        (0..8).for_each(|_| tree.add_run(prng, 0));
        let Some(first) = Smrdb.plan(&tree.situation()) else { continue };
        tree.plans.busy.start(&first);
        let Some(second) = Smrdb.plan(&tree.situation()) else { continue };
        tree.plans.busy.start(&second);
        met += 1;
        assert!(!first.range.overlaps(&second.range));
        tree.check(&second);
        tree.plans.busy = Busy::default();
        tree.apply(prng, &second);
        tree.apply(prng, &first);
    }
    assert!(met > 5, "only {met} pairs");
}
