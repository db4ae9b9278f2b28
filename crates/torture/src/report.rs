//! What a run came to: figures that two runs of a seed share, or a story and the line to replay it.

use crate::sweep::Cuts;
use std::fmt;

/// A clean run. Two runs of one seed give equal reports (R1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// How many operations were done.
    pub operation_count: u64,
    /// Device events of the first life.
    pub life_event_count: u64,
    /// How many lives the store had.
    pub life_count: u64,
    /// How often the power went.
    pub power_cut_count: u64,
    /// How many I/O errors, at least, reached the store.
    pub io_error_count: u64,
    /// How often a write was refused for want of space.
    pub no_space_count: u64,
    /// Zones that cleaning emptied.
    pub cleaned_zone_count: u64,
    /// How many steps background jobs took.
    pub step_count: u64,
    /// Zone resets of the disk.
    pub zone_reset_count: u64,
    /// The disk's running hash over all requests.
    pub event_log_hash: u64,
    /// The hash of all that is stored at the end.
    pub image_hash: u64,
    /// The hash over all choices of the scheduler.
    pub trace_hash: u64,
    /// The virtual time at the end.
    pub clock_ns: u64,
    /// The number that the run's generator would have drawn next.
    pub next_random: u64,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The scenario.
    pub scenario: &'static str,
    /// The seed.
    pub seed: u64,
    /// When the power went, in a sweep.
    pub cuts: Option<Cuts>,
    /// Which promise, and how.
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
        // R3: one line, to be copied as it is.
        write!(f, "cargo xtask torture --seed {:#x} --scenario {}", self.seed, self.scenario)?;
        match self.cuts {
            Some(Cuts { at, again }) => write!(f, " --cut {at} --cut-again {again}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}
