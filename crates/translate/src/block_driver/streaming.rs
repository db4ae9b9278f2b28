//! How the driver writes what streams hold, and what it keeps of it.
//!
//! Not here: which requests are streams (`streams`).

use super::state::DriverState;
use imbrex_disk::{BlockRange, DiskError};

impl DriverState {
    /// Holds what a stream has written, and writes the parts that are complete to a data zone.
    pub(super) fn write_stream(&mut self, written: BlockRange) -> Result<(), DiskError> {
        for part in self.streams.hold(written) {
            self.evict_held(part)?;
        }
        while let Some(part) = self.streams.excess(self.buffer.capacity()) {
            self.evict_held(part)?;
        }
        Ok(())
    }

    /// T2: puts what streams hold where the next flush makes it durable.
    pub(super) fn release_streams(&mut self) -> Result<(), DiskError> {
        for (part, is_long) in self.streams.release() {
            if is_long {
                self.evict_held(part)?;
                continue;
            }
            let left: Vec<BlockRange> = self.regions.within(part).collect();
            for range in left {
                self.pending.insert(range);
            }
        }
        Ok(())
    }

    /// Writes a part of a stream to a data zone, and keeps its blocks while there is room. Evicting an
    /// earlier part may have emptied the journal, and that evicts too: only what is left is written.
    pub(super) fn evict_held(&mut self, part: BlockRange) -> Result<(), DiskError> {
        loop {
            let left = self.regions.within(part).next();
            let Some(range) = left else { return Ok(()) };
            self.counters.streamed_blocks += range.len.get();
            let data = self.evict(&[range])?;
            if self.regions.total() + range.len <= self.buffer.capacity() {
                self.buffer.write(range.start, &data);
                self.streams.kept.insert(range);
                self.shed_kept();
            }
        }
    }

    /// Drops kept blocks that are in the way of others, the oldest first.
    pub(super) fn shed_kept(&mut self) {
        while self.buffer.capacity() < self.buffer.len()
            && let Some(oldest) = self.streams.kept.victim()
        {
            self.buffer.remove(oldest);
            self.streams.kept.remove(oldest);
        }
    }
}
