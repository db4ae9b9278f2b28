//! What a block device is asked to be, and what it did.

use super::choose::CleaningOrder;
use super::error::DriverError;
use super::regions::EvictionOrder;
use imbrex_disk::Blocks;

/// How to make and run a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverOptions {
    /// Of the device, in every structure; another one for every format, so that what an earlier one
    /// left is not taken for this one's. Only read when formatting.
    pub id: u64,
    /// How much the write buffer may hold.
    pub buffer_len: Blocks,
    /// What leaves the write buffer first.
    pub eviction: EvictionOrder,
    /// Which zones are cleaned first.
    pub cleaning: CleaningOrder,
    /// Zones for the journal, or 0: as many as hold twice the write buffer, at least four. Only read
    /// when formatting.
    pub journal_zone_count: u32,
    /// What of the data zones the host does not get, in percent: from it cleaning lives. Only read
    /// when formatting.
    pub spare_percent: u64,
    /// Writes of so much or more go to the data zones at once.
    pub bypass_len: Blocks,
    /// Whether to list what is evicted, for [`BlockDriver::take_evictions`](super::BlockDriver::take_evictions).
    pub lists_evictions: bool,
    /// Summaries of data zones that are kept in memory, some 570 bytes each, for half a MiB of data: reading
    /// where there is none takes another read of the drive.
    pub kept_summary_count: usize,
}

impl Default for DriverOptions {
    fn default() -> DriverOptions {
        DriverOptions {
            id: 0,
            buffer_len: Blocks::holding(512 << 20),
            eviction: EvictionOrder::LongestAndOldest,
            cleaning: CleaningOrder::MostMerged { candidate_count: 20, chosen_count: 2 },
            journal_zone_count: 0,
            spare_percent: 7,
            bypass_len: Blocks::holding(16 << 20),
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
            // The spare zones of a short drive are no reserve for more.
            ("zones cleaned at once", self.cleaning.chosen_count() as u64, 1, 4),
            ("zones looked at for cleaning", self.cleaning.candidate_count() as u64, 1, 1000),
        ] {
            if !(min..=max).contains(&got) {
                return Err(DriverError::Option { what, got, min, max });
            }
        }
        Ok(())
    }
}

/// What a block device did since it was opened, and what it holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DriverCounters {
    /// Blocks that the host wrote.
    pub host_blocks: u64,
    /// Of those, blocks that bypassed the write buffer.
    pub bypassed_blocks: u64,
    /// Runs evicted from the write buffer.
    pub evicted_runs: u64,
    /// Their blocks.
    pub evicted_blocks: u64,
    /// Blocks written to the journal, headers included.
    pub journal_blocks: u64,
    /// Blocks of the host that were written to the journal once more, to free one of its zones.
    pub kept_blocks: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// Their blocks, superblocks included.
    pub checkpoint_blocks: u64,
    /// Summaries written.
    pub summary_blocks: u64,
    /// Reads that found a block to be another than was written there.
    pub wrong_blocks: u64,
    /// Cleanings completed.
    pub cleanings: u64,
    /// Zones that they emptied.
    pub cleaned_zones: u64,
    /// Blocks that they moved.
    pub moved_blocks: u64,
    /// Cleanings begun because hardly a zone was free: by garbage alone, whatever the order asked for.
    pub urgent_cleanings: u64,
    /// Cleanings begun in time, by the order asked for; what follows is of these alone.
    pub timely_cleanings: u64,
    /// Mapping nodes that they merged (table II).
    pub merged_nodes: u64,
    /// Blocks written to the zones that they chose, and of those the garbage (table III).
    pub cleaned_written_blocks: u64,
    /// See `cleaned_written_blocks`.
    pub cleaned_garbage_blocks: u64,
    /// Journal entries replayed at opening.
    pub replayed_entries: u64,
    /// Of those, records whose data had not reached the platter.
    pub ignored_records: u64,
    /// Blocks that opening could not read at the end of what was written, where a power cut breaks what is being written:
    /// they are what they were before.
    pub broken_blocks: u64,
    /// Blocks that opening found damaged and read from their second copy: of the superblock, of the checkpoint and
    /// of the journal's headers.
    pub second_copies: u64,
    /// Nodes of the mapping, now.
    pub mapping_nodes: u64,
    /// Memory of the mapping, now.
    pub mapping_bytes: u64,
    /// Blocks in the write buffer, now.
    pub buffered_blocks: u64,
    /// Memory of the write buffer with its indices, now.
    pub buffer_bytes: u64,
    /// Blocks that the drive lost before they left the journal, or whose zone had to be given up for the room, until
    /// what is written there next is in the journal; now.
    pub lost_blocks: u64,
    /// Zones that could take data, now.
    pub free_zones: u64,
}
