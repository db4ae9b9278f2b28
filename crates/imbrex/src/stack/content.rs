//! What a drive holds: a store, something else of ours, or nothing. What other programs leave is in `foreign`.
//!
//! Opening a drive that holds no store fails in the file layer, which knows only catalogs. [`Content`] looks further, so
//! that the error can name what is there.

use super::compose::mount;
use super::drives::Drives;
use super::error::LayoutError;
use super::found_drive::looked_at;
use crate::error::ErrorKind;
use imbrex_clockwork::{Order, Runtime};
use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Lba, Overlay, ZoneInfo, ZoneState,
};
use imbrex_files::{Files, FilesError};
use imbrex_filesystem::holds_file_system;
use imbrex_translate::BlockDriver;
use std::sync::Arc;

/// How much [`first_data`] reads at a time.
const READ_LEN: Blocks = Blocks::holding(1 << 20);

/// How much of a drive's start is read for an error message.
const GLANCE_LEN: Blocks = Blocks::holding(4 << 20);

/// What a drive holds instead of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing that was ever written, or that was not erased.
    Blank,
    /// A block device, made by the block driver.
    BlockDevice,
    /// The files of another database.
    FileSystem,
}

impl Content {
    /// What `disk` holds, given that its files could not be mounted because of `error`; `None` where that is unknown.
    ///
    /// A drive is called blank here if its first 4 MiB and its last 1 MiB are. The file layer has found no catalog by then,
    /// and the marks of other programs are in these parts. Formatting looks at more before it writes ([`first_data`]).
    ///
    /// Cost: reads 5 MiB at most, whatever the drive's length.
    pub fn of_unmounted(disk: &dyn Disk, error: &LayoutError) -> Option<Content> {
        let LayoutError::Files { source, .. } = error else { return None };
        let is_unformatted = matches!(source, FilesError::NotFormatted { .. });
        // The file layer reports a block device that lost a zone or a superblock as a damaged catalog.
        if (is_unformatted || source.is_damage()) && BlockDriver::is_on(disk) {
            return Some(Content::BlockDevice);
        }
        let is_blank = || {
            let [start, end] = looked_at(disk);
            let start = BlockRange::new(start.start, start.len.min(GLANCE_LEN));
            matches!(first_data_in(disk, [start, end]), Ok(None))
        };
        (is_unformatted && is_blank()).then_some(Content::Blank)
    }

    /// What mounted `files` hold instead of a store; `None` for a store, or for nothing yet.
    pub fn of_files(files: &dyn Files) -> Option<Content> {
        holds_file_system(files).then_some(Content::FileSystem)
    }

    /// The content and how it is opened, for an error message that begins "it holds".
    pub fn describe(self) -> &'static str {
        match self {
            Content::Blank => "no data; `imbrex drive format` makes a store on it",
            Content::BlockDevice => {
                "a block device, not a store; `imbrex serve` serves it, `imbrex check` verifies it"
            }
            Content::FileSystem => {
                "the files of another database, not a store; `imbrex run` starts programs on it"
            }
        }
    }
}

/// What this program has put on `disk`, in words that follow "it holds"; `None` where it finds nothing of its own.
///
/// Cost: that of mounting the files, in memory; nothing is written.
pub fn own_content(disk: &Arc<dyn Disk>) -> Option<String> {
    if BlockDriver::is_on(&**disk) {
        return Some("a block device of `imbrex serve`".to_owned());
    }
    let (runtime, _) = Runtime::virtual_time(Order::SmallestTime);
    let overlay = Arc::new(Overlay::new(Arc::clone(disk)));
    match mount(Drives::from(overlay), &runtime) {
        Ok(mounted) => {
            let what = match Content::of_files(&mounted.files) {
                Some(Content::FileSystem) => "the files of another database",
                _ if mounted.files.app_records().is_empty() => "room for another database, empty",
                _ => "a store",
            };
            Some(format!("{what} (layout {})", mounted.layout))
        }
        Err(error) => match ErrorKind::of(&error) {
            ErrorKind::WrongLayout | ErrorKind::NewerVersion => {
                Some("a store, or one of the drives of one".to_owned())
            }
            _ => None,
        },
    }
}

/// The first sign of data on `disk`, in words; `None` for a blank drive.
///
/// A zoned drive is blank when its zones are empty and its conventional zones read as zeros. A drive that is written
/// anywhere is blank when [`looked_at`] reads as zeros: data elsewhere is not seen.
///
/// # Errors
/// As [`Disk::read`]. A block that cannot be read counts as data.
pub fn first_data(disk: &dyn Disk) -> Result<Option<String>, DiskError> {
    first_data_in(disk, looked_at(disk))
}

/// The same, for a drive that is written anywhere or has conventional zones by what is in `ranges`.
fn first_data_in(disk: &dyn Disk, ranges: [BlockRange; 2]) -> Result<Option<String>, DiskError> {
    let zones = disk.report_zones();
    // An offline zone has nothing left to save.
    let is_blank = |zone: &&ZoneInfo| {
        matches!(zone.state, ZoneState::Empty | ZoneState::NoPointer | ZoneState::Offline)
    };
    let written_count = zones.iter().filter(|zone| !is_blank(zone)).count();
    if written_count > 0 {
        return Ok(Some(format!("{written_count} of its {} zones are written", zones.len())));
    }
    for range in ranges {
        if !reads_as_zeros(disk, range)? {
            return Ok(Some(match zones.is_empty() {
                true => "its beginning or its end is not blank".to_owned(),
                false => "its conventional zones are not blank".to_owned(),
            }));
        }
    }
    Ok(None)
}

fn reads_as_zeros(disk: &dyn Disk, range: BlockRange) -> Result<bool, DiskError> {
    let mut buffer = vec![0; READ_LEN.get() as usize * BLOCK_LEN_BYTES];
    let (start, end) = (range.start.get(), range.end().get());
    for at in (start..end).step_by(READ_LEN.get() as usize) {
        let piece = &mut buffer[..Blocks::new(READ_LEN.get().min(end - at)).bytes() as usize];
        match disk.read(Lba::new(at), piece) {
            Ok(()) if piece.iter().all(|&byte| byte == 0) => {}
            Ok(()) => return Ok(false),
            Err(error) if error.is_damage() => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex_disk::{Persist, ZoneId};
    use imbrex_disk_sim::SimDisk;
    use imbrex_translate::DriverOptions;

    #[test]
    fn marks_at_both_ends_of_a_conventional_drive_are_seen() {
        const SEEN: u64 = (512 << 20) / BLOCK_LEN_BYTES as u64;
        let len = SEEN + 4096;
        for (at, is_seen) in [(0, true), (1000, true), (len - 1, true), (SEEN + 10, false)] {
            let disk = SimDisk::tiny_conventional(Blocks::new(len));
            assert_eq!(first_data(&disk).unwrap(), None);
            disk.write(Lba::new(at), &[1; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
            assert_eq!(first_data(&disk).unwrap().is_some(), is_seen, "block {at}");
        }
    }

    #[test]
    fn a_written_zone_is_seen() {
        let disk = SimDisk::tiny_zoned(64, Blocks::new(256));
        assert_eq!(first_data(&disk).unwrap(), None);
        let last = disk.geometry().zone_range(ZoneId(63)).unwrap().start;
        disk.write(last, &[0; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
        assert_eq!(first_data(&disk).unwrap().unwrap(), "1 of its 64 zones are written");
    }

    /// The driver has two copies of its superblock. The file layer took the lost one for an unreadable catalog.
    #[test]
    fn a_block_device_with_an_unreadable_superblock_is_one() {
        for zone in 0..2 {
            let disk = Arc::new(SimDisk::tiny_zoned(64, Blocks::new(256)));
            let below = || Arc::clone(&disk) as Arc<dyn Disk>;
            let options = DriverOptions { buffer_len: Blocks::new(256), ..Default::default() };
            drop(BlockDriver::format(below(), &options).unwrap());
            disk.damage(BlockRange::new(Lba::new(zone * 256), Blocks::new(1)));
            let error = mount(Drives::from(below()), &Runtime::threads(1)).err().unwrap();
            let content = Content::of_unmounted(&*disk, &error);
            assert_eq!(content, Some(Content::BlockDevice), "zone {zone}: {error}");
            BlockDriver::open(below(), &options).unwrap();
        }
    }
}
