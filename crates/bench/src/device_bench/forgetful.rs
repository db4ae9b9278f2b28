//! A zoned drive that keeps no data of the host's: a disk over an emulated drive.
//!
//! ```text
//!     write   data --> pieces of the zone (`zone_pieces`), a few bytes a run
//!                  `-> zeros, and what is no data of the host's --> the emulated drive: rule, time, bytes
//!     read    the emulated drive's bytes <-- what the pieces say, over them
//! ```
//!
//! The emulated drive gets every request at its length and place, so rules, times and counters are those
//! of a drive with data. Zeros take no memory there. So a drive of 14 TB whose host writes blocks that
//! name their write ([`WriteNumber`](super::words::WriteNumber)) fits some GB of memory, and each read
//! returns exactly what was written: checksums hold.
//!
//! What goes to conventional zones is kept as it is.

use super::words::Checksums;
use super::zone_pieces::ZonePieces;
use imbrex_disk::{
    Activity, BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, DiskLayer, Lba, Persist,
    ReadRequest, ZoneAction, ZoneId, ZoneKind,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Zeros for writes of which nothing is kept.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// What the zones hold.
#[derive(Debug)]
struct Kept {
    sums: Checksums,
    /// Of each zone; `None` for a conventional one.
    zones: Vec<Option<ZonePieces>>,
}

/// The drive, for one activity.
#[derive(Debug)]
pub(super) struct ForgetfulDrive {
    below: Arc<dyn Disk>,
    kept: Arc<Mutex<Kept>>,
}

impl ForgetfulDrive {
    /// A drive over an empty one.
    pub(super) fn new(below: Arc<dyn Disk>) -> ForgetfulDrive {
        let zones = below.report_zones().into_iter();
        let zones = zones
            .map(|info| (info.kind != ZoneKind::Conventional).then(ZonePieces::default))
            .collect();
        let kept = Kept { sums: Checksums::new(), zones };
        ForgetfulDrive { below, kept: Arc::new(Mutex::new(kept)) }
    }

    /// About how much memory the pieces take.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.kept().zones.iter().flatten().map(ZonePieces::memory_bytes).sum()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The zone of a request, its start and the blocks that it can take. A request never leaves its zone.
    fn zone_of(&self, at: Lba) -> Option<(usize, Lba, u64)> {
        let geometry = self.below.geometry();
        let zone = geometry.zone_of(at)?;
        let range = geometry.zone_range(zone)?;
        Some((zone.0 as usize, range.start, geometry.zone_capacity(zone)?.get()))
    }

    /// Whether the drive below takes a write at `at`; it refuses any other. After a power cut a zone may be
    /// shorter than its pieces.
    fn is_at_pointer(&self, zone: usize, at: Lba) -> bool {
        let info = self.below.zone(ZoneId(zone as u32));
        info.and_then(|info| info.state.write_pointer(info.start)) == Some(at)
    }

    /// Puts what the pieces say over what the drive below has read. A read may span zones.
    fn read_over(&self, at: Lba, buf: &mut [u8]) {
        let kept = self.kept();
        let (mut at, mut rest) = (at, buf);
        while !rest.is_empty() {
            let Some((zone, start, _)) = self.zone_of(at) else { return };
            let range = self.below.geometry().zone_range(ZoneId(zone as u32));
            let left = range.map_or(Blocks::ZERO, |range| range.end() - at).bytes() as usize;
            let (here, behind) = rest.split_at_mut(left.min(rest.len()));
            if let Some(Some(pieces)) = kept.zones.get(zone) {
                pieces.read_over(&kept.sums, start, (at - start).get() as u32, here);
            }
            at += Blocks::holding(here.len() as u64);
            rest = behind;
        }
    }
}

impl DiskLayer for ForgetfulDrive {
    fn below(&self) -> &dyn Disk {
        &*self.below
    }

    fn pass_read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        self.below.read(at, buf)?;
        self.read_over(at, buf);
        Ok(())
    }

    fn pass_read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        self.below.read_batch(requests)?;
        requests.iter_mut().for_each(|request| self.read_over(request.at, request.buf));
        Ok(())
    }

    fn pass_write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError> {
        let Some((zone, start, capacity)) = self.zone_of(at) else {
            return self.below.write(at, data, persist);
        };
        let offset = (at - start).get() as u32;
        let kept_indices = {
            let mut kept = self.kept();
            let Kept { sums, zones } = &mut *kept;
            let pieces = zones.get_mut(zone).and_then(Option::as_mut);
            let Some(pieces) = pieces.filter(|_| self.is_at_pointer(zone, at)) else {
                drop(kept);
                return self.below.write(at, data, persist);
            };
            pieces.truncate(offset);
            pieces.append(sums, start, capacity, data)
        };
        let written = match ZEROS.get(..data.len()) {
            Some(zeros) if kept_indices.is_empty() => self.below.write(at, zeros, persist),
            _ => {
                let mut bytes = vec![0; data.len()];
                for index in kept_indices {
                    let block = index * BLOCK_LEN_BYTES..(index + 1) * BLOCK_LEN_BYTES;
                    bytes[block.clone()].copy_from_slice(&data[block]);
                }
                self.below.write(at, &bytes, persist)
            }
        };
        if written.is_err()
            && let Some(Some(pieces)) = self.kept().zones.get_mut(zone)
        {
            pieces.truncate(offset);
        }
        written
    }

    fn pass_discard(&self, range: BlockRange) -> Result<(), DiskError> {
        // Only a reset empties a sequential zone.
        self.below.discard(range)
    }

    fn pass_manage_zone(&self, zone: ZoneId, action: ZoneAction) -> Result<(), DiskError> {
        self.below.manage_zone(zone, action)?;
        if action == ZoneAction::Reset
            && let Some(Some(pieces)) = self.kept().zones.get_mut(zone.0 as usize)
        {
            *pieces = ZonePieces::default();
        }
        Ok(())
    }

    fn pass_for_activity(self: Arc<Self>, activity: Activity) -> Option<Arc<dyn Disk>> {
        let below = Arc::clone(&self.below).for_activity(activity)?;
        Some(Arc::new(ForgetfulDrive { below, kept: Arc::clone(&self.kept) }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::WriteNumber;
    use super::*;
    use imbrex_clockwork::Prng;
    use imbrex_disk_sim::SimDisk;
    use imbrex_translate::{BlockDriver, DriverOptions};

    const ZONE_LEN: u64 = 512;

    fn drive() -> Arc<ForgetfulDrive> {
        Arc::new(ForgetfulDrive::new(Arc::new(SimDisk::tiny_zoned(60, Blocks::new(ZONE_LEN)))))
    }

    /// The same device on a drive that forgets and on one that does not: each block of the drives is the
    /// same, and the one that forgets keeps a fraction of it.
    #[test]
    fn a_drive_that_forgets_returns_what_was_written() {
        let whole: Arc<dyn Disk> = Arc::new(SimDisk::tiny_zoned(60, Blocks::new(ZONE_LEN)));
        let below = Arc::new(SimDisk::tiny_zoned(60, Blocks::new(ZONE_LEN)));
        let forgetful = Arc::new(ForgetfulDrive::new(Arc::clone(&below) as Arc<dyn Disk>));
        let options = DriverOptions {
            id: 1,
            buffer_len: Blocks::new(256),
            bypass_len: Blocks::new(200),
            ..DriverOptions::default()
        };
        for disk in [Arc::clone(&whole), Arc::clone(&forgetful) as Arc<dyn Disk>] {
            let mut prng = Prng::new(1);
            let mut device = BlockDriver::format(Arc::clone(&disk), &options).unwrap();
            let len = device.geometry().len().get();
            for number in 1..2000 {
                let write_len = if prng.chance(1, 20) { 300 } else { 1 + prng.below(8) };
                let mut data = vec![0; Blocks::new(write_len).bytes() as usize];
                WriteNumber(number).fill(&mut data);
                let at = Lba::new(prng.below(len - write_len));
                device.write(at, &data, Persist::Cached).unwrap();
                if prng.chance(1, 50) {
                    device.flush().unwrap();
                }
                if number % 500 == 0 {
                    drop(device);
                    device = BlockDriver::open(Arc::clone(&disk), &options).unwrap();
                }
            }
        }
        let mut bufs = [(); 2].map(|()| vec![0; BLOCK_LEN_BYTES]);
        let (mut count, mut kept_count) = (0, 0);
        for info in whole.report_zones() {
            let end = info.state.write_pointer(info.start).unwrap_or(info.start + info.capacity);
            assert_eq!(forgetful.zone(info.zone), Some(info));
            for at in (info.start.get()..end.get()).map(Lba::new) {
                let [expected, got] = &mut bufs;
                whole.read(at, expected).unwrap();
                forgetful.read(at, got).unwrap();
                assert_eq!(expected, got, "block {at}");
                below.read(at, got).unwrap();
                count += 1;
                kept_count += u64::from(got.iter().any(|&byte| byte != 0));
            }
        }
        assert!(
            count > 10_000 && 10 * kept_count < count,
            "{kept_count} of {count} blocks are kept"
        );
        assert!(forgetful.memory_bytes() < 64 * count);
    }

    #[test]
    fn a_read_of_several_blocks_and_zones_is_whole() {
        let disk = drive();
        let mut data = vec![0; Blocks::new(2 * ZONE_LEN).bytes() as usize];
        for (number, blocks) in (1..).zip(data.chunks_mut(3 * BLOCK_LEN_BYTES)) {
            WriteNumber(number).fill(blocks);
        }
        let first = Lba::new(ZONE_LEN);
        let (left, right) = data.split_at(data.len() / 2);
        disk.write(first, left, Persist::Cached).unwrap();
        disk.write(first + Blocks::new(ZONE_LEN), right, Persist::Cached).unwrap();
        let mut got = vec![0; 700 * BLOCK_LEN_BYTES];
        // A strict read may not leave its zone.
        let (before, behind) = got.split_at_mut(200 * BLOCK_LEN_BYTES);
        let at = first + Blocks::new(ZONE_LEN - 200);
        let mut requests = [
            ReadRequest { at, buf: before },
            ReadRequest { at: at + Blocks::new(200), buf: behind },
        ];
        disk.read_batch(&mut requests).unwrap();
        let from = (ZONE_LEN as usize - 200) * BLOCK_LEN_BYTES;
        assert!(got == data[from..from + got.len()]);
    }

    #[test]
    fn a_refused_write_changes_nothing_and_a_reset_forgets() {
        let disk = drive();
        let mut data = vec![0; 4 * BLOCK_LEN_BYTES];
        WriteNumber(5).fill(&mut data);
        let zone = Lba::new(ZONE_LEN);
        disk.write(zone, &data, Persist::Cached).unwrap();
        WriteNumber(6).fill(&mut data);
        disk.write(zone + Blocks::new(1), &data, Persist::Cached).unwrap_err();
        let mut got = vec![0; 4 * BLOCK_LEN_BYTES];
        disk.read(zone, &mut got).unwrap();
        assert_eq!(WriteNumber::of(&got[3 * BLOCK_LEN_BYTES..]), Some(WriteNumber(5)));
        disk.manage_zone(ZoneId(1), ZoneAction::Reset).unwrap();
        assert_eq!(disk.memory_bytes(), 0);
        disk.write(zone, &data, Persist::Cached).unwrap();
        disk.read(zone, &mut got).unwrap();
        assert_eq!(got, data);
    }
}
