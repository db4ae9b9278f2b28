//! What to replay, and on what.

use imbrex_translate::{CleaningOrder, EvictionOrder};
use imbrex_workload::trace::TraceSource;

/// What to replay, and on what.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The trace.
    pub trace: TraceSource,
    /// How much the write buffer may hold; 0 for none.
    pub buffer_bytes: u64,
    /// What leaves it first.
    pub eviction: EvictionOrder,
    /// Which zones are cleaned.
    pub cleaning: CleaningOrder,
    /// A zone of the drive.
    pub zone_len_bytes: u64,
    /// Whose mechanics.
    pub profile: &'static str,
    /// How long the drive is; `None`: as the trace's addresses need at `fill_percent`.
    pub drive_len_bytes: Option<u64>,
    /// How much of the data zones the host's addresses may fill; the rest is for cleaning.
    pub fill_percent: u64,
    /// Whether addresses that the trace never touches are left out.
    pub squeezes: bool,
    /// The trace's times, in percent: 50 plays twice as fast.
    pub time_percent: u64,
    /// Whether a request comes when the one before is done, and not at its own time: then nothing waits.
    pub is_closed_loop: bool,
    /// Whether each write must be durable before it returns.
    pub writes_through: bool,
    /// No more requests than this.
    pub request_count_max: u64,
}

impl ReplayOptions {
    /// The paper's: 512 MiB by the largest region, two of twenty zones of 256 MiB, all of the trace at
    /// its own times, on a drive of which it fills four fifths.
    pub fn new(trace: TraceSource) -> ReplayOptions {
        ReplayOptions {
            trace,
            buffer_bytes: 512 << 20,
            eviction: EvictionOrder::LargestRegion,
            cleaning: CleaningOrder::MostMerged { candidate_count: 20, chosen_count: 2 },
            zone_len_bytes: 256 << 20,
            profile: "st1000dm003",
            drive_len_bytes: None,
            fill_percent: 80,
            squeezes: false,
            time_percent: 100,
            is_closed_loop: false,
            writes_through: false,
            request_count_max: u64::MAX,
        }
    }
}
