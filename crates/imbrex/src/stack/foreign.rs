//! What other programs leave on a drive: tables of partitions, file systems, members of volumes.
//!
//! ```text
//!   | start: the first 264 KiB                                |        ...        | end: the last 512 KiB         |
//!     boot sector, tables of partitions, most superblocks, labels of ZFS             md 0.90 and 1.0, ZFS, GPT's copy
//! ```
//!
//! A mark is found by its bytes and by what surrounds them, and has the name that `blkid` gives it. Of several the first is
//! what the drive is known by: a table of partitions before what its partitions may have left.
//!
//! Source: the magic numbers of libblkid (util-linux), `libblkid/src/superblocks` and `libblkid/src/partitions`.
//! Not here: what this program leaves on a drive (`content`); whether the drive is in use (`disk-host`).

use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Lba};
use std::fmt;

/// To the last byte that a mark may begin with: LUKS' second header at 256 KiB.
const START_LEN: Blocks = Blocks::holding(264 << 10);
/// Two labels of ZFS.
const END_LEN: Blocks = Blocks::holding(512 << 10);

/// One thing that another program has put on a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// Its name, as `blkid` writes it, such as `ext4`.
    pub name: &'static str,
    /// What it is, with an article.
    kind: &'static str,
    /// What distinguishes it from others of its kind, such as its label.
    detail: Option<String>,
    /// Where its mark is, in bytes from the start of the drive.
    at: u64,
}

impl Foreign {
    /// Whether a caller who writes `name` means it.
    pub fn is_called(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Foreign { name, kind, detail, at } = self;
        let detail = detail.as_ref().map_or(String::new(), |detail| format!("{detail}, "));
        write!(f, "{kind}, {name} ({detail}found at byte {at})")
    }
}

const TABLE: &str = "a partition table";
const FILE_SYSTEM: &str = "a file system";
const SWAP: &str = "a swap area";
const VOLUME: &str = "a part of a volume";
const ENCRYPTED: &str = "an encrypted volume";

/// A mark that its bytes alone decide.
struct Mark {
    name: &'static str,
    kind: &'static str,
    at: usize,
    bytes: &'static [u8],
    /// Where its owner's label is, and how long it may be.
    label: Option<(usize, usize)>,
}

const fn mark(name: &'static str, kind: &'static str, at: usize, bytes: &'static [u8]) -> Mark {
    Mark { name, kind, at, bytes, label: None }
}

const fn labelled(mark: Mark, at: usize, len: usize) -> Mark {
    Mark { label: Some((at, len)), ..mark }
}

const KIB: usize = 1 << 10;

const MARKS: &[Mark] = &[
    labelled(mark("xfs", FILE_SYSTEM, 0, b"XFSB"), 108, 12),
    labelled(mark("btrfs", FILE_SYSTEM, 64 * KIB + 64, b"_BHRfS_M"), 64 * KIB + 299, 256),
    // On a zoned drive its superblocks are a log from the start of a zone.
    labelled(mark("btrfs", FILE_SYSTEM, 64, b"_BHRfS_M"), 299, 256),
    mark("f2fs", FILE_SYSTEM, KIB, &0xF2F5_2010_u32.to_le_bytes()),
    mark("exfat", FILE_SYSTEM, 3, b"EXFAT   "),
    mark("ntfs", FILE_SYSTEM, 3, b"NTFS    "),
    labelled(mark("bcachefs", FILE_SYSTEM, 4 * KIB + 24, &BCACHEFS), 4 * KIB + 72, 32),
    mark("bcache", VOLUME, 4 * KIB + 24, &BCACHE),
    mark("iso9660", FILE_SYSTEM, 32 * KIB + 1, b"CD001"),
    mark("squashfs", FILE_SYSTEM, 0, b"hsqs"),
    mark("erofs", FILE_SYSTEM, KIB, &0xE0F5_E1E2_u32.to_le_bytes()),
    mark("apfs", FILE_SYSTEM, 32, b"NXSB"),
    mark("hfsplus", FILE_SYSTEM, KIB, b"H+\x00\x04"),
    mark("hfsplus", FILE_SYSTEM, KIB, b"HX\x00\x05"),
    mark("jfs", FILE_SYSTEM, 32 * KIB, b"JFS1"),
    mark("reiserfs", FILE_SYSTEM, 64 * KIB + 52, b"ReIsEr"),
    mark("gfs2", FILE_SYSTEM, 64 * KIB, &0x0116_1970_u32.to_be_bytes()),
    mark("zonefs", FILE_SYSTEM, 0, &0x5A4F_4653_u32.to_le_bytes()),
    mark("ceph_bluestore", VOLUME, 0, b"bluestore block device"),
    labelled(mark("crypto_LUKS", ENCRYPTED, 0, b"LUKS\xBA\xBE\x00\x02"), 24, 48),
    mark("crypto_LUKS", ENCRYPTED, 0, b"LUKS\xBA\xBE"),
    mark("crypto_LUKS", ENCRYPTED, 16 * KIB, b"SKUL\xBA\xBE"),
    mark("crypto_LUKS", ENCRYPTED, 32 * KIB, b"SKUL\xBA\xBE"),
    mark("crypto_LUKS", ENCRYPTED, 64 * KIB, b"SKUL\xBA\xBE"),
    mark("crypto_LUKS", ENCRYPTED, 128 * KIB, b"SKUL\xBA\xBE"),
    mark("crypto_LUKS", ENCRYPTED, 256 * KIB, b"SKUL\xBA\xBE"),
    // A swap area begins with a page, and pages differ in length.
    labelled(mark("swap", SWAP, 4 * KIB - 10, b"SWAPSPACE2"), KIB + 28, 16),
    labelled(mark("swap", SWAP, 8 * KIB - 10, b"SWAPSPACE2"), KIB + 28, 16),
    labelled(mark("swap", SWAP, 16 * KIB - 10, b"SWAPSPACE2"), KIB + 28, 16),
    labelled(mark("swap", SWAP, 64 * KIB - 10, b"SWAPSPACE2"), KIB + 28, 16),
    mark("swsuspend", SWAP, 4 * KIB - 10, b"S1SUSPEND"),
];

const BCACHE: [u8; 16] = [
    0xC6, 0x85, 0x73, 0xF6, 0x4E, 0x1A, 0x45, 0xCA, 0x82, 0x65, 0xF5, 0x7F, 0x48, 0xBA, 0x6D, 0x81,
];
const BCACHEFS: [u8; 16] = [
    0xC6, 0x85, 0x73, 0xF6, 0x66, 0xCE, 0x90, 0xA9, 0xD9, 0x6A, 0x60, 0xCF, 0x80, 0x3D, 0xF7, 0xEF,
];

/// What other programs have put on `disk`, the most telling first.
///
/// Cost: reads the first 264 KiB, and the last 512 KiB of a drive without zones.
///
/// # Errors
/// As [`Disk::read`]. A block that cannot be read has no mark.
pub fn foreign_content(disk: &dyn Disk) -> Result<Vec<Foreign>, DiskError> {
    let len = disk.geometry().len();
    let start = read(disk, BlockRange::new(Lba::new(0), START_LEN.min(len)))?;
    let end_len = if disk.geometry().zone_count() == 0 { END_LEN.min(len) } else { Blocks::ZERO };
    let end_at = Lba::new((len - end_len).get());
    let end = read(disk, BlockRange::new(end_at, end_len))?;
    let pieces = Pieces { start, end, end_at: end_at.bytes(), len: len.bytes() };
    let mut found: Vec<Foreign> = [gpt, dos, fat, ext, lvm, raid, zfs]
        .into_iter()
        .filter_map(|find| find(&pieces))
        .chain(MARKS.iter().filter_map(|mark| mark.find(&pieces)))
        .collect();
    let mut seen = Vec::new();
    found.retain(|one| {
        !seen.contains(&one.name) && {
            seen.push(one.name);
            true
        }
    });
    Ok(found)
}

/// The blocks of `range`; zeros for one that cannot be read, or was never written.
fn read(disk: &dyn Disk, range: BlockRange) -> Result<Vec<u8>, DiskError> {
    let mut bytes = vec![0; range.len.bytes() as usize];
    if bytes.is_empty() {
        return Ok(bytes);
    }
    let mut rest = &mut bytes[..];
    for part in disk.geometry().read_parts(range) {
        let (now, later) = rest.split_at_mut(part.len.bytes() as usize);
        rest = later;
        match disk.read(part.start, now) {
            Err(error) if error.is_damage() => {}
            done => {
                done?;
                continue;
            }
        }
        for (block, at) in now.chunks_mut(BLOCK_LEN_BYTES).zip(part.start.get()..) {
            match disk.read(Lba::new(at), block) {
                Err(error) if error.is_damage() => block.fill(0),
                done => done?,
            }
        }
    }
    Ok(bytes)
}

/// The parts of a drive where marks are.
struct Pieces {
    start: Vec<u8>,
    end: Vec<u8>,
    /// Where `end` begins, in bytes.
    end_at: u64,
    len: u64,
}

impl Pieces {
    /// The bytes at `at`, if they are in one of the parts.
    fn get(&self, at: u64, len: usize) -> Option<&[u8]> {
        let of = |piece: &'_ [u8], from: u64| -> Option<std::ops::Range<usize>> {
            let from = usize::try_from(at.checked_sub(from)?).ok()?;
            (from + len <= piece.len()).then_some(from..from + len)
        };
        match of(&self.start, 0) {
            Some(range) => Some(&self.start[range]),
            None => of(&self.end, self.end_at).map(|range| &self.end[range]),
        }
    }

    fn has(&self, at: u64, bytes: &[u8]) -> bool {
        self.get(at, bytes.len()) == Some(bytes)
    }

    fn u32_le(&self, at: u64) -> Option<u32> {
        self.get(at, 4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn u64_le(&self, at: u64) -> Option<u64> {
        self.get(at, 8)?.try_into().ok().map(u64::from_le_bytes)
    }

    /// The owner's label, up to its first NUL or its trailing spaces.
    fn label(&self, at: u64, len: usize) -> Option<String> {
        let bytes = self.get(at, len)?;
        let bytes = bytes.split(|&byte| byte == 0).next()?.trim_ascii_end();
        (!bytes.is_empty()).then(|| format!("label {:?}", String::from_utf8_lossy(bytes)))
    }
}

impl Mark {
    fn find(&self, pieces: &Pieces) -> Option<Foreign> {
        let Mark { name, kind, at, bytes, label } = *self;
        let detail = || label.and_then(|(at, len)| pieces.label(at as u64, len));
        pieces.has(at as u64, bytes).then(|| Foreign {
            name,
            kind,
            detail: detail(),
            at: at as u64,
        })
    }
}

/// A GPT, by its header in the second sector, or by the copy in the last one. Sectors have 512 or 4096 bytes.
fn gpt(pieces: &Pieces) -> Option<Foreign> {
    let sectors = [512, 4096];
    let first = sectors.into_iter().map(|sector| (sector, sector));
    let last = sectors.into_iter().map(|sector| (pieces.len.saturating_sub(sector), sector));
    let is_header = |&(at, _): &(u64, u64)| pieces.has(at, b"EFI PART");
    let (at, sector) = first.chain(last).find(is_header)?;
    let count = || {
        let (table, entry_count) = (pieces.u64_le(at + 72)?, pieces.u32_le(at + 80)?);
        let entry_len = u64::from(pieces.u32_le(at + 84)?);
        let entries = (0..u64::from(entry_count.min(128))).filter_map(|index| {
            let at = table.checked_mul(sector)?.checked_add(index * entry_len)?;
            pieces.get(at, 16)
        });
        Some(entries.filter(|kind| kind.iter().any(|&byte| byte != 0)).count())
    };
    let detail = count().map(partitions);
    Some(Foreign { name: "gpt", kind: TABLE, detail, at })
}

fn partitions(count: usize) -> String {
    if count == 1 { "1 partition".to_owned() } else { format!("{count} partitions") }
}

/// A boot sector with a table of partitions (MBR). Boot sectors of file systems end with the same two bytes.
fn dos(pieces: &Pieces) -> Option<Foreign> {
    let is_of_file_system =
        fat(pieces).is_some() || pieces.has(3, b"NTFS    ") || pieces.has(3, b"EXFAT   ");
    if !pieces.has(510, &[0x55, 0xAA]) || is_of_file_system || gpt(pieces).is_some() {
        return None;
    }
    let entries = pieces.get(446, 64)?.as_chunks::<16>().0;
    let is_sound = |entry: &&[u8; 16]| matches!(entry[0], 0x00 | 0x80);
    let is_used = |entry: &&[u8; 16]| entry[4] != 0 && entry[12..] != [0; 4];
    let count = entries.iter().filter(is_used).count();
    let is_table = entries.iter().filter(is_sound).count() == entries.len() && count > 0;
    is_table.then(|| Foreign { name: "dos", kind: TABLE, detail: Some(partitions(count)), at: 510 })
}

fn fat(pieces: &Pieces) -> Option<Foreign> {
    const NAMES: [(u64, &[u8], u64); 4] = [
        (82, b"FAT32   ", 71),
        (54, b"FAT16   ", 43),
        (54, b"FAT12   ", 43),
        (54, b"FAT     ", 43),
    ];
    let found = NAMES.iter().find(|(at, name, _)| pieces.has(*at, name));
    let &(at, _, label) = found.filter(|_| pieces.has(510, &[0x55, 0xAA]))?;
    let detail = pieces.label(label, 11).filter(|_| !pieces.has(label, b"NO NAME    "));
    Some(Foreign { name: "vfat", kind: FILE_SYSTEM, detail, at })
}

/// ext2, ext3 and ext4 share their superblock, and differ by its features.
fn ext(pieces: &Pieces) -> Option<Foreign> {
    const SUPERBLOCK: u64 = 1024;
    const BLOCK_LEN_LOG_MAX: u32 = 6;
    const HAS_JOURNAL: u32 = 4;
    /// Those that ext3 knows: file types in directories, a journal to replay, groups of descriptors.
    const INCOMPATIBLE_EXT3: u32 = 0x2 | 0x4 | 0x10;
    /// Sparse superblocks, files longer than 2 GiB, B-tree directories.
    const READ_ONLY_EXT3: u32 = 0x1 | 0x2 | 0x4;
    let field = |at: u64| pieces.u32_le(SUPERBLOCK + at);
    if !pieces.has(SUPERBLOCK + 56, &[0x53, 0xEF]) || field(24)? > BLOCK_LEN_LOG_MAX {
        return None;
    }
    let is_newer = field(96)? & !INCOMPATIBLE_EXT3 != 0 || field(100)? & !READ_ONLY_EXT3 != 0;
    let name = match field(92)? & HAS_JOURNAL != 0 {
        _ if is_newer => "ext4",
        true => "ext3",
        false => "ext2",
    };
    let detail = pieces.label(SUPERBLOCK + 120, 16);
    Some(Foreign { name, kind: FILE_SYSTEM, detail, at: SUPERBLOCK + 56 })
}

/// A physical volume of LVM, with its label in one of the first four sectors.
fn lvm(pieces: &Pieces) -> Option<Foreign> {
    let labels = (0..4).map(|sector| sector * 512);
    let is_label = |&at: &u64| pieces.has(at, b"LABELONE") && pieces.has(at + 24, b"LVM2 001");
    let at = { labels }.find(is_label)?;
    Some(Foreign { name: "LVM2_member", kind: VOLUME, detail: None, at })
}

/// A member of a RAID of the kernel's (md). Where its superblock is depends on the version.
fn raid(pieces: &Pieces) -> Option<Foreign> {
    const MAGIC: u32 = 0xA92B_4EFC;
    let sectors = pieces.len / 512;
    let version_1_0 = (sectors.saturating_sub(16) & !7) * 512;
    let of_version_1 = [0, 4096, version_1_0]
        .into_iter()
        .find(|&at| pieces.has(at, &MAGIC.to_le_bytes()) && pieces.u32_le(at + 4) == Some(1));
    // A superblock of version 0 has the byte order of the machine that wrote it.
    let version_0 = (pieces.len & !0xFFFF).saturating_sub(0x1_0000);
    let is_version_0 =
        pieces.has(version_0, &MAGIC.to_le_bytes()) || pieces.has(version_0, &MAGIC.to_be_bytes());
    let at = of_version_1.or(is_version_0.then_some(version_0))?;
    let detail = of_version_1.and_then(|at| pieces.label(at + 32, 32));
    Some(Foreign { name: "linux_raid_member", kind: VOLUME, detail, at })
}

/// A member of a pool of ZFS: a block of 1 KiB with its magic number in the second half of one of four labels.
fn zfs(pieces: &Pieces) -> Option<Foreign> {
    const MAGIC: u64 = 0x00BA_B10C;
    const LABEL_LEN: u64 = 256 << 10;
    let last = (pieces.len & !(LABEL_LEN - 1)).saturating_sub(2 * LABEL_LEN);
    let labels = [0, LABEL_LEN, last, last + LABEL_LEN];
    let blocks = labels
        .into_iter()
        .flat_map(|label| (128..256).map(move |index: u64| label + (index << 10)));
    let is_magic =
        |&at: &u64| pieces.has(at, &MAGIC.to_le_bytes()) || pieces.has(at, &MAGIC.to_be_bytes());
    let at = { blocks }.find(is_magic)?;
    Some(Foreign { name: "zfs_member", kind: VOLUME, detail: None, at })
}

#[cfg(test)]
mod tests;
