//! What to replay, and on which drive.

use imbrex_disk::{BLOCK_LEN_BYTES, Blocks};
use imbrex_translate::{CleaningOrder, EvictionOrder};
use imbrex_workload::trace::TraceSource;

/// What a block of the driver and of the drive stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReplayUnit {
    /// 4096 bytes. Requests are widened to whole blocks.
    Block,
    /// 512 bytes, on a drive with the same mechanics. A request of whole sectors is as long as in the trace.
    Sector,
}

impl ReplayUnit {
    /// How many of them are a block.
    pub(super) fn part_count(self) -> u64 {
        match self {
            ReplayUnit::Block => 1,
            ReplayUnit::Sector => 8,
        }
    }

    /// The length of one.
    pub(super) fn len_bytes(self) -> u64 {
        BLOCK_LEN_BYTES as u64 / self.part_count()
    }

    /// How many hold `bytes`.
    pub(super) fn holding(self, bytes: u64) -> Blocks {
        Blocks::new(bytes.div_ceil(self.len_bytes()))
    }

    /// The bytes that `len` of them stand for.
    pub(super) fn bytes(self, len: Blocks) -> u64 {
        len.get().saturating_mul(self.len_bytes())
    }
}

/// What to replay, and on which drive.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The trace.
    pub trace: TraceSource,
    /// What a block of the driver stands for: a block, or a sector of 512 bytes, as the paper's driver maps
    /// them.
    pub unit: ReplayUnit,
    /// The capacity of the write buffer; 0 for none.
    pub buffer_bytes: u64,
    /// The length of the journal; `None` for twice the write buffer.
    pub journal_bytes: Option<u64>,
    /// The order of eviction.
    pub eviction: EvictionOrder,
    /// The choice of zones to clean.
    pub cleaning: CleaningOrder,
    /// The length of a zone.
    pub zone_len_bytes: u64,
    /// The profile that provides the mechanics.
    pub profile: &'static str,
    /// The length of the drive; `None` for the length that the trace needs at `fill_percent`.
    pub drive_len_bytes: Option<u64>,
    /// The share of the data zones that host addresses may fill; the rest is for cleaning.
    pub fill_percent: u64,
    /// Whether untouched addresses of the trace are left out.
    pub squeezes: bool,
    /// The scale of the trace's times, in percent: 50 plays twice as fast.
    pub time_percent: u64,
    /// Whether a request arrives when the one before completes, instead of at its own time. Then no
    /// request waits.
    pub is_closed_loop: bool,
    /// Whether each write must be durable before it returns.
    pub writes_through: bool,
    /// The maximum number of requests.
    pub request_count_max: u64,
    /// Memory for the drive's contents before they are compressed. It changes no figure.
    pub unpacked_bytes: u64,
}

impl ReplayOptions {
    /// The paper's options: a buffer of 512 MiB that evicts the largest region, and two of twenty
    /// zones of 256 MiB per cleaning by the paper's rule. The whole trace is replayed at its own times,
    /// on a drive that it fills to four fifths.
    pub fn new(trace: TraceSource) -> ReplayOptions {
        ReplayOptions {
            trace,
            unit: ReplayUnit::Block,
            buffer_bytes: 512 << 20,
            journal_bytes: None,
            eviction: EvictionOrder::LargestRegion,
            cleaning: CleaningOrder::of_the_paper(),
            zone_len_bytes: 256 << 20,
            profile: "st1000dm003",
            drive_len_bytes: None,
            fill_percent: 80,
            squeezes: false,
            time_percent: 100,
            is_closed_loop: false,
            writes_through: false,
            request_count_max: u64::MAX,
            unpacked_bytes: 0,
        }
    }
}
