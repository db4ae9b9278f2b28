//! The disk that the host uses: the requests of [`FixedBands`], cut by bands.

use super::journal::Change;
use super::layout::Region;
use super::{FixedBands, without};
use imbrex_disk::{
    Activity, ActivityHandle, BlockRange, Blocks, Counters, CountsActivities, Disk, DiskError,
    Geometry, Lba, Pba, Persist, ReadRequest, ZoneAction, ZoneId, ZoneInfo,
};
use std::sync::Arc;

impl Disk for FixedBands {
    fn geometry(&self) -> &Geometry {
        &self.layout.geometry
    }

    fn read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        self.read_batch(&mut [ReadRequest { at, buf }])
    }

    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        self.read_batch_as(Activity::Other, requests)
    }

    fn write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError> {
        self.write_as(Activity::Other, at, data, persist)
    }

    fn flush(&self) -> Result<(), DiskError> {
        self.flush_as(Activity::Other)
    }

    fn discard(&self, range: BlockRange) -> Result<(), DiskError> {
        self.layout.geometry.check(range)?;
        let mut state = self.write_state()?;
        match &state.waiting {
            Some(waiting)
                if range.start <= waiting.range.start && waiting.range.end() <= range.end() =>
            {
                state.waiting = None;
            }
            Some(waiting) if waiting.range.overlaps(range) => self.release(&mut state)?,
            _ => {}
        }
        let held: Vec<BlockRange> =
            state.valid.within(range).flat_map(|run| self.layout.by_band(run)).collect();
        for run in held {
            self.make_room(&mut state)?;
            let before = state.valid.count() as u64;
            if before >= self.layout.superblock.run_count_max {
                // A discard is a hint. This one would add a run beyond the bound.
                let is_middle = run.start.get() > 0
                    && state.valid.holds(BlockRange::new(
                        Lba::new(run.start.get() - 1),
                        run.len + Blocks::new(2),
                    ));
                if is_middle {
                    continue;
                }
            }
            state.valid.remove(run);
            state.discarded.insert(run);
            state.journal.note(Change::Dead, run);
            self.below.discard(Region { start: self.layout.locate(run.start), len: run.len })?;
        }
        Ok(())
    }

    fn zone(&self, _zone: ZoneId) -> Option<ZoneInfo> {
        None
    }

    fn manage_zone(&self, zone: ZoneId, action: ZoneAction) -> Result<(), DiskError> {
        let reason = "the disk has no zones".to_owned();
        Err(DiskError::NoSuchZone { zone, action, reason })
    }

    fn counters(&self) -> Counters {
        self.below.counters()
    }

    fn head(&self) -> Option<Pba> {
        self.below.head()
    }

    fn for_activity(self: Arc<Self>, activity: Activity) -> Option<Arc<dyn Disk>> {
        Some(Arc::new(ActivityHandle::new(self, activity)))
    }
}

impl CountsActivities for FixedBands {
    fn read_batch_as(
        &self,
        activity: Activity,
        requests: &mut [ReadRequest<'_>],
    ) -> Result<(), DiskError> {
        let state = self.read_state();
        let waiting = state.waiting.as_ref().map(|waiting| waiting.range);
        let mut parts = Vec::with_capacity(requests.len());
        for request in requests.iter_mut() {
            let range = self.layout.geometry.request(request.at, request.buf.len())?;
            if state.torn.is_some_and(|band| band.overlaps(range)) {
                return Err(DiskError::Poisoned);
            }
            let (mut at, mut rest) = (range.start, &mut *request.buf);
            let runs = state.valid.within(range);
            // The waiting blocks cover the result, and the blocks below them may not even be
            // readable.
            let below = runs.flat_map(|run| self.layout.by_band(run));
            for run in below.flat_map(|run| without(run, waiting)) {
                let (blank, behind) = rest.split_at_mut((run.start - at).bytes() as usize);
                blank.fill(0);
                let (buf, behind) = behind.split_at_mut(run.len.bytes() as usize);
                let at_below = Lba::new(self.layout.locate(run.start).get());
                parts.push(ReadRequest { at: at_below, buf });
                (at, rest) = (run.end(), behind);
            }
            rest.fill(0);
        }
        if !parts.is_empty() {
            let result = self.below.read_batch(activity, &mut parts);
            result.map_err(|error| self.loss_for_host(error))?;
        }
        if let Some(waiting) = &state.waiting {
            requests.iter_mut().for_each(|request| waiting.overlay(request));
        }
        Ok(())
    }

    fn write_as(
        &self,
        activity: Activity,
        at: Lba,
        data: &[u8],
        persist: Persist,
    ) -> Result<(), DiskError> {
        let range = self.layout.geometry.request(at, data.len())?;
        let mut state = self.write_state()?;
        state.activity = activity;
        let mut rest = data;
        for part in self.layout.by_band(range) {
            let (own, behind) = rest.split_at(part.len.bytes() as usize);
            rest = behind;
            self.write_part(&mut state, part, own, persist)?;
        }
        Ok(())
    }

    fn flush_as(&self, activity: Activity) -> Result<(), DiskError> {
        let mut state = self.write_state()?;
        state.activity = activity;
        let released = self.release(&mut state);
        if !state.is_poisoned {
            // A write that waits in one band does not keep other bands from becoming durable.
            self.make_room(&mut state)?;
            self.flush_all(&mut state)?;
        }
        released
    }

    fn manage_zone_as(
        &self,
        _activity: Activity,
        zone: ZoneId,
        action: ZoneAction,
    ) -> Result<(), DiskError> {
        self.manage_zone(zone, action)
    }
}
