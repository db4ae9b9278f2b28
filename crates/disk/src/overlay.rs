//! [`Overlay`]: a disk over another disk that is only read. What is written stays in memory.
//!
//! ```text
//!     write, reset, discard --> zones     the rule of zones, as the disk below would enforce it
//!                               written   blocks, and runs of zeros
//!     read ------------------>  written?  else the disk below
//! ```
//!
//! Recovery is allowed to write: fixed bands end a rewrite, a backup of interlaced tracks is moved back, a catalog is
//! mended. Over this layer the same recovery runs on a disk that must not change, and no layer above needs to know.
//!
//! Invariants
//!   V1  The disk below is never asked to change: it gets reads alone.
//!   V2  No block is both in `written` and in a run of zeros. The newest request decides which.
//!   V3  Under the raw rules a write destroys nothing: the blocks that it would reach stay as they are below.
//!   V4  Nothing becomes durable. A flush succeeds and does nothing.
//!
//! Memory: what is written, and about 100 bytes for each block.
//!
//! Not here: how a drive is opened without the right to write (`disk-sim`, `disk-host`).

use crate::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, DiskLayer, Known, Lba, Persist,
    ReadRequest, Readable, ZoneAction, ZoneId, ZoneInfo, ZoneMark, ZoneRecord, ZoneState,
    ZoneTable,
};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A disk whose writes stay in memory; see the module.
#[derive(Debug)]
pub struct Overlay {
    below: Arc<dyn Disk>,
    zones: Option<ZoneTable>,
    written: RwLock<Written>,
}

impl Overlay {
    /// A disk that begins as `below` is now. Nothing else may write to `below` while the overlay exists.
    pub fn new(below: Arc<dyn Disk>) -> Overlay {
        let geometry = *below.geometry();
        let zones = geometry.zones().map(|spec| {
            let infos = below.report_zones();
            let table = ZoneTable::new(geometry, *spec);
            table.load(|zone| record(&infos[zone.0 as usize]));
            table
        });
        Overlay { below, zones, written: RwLock::default() }
    }

    /// How much memory the written blocks take.
    pub fn written_bytes(&self) -> u64 {
        Blocks::new(self.read_written().blocks.len() as u64).bytes()
    }

    fn read_written(&self) -> RwLockReadGuard<'_, Written> {
        self.written.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change_written(&self) -> RwLockWriteGuard<'_, Written> {
        self.written.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_range(&self, range: BlockRange, buf: &mut [u8]) -> Result<(), DiskError> {
        self.read_written().read(range, buf, &*self.below)
    }

    /// Obeys the rule of zones, and then changes `range` by `change`.
    fn put(&self, range: BlockRange, change: impl FnOnce(&mut Written)) -> Result<(), DiskError> {
        let zone = self.below.geometry().zone_of(range.start);
        let Some((table, first)) = self.zones.as_ref().zip(zone) else {
            change(&mut self.change_written());
            return Ok(());
        };
        let _turn = table.turnstile(first);
        let sequential = table.begin_write(range)?;
        change(&mut self.change_written());
        if let Some(zone) = sequential {
            table.commit_write(zone, range.end());
        }
        Ok(())
    }
}

/// The state of a zone as a new power cycle finds it.
fn record(info: &ZoneInfo) -> ZoneRecord {
    let whole = |mark| ZoneRecord { mark, written: info.capacity };
    match info.state {
        ZoneState::NoPointer | ZoneState::Empty => ZoneRecord::EMPTY,
        ZoneState::Open { write_pointer, .. } | ZoneState::Closed { write_pointer } => {
            ZoneRecord::at_pointer(write_pointer - info.start, info.capacity)
        }
        // Whether a block of these can be read, the disk below says.
        ZoneState::Full => whole(ZoneMark::Full),
        ZoneState::ReadOnly => whole(ZoneMark::ReadOnly),
        ZoneState::Offline => ZoneRecord { mark: ZoneMark::Offline, written: Blocks::ZERO },
    }
}

impl DiskLayer for Overlay {
    fn below(&self) -> &dyn Disk {
        &*self.below
    }

    fn pass_read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        let range = self.below.geometry().request(at, buf.len())?;
        match &self.zones {
            Some(table) if table.check_read(range)? == Readable::InPart => {
                table.read_written(range, buf, |at, buf| {
                    let range = BlockRange::new(at, Blocks::holding(buf.len() as u64));
                    self.read_range(range, buf)
                })
            }
            _ => self.read_range(range, buf),
        }
    }

    fn pass_read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        if self.read_written().is_empty() {
            return self.below.read_batch(requests);
        }
        requests.iter_mut().try_for_each(|request| self.pass_read(request.at, request.buf))
    }

    fn pass_write(&self, at: Lba, data: &[u8], _persist: Persist) -> Result<(), DiskError> {
        let range = self.below.geometry().request(at, data.len())?;
        self.put(range, |written| written.write(at, data))
    }

    fn pass_flush(&self) -> Result<(), DiskError> {
        Ok(())
    }

    fn pass_discard(&self, range: BlockRange) -> Result<(), DiskError> {
        self.below.geometry().check(range)?;
        let mut written = self.change_written();
        let Some(table) = &self.zones else {
            written.zero(range);
            return Ok(());
        };
        let conventional = table.parts(range).filter(|&(zone, _)| table.is_conventional(zone));
        conventional.for_each(|(_, part)| written.zero(part));
        Ok(())
    }

    fn pass_write_zeroes(&self, range: BlockRange, persist: Persist) -> Result<(), DiskError> {
        if self.zones.is_some() {
            return crate::write_zero_blocks(self, range, persist);
        }
        self.below.geometry().check(range)?;
        self.change_written().zero(range);
        Ok(())
    }

    fn pass_work(&self) -> Result<bool, DiskError> {
        Ok(false)
    }

    fn pass_zeroes_are_cheap(&self) -> bool {
        self.zones.is_none()
    }

    fn pass_known(&self, range: BlockRange) -> (Known, Blocks) {
        let written = self.read_written();
        match written.first(range) {
            Some((_, end)) if end > range.end() => (Known::Nothing, range.len),
            Some((start, end)) if start == range.start => (Known::Nothing, end - start),
            Some((start, _)) => self.below.known(BlockRange::new(range.start, start - range.start)),
            None => self.below.known(range),
        }
    }

    fn pass_zone(&self, zone: ZoneId) -> Option<ZoneInfo> {
        self.zones.as_ref()?.info(zone)
    }

    fn pass_manage_zone(&self, zone: ZoneId, action: ZoneAction) -> Result<(), DiskError> {
        let Some(table) = &self.zones else {
            let reason = "the disk has no zones".to_owned();
            return Err(DiskError::NoSuchZone { zone, action, reason });
        };
        let _turn = table.turnstile(zone);
        if !table.check_action(zone, action)? {
            return Ok(());
        }
        let range = self.below.geometry().zone_range(zone).expect("the table has the zone");
        match action {
            ZoneAction::Reset => self.change_written().zero(range),
            ZoneAction::Finish => {
                let from = table.data_end(zone);
                self.change_written().zero(BlockRange::new(from, range.end() - from));
            }
            ZoneAction::Open | ZoneAction::Close => {}
        }
        table.apply_action(zone, action)
    }
}

/// What differs from the disk below.
#[derive(Debug, Default)]
struct Written {
    blocks: BTreeMap<Lba, Box<[u8]>>,
    /// Runs of zeros: their ends, by their starts. No two overlap.
    zeros: BTreeMap<Lba, Lba>,
}

impl Written {
    fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.zeros.is_empty()
    }

    fn write(&mut self, at: Lba, data: &[u8]) {
        let range = BlockRange::new(at, Blocks::holding(data.len() as u64));
        self.cut_zeros(range);
        for (index, block) in data.chunks_exact(BLOCK_LEN_BYTES).enumerate() {
            self.blocks.insert(at + Blocks::new(index as u64), block.into());
        }
    }

    fn zero(&mut self, range: BlockRange) {
        if range.len.is_zero() {
            return;
        }
        self.cut_zeros(range);
        let mut after = self.blocks.split_off(&range.start);
        self.blocks.append(&mut after.split_off(&range.end()));
        self.zeros.insert(range.start, range.end());
    }

    /// Takes `range` out of the runs of zeros.
    fn cut_zeros(&mut self, range: BlockRange) {
        let overlapping = self.zeros.range(..range.end()).rev();
        let overlapping: Vec<(Lba, Lba)> =
            overlapping.map(|(&s, &e)| (s, e)).take_while(|&(_, e)| e > range.start).collect();
        for (start, end) in overlapping {
            self.zeros.remove(&start);
            if start < range.start {
                self.zeros.insert(start, range.start);
            }
            if range.end() < end {
                self.zeros.insert(range.end(), end);
            }
        }
    }

    /// The first run in `range` that differs from the disk below: a block, or zeros, perhaps from before the range.
    fn first(&self, range: BlockRange) -> Option<(Lba, Lba)> {
        let block = self.blocks.range(range.start..range.end()).next();
        let block = block.map(|(&at, _)| (at, at + Blocks::new(1)));
        let zeros_before = self.zeros.range(..=range.start).next_back();
        let zeros_before = zeros_before.filter(|&(_, &end)| range.start < end);
        let zeros = zeros_before.or_else(|| self.zeros.range(range.start..range.end()).next());
        let zeros = zeros.map(|(&start, &end)| (start.max(range.start), end));
        block.into_iter().chain(zeros).min()
    }

    fn read(&self, range: BlockRange, buf: &mut [u8], below: &dyn Disk) -> Result<(), DiskError> {
        let (mut at, mut rest) = (range.start, buf);
        while at < range.end() {
            let left = BlockRange::new(at, range.end() - at);
            let (start, end) = self.first(left).unwrap_or((range.end(), range.end()));
            let (from_below, more) = rest.split_at_mut((start - at).bytes() as usize);
            if !from_below.is_empty() {
                below.read(at, from_below)?;
            }
            let end = end.min(range.end());
            let (own, more) = more.split_at_mut((end - start).bytes() as usize);
            match self.blocks.get(&start) {
                Some(block) if !own.is_empty() => own.copy_from_slice(block),
                _ => own.fill(0),
            }
            (at, rest) = (end, more);
        }
        Ok(())
    }
}
