//! [`HostDisk`]: a table of zones enforces the rule, and a device stores the bytes.

use crate::device::{Access, Device};
use crate::error::HostDiskError;
use crate::ioctl::{SECTOR_LEN_BYTES, ZoneRequest};
use crate::report::{self, SECTORS_PER_BLOCK};
use imbrex_disk::{
    Activity, ActivityHandle, BLOCK_LEN_BYTES, BlockRange, Blocks, Counters, CountsActivities,
    Disk, DiskError, Geometry, GeometrySpec, Lba, Persist, ReadRequest, Readable, Rule, Tally,
    ZoneAction, ZoneId, ZoneInfo, ZoneMark, ZoneRecord, ZoneState, ZoneTable, write_zero_blocks,
};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A block device of this machine.
///
/// Requests of several threads run concurrently; writes to one zone run one after another. The
/// counters do not include seeks or busy time, which the host cannot observe.
#[derive(Debug)]
pub struct HostDisk {
    path: PathBuf,
    model: String,
    geometry: Geometry,
    device: Device,
    zones: Option<ZoneTable>,
    tally: Tally,
    poisoned: AtomicBool,
    is_read_only: bool,
    tears_blocks: bool,
    takes_discards: bool,
    writes_zeroes: bool,
}

impl HostDisk {
    /// Opens the block device at `path` exclusively, until it is dropped.
    ///
    /// Opening repairs what a crash left, and writes only for that: it closes open zones, and fills
    /// a partly written block with zeros. Cost: the report of all zones, 1,024 per request.
    ///
    /// # Errors
    /// [`HostDiskError`].
    pub fn open(path: &Path) -> Result<HostDisk, HostDiskError> {
        HostDisk::open_for(path, Access::Write)
    }

    /// Opens the block device at `path` for reading: writes are refused with
    /// [`DiskError::ReadOnly`], and the device stays as a crash left it. Several programs can have it
    /// open for reading; none has it open for writing meanwhile.
    ///
    /// # Errors
    /// [`HostDiskError`].
    pub fn open_read_only(path: &Path) -> Result<HostDisk, HostDiskError> {
        HostDisk::open_for(path, Access::Read)
    }

    fn open_for(path: &Path, access: Access) -> Result<HostDisk, HostDiskError> {
        let failed = |what: &'static str| {
            move |source| HostDiskError::Host { path: path.to_owned(), what, source }
        };
        let unsupported =
            |reason: String| HostDiskError::Unsupported { path: path.to_owned(), reason };
        let (device, limits) = Device::open(path, access)?;
        if let Some(obstacle) = limits.obstacle() {
            return Err(unsupported(obstacle));
        }
        let len_bytes = device.len_bytes().map_err(failed("asking for its length"))?;
        let mut raw_zones = Vec::new();
        let spec = match limits.zoned.as_str() {
            "host-managed" => {
                raw_zones = device
                    .zones(len_bytes)
                    .map_err(failed("asking for the report of its zones"))?;
                report::geometry(&raw_zones, &limits).map_err(unsupported)?
            }
            // A conventional drive, or one that manages itself.
            _ => GeometrySpec {
                len: Blocks::new(len_bytes / BLOCK_LEN_BYTES as u64),
                rule: Rule::Anywhere,
            },
        };
        let geometry = Geometry::new(spec)
            .map_err(|source| HostDiskError::Geometry { path: path.to_owned(), source })?;
        let records =
            raw_zones.iter().zip(0..).map(|(raw, zone)| report::record(ZoneId(zone), raw));
        let records: Vec<ZoneRecord> = records.collect::<Result<_, _>>().map_err(unsupported)?;
        let zones = geometry.zones().map(|spec| {
            let table = ZoneTable::new(geometry, *spec);
            table.load(|zone| records[zone.0 as usize]);
            table
        });
        Ok(HostDisk {
            path: path.to_owned(),
            model: limits.model,
            geometry,
            device,
            zones,
            tally: Tally::default(),
            poisoned: AtomicBool::new(false),
            is_read_only: access == Access::Read,
            tears_blocks: limits.physical_len_bytes < BLOCK_LEN_BYTES as u64,
            takes_discards: limits.takes_discards,
            writes_zeroes: limits.writes_zeroes,
        })
    }

    /// Vendor and model as the drive reports them. May be empty.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Whether a power cut can leave a block half written, because the drive's own sectors are
    /// shorter. In a sequential zone such a block lies below the write pointer once opening has
    /// filled it with zeros.
    pub fn tears_blocks(&self) -> bool {
        self.tears_blocks
    }

    fn gate_write(&self) -> Result<(), DiskError> {
        if self.is_read_only {
            return Err(DiskError::ReadOnly);
        }
        if self.poisoned.load(Ordering::Acquire) { Err(DiskError::Poisoned) } else { Ok(()) }
    }

    fn read_one(&self, activity: Activity, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        let range = self.geometry.request(at, buf.len())?;
        let len_bytes = buf.len();
        match &self.zones {
            Some(table) if table.check_read(range)? == Readable::InPart => {
                table.read_written(range, buf, |at, buf| self.read_blocks(at, buf))?;
            }
            _ => self.read_blocks(at, buf)?,
        }
        self.tally.read(activity, len_bytes);
        Ok(())
    }

    fn read_blocks(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        let (mut at, mut rest) = (at, buf);
        while let Err(failed) = self.device.read(at.get() * BLOCK_LEN_BYTES as u64, rest) {
            let first = Lba::new(failed.at / BLOCK_LEN_BYTES as u64);
            let range = BlockRange::new(first, Blocks::holding(failed.len as u64));
            let from_failed = rest.split_at_mut((first - at).bytes() as usize).1;
            let (piece, behind) = from_failed.split_at_mut(failed.len);
            if let Some(bad) = self.read_singly(first, piece) {
                return Err(self.failed_read(range, bad, failed.source));
            }
            (at, rest) = (range.end(), behind);
        }
        Ok(())
    }

    /// Reads the blocks of a failed piece again, one by one, up to the first that fails again. A
    /// caller with a copy needs its address, and a sector that fails only sometimes is as good as
    /// any when it succeeds.
    fn read_singly(&self, first: Lba, piece: &mut [u8]) -> Option<Lba> {
        let blocks = piece.chunks_mut(BLOCK_LEN_BYTES).zip(first.get()..);
        let offset = |at: u64| at * BLOCK_LEN_BYTES as u64;
        let mut fails =
            blocks.map(|(block, at)| (at, self.device.read(offset(at), block).is_err()));
        fails.find(|(_, fails)| *fails).map(|(at, _)| Lba::new(at))
    }

    /// The error for a read of `range` whose block `bad` failed again.
    fn failed_read(&self, range: BlockRange, bad: Lba, source: std::io::Error) -> DiskError {
        if is_medium(&source) {
            return DiskError::Medium { at: bad };
        }
        if let Some(table) = &self.zones
            && let Some(zone) = self.geometry.zone_of(range.start)
            && let Ok(raw) = self.device.reported(self.first_sector(zone))
            && let Some(mark) = report::given_up(&raw)
        {
            // Other threads may be writing to the zone. They find out about their own requests.
            table.give_up(zone, mark);
            let last = range.end() - Blocks::new(1);
            return match mark {
                ZoneMark::Offline => DiskError::Offline { zone },
                // The zone has no pointer any more. Its data ends where the drive refuses to read
                // everything behind.
                _ if bad < last && self.reads(last) => DiskError::Medium { at: bad },
                _ => DiskError::ReadAbovePointer { zone, range, write_pointer: bad },
            };
        }
        if is_vague(&source) && self.is_alone(bad, range.end()) {
            return DiskError::Medium { at: bad };
        }
        self.failed("reading", range, source)
    }

    fn reads(&self, at: Lba) -> bool {
        let mut block = vec![0; BLOCK_LEN_BYTES];
        self.device.read(at.get() * BLOCK_LEN_BYTES as u64, &mut block).is_ok()
    }

    /// Whether a block fails while others can be read. An ambiguous error is then one of the
    /// medium.
    fn is_alone(&self, bad: Lba, end: Lba) -> bool {
        let one = Blocks::new(1);
        let before = Lba::new(bad.get().saturating_sub(1));
        let others = [before, bad + one, end - one, Lba::new(0)];
        let is_other = |at: &&Lba| **at != bad && at.get() < self.geometry.len().get();
        others.iter().filter(is_other).any(|&at| self.reads(at))
    }

    fn first_sector(&self, zone: ZoneId) -> u64 {
        let range = self.geometry.zone_range(zone).expect("callers name zones of this disk only");
        range.start.get() * SECTORS_PER_BLOCK
    }

    /// Reads the zone from the drive after a failure (H3), and returns its state. The caller holds
    /// the zone's turnstile.
    fn state_now(&self, zone: ZoneId) -> Option<ZoneState> {
        let table = self.zones.as_ref()?;
        // If even this fails, the request's own error says more.
        let raw = self.device.zone(self.first_sector(zone)).ok()?;
        table.reload(zone, report::record(zone, &raw).ok()?);
        Some(table.info(zone)?.state)
    }

    fn poison(&self, error: DiskError) -> DiskError {
        self.poisoned.store(true, Ordering::Release);
        error
    }

    fn failed(&self, what: &str, range: BlockRange, source: std::io::Error) -> DiskError {
        let advice = match Errno::from_io_error(&source) {
            Some(Errno::NODEV | Errno::NXIO) => "; the device is gone",
            Some(Errno::IO) => "; the kernel's log says more",
            _ => "",
        };
        let path = self.path.display();
        DiskError::Host { what: format!("{path}: {what} blocks {range}{advice}"), source }
    }

    /// The error for a request to `zone` that the drive refused or failed.
    fn failed_at_zone(
        &self,
        zone: ZoneId,
        action: &'static str,
        range: BlockRange,
        source: std::io::Error,
    ) -> DiskError {
        let state = self.state_now(zone);
        if let Some(state @ (ZoneState::ReadOnly | ZoneState::Offline)) = state {
            return DiskError::ZoneNotWritable { zone, state, action };
        }
        let limits = self.geometry.zones();
        let (what, limit) = match Errno::from_io_error(&source) {
            Some(Errno::TOOMANYREFS) => ("open", limits.and_then(|spec| spec.open_zone_limit)),
            Some(Errno::OVERFLOW) => ("active", limits.and_then(|spec| spec.active_zone_limit)),
            _ => return self.failed(action_name(action), range, source),
        };
        DiskError::TooManyZones { zone, action, what, limit: limit.unwrap_or(0) }
    }

    fn write_blocks(
        &self,
        range: BlockRange,
        data: &[u8],
        persist: Persist,
    ) -> Result<(), DiskError> {
        let through = persist == Persist::Through;
        let offset = range.start.get() * BLOCK_LEN_BYTES as u64;
        let Some((table, zone)) = self.zones.as_ref().zip(self.geometry.zone_of(range.start))
        else {
            let written = self.device.write(offset, data, through);
            return written.map_err(|source| self.failed_write("writing", range, source, through));
        };
        let _turn = table.turnstile(zone);
        let sequential = table.begin_write(range)?;
        let written = self.device.write(offset, data, through);
        let again = || match sequential {
            Some(zone) => self.write_rest(zone, range, data, through),
            None => self.device.write(offset, data, through),
        };
        if let Err(source) = self.with_room(table, written, again) {
            table.abandon_write(sequential);
            let error = self.failed_at_zone(zone, "write", range, source);
            let is_refused = !matches!(error, DiskError::Host { .. });
            return Err(if through && !is_refused { self.poison(error) } else { error });
        }
        if let Some(zone) = sequential {
            table.commit_write(zone, range.end());
        }
        Ok(())
    }

    /// Returns the result of a request that ran `first`. If the drive had no room for one more open
    /// zone, closes on the drive the zones that the table closed to make room, and returns the
    /// result of `again`.
    ///
    /// Most drives close them by themselves. Some do not, once the limit on active zones is
    /// reached.
    fn with_room(
        &self,
        table: &ZoneTable,
        first: std::io::Result<()>,
        again: impl FnOnce() -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        if !is_too_many_open(&first) {
            return first;
        }
        for zone in (0..self.geometry.zone_count()).map(ZoneId) {
            if matches!(table.info(zone), Some(ZoneInfo { state: ZoneState::Closed { .. }, .. })) {
                // The retried request shows whether it helped.
                let _ = self.ask(zone, ZoneRequest::Close);
            }
        }
        again()
    }

    fn ask(&self, zone: ZoneId, request: ZoneRequest) -> std::io::Result<()> {
        let range = self.geometry.zone_range(zone).expect("callers name zones of this disk only");
        let len = range.len.get() * SECTORS_PER_BLOCK;
        self.device.manage_zone(request, self.first_sector(zone), len)
    }

    /// Writes the part of a write to a sequential zone that the drive has not taken yet.
    fn write_rest(
        &self,
        zone: ZoneId,
        range: BlockRange,
        data: &[u8],
        through: bool,
    ) -> std::io::Result<()> {
        let offset = range.start.get() * BLOCK_LEN_BYTES as u64;
        let pointer =
            self.device.reported(self.first_sector(zone))?.write_pointer * SECTOR_LEN_BYTES;
        let rest = pointer.checked_sub(offset).and_then(|done| data.get(done as usize..));
        match rest.filter(|rest| rest.len() % BLOCK_LEN_BYTES == 0) {
            Some(rest) => self.device.write(offset.max(pointer), rest, through),
            None => Err(Errno::TOOMANYREFS.into()),
        }
    }

    fn failed_write(
        &self,
        what: &str,
        range: BlockRange,
        source: std::io::Error,
        through: bool,
    ) -> DiskError {
        let error = self.failed(what, range, source);
        if through { self.poison(error) } else { error }
    }

    fn flush_device(&self) -> Result<(), DiskError> {
        self.device.flush().map_err(|source| {
            let what = format!("{}: flushing the drive's cache", self.path.display());
            self.poison(DiskError::Host { what, source })
        })
    }
}

/// Linux distinguishes medium errors from all others if the drive does. The rest of the disk is
/// then sound.
fn is_medium(error: &std::io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NODATA | Errno::ILSEQ))
}

/// The error for a broken sector behind some bridges, or with some SCSI codes. A broken drive
/// returns it too.
fn is_vague(error: &std::io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::IO | Errno::REMOTEIO))
}

fn is_too_many_open(result: &std::io::Result<()>) -> bool {
    let refused = result.as_ref().err().and_then(Errno::from_io_error);
    refused == Some(Errno::TOOMANYREFS)
}

fn action_name(action: &'static str) -> &'static str {
    match action {
        "write" => "writing",
        "open" => "opening the zone of",
        "close" => "closing the zone of",
        "finish" => "finishing the zone of",
        _ => "resetting the zone of",
    }
}

impl Disk for HostDisk {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        self.read_one(Activity::Other, at, buf)
    }

    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        self.read_batch_as(Activity::Other, requests)
    }

    fn write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError> {
        self.write_as(Activity::Other, at, data, persist)
    }

    fn flush(&self) -> Result<(), DiskError> {
        self.gate_write()?;
        self.flush_device()?;
        self.tally.flush();
        Ok(())
    }

    fn discard(&self, range: BlockRange) -> Result<(), DiskError> {
        self.gate_write()?;
        self.geometry.check(range)?;
        if range.len.is_zero() || !self.takes_discards || self.zones.is_some() {
            return Ok(());
        }
        let offset = range.start.get() * BLOCK_LEN_BYTES as u64;
        match self.device.discard(offset, range.len.bytes()) {
            // Only a hint: a drive may refuse it at times.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::OPNOTSUPP) => Ok(()),
            done => done.map_err(|source| self.failed("discarding", range, source)),
        }
    }

    fn write_zeroes(&self, range: BlockRange, persist: Persist) -> Result<(), DiskError> {
        if self.zones.is_some() || range.len.is_zero() {
            return write_zero_blocks(self, range, persist);
        }
        self.gate_write()?;
        self.geometry.check(range)?;
        let through = persist == Persist::Through;
        let offset = range.start.get() * BLOCK_LEN_BYTES as u64;
        let zeroed = self.device.zero_out(offset, range.len.bytes());
        zeroed.map_err(|source| self.failed_write("zeroing", range, source, through))?;
        if through {
            self.flush_device()?;
        }
        self.tally.write(Activity::Other, range.len.bytes() as usize);
        Ok(())
    }

    fn zeroes_are_cheap(&self) -> bool {
        self.zones.is_none() && self.writes_zeroes
    }

    fn zone(&self, zone: ZoneId) -> Option<ZoneInfo> {
        self.zones.as_ref()?.info(zone)
    }

    fn manage_zone(&self, zone: ZoneId, action: ZoneAction) -> Result<(), DiskError> {
        self.gate_write()?;
        let Some(table) = &self.zones else {
            let reason = "the disk has no zones".to_owned();
            return Err(DiskError::NoSuchZone { zone, action, reason });
        };
        let _turn = table.turnstile(zone);
        if !table.check_action(zone, action)? {
            return Ok(());
        }
        let (request, verb) = match action {
            ZoneAction::Open => (ZoneRequest::Open, "open"),
            ZoneAction::Close => (ZoneRequest::Close, "close"),
            ZoneAction::Finish => (ZoneRequest::Finish, "finish"),
            ZoneAction::Reset => (ZoneRequest::Reset, "reset"),
        };
        let range = self.geometry.zone_range(zone).expect("the table has checked it");
        table.make_room(zone, action)?;
        let managed = self.with_room(table, self.ask(zone, request), || self.ask(zone, request));
        managed.map_err(|source| self.failed_at_zone(zone, verb, range, source))?;
        if action == ZoneAction::Reset {
            // Durable on return: a drive may cache a pointer as it caches data.
            self.flush_device()?;
            self.tally.reset();
        }
        table.apply_action(zone, action).inspect_err(|_| {
            let _ = self.state_now(zone);
        })
    }

    /// One request for all zones.
    fn reset_zones(&self) -> Result<(), DiskError> {
        self.gate_write()?;
        let Some(table) = &self.zones else { return Ok(()) };
        let whole = BlockRange::new(Lba::new(0), self.geometry.len());
        let _turns = table.all_turnstiles();
        let sector_count = whole.len.get() * SECTORS_PER_BLOCK;
        let reset = self.device.manage_zone(ZoneRequest::Reset, 0, sector_count);
        // Also after a failure, because some zones may be reset (H3).
        let reported = self.device.zones(whole.len.bytes());
        for (raw, zone) in reported.iter().flatten().zip(0..self.geometry.zone_count()) {
            if let Ok(record) = report::record(ZoneId(zone), raw) {
                table.reload(ZoneId(zone), record);
            }
        }
        reset.map_err(|source| self.failed("resetting the zones of", whole, source))?;
        self.tally.reset();
        reported.map_err(|source| self.failed("asking for the zones of", whole, source))?;
        self.flush_device()
    }

    fn counters(&self) -> Counters {
        self.tally.counters()
    }

    fn for_activity(self: Arc<Self>, activity: Activity) -> Option<Arc<dyn Disk>> {
        Some(Arc::new(ActivityHandle::new(self, activity)))
    }
}

/// Counts bytes only: the host does not observe what the drive's time goes to.
impl CountsActivities for HostDisk {
    fn read_batch_as(
        &self,
        activity: Activity,
        requests: &mut [ReadRequest<'_>],
    ) -> Result<(), DiskError> {
        if let [request] = requests {
            return self.read_one(activity, request.at, request.buf);
        }
        for request in requests.iter() {
            self.geometry.request(request.at, request.buf.len())?;
        }
        // In ascending order, like one sweep of the arm.
        let mut in_order: Vec<_> = requests.iter_mut().collect();
        in_order.sort_by_key(|request| request.at);
        in_order
            .into_iter()
            .try_for_each(|request| self.read_one(activity, request.at, request.buf))
    }

    fn write_as(
        &self,
        activity: Activity,
        at: Lba,
        data: &[u8],
        persist: Persist,
    ) -> Result<(), DiskError> {
        self.gate_write()?;
        let range = self.geometry.request(at, data.len())?;
        self.write_blocks(range, data, persist)?;
        self.tally.write(activity, data.len());
        Ok(())
    }

    fn flush_as(&self, _activity: Activity) -> Result<(), DiskError> {
        self.flush()
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
