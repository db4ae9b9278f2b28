//! Random histories: flushes and plans over tables with real entries. Whatever the plans are, every
//! key shows its newest write, and whatever must be merged is merged in the end. Scenarios are scripts,
//! in `testdata/compaction/lazy_*.txt`.

use super::wait::wait_of;
use super::*;
use crate::compaction::busy::KeyspacePlans;
use crate::compaction::plan::TableFacts;
use crate::compaction::situation::Room;
use crate::key::Seq;
use crate::metrics::MergeWait;
use crate::options::CompactionKind;
use crate::table::TableProperties;
use crate::version::{LEVEL_COUNT, TableId, TableMeta};
use imbrex_clockwork::Prng;
use imbrex_files::{GroupId, UnitId};
use std::collections::BTreeMap;

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

/// The writes of a table: for each key, its newest one.
type Entries = BTreeMap<Bytes, u64>;

/// The length that each entry counts.
const ENTRY_LEN_BYTES: u64 = 1000;
/// The number of entries in a full table.
const TABLE_ENTRY_COUNT: usize = 5;

struct Tree {
    version: Version,
    options: KeyspaceOptions,
    plans: KeyspacePlans,
    contents: BTreeMap<TableId, Entries>,
    newest: Entries,
    next_id: u64,
    slack_bytes: u64,
    has_flash: bool,
    flash_excess_bytes: u64,
}

/// A flush that has begun, with the cuts of that moment.
struct Flush {
    run: u64,
    entries: Entries,
    cuts: Vec<Bytes>,
    is_to_flash: bool,
}

fn key(number: u64) -> Bytes {
    Bytes::from(format!("{number:03}"))
}

impl Tree {
    fn new() -> Tree {
        let options = KeyspaceOptions {
            compaction: CompactionKind::Lazy,
            table_len_bytes: ENTRY_LEN_BYTES * TABLE_ENTRY_COUNT as u64,
            base_level_len_bytes: ENTRY_LEN_BYTES * 60,
            l0_compact_run_count: 3,
            ..KeyspaceOptions::default()
        };
        Tree {
            version: Version::default(),
            options,
            plans: KeyspacePlans::default(),
            contents: BTreeMap::new(),
            newest: Entries::new(),
            next_id: 1,
            slack_bytes: u64::MAX,
            has_flash: false,
            flash_excess_bytes: 0,
        }
    }

    fn situation(&self) -> Situation<'_> {
        let room = match self.has_flash {
            true => Room { len_bytes: self.slack_bytes.saturating_mul(2), ..Room::unbounded(0) },
            false => Room::unbounded(0),
        };
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
            room,
            slack_bytes: self.slack_bytes,
            flash_excess_bytes: self.flash_excess_bytes,
        }
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    fn begin_flush(&mut self, prng: &mut Prng) -> Flush {
        let run = self.new_id();
        let (from, width) = (prng.below(300), 1 + prng.below(300));
        let mut entries = Entries::new();
        for _ in 0..1 + prng.below(40) {
            let key = key(from + prng.below(width));
            let seq = self.new_id();
            self.newest.insert(key.clone(), seq);
            entries.insert(key, seq);
        }
        Flush { run, entries, cuts: self.version.partitions.cuts.clone(), is_to_flash: false }
    }

    fn end_flush(&mut self, flush: Flush) {
        let new = if flush.is_to_flash { TableSlot::new_on_flash } else { TableSlot::new };
        self.write((0, RunId(flush.run)), flush.entries, &flush.cuts, flush.run, new);
        self.version.check().unwrap();
    }

    /// Writes tables that end at `borders`.
    fn write(
        &mut self,
        (level, run): (u8, RunId),
        entries: Entries,
        borders: &[Bytes],
        group: u64,
        new: fn(TableMeta) -> Arc<TableSlot>,
    ) {
        let part = |key: &Bytes| borders.partition_point(|border| border <= key);
        let mut table: Vec<(Bytes, u64)> = Vec::new();
        let mut rest = entries.into_iter().peekable();
        while let Some(entry) = rest.next() {
            table.push(entry);
            let here = part(&table[0].0);
            let goes_on = rest.peek().is_some_and(|(key, _)| part(key) == here);
            if goes_on && table.len() < TABLE_ENTRY_COUNT {
                continue;
            }
            let id = TableId(self.new_id());
            let entries: Entries = std::mem::take(&mut table).into_iter().collect();
            let meta = TableMeta {
                id,
                len_bytes: ENTRY_LEN_BYTES * entries.len() as u64,
                smallest: entries.keys().next().unwrap().clone(),
                largest: entries.keys().last().unwrap().clone(),
                largest_excluded: false,
                seq_min: Seq(1),
                seq_max: Seq(9),
                entry_count: entries.len() as u64,
                delete_count: 0,
                range_tombstone_count: 0,
                raw_len_bytes: 1,
                group: GroupId(group),
                group_table_count: 1,
                is_logged: false,
                has_front: false,
            };
            self.contents.insert(id, entries);
            self.version.insert(level, run, new(meta));
        }
    }

    /// Carries out a plan as `work::compact` does. No more is added to the disk than there was slack for.
    fn apply(&mut self, plan: &Plan) {
        let output = plan.output().clone();
        let tables: Vec<_> = plan.tables().cloned().collect();
        tables.iter().for_each(|table| _ = self.version.remove(table.meta.id).unwrap());
        if plan.work == Work::Move {
            assert!(!tables.iter().any(|table| table.is_on_flash()), "Z8: {plan}");
            tables.into_iter().for_each(|t| self.version.insert(output.level, output.run, t));
            return self.version.check().unwrap();
        }
        let until = plan.stop.as_ref().map(|stop| &stop.until);
        let (mut merged, mut disk_count) = (Entries::new(), 0);
        for table in &tables {
            for (key, seq) in &self.contents[&table.meta.id] {
                let is_dead = table.meta.front().is_some_and(|front| key < front);
                if !is_dead && until.is_none_or(|until| key < until) {
                    let kept = merged.entry(key.clone()).or_default();
                    *kept = (*kept).max(*seq);
                    disk_count += usize::from(!table.is_on_flash());
                }
            }
        }
        let growth = merged.len().saturating_sub(disk_count) as u64 * ENTRY_LEN_BYTES;
        // How much of a table lies before the stop is an estimate.
        let at_the_stop = tables.iter().filter(|t| t.is_on_flash() && plan.keeps_rest_of(t));
        let at_the_stop: u64 = at_the_stop.map(|table| table.meta.len_bytes).sum();
        let is_in_slack = growth <= self.slack_bytes.saturating_add(at_the_stop);
        assert!(plan.reason == Reason::Manual || is_in_slack, "Z9: {plan}");
        let borders: Vec<_> = output.staying.iter().map(|t| t.meta.smallest.clone()).collect();
        let group = self.new_id();
        self.write((output.level, output.run), merged, &borders, group, TableSlot::new);
        for (level, run, meta) in plan.stop.iter().flat_map(|stop| &stop.rest) {
            let old = tables.iter().find(|table| table.meta.id == meta.id).unwrap();
            self.version.insert(*level, *run, Arc::clone(old).moved_to(meta).unwrap());
        }
        if let Some(partitions) = &plan.partitions {
            self.version.partitions = partitions.clone();
        }
        assert!(self.version.places().all(|(level, _, t)| level == 0 || !t.is_on_flash()), "Z8");
        self.version.check().unwrap();
    }

    fn get(&self, key: &Bytes) -> Option<u64> {
        let runs = self.version.levels.iter().flat_map(|level| &level.runs);
        let mut tables = runs.filter_map(|run| run.find(key));
        tables.find_map(|table| self.contents[&table.meta.id].get(key).copied())
    }

    fn check(&self, what: &str) {
        for (key, seq) in &self.newest {
            assert_eq!(self.get(key), Some(*seq), "{what}: {key:?}\n{}", self.version);
        }
    }

    fn upper_len(&self) -> u64 {
        self.version.levels[..UPPER_COUNT].iter().map(|level| level.len_bytes()).sum()
    }
}

#[test]
fn every_key_shows_its_newest_write_whatever_is_merged() {
    let (mut piece_count, mut split_count, mut front_count) = (0, 0, 0);
    let (mut destage_count, mut from_flash_count) = (0, 0);
    for seed in 0..300 {
        let has_flash = seed % 3 > 0;
        let mut prng = Prng::new(seed).derive("lazy model");
        let mut tree = Tree { has_flash, ..Tree::new() };
        let mut flush: Option<Flush> = None;
        for step in 0..150 {
            tree.slack_bytes = [0, 50_000, u64::MAX][prng.below(3) as usize];
            tree.flash_excess_bytes = if has_flash { prng.below(2) } else { 0 };
            let what = format!("seed {seed}, step {step}");
            if prng.chance(1, 3) {
                let plan = Lazy.plan(&tree.situation());
                if let Some(plan) = plan {
                    piece_count += usize::from(plan.partitions.is_some());
                    destage_count += usize::from(matches!(plan.reason, Reason::Destage { .. }));
                    let takes_slices = plan.tables().any(|table| table.is_on_flash());
                    from_flash_count +=
                        usize::from(takes_slices && matches!(plan.reason, Reason::Base { .. }));
                    front_count += plan.stop.iter().map(|stop| stop.rest.len()).sum::<usize>();
                    tree.apply(&plan);
                }
            } else if let Some(begun) = flush.take() {
                tree.end_flush(begun);
            } else {
                let is_to_flash = has_flash && prng.chance(3, 4);
                flush = Some(Flush { is_to_flash, ..tree.begin_flush(&mut prng) });
                continue;
            }
            if let Some(begun) = &flush {
                // The memtable of a flush is above all tables.
                let unflushed = |key: &Bytes| begun.entries.contains_key(key);
                let newest: Entries = tree.newest.clone();
                tree.newest.retain(|key, _| !unflushed(key));
                tree.check(&what);
                tree.newest = newest;
            } else {
                tree.check(&what);
            }
        }
        flush.into_iter().for_each(|begun| tree.end_flush(begun));
        split_count += tree.version.partitions.cuts.len();
        (tree.slack_bytes, tree.flash_excess_bytes) = (u64::MAX, u64::from(has_flash));
        while let Some(plan) = Lazy.plan(&tree.situation()) {
            tree.apply(&plan);
        }
        assert!(!tree.version.tables().any(|table| table.is_on_flash()), "{}", tree.version);
        tree.slack_bytes = 0;
        for _ in 0..1000 {
            let Some(plan) = Lazy.plan(&tree.situation()) else { break };
            tree.apply(&plan);
        }
        tree.check("in the end");
        let base_len = tree.version.levels[UPPER_COUNT].len_bytes();
        assert!(
            tree.upper_len() * 32 < base_len.max(1),
            "what is worth it is merged\n{}",
            tree.version
        );
        assert_eq!(tree.version.partitions.merge, None);
    }
    assert!(piece_count > 1000 && front_count > 1000, "{piece_count}, {front_count}");
    assert!(split_count > 100, "{split_count}");
    assert!(destage_count > 100 && from_flash_count > 100, "{destage_count}, {from_flash_count}");
}

#[test]
fn a_manual_compaction_ends_in_one_run() {
    for seed in 0..50 {
        let mut prng = Prng::new(seed).derive("lazy manual");
        let mut tree = Tree::new();
        for _ in 0..20 {
            let flush = tree.begin_flush(&mut prng);
            tree.end_flush(flush);
            tree.slack_bytes = [0, u64::MAX][prng.below(2) as usize];
            if let Some(plan) = Lazy.plan(&tree.situation()) {
                tree.apply(&plan);
            }
        }
        let range = ManualRange { start: None, end: None, run_max: RunId(u64::MAX) };
        for level in 0..LEVEL_COUNT as u8 {
            while let ManualPlan::Run(plan) =
                Lazy.plan_manual(&tree.situation(), level, &range, None)
            {
                tree.apply(&plan);
            }
        }
        tree.check(&format!("seed {seed}"));
        assert_eq!(tree.upper_len(), 0, "{}", tree.version);
    }
}

/// The answers are those of the plan: what is due is planned, and what waits is not.
#[test]
fn what_a_base_merge_waits_for_agrees_with_the_plan() {
    let mut counts = [0_usize; 3];
    for seed in 0..100 {
        let mut prng = Prng::new(seed).derive("lazy wait");
        let mut tree = Tree::new();
        for _ in 0..60 {
            let flush = tree.begin_flush(&mut prng);
            tree.end_flush(flush);
            tree.slack_bytes = [0, 200_000, u64::MAX][prng.below(3) as usize];
            let plan = Lazy.plan(&tree.situation());
            if let Some(merge) = tree.version.partitions.merge.clone() {
                let wait = wait_of(&tree.situation(), &merge);
                let is_piece = plan.as_ref().is_some_and(|plan| plan.partitions.is_some());
                match wait {
                    MergeWait::Writes { slack_bytes, due_below_bytes } => {
                        assert!(!is_piece && due_below_bytes <= slack_bytes, "seed {seed}: {wait}");
                        counts[0] += 1;
                    }
                    MergeWait::Due => {
                        assert!(plan.is_some(), "seed {seed}: {wait}");
                        counts[1] += 1;
                    }
                    other => panic!("seed {seed}: nothing runs, but it waits for {other}"),
                }
                if let Some(piece) = plan.as_ref().filter(|_| is_piece) {
                    tree.plans.start(piece);
                    assert_eq!(wait_of(&tree.situation(), &merge), MergeWait::Running);
                    tree.plans.busy.finish(piece);
                    counts[2] += 1;
                }
            }
            plan.iter().for_each(|plan| tree.apply(plan));
        }
    }
    assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
}
