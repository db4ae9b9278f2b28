//! The result of a run: figures that two runs of a seed share, or a story and the line to replay
//! it.

use crate::cuts::Cuts;
use imbrex_disk::Blocks;
use imbrex_engine::inspect::BASE_LEVEL;
use imbrex_engine::{CompactionKind, Metrics};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;

/// A clean run. Two runs of one seed give equal reports (R1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The scenario.
    pub scenario: &'static str,
    /// How many operations were done.
    pub operation_count: u64,
    /// Device events of the first life.
    pub life_event_count: u64,
    /// Those of the flash drive, if there is one.
    pub flash_event_count: u64,
    /// How many lives the store had.
    pub life_count: u64,
    /// How often the power was cut.
    pub power_cut_count: u64,
    /// How many I/O errors, at least, reached the store.
    pub io_error_count: u64,
    /// How often a write was refused for lack of space.
    pub no_space_count: u64,
    /// Zones that cleaning emptied.
    pub cleaned_zone_count: u64,
    /// What power cuts at device events took from the flash drive, if there is one.
    pub flash_lost: Blocks,
    /// What the policies of the layout did.
    pub work: WorkCounts,
    /// How many steps background jobs took.
    pub step_count: u64,
    /// Zone resets of the disk.
    pub zone_reset_count: u64,
    /// The disk's running hash over all requests.
    pub event_log_hash: u64,
    /// The hash of everything stored at the end.
    pub image_hash: u64,
    /// The hash over all choices of the scheduler.
    pub trace_hash: u64,
    /// The virtual time at the end.
    pub clock_ns: u64,
    /// The number that the run's generator would draw next.
    pub next_random: u64,
}

/// What the policies did in a run, and which of their actions were stopped midway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkCounts {
    /// Compactions, including those that only moved tables.
    pub compaction_count: u64,
    /// Those that only moved tables.
    pub move_count: u64,
    /// Compactions that wrote to several levels: gear turns.
    pub turn_count: u64,
    /// Sets of two or more tables that one compaction wrote.
    pub set_count: u64,
    /// Merges within one level: SMRDB's.
    pub overlap_merge_count: u64,
    /// Merges of lazy leveling above its base.
    pub mid_merge_count: u64,
    /// Those of them that made room on a flash drive.
    pub destage_count: u64,
    /// Pieces of base merges of lazy leveling.
    pub piece_count: u64,
    /// Tables written before others that lie further on: filled holes, split bands.
    pub insert_count: u64,
    /// Bands that were read, modified and rewritten.
    pub band_rewrite_count: u64,
    /// Merges that were stopped midway, by an error or for lack of room.
    pub cut_merge_count: u64,
    /// Turns that were stopped midway.
    pub cut_turn_count: u64,
    /// Merges of a set that were stopped midway.
    pub cut_set_count: u64,
    /// Pieces of base merges that were stopped midway.
    pub cut_piece_count: u64,
    /// Cleanings that were stopped midway.
    pub cut_cleaning_count: u64,
    /// Rewrites of a band that were stopped midway, and that opening finished.
    pub cut_rewrite_count: u64,
    /// Damaged blocks that were the last of a full zone.
    pub full_end_damage_count: u64,
    /// Damaged blocks that were the last of an open zone, with an entry of the journal behind their
    /// flush.
    pub open_end_damage_count: u64,
}

impl WorkCounts {
    /// Adds what a store has done since it was opened.
    pub(crate) fn note(&mut self, metrics: &Metrics, compaction: CompactionKind) {
        self.compaction_count += metrics.compaction_count;
        self.move_count += metrics.move_count;
        let mut frontier = 0;
        for line in &metrics.compactions {
            let mut table_counts = BTreeMap::new();
            for output in &line.outputs {
                *table_counts.entry(output.level).or_insert(0) += 1;
                let Some(&(start, len)) = output.extents.first() else { continue };
                self.insert_count += u64::from(start < frontier);
                frontier = frontier.max(start + len);
            }
            self.turn_count += u64::from(table_counts.len() > 1);
            let is_set = |&(&level, &count): &(&u8, &u64)| level > 1 && count > 1;
            if compaction == CompactionKind::SetAware {
                self.set_count += table_counts.iter().filter(is_set).count() as u64;
            }
            if compaction == CompactionKind::Lazy && line.output_table_count > 0 {
                let is_piece = line.output_level == BASE_LEVEL;
                self.piece_count += u64::from(is_piece);
                self.mid_merge_count += u64::from(!is_piece);
                self.destage_count += u64::from(line.plan.contains(": destage"));
            }
            let is_within = line.level > 0 && line.level == line.output_level;
            self.overlap_merge_count += u64::from(is_within);
        }
        for plan in &metrics.failed_compactions {
            self.note_cut(plan, compaction);
        }
    }

    /// A plan in words: `merge L1[000002] L2[000001] -> L2 (bottom) L3: level 1 is ...`.
    fn note_cut(&mut self, plan: &str, compaction: CompactionKind) {
        let Some((_, outputs)) = plan.split_once(" -> ") else { return };
        let outputs = outputs.split_once(": ").map_or(outputs, |(outputs, _)| outputs);
        let levels: Vec<&str> = outputs.split(' ').filter(|word| word.starts_with('L')).collect();
        self.cut_merge_count += u64::from(plan.starts_with("merge"));
        self.cut_turn_count += u64::from(levels.len() > 1);
        let is_set = compaction == CompactionKind::SetAware
            && plan.starts_with("merge")
            && levels.iter().any(|&level| level != "L0" && level != "L1");
        self.cut_set_count += u64::from(is_set);
        let is_piece = compaction == CompactionKind::Lazy
            && plan.starts_with("merge")
            && levels.contains(&&*format!("L{BASE_LEVEL}"));
        self.cut_piece_count += u64::from(is_piece);
    }
}

impl AddAssign for WorkCounts {
    fn add_assign(&mut self, other: WorkCounts) {
        let WorkCounts {
            compaction_count,
            move_count,
            turn_count,
            set_count,
            overlap_merge_count,
            mid_merge_count,
            destage_count,
            piece_count,
            insert_count,
            band_rewrite_count,
            cut_merge_count,
            cut_turn_count,
            cut_set_count,
            cut_piece_count,
            cut_cleaning_count,
            cut_rewrite_count,
            full_end_damage_count,
            open_end_damage_count,
        } = other;
        self.compaction_count += compaction_count;
        self.move_count += move_count;
        self.turn_count += turn_count;
        self.set_count += set_count;
        self.overlap_merge_count += overlap_merge_count;
        self.mid_merge_count += mid_merge_count;
        self.destage_count += destage_count;
        self.piece_count += piece_count;
        self.insert_count += insert_count;
        self.band_rewrite_count += band_rewrite_count;
        self.cut_merge_count += cut_merge_count;
        self.cut_turn_count += cut_turn_count;
        self.cut_set_count += cut_set_count;
        self.cut_piece_count += cut_piece_count;
        self.cut_cleaning_count += cut_cleaning_count;
        self.cut_rewrite_count += cut_rewrite_count;
        self.full_end_damage_count += full_end_damage_count;
        self.open_end_damage_count += open_end_damage_count;
    }
}

impl fmt::Display for WorkCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let merge_count = self.compaction_count - self.move_count;
        write!(f, "{merge_count} merges ({} cut)", self.cut_merge_count)?;
        write!(f, ", {} moves", self.move_count)?;
        for (what, count, cut_count) in [
            ("gear turns", self.turn_count, self.cut_turn_count),
            ("sets", self.set_count, self.cut_set_count),
            ("pieces of base merges", self.piece_count, self.cut_piece_count),
            ("band rewrites", self.band_rewrite_count, self.cut_rewrite_count),
        ] {
            if count > 0 {
                write!(f, ", {count} {what} ({cut_count} cut)")?;
            }
        }
        if self.mid_merge_count > 0 {
            write!(f, ", {} mid merges", self.mid_merge_count)?;
        }
        if self.destage_count > 0 {
            write!(f, " ({} destages)", self.destage_count)?;
        }
        if self.overlap_merge_count > 0 {
            write!(f, ", {} merges within a level", self.overlap_merge_count)?;
        }
        write!(f, ", {} holes filled", self.insert_count)?;
        write!(f, ", {} cleanings cut", self.cut_cleaning_count)
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The scenario.
    pub scenario: &'static str,
    /// The seed.
    pub seed: u64,
    /// The moment of the power cut, in a sweep.
    pub cuts: Option<Cuts>,
    /// Which promise, and how it was broken.
    pub what: String,
    /// The last operations before it, oldest first.
    pub story: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.story {
            writeln!(f, "  {line}")?;
        }
        writeln!(f, "{}", self.what)?;
        // R3: one line that can be copied as it is.
        write!(f, "cargo xtask torture --seed {:#x} --scenario {}", self.seed, self.scenario)?;
        match self.cuts {
            Some(Cuts { at, is_on_flash, again }) => {
                let on_flash = if is_on_flash { " --cut-on-flash" } else { "" };
                write!(f, " --cut {at}{on_flash} --cut-again {again}")
            }
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}
