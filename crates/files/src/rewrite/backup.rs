//! The backup region: data that were moved away from top tracks, and where they belong.
//!
//! ```text
//!   | header: entries, checksums | data of entry 1 | data of entry 2 | ...      in top tracks of its own
//! ```
//!
//! The region holds twice the length of a table, and at least two top tracks, so that every bottom
//! track can be written. Source: KVIMR, section 3.3.2.
//!
//! At opening each entry counts by itself. An entry that is whole is moved back. If an entry is not
//! whole and its home is as it was when it was saved, the power was cut before the first sync, and
//! there is nothing to do. Otherwise the entry is damage. Then nothing more is written, neither
//! over the backup nor over a home, because the rest of it may still be needed.
//!
//! An entry may hold blocks of a file that was never committed, next to committed ones. If the
//! power was cut before the sync of the entry, those blocks lost their content. Where part of a
//! home belongs to no file, the checksum of the home is therefore no evidence. The evidence is then
//! in the blocks that do belong to files: nothing was destroyed if none of them is as a discard
//! leaves it. A discard leaves zeros, so zeros count only where none were saved.

use super::format::{self, FORMAT_VERSION, FoundHeader, Header, Sums};
use crate::catalog::{FileRecord, Namespace};
use crate::error::FilesError;
use crate::hints::FileKind;
use crate::region::Region;
use crate::space::CLASS_LEN;
use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Geometry, Lba, Persist, TrackId,
};

/// How much is copied at a time.
const PIECE_LEN_BYTES: u64 = 2 << 20;

/// One run of blocks in the backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Saved {
    /// Its home: where it belongs.
    pub(crate) home: BlockRange,
    /// Its position in the region.
    pub(crate) offset: Blocks,
}

/// Damage in a backup, because of which the drive can only be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackupFlaw {
    pub(crate) place: String,
    pub(crate) reason: String,
}

/// The outcome of opening a backup.
#[derive(Debug, Default)]
pub(super) struct Recovered {
    pub(super) flaw: Option<BackupFlaw>,
    /// Entries whose home has lost its data, so that they are read here as far as possible.
    pub(super) read_here: Vec<Saved>,
}

/// The content of the home of an entry that is not whole in the backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HomeState {
    /// The data that were saved.
    AsSaved,
    /// Other data.
    Other,
    /// Blocks that were discarded or destroyed.
    Blank,
}

/// The region and its capacity.
#[derive(Debug)]
pub(super) struct Backup {
    region: Region,
    header_len: Blocks,
    format_id: u64,
    number: u64,
}

/// The length of a region for tables of `unit_len`, and of the header in it.
fn lengths(geometry: &Geometry, unit_len: Blocks) -> Option<(Blocks, Blocks)> {
    let tracks = geometry.interlaced()?;
    let unit_len = if unit_len.is_zero() { CLASS_LEN } else { unit_len };
    // The longest possible entry.
    let top_len = u64::from(u32::try_from(tracks.top_track_len.get()).ok()?);
    let data_len = unit_len.get().checked_mul(2)?.max(top_len.checked_mul(2)?);
    // In two tracks every other block may live; of a table's tracks most are live as a whole.
    let entry_count = top_len.checked_add(4)?.max(data_len.div_ceil(top_len).checked_mul(4)?);
    let header_len = Blocks::holding(format::header_len_bytes(entry_count)?);
    Some((Blocks::new(data_len.checked_add(header_len.get())?), header_len))
}

fn region(
    geometry: &Geometry,
    regions: &[Region; 2],
    unit_len: Blocks,
) -> Result<(Region, Blocks), String> {
    let start = regions.iter().map(Region::reserved_end).max().unwrap_or_default();
    lengths(geometry, unit_len)
        .and_then(|(len, header_len)| {
            Some((Region::of_top_tracks(geometry, start, len)?, header_len))
        })
        .ok_or_else(|| {
            format!(
                "the drive has {}, too few for a catalog and a backup region of two tables",
                geometry.len()
            )
        })
}

/// The first block that files may use on a disk of `geometry`.
///
/// # Errors
/// Why there is none.
pub(crate) fn files_start(
    geometry: &Geometry,
    regions: &[Region; 2],
    unit_len: Blocks,
) -> Result<Lba, String> {
    if geometry.interlaced().is_none() {
        return Ok(regions.iter().map(Region::reserved_end).max().unwrap_or_default());
    }
    region(geometry, regions, unit_len).map(|(region, _)| region.reserved_end())
}

impl Backup {
    pub(super) fn new(
        geometry: &Geometry,
        regions: &[Region; 2],
        unit_len: Blocks,
        format_id: u64,
    ) -> Result<Backup, String> {
        let (region, header_len) = region(geometry, regions, unit_len)?;
        Ok(Backup { region, header_len, format_id, number: 0 })
    }

    pub(super) fn region(&self) -> &Region {
        &self.region
    }

    /// Whether all of `ranges` fit.
    pub(super) fn holds(&self, ranges: &[BlockRange]) -> bool {
        let len: Blocks = ranges.iter().map(|range| range.len).sum();
        let header_len_bytes = format::header_len_bytes(ranges.len() as u64);
        self.header_len + len <= self.region.len()
            && header_len_bytes.is_some_and(|len| len <= self.header_len.bytes())
    }

    /// Copies `ranges` into the region. They count after the next flush.
    pub(super) fn save(
        &mut self,
        disk: &dyn Disk,
        ranges: &[BlockRange],
    ) -> Result<Vec<Saved>, DiskError> {
        assert!(self.holds(ranges), "a batch is cut to what the backup region holds");
        let saved = self.offsets_of(ranges);
        let mut sums = Vec::with_capacity(ranges.len());
        for &Saved { home, offset } in &saved {
            let mut sum = 0;
            for_each_piece(home, |piece| {
                let mut data = vec![0; piece.len.bytes() as usize];
                disk.read(piece.start, &mut data)?;
                sum = crc32c::crc32c_append(sum, &data);
                self.region.write(disk, offset + (piece.start - home.start), &data, Persist::Cached)
            })?;
            sums.push(sum);
        }
        self.number += 1;
        let header = Header {
            format_id: self.format_id,
            number: self.number,
            homes: ranges.to_vec(),
            sums: Sums::OfEach(sums),
        };
        self.region.write(disk, Blocks::ZERO, &header.encode(), Persist::Cached)?;
        Ok(saved)
    }

    /// The positions in the region of `homes` that are saved together.
    fn offsets_of(&self, homes: &[BlockRange]) -> Vec<Saved> {
        let mut offset = self.header_len;
        let place = |&home: &BlockRange| {
            let saved = Saved { home, offset };
            offset += home.len;
            saved
        };
        homes.iter().map(place).collect()
    }

    /// Copies saved data back to where they belong. An entry that cannot be moved does not keep
    /// others from their homes.
    pub(super) fn put_back(&self, disk: &dyn Disk, saved: &[Saved]) -> Result<(), DiskError> {
        let mut outcome = Ok(());
        for saved in saved {
            let moved = for_each_piece(saved.home, |piece| {
                let mut data = vec![0; piece.len.bytes() as usize];
                let offset = saved.offset + (piece.start - saved.home.start);
                self.region.read(disk, offset, &mut data)?;
                disk.write(piece.start, &data, Persist::Cached)
            });
            outcome = outcome.and(moved);
        }
        outcome
    }

    /// Retires the backup: all saved data are durable where they belong.
    pub(super) fn retire(&self, disk: &dyn Disk) -> Result<(), DiskError> {
        self.region.write(disk, Blocks::ZERO, &[0; BLOCK_LEN_BYTES], Persist::Cached)
    }

    /// Moves back the data of files in `namespace` that a power cut left in the region.
    pub(super) fn recover(
        &mut self,
        disk: &dyn Disk,
        files_start: Lba,
        namespace: &Namespace,
    ) -> Result<Recovered, FilesError> {
        let Some(blocks) = self.read_header(disk).map_err(failed("reading"))? else {
            let reason =
                "its header cannot be read, so it is unknown whether a rewrite was interrupted";
            return self.settle_unreadable(disk, namespace, reason);
        };
        let is_all = blocks.len() as u64 == self.header_len.bytes();
        let header = match Header::find(&blocks, self.format_id) {
            // Torn before the first sync: nothing was destroyed yet.
            FoundHeader::Torn if is_all => return Ok(Recovered::default()),
            FoundHeader::Nothing => return Ok(Recovered::default()),
            FoundHeader::Torn => {
                let reason = "a part of its header cannot be read";
                return self.settle_unreadable(disk, namespace, reason);
            }
            FoundHeader::Damaged => {
                return Ok(self.flawed("the checksum of its header does not match"));
            }
            FoundHeader::Version(got) => {
                let what = "backup header";
                return Err(FilesError::Version { what, got, known: FORMAT_VERSION });
            }
            FoundHeader::Whole(header) => header,
        };
        if !self.holds(&header.homes) {
            return Err(corrupt("it names more than the region holds".to_owned()));
        }
        check_homes(disk.geometry(), &header.homes, files_start)?;
        self.number = header.number;
        let saved = self.offsets_of(&header.homes);
        let sums = match header.sums {
            Sums::OfEach(sums) => sums,
            Sums::OfAll(sum) => match self.sum_of_all(disk, &saved).map_err(failed("reading"))? {
                Some(got) if got == sum => return self.finish(disk, &saved),
                // Cut before the first sync: nothing was destroyed yet.
                Some(_) => return Ok(Recovered::default()),
                None => return Ok(self.flawed("a part of it cannot be read")),
            },
        };
        let mut whole = Vec::with_capacity(saved.len());
        let mut others = Vec::new();
        for (saved, sum) in saved.into_iter().zip(sums) {
            match self.sum(disk, &saved, 0).map_err(failed("reading"))? {
                Some(got) if got == sum => whole.push(saved),
                _ => others.push((saved, sum)),
            }
        }
        let mut lost = Vec::new();
        let mut read_here = Vec::new();
        for (saved, sum) in others {
            let (names, held) = files_in(namespace, saved.home);
            let home = self.look_home(disk, &saved, sum, &held);
            match home.map_err(failed("looking for the data in"))? {
                // The power was cut before the first sync, or the entry was already moved back.
                HomeState::AsSaved => continue,
                // Stale: the file was removed since.
                _ if names.is_empty() => continue,
                HomeState::Other => {}
                HomeState::Blank => read_here.push(saved),
            }
            lost.push(format!("blocks {} of {}", saved.home, names.join(", ")));
        }
        if lost.is_empty() {
            return self.finish(disk, &whole);
        }
        self.move_back(disk, &whole)?;
        let place = lost.join("; ");
        let reason = "their copy in the backup region, from which an interrupted rewrite is completed, is \
                      damaged; the drive can only be read, copy its files to another";
        Ok(Recovered { flaw: Some(BackupFlaw { place, reason: reason.to_owned() }), read_here })
    }

    /// The blocks of the header; only the first one if another cannot be read; `None` if the first
    /// cannot be read.
    fn read_header(&self, disk: &dyn Disk) -> Result<Option<Vec<u8>>, DiskError> {
        let mut blocks = vec![0; self.header_len.bytes() as usize];
        if read_or_lost(self.region.read(disk, Blocks::ZERO, &mut blocks))? {
            return Ok(Some(blocks));
        }
        blocks.truncate(BLOCK_LEN_BYTES);
        let is_read = read_or_lost(self.region.read(disk, Blocks::ZERO, &mut blocks))?;
        Ok(is_read.then_some(blocks))
    }

    /// The checksum of an entry's data, continuing from `before`; `None` if they cannot be read.
    fn sum(&self, disk: &dyn Disk, saved: &Saved, before: u32) -> Result<Option<u32>, DiskError> {
        let mut sum = before;
        let read = for_each_piece(saved.home, |piece| {
            let mut data = vec![0; piece.len.bytes() as usize];
            self.region.read(disk, saved.offset + (piece.start - saved.home.start), &mut data)?;
            sum = crc32c::crc32c_append(sum, &data);
            Ok(())
        });
        Ok(read_or_lost(read)?.then_some(sum))
    }

    fn sum_of_all(&self, disk: &dyn Disk, saved: &[Saved]) -> Result<Option<u32>, DiskError> {
        let mut sum = 0;
        for saved in saved {
            match self.sum(disk, saved, sum)? {
                Some(next) => sum = next,
                None => return Ok(None),
            }
        }
        Ok(Some(sum))
    }

    /// The content of the home of an entry whose checksum was `sum`. `held` are those of its blocks
    /// that files own.
    fn look_home(
        &self,
        disk: &dyn Disk,
        saved: &Saved,
        sum: u32,
        held: &[BlockRange],
    ) -> Result<HomeState, DiskError> {
        let Saved { home, offset } = *saved;
        let mut got = 0;
        let (mut is_read, mut is_blank) = (true, false);
        let (mut held_is_read, mut held_is_blank) = (true, false);
        let mut held_count = 0;
        let mut block = vec![0; BLOCK_LEN_BYTES];
        let mut copy = vec![0; BLOCK_LEN_BYTES];
        for at in (home.start.get()..home.end().get()).map(Lba::new) {
            let (is_here, is_nothing) = match disk.read(at, &mut block) {
                Ok(()) if is_zeros(&block) => {
                    // Zeros that were saved are not evidence of a discard.
                    let read = self.region.read(disk, offset + (at - home.start), &mut copy);
                    (true, !(read_or_lost(read)? && is_zeros(&copy)))
                }
                Ok(()) => (true, false),
                Err(DiskError::Medium { .. }) => (false, false),
                Err(DiskError::Destroyed { .. }) => (false, true),
                Err(error) => return Err(error),
            };
            (is_read, is_blank) = (is_read && is_here, is_blank || is_nothing);
            if held.iter().any(|range| range.start <= at && at < range.end()) {
                (held_is_read, held_is_blank) =
                    (held_is_read && is_here, held_is_blank || is_nothing);
                held_count += 1;
            }
            got = crc32c::crc32c_append(got, &block);
        }
        let is_all_held = held_count == home.len.get();
        Ok(match is_blank {
            _ if is_read && got == sum => HomeState::AsSaved,
            _ if !is_all_held && held_is_read && !held_is_blank => HomeState::AsSaved,
            true => HomeState::Blank,
            false => HomeState::Other,
        })
    }

    fn move_back(&self, disk: &dyn Disk, saved: &[Saved]) -> Result<(), FilesError> {
        let moved = self.put_back(disk, saved).and_then(|()| disk.flush());
        moved.map_err(failed("moving back"))
    }

    /// Moves back all entries, and retires the backup.
    fn finish(&self, disk: &dyn Disk, saved: &[Saved]) -> Result<Recovered, FilesError> {
        self.move_back(disk, saved)?;
        let retired = self.retire(disk).and_then(|()| disk.flush());
        retired.map(|()| Recovered::default()).map_err(failed("moving back"))
    }

    /// Resolves an unreadable header. The power may have failed while the header was written, when
    /// nothing was destroyed yet, or while it was zeroed, when everything was moved back. In both
    /// cases files lack nothing in top tracks, and the header is zeroed. Otherwise a rewrite was
    /// interrupted, and it is unknown which data were moved away.
    #[cold]
    fn settle_unreadable(
        &self,
        disk: &dyn Disk,
        namespace: &Namespace,
        reason: &str,
    ) -> Result<Recovered, FilesError> {
        match is_any_missing(disk, namespace).map_err(failed("looking for the data in"))? {
            true => Ok(self.flawed(reason)),
            false => self.finish(disk, &[]),
        }
    }

    /// A flaw of a backup whose content is unknown.
    fn flawed(&self, reason: &str) -> Recovered {
        let place = format!("block {}", self.region.pieces()[0].start);
        let reason = format!(
            "{reason}, so files may lack the blocks that were moved away; the drive can only be read, copy \
             its files to another"
        );
        Recovered { flaw: Some(BackupFlaw { place, reason }), read_here: Vec::new() }
    }
}

fn failed(what: &str) -> impl Fn(DiskError) -> FilesError {
    let what = format!("{what} the backup of rewritten tracks");
    move |source| FilesError::Disk { what: what.clone(), source }
}

fn is_zeros(block: &[u8]) -> bool {
    block.iter().all(|&byte| byte == 0)
}

/// Whether the read succeeded; false if the drive has lost the data.
fn read_or_lost(read: Result<(), DiskError>) -> Result<bool, DiskError> {
    match read {
        Err(DiskError::Medium { .. } | DiskError::Destroyed { .. }) => Ok(false),
        result => result.map(|()| true),
    }
}

/// Checks that each of `homes` is part of one top track for files.
fn check_homes(
    geometry: &Geometry,
    homes: &[BlockRange],
    files_start: Lba,
) -> Result<(), FilesError> {
    for home in homes {
        let track = geometry.track_of(home.start).filter(|track| track.is_top());
        let is_in_one = track
            .and_then(|track| geometry.track_range(track))
            .is_some_and(|track| files_start <= home.start && home.end() <= track.end());
        if !is_in_one {
            return Err(corrupt(format!("blocks {home} are not part of a top track for files")));
        }
    }
    Ok(())
}

/// The files that have blocks in `range`, and those blocks; without logs that were open, which are
/// in no backup.
fn files_in(namespace: &Namespace, range: BlockRange) -> (Vec<String>, Vec<BlockRange>) {
    let (mut names, mut held) = (Vec::new(), Vec::new());
    let is_saved = |file: &FileRecord| !file.is_open && !file.is_beside;
    for (name, file) in namespace.list("").filter(|(_, file)| is_saved(file)) {
        let before = held.len();
        let extents = file.extents.iter().map(|extent| extent.range());
        held.extend(extents.filter(|extent| extent.overlaps(range)));
        if held.len() > before {
            names.push(format!("{name:?}"));
        }
    }
    (names, held)
}

/// Whether a file's block in a top track is in the state between a rewrite and the move back:
/// destroyed, or zeros from a discard.
fn is_any_missing(disk: &dyn Disk, namespace: &Namespace) -> Result<bool, DiskError> {
    let is_saved = |file: &&FileRecord| !file.is_open && !file.is_beside;
    let is_on_top = |at: Lba| disk.geometry().track_of(at).is_some_and(TrackId::is_top);
    for file in namespace.files().filter(is_saved) {
        // A log owns blocks that were never written; its reader notices zeros before its end.
        let has_blanks = file.kind == FileKind::Log;
        for range in file.extents.iter().map(|extent| extent.range()) {
            let mut is_missing = false;
            for_each_piece(range, |piece| {
                is_missing = is_missing || is_missing_in(disk, piece, has_blanks, &is_on_top)?;
                Ok(())
            })?;
            if is_missing {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn is_missing_in(
    disk: &dyn Disk,
    piece: BlockRange,
    has_blanks: bool,
    is_on_top: &dyn Fn(Lba) -> bool,
) -> Result<bool, DiskError> {
    let mut data = vec![0; piece.len.bytes() as usize];
    let is_read = read_or_lost(disk.read(piece.start, &mut data))?;
    let blocks = (piece.start.get()..).map(Lba::new).zip(data.chunks_mut(BLOCK_LEN_BYTES));
    for (at, block) in blocks.filter(|(at, _)| is_on_top(*at)) {
        let read = if is_read { Ok(()) } else { disk.read(at, block) };
        match read {
            Ok(()) if !has_blanks && is_zeros(block) => return Ok(true),
            Err(DiskError::Destroyed { .. }) => return Ok(true),
            // A block that is damaged anyway was not moved away.
            Ok(()) | Err(DiskError::Medium { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

fn corrupt(reason: String) -> FilesError {
    FilesError::Corrupt { structure: "backup header", place: "the backup region".into(), reason }
}

fn for_each_piece(
    range: BlockRange,
    mut each: impl FnMut(BlockRange) -> Result<(), DiskError>,
) -> Result<(), DiskError> {
    let mut at = range.start;
    while at < range.end() {
        let len = (range.end() - at).min(Blocks::holding(PIECE_LEN_BYTES));
        each(BlockRange::new(at, len))?;
        at += len;
    }
    Ok(())
}
