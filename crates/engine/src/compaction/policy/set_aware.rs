//! Set-aware compaction: leveled, with the tables of one compaction stored as a set.
//!
//! ```text
//!   L1   [ ][ ][ ]                      no sets: level 1 turns over whole, and soon
//!   L2   (a a a)(b b)(c c c c)          a set: what one compaction wrote, contiguous on the drive
//!   L3   (d ~ d ~)(e e e)(f ~ f f)      ~ dead: its space returns when all of the set are
//!              ^ the next victim of L3 is from d: two of its members are dead
//! ```
//!
//! A set is read back as it lies: its tables are inputs of one compaction one after the other, each
//! with one read. Sets that have lost more members go first, so that their space comes back whole.
//!
//! Invariants
//!   E1  Outputs to level 2 and below are persisted in one go with one group; those to levels 0 and 1
//!       are not.
//!
//! Source: SEALDB, III-A and III-C ("gives priority to compact the set with more invalid SSTables").
//! Not here: where a set lies and when its space returns (`files`), the rest of the plan (`leveled`).

use crate::compaction::plan::{Plan, Work};
use crate::compaction::policy::leveled::Leveled;
use crate::compaction::situation::{ManualPlan, ManualRange, Policy, Pressure, Situation};
use crate::options::KeyspaceOptions;
use crate::version::Version;
use imbrex_files::GroupId;
use std::collections::BTreeMap;

/// The first level whose tables form sets.
pub(crate) const SET_LEVEL_MIN: u8 = 2;

/// The policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetAware;

impl Policy for SetAware {
    fn plan(&self, situation: &Situation<'_>) -> Option<Plan> {
        Leveled.plan(situation).map(as_set)
    }

    fn plan_manual(
        &self,
        situation: &Situation<'_>,
        level: u8,
        range: &ManualRange,
        from: Option<&[u8]>,
    ) -> ManualPlan {
        match Leveled.plan_manual(situation, level, range, from) {
            ManualPlan::Run(plan) => ManualPlan::Run(Box::new(as_set(*plan))),
            other => other,
        }
    }

    fn pressure(&self, version: &Version, options: &KeyspaceOptions) -> Pressure {
        Leveled.pressure(version, options)
    }
}

/// E1.
fn as_set(mut plan: Plan) -> Plan {
    plan.outputs_together = plan.work == Work::Merge && plan.output().level >= SET_LEVEL_MIN;
    plan
}

/// How many members of each set are dead, for the sets of which some are.
pub(crate) fn dead_counts(version: &Version) -> BTreeMap<GroupId, u32> {
    let mut sets: BTreeMap<GroupId, u32> = BTreeMap::new();
    for table in version.tables() {
        let meta = &table.meta;
        let dead = sets.entry(meta.group).or_insert(meta.group_table_count);
        *dead = dead.saturating_sub(1);
    }
    sets.retain(|_, dead| *dead > 0);
    sets
}
