//! One run of a figure, of any kind.

use crate::arrivals::ArrivalSpec;
use crate::replays::ReplaySpec;
use crate::spec::RunSpec;

/// One run of any kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    Store(RunSpec),
    Replay(ReplaySpec),
    Arrivals(ArrivalSpec),
}

impl Work {
    pub(crate) fn op_count(&self) -> u64 {
        match self {
            Work::Store(spec) => spec.op_count(),
            Work::Replay(spec) => spec.op_count(),
            Work::Arrivals(spec) => spec.op_count(),
        }
    }

    pub(crate) fn label(&self) -> String {
        match self {
            Work::Store(spec) => spec.label(),
            Work::Replay(spec) => spec.label(),
            Work::Arrivals(spec) => spec.label(),
        }
    }
}
