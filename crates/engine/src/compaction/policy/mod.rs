//! The compaction policies. Each plans from a
//! [`Situation`](crate::compaction::situation::Situation) and has no side effects.

pub(crate) mod as_leveldb;
mod closure;
mod gain;
pub(crate) mod gear;
pub(crate) mod gear_turn;
pub(crate) mod lazy;
pub(crate) mod leveled;
pub(crate) mod sequentiality;
pub(crate) mod set_aware;
pub(crate) mod set_pieces;
pub(crate) mod sets;
pub(crate) mod smrdb;
#[cfg(test)]
mod tests;

use crate::compaction::situation::Policy;
use crate::options::CompactionKind;

/// Returns the policy for `kind`.
pub(crate) fn policy(kind: CompactionKind) -> &'static dyn Policy {
    match kind {
        CompactionKind::Leveled => &leveled::Leveled,
        CompactionKind::SetAware => &set_aware::SetAware,
        CompactionKind::Smrdb => &smrdb::Smrdb,
        CompactionKind::Gear => &gear::Gear,
        CompactionKind::Lazy => &lazy::Lazy,
    }
}
