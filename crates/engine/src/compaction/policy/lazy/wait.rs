//! What the base merge under way waits for, for people.
//!
//! The answers are the policy's own: its next piece runs, is due, or is not due yet.

use super::pieces::piece_of;
use super::survey::Survey;
use super::{due_below, is_blocked, is_due, left_on_disk, piece};
use crate::compaction::plan::Reason;
use crate::compaction::situation::Situation;
use crate::metrics::MergeWait;
use crate::version::partitions::{BASE_LEVEL, BaseMerge};

/// What the next piece of `merge` waits for.
pub(crate) fn wait_of(situation: &Situation<'_>, merge: &BaseMerge) -> MergeWait {
    if situation.busy.writes_level(BASE_LEVEL) {
        return MergeWait::Running;
    }
    if is_blocked(situation, merge) {
        return MergeWait::Damage;
    }
    let left_len_bytes = left_on_disk(situation, merge);
    if !is_due(situation, &Survey::of(situation.version), merge) {
        let due_below_bytes = due_below(situation, left_len_bytes);
        return MergeWait::Writes { slack_bytes: situation.slack_bytes, due_below_bytes };
    }
    let (cuts, reason) = (&situation.version.partitions.cuts, Reason::Base { left_len_bytes });
    if piece(situation, merge, cuts, reason).is_some() {
        MergeWait::Due
    } else if piece_of(situation, merge, cuts, 1, reason).is_some() {
        MergeWait::Room
    } else {
        MergeWait::Compaction
    }
}
