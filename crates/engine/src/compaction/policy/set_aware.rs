//! Set-aware compaction: leveled, with the output tables of each compaction stored as a set.
//!
//! ```text
//!   L1   [ ][ ][ ]                      no sets: all of level 1 is rewritten soon
//!   L2   (a a a)(b b)(c c c c)          a set: outputs of one compaction, contiguous on the drive
//!   L3   (d ~ d ~)(e e e)(f ~ f f)      ~ dead: the space returns when the whole set is dead
//! ```
//!
//! A set is read back in the order in which it is stored: its tables are inputs of one compaction,
//! each read once, one after another.
//!
//! The space of a set returns when its last table dies, so its tables should die together. With
//! `KeyspaceOptions::cuts_at_sets`, a table ends where a set of the level below ends. A victim then
//! overlaps one set or two, and takes nearly all of them. With `VictimOrder::DeadFirst`, victims are
//! from the set that has lost most.
//!
//! A merge for which the drive has no room is done in pieces, each a set (`set_pieces`).
//!
//! Invariants
//!   E1  Outputs to level 2 and below are persisted in one call, as one group. Outputs to levels 0
//!       and 1 are not.
//!
//! Source: SEALDB, III-A ("either valid or invalid at the same time") and III-C ("gives priority to
//! compact the set with more invalid SSTables").
//! Not here: where a set is stored and when its space returns (`files`), the rest of the plan
//! (`leveled`).

use crate::compaction::plan::{Plan, Work};
use crate::compaction::policy::leveled::Leveled;
use crate::compaction::policy::set_pieces;
use crate::compaction::policy::sets::SET_LEVEL_MIN;
use crate::compaction::situation::{ManualPlan, ManualRange, Policy, Pressure, Situation};
use crate::options::KeyspaceOptions;
use crate::version::Version;

/// The set-aware policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetAware;

impl Policy for SetAware {
    fn plan(&self, situation: &Situation<'_>) -> Option<Plan> {
        let plan = set_pieces::go_on(situation).or_else(|| Leveled.plan(situation));
        plan.or_else(|| set_pieces::begin(situation)).map(as_set)
    }

    fn plan_manual(
        &self,
        situation: &Situation<'_>,
        level: u8,
        range: &ManualRange,
        from: Option<&[u8]>,
    ) -> ManualPlan {
        match Leveled.plan_manual(situation, level, range, from) {
            ManualPlan::Run(plan) => {
                // If no piece fits either, the error of the whole reports how much space is missing.
                let is_short = !situation.fits(&plan);
                let piece = is_short.then(|| set_pieces::first_piece(situation, &plan)).flatten();
                ManualPlan::Run(Box::new(as_set(piece.unwrap_or(*plan))))
            }
            other => other,
        }
    }

    fn pressure(&self, version: &Version, options: &KeyspaceOptions, slack_bytes: u64) -> Pressure {
        Leveled.pressure(version, options, slack_bytes)
    }
}

/// Marks the outputs of `plan` as a set where E1 asks for it.
fn as_set(mut plan: Plan) -> Plan {
    plan.outputs_together = plan.work == Work::Merge && plan.output().level >= SET_LEVEL_MIN;
    plan
}
