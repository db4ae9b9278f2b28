//! Whether a drive is blank: what opens no more may still be saved, so nothing is made over it unasked.

use crate::byte_size::grouped;
use imbrex_disk::{BLOCK_LEN_BYTES, Blocks, Disk, DiskError, Lba, ZoneInfo, ZoneState};

/// How much is looked at where writes go anywhere: both regions of a store's catalog, and wherever file systems, tables
/// of partitions and the like have their marks.
const LOOKED_AT: Blocks = Blocks::holding(512 << 20);

const PIECE: Blocks = Blocks::holding(1 << 20);

/// What says that something was written to the drive; `None` for a blank one.
pub(crate) fn written(drive: &dyn Disk) -> Result<Option<String>, DiskError> {
    let zones = drive.report_zones();
    // Of one that is offline nothing is left to be saved.
    let is_blank = |zone: &&ZoneInfo| {
        matches!(zone.state, ZoneState::Empty | ZoneState::NoPointer | ZoneState::Offline)
    };
    let written_count = zones.iter().filter(|zone| !is_blank(zone)).count();
    if written_count > 0 {
        let [written, all] = [written_count, zones.len()].map(|count| grouped(count as u64));
        return Ok(Some(format!("of its {all} zones {written} are written")));
    }
    let conventional = zones.iter().take_while(|zone| zone.state == ZoneState::NoPointer);
    let (len, what) = match zones.is_empty() {
        true => (drive.geometry().len(), "something lies at its beginning or its end"),
        false => {
            (conventional.map(|zone| zone.capacity).sum(), "its conventional zones are not blank")
        }
    };
    let at_start = 0..len.min(LOOKED_AT).get();
    let at_end = len.saturating_sub(PIECE).get().max(at_start.end)..len.get();
    for part in [at_start, at_end] {
        if !reads_as_zeros(drive, part.start, part.end)? {
            return Ok(Some(what.to_owned()));
        }
    }
    Ok(None)
}

fn reads_as_zeros(drive: &dyn Disk, start: u64, end: u64) -> Result<bool, DiskError> {
    let mut piece = vec![0; PIECE.get() as usize * BLOCK_LEN_BYTES];
    for at in (start..end).step_by(PIECE.get() as usize) {
        let piece = &mut piece[..Blocks::new(PIECE.get().min(end - at)).bytes() as usize];
        drive.read(Lba::new(at), piece)?;
        if piece.iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex_disk::Persist;
    use imbrex_disk_sim::SimDisk;

    #[test]
    fn marks_at_both_ends_of_a_conventional_drive_are_seen() {
        let len = LOOKED_AT.get() + 4096;
        for (at, is_seen) in
            [(0, true), (1000, true), (len - 1, true), (LOOKED_AT.get() + 10, false)]
        {
            let disk = SimDisk::tiny_conventional(Blocks::new(len));
            assert_eq!(written(&disk).unwrap(), None);
            disk.write(Lba::new(at), &[1; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
            assert_eq!(written(&disk).unwrap().is_some(), is_seen, "block {at}");
        }
    }

    #[test]
    fn a_written_zone_is_seen() {
        let disk = SimDisk::tiny_zoned(64, Blocks::new(256));
        assert_eq!(written(&disk).unwrap(), None);
        let last = disk.geometry().zone_range(imbrex_disk::ZoneId(63)).unwrap().start;
        disk.write(last, &[0; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
        assert_eq!(written(&disk).unwrap().unwrap(), "of its 64 zones 1 are written");
    }
}
