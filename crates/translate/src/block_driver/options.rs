//! How to make and run a block device, and what it did.

use super::choose::CleaningOrder;
use super::error::DriverError;
use super::regions::EvictionOrder;
use imbrex_disk::Blocks;

/// How to make and run a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverOptions {
    /// Identifies the device in every structure. Each format should get a new id, so that
    /// structures of an earlier device are not taken for this one's. Only read when formatting.
    pub id: u64,
    /// How much the write buffer may hold.
    pub buffer_len: Blocks,
    /// What leaves the write buffer first.
    pub eviction: EvictionOrder,
    /// Which zones are cleaned first.
    pub cleaning: CleaningOrder,
    /// Zones for the journal. 0 takes as many as hold twice the write buffer, but at least four.
    /// Only read when formatting.
    pub journal_zone_count: u32,
    /// The share of the data zones that the host does not get, in percent. Cleaning lives from it.
    /// Only read when formatting.
    pub spare_percent: u64,
    /// Writes of this length or more go directly to the data zones.
    pub bypass_len: Blocks,
    /// Requests that continue each other are a stream from this length on; its data goes to the data
    /// zones without the journal. `None`, and every order of eviction but
    /// [`EvictionOrder::LongestAndOldest`], journals all data, as the paper does.
    pub stream_len: Option<Blocks>,
    /// A checkpoint has only what changed if the last whole one has this many bytes or more. Opening
    /// then reads up to three times as much, and a busy device with a long map writes less.
    pub delta_from_bytes: u64,
    /// How much memory the map may take, in bytes. A longer map is partly on the drive: a read of
    /// what is not in memory takes another read of the drive, and the map is written again and again.
    pub map_memory_bytes: u64,
    /// Whether to list evictions, for
    /// [`BlockDriver::take_evictions`](super::BlockDriver::take_evictions).
    pub lists_evictions: bool,
    /// How many summaries of data zones are kept in memory. Each takes some 570 bytes and covers
    /// half a MiB of data. Reading data whose summary is not in memory takes another read of the
    /// drive.
    pub kept_summary_count: usize,
}

impl Default for DriverOptions {
    fn default() -> DriverOptions {
        DriverOptions {
            id: 0,
            buffer_len: Blocks::holding(512 << 20),
            eviction: EvictionOrder::LongestAndOldest,
            cleaning: CleaningOrder::merged(),
            journal_zone_count: 0,
            spare_percent: 7,
            bypass_len: Blocks::holding(16 << 20),
            stream_len: Some(Blocks::holding(2 << 20)),
            delta_from_bytes: 4 << 20,
            map_memory_bytes: 4 << 30,
            lists_evictions: false,
            kept_summary_count: 1 << 15,
        }
    }
}

impl DriverOptions {
    pub(super) fn check(&self) -> Result<(), DriverError> {
        for (what, got, min, max) in [
            ("the write buffer's length in blocks", self.buffer_len.get(), 1, 1 << 32),
            ("the spare share in percent", self.spare_percent, 1, 80),
            ("the length of writes that bypass the buffer", self.bypass_len.get(), 1, u64::MAX),
            ("the length of a stream", self.stream_len.map_or(1, Blocks::get), 1, u64::MAX),
            // The spare zones of a short drive are no reserve for more.
            ("zones cleaned at once", self.cleaning.chosen_count() as u64, 1, 4),
            ("candidate zones of a cleaning", self.cleaning.candidate_count() as u64, 1, 1000),
        ] {
            if !(min..=max).contains(&got) {
                return Err(DriverError::Option { what, got, min, max });
            }
        }
        Ok(())
    }
}

/// What a block device did since it was opened, and its present contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DriverCounters {
    /// Blocks that the host wrote.
    pub host_blocks: u64,
    /// Of those, blocks that bypassed the write buffer.
    pub bypassed_blocks: u64,
    /// Blocks of streams that left the write buffer without having been in the journal.
    pub streamed_blocks: u64,
    /// Runs evicted from the write buffer, streams included.
    pub evicted_runs: u64,
    /// Their blocks.
    pub evicted_blocks: u64,
    /// Of those, blocks that left because a journal zone was recycled or emptied, and not because
    /// the write buffer was full.
    pub journal_evicted_blocks: u64,
    /// Blocks written to the journal, headers included.
    pub journal_blocks: u64,
    /// Blocks of the host that were journaled again, to free a journal zone.
    pub kept_blocks: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// Of those, checkpoints of what had changed.
    pub delta_checkpoints: u64,
    /// Their blocks, superblocks included.
    pub checkpoint_blocks: u64,
    /// Summaries written.
    pub summary_blocks: u64,
    /// Reads that found a block that differs from what was written there.
    pub wrong_blocks: u64,
    /// Cleanings completed.
    pub cleanings: u64,
    /// Zones that they emptied.
    pub cleaned_zones: u64,
    /// Blocks that they moved.
    pub moved_blocks: u64,
    /// Cleanings begun because hardly a zone was free: they choose by garbage alone, whatever the
    /// configured order.
    pub urgent_cleanings: u64,
    /// Cleanings begun in time, by the configured order. The next three counters are of these
    /// alone.
    pub timely_cleanings: u64,
    /// Mapping nodes that they merged (table II).
    pub merged_nodes: u64,
    /// Blocks written to the zones that they chose; the next counter is how many of those were
    /// garbage (table III).
    pub cleaned_written_blocks: u64,
    /// See `cleaned_written_blocks`.
    pub cleaned_garbage_blocks: u64,
    /// Journal entries replayed at opening.
    pub replayed_entries: u64,
    /// Records of those entries whose data had not reached the platter.
    pub ignored_records: u64,
    /// Blocks that opening could not read at the very end of the written data, where a power cut
    /// breaks the block that is being written. They have their previous content.
    pub broken_blocks: u64,
    /// Blocks that opening found damaged and read from their second copy: of the superblock, the
    /// checkpoint and the journal's headers.
    pub second_copies: u64,
    /// Nodes of the mapping, now.
    pub mapping_nodes: u64,
    /// Of those, nodes that are on the drive, now. Nodes of blocks that were written or unmapped since
    /// are still among them.
    pub mapping_nodes_on_drive: u64,
    /// Memory of the mapping, now.
    pub mapping_bytes: u64,
    /// Blocks in the write buffer that are in no data zone, now.
    pub buffered_blocks: u64,
    /// Further blocks of streams in the write buffer, kept for reads, now.
    pub clean_blocks: u64,
    /// Memory of the write buffer with its indices, now.
    pub buffer_bytes: u64,
    /// Blocks that the drive lost before they left the journal, or whose zone had to be given up
    /// for the room; now. A block counts until its next write is in the journal.
    pub lost_blocks: u64,
    /// Zones that could take data, now.
    pub free_zones: u64,
}

impl DriverCounters {
    /// All blocks that were written to the drive: the host's, once to the journal and once to a data
    /// zone, and what the device added.
    pub fn written_blocks(&self) -> u64 {
        self.journal_blocks
            + self.evicted_blocks
            + self.bypassed_blocks
            + self.moved_blocks
            + self.checkpoint_blocks
            + self.summary_blocks
    }
}
