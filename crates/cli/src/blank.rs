//! Detection of a blank drive. A drive that does not open may still hold data worth saving, so a command
//! formats a drive that is not blank only on request.

use crate::byte_size::grouped;
use imbrex::stack::looked_at;
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Lba, ZoneInfo, ZoneState};

const PIECE: Blocks = Blocks::holding(1 << 20);

/// The evidence that something was written to the drive; `None` if it is blank.
pub(crate) fn written(drive: &dyn Disk) -> Result<Option<String>, DiskError> {
    let zones = drive.report_zones();
    // An offline zone holds nothing that could be saved.
    let is_blank = |zone: &&ZoneInfo| {
        matches!(zone.state, ZoneState::Empty | ZoneState::NoPointer | ZoneState::Offline)
    };
    let written_count = zones.iter().filter(|zone| !is_blank(zone)).count();
    if written_count > 0 {
        let [written, all] = [written_count, zones.len()].map(|count| grouped(count as u64));
        return Ok(Some(format!("{written} of its {all} zones are written")));
    }
    for range in looked_at(drive) {
        if !reads_as_zeros(drive, range)? {
            return Ok(Some(match zones.is_empty() {
                true => "its beginning or its end is not blank".to_owned(),
                false => "its conventional zones are not blank".to_owned(),
            }));
        }
    }
    Ok(None)
}

fn reads_as_zeros(drive: &dyn Disk, range: BlockRange) -> Result<bool, DiskError> {
    let mut piece = vec![0; PIECE.get() as usize * BLOCK_LEN_BYTES];
    let (start, end) = (range.start.get(), range.end().get());
    for at in (start..end).step_by(PIECE.get() as usize) {
        let piece = &mut piece[..Blocks::new(PIECE.get().min(end - at)).bytes() as usize];
        match drive.read(Lba::new(at), piece) {
            Ok(()) if piece.iter().all(|&byte| byte == 0) => {}
            Ok(()) => return Ok(false),
            // Something was there.
            Err(error) if error.is_damage() => return Ok(false),
            Err(error) => return Err(error),
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
        const LOOKED_AT: u64 = (512 << 20) / BLOCK_LEN_BYTES as u64;
        let len = LOOKED_AT + 4096;
        for (at, is_seen) in [(0, true), (1000, true), (len - 1, true), (LOOKED_AT + 10, false)] {
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
        assert_eq!(written(&disk).unwrap().unwrap(), "1 of its 64 zones are written");
    }
}
