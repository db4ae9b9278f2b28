//! What the host asks in five seconds, the interval in which a file system commits.
//!
//! ```text
//!     random   | one block, at exponential gaps ........................ | flush |
//!     files    | create, append, rewrite, delete: at times of their own  | journal | flush | metadata |
//! ```

use super::files::{Files, HostRequest};
use imbrex_clockwork::Prng;
use serde::Serialize;

/// How often the host commits.
pub(super) const TICK_NS: u64 = 5_000_000_000;
/// Blocks of metadata that a commit writes besides those of each operation.
const METADATA_LEN_MIN: u64 = 2;
/// Extents whose metadata share a block.
const EXTENTS_PER_BLOCK: usize = 4;

/// A kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
pub enum DeviceLoad {
    /// Single blocks of files, each equally likely
    Random,
    /// Files that are made, extended, rewritten and deleted, with their metadata and journal
    Files,
}

impl DeviceLoad {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            DeviceLoad::Random => "random",
            DeviceLoad::Files => "files",
        }
    }
}

/// What is asked within a tick.
#[derive(Debug, Default)]
pub(super) struct Tick {
    /// Each with its time since the start of the tick.
    pub(super) operations: Vec<(u64, Vec<HostRequest>)>,
    /// Before the flush that ends the tick.
    pub(super) commit: Vec<HostRequest>,
    /// Behind it.
    pub(super) behind: Vec<HostRequest>,
}

/// Random writes: `count` a tick on average.
pub(super) fn random_tick(files: &mut Files, prng: &mut Prng, writes_per_s: u64) -> Tick {
    let mut tick = Tick::default();
    let mean_ns = 1e9 / writes_per_s as f64;
    let mut at_ns = gap_ns(prng, mean_ns);
    while at_ns < TICK_NS {
        tick.operations.push((at_ns, files.write_block().into_iter().collect()));
        at_ns += gap_ns(prng, mean_ns);
    }
    tick
}

/// Operations on files while `credit` is positive; what they write is taken from it. More than
/// `used_permille` of the data area is not kept.
pub(super) fn files_tick(
    files: &mut Files,
    prng: &mut Prng,
    credit: &mut i64,
    used_permille: u64,
) -> Tick {
    let mut tick = Tick::default();
    let mut metadata_len = METADATA_LEN_MIN;
    while *credit > 0 {
        let requests = match prng.below(100) {
            0..45 => files.create(),
            45..65 => files.append(),
            65..95 => files.rewrite(),
            _ => files.delete(),
        };
        let written: u64 = requests.iter().map(HostRequest::written_len).sum();
        // An operation that finds nothing to do takes some credit too.
        *credit -= written.max(1) as i64;
        let mut operations = vec![requests];
        while used_permille < files.used_permille() {
            operations.push(files.delete());
        }
        for requests in operations {
            metadata_len += (1 + requests.len() / EXTENTS_PER_BLOCK) as u64;
            tick.operations.push((prng.below(TICK_NS), requests));
        }
    }
    // Deletions and the writes that reuse their blocks stay in order.
    let mut times: Vec<u64> = tick.operations.iter().map(|(at_ns, _)| *at_ns).collect();
    times.sort_unstable();
    tick.operations.iter_mut().zip(times).for_each(|(operation, at_ns)| operation.0 = at_ns);
    tick.commit = files.write_journal(metadata_len + 2);
    tick.behind = (0..metadata_len).map(|_| files.write_metadata()).collect();
    tick
}

/// A gap of a Poisson process.
fn gap_ns(prng: &mut Prng, mean_ns: f64) -> u64 {
    let uniform = ((prng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    (-libm::log(uniform) * mean_ns) as u64 + 1
}
