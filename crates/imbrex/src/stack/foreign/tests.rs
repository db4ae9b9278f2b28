//! Each mark, alone on a blank drive. `crates/cli/tests/loop_devices.rs` compares with what the system's own programs make.

use super::*;
use imbrex_disk::Persist;
use imbrex_disk_sim::SimDisk;

/// 64 MiB.
const LEN: u64 = 16 << 10;
const LEN_BYTES: u64 = 64 << 20;

/// Where they are, and which.
type Bytes<'a> = (u64, &'a [u8]);

/// A blank drive with these bytes.
fn drive(marks: &[Bytes<'_>]) -> SimDisk {
    let disk = SimDisk::tiny_conventional(Blocks::new(LEN));
    for &(at, bytes) in marks {
        let block_len = BLOCK_LEN_BYTES as u64;
        let first = Lba::new(at / block_len);
        let len = (at % block_len + bytes.len() as u64).next_multiple_of(block_len);
        let mut blocks = vec![0; len as usize];
        disk.read(first, &mut blocks).unwrap();
        blocks[(at % block_len) as usize..][..bytes.len()].copy_from_slice(bytes);
        disk.write(first, &blocks, Persist::Cached).unwrap();
    }
    disk
}

#[track_caller]
fn found(marks: &[Bytes<'_>]) -> Vec<String> {
    let found = foreign_content(&drive(marks)).unwrap();
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn a_blank_drive_and_a_drive_of_one_block_hold_nothing() {
    assert_eq!(found(&[]), [""; 0]);
    let tiny = SimDisk::tiny_conventional(Blocks::new(1));
    assert_eq!(foreign_content(&tiny).unwrap(), []);
}

#[test]
fn a_mark_of_each_kind_is_found_where_it_is() {
    let ext = |features: [u32; 3]| -> Vec<u8> {
        let mut superblock = vec![0; 136];
        superblock[56..58].copy_from_slice(&[0x53, 0xEF]);
        for (field, at) in features.into_iter().zip([92, 96, 100]) {
            superblock[at..at + 4].copy_from_slice(&field.to_le_bytes());
        }
        superblock[120..124].copy_from_slice(b"data");
        superblock
    };
    let raid = |version: u32| [&0xA92B_4EFC_u32.to_le_bytes()[..], &version.to_le_bytes()].concat();
    let zfs = 0x00BA_B10C_u64.to_be_bytes();
    let rows: &[(&[Bytes<'_>], &str)] = &[
        (&[(1024, &ext([0, 2, 1]))], "a file system, ext2 (label \"data\", found at byte 1080)"),
        (&[(1024, &ext([4, 6, 3]))], "a file system, ext3 (label \"data\", found at byte 1080)"),
        (
            &[(1024, &ext([4, 0x2C2, 3]))],
            "a file system, ext4 (label \"data\", found at byte 1080)",
        ),
        (&[(0, b"XFSB"), (108, b"big\0")], "a file system, xfs (label \"big\", found at byte 0)"),
        (&[(65600, b"_BHRfS_M")], "a file system, btrfs (found at byte 65600)"),
        (&[(1024, &[0x10, 0x20, 0xF5, 0xF2])], "a file system, f2fs (found at byte 1024)"),
        (
            &[(82, b"FAT32   "), (510, &[0x55, 0xAA]), (71, b"STICK      ")],
            "a file system, vfat (label \"STICK\", found at byte 82)",
        ),
        (
            &[(54, b"FAT16   "), (510, &[0x55, 0xAA]), (43, b"NO NAME    ")],
            "a file system, vfat (found at byte 54)",
        ),
        (&[(3, b"NTFS    "), (510, &[0x55, 0xAA])], "a file system, ntfs (found at byte 3)"),
        (&[(3, b"EXFAT   "), (510, &[0x55, 0xAA])], "a file system, exfat (found at byte 3)"),
        (
            &[(512, b"LABELONE"), (536, b"LVM2 001")],
            "a part of a volume, LVM2_member (found at byte 512)",
        ),
        (&[(0, b"LUKS\xBA\xBE\0\x01")], "an encrypted volume, crypto_LUKS (found at byte 0)"),
        (
            &[(0, b"LUKS\xBA\xBE\0\x02"), (24, b"home")],
            "an encrypted volume, crypto_LUKS (label \"home\", found at byte 0)",
        ),
        (&[(16384, b"SKUL\xBA\xBE")], "an encrypted volume, crypto_LUKS (found at byte 16384)"),
        (
            &[(4096, &raid(1)), (4128, b"host:0")],
            "a part of a volume, linux_raid_member (label \"host:0\", found at byte 4096)",
        ),
        (
            &[(LEN_BYTES - 8192, &raid(1))],
            "a part of a volume, linux_raid_member (found at byte 67100672)",
        ),
        (
            &[(LEN_BYTES - 65536, &raid(0))],
            "a part of a volume, linux_raid_member (found at byte 67043328)",
        ),
        (&[(132 << 10, &zfs)], "a part of a volume, zfs_member (found at byte 135168)"),
        (
            &[(LEN_BYTES - (128 << 10), &zfs)],
            "a part of a volume, zfs_member (found at byte 66977792)",
        ),
        (&[(4086, b"SWAPSPACE2")], "a swap area, swap (found at byte 4086)"),
        (&[(65526, b"SWAPSPACE2")], "a swap area, swap (found at byte 65526)"),
        (&[(4120, &BCACHEFS)], "a file system, bcachefs (found at byte 4120)"),
        (&[(4120, &BCACHE)], "a part of a volume, bcache (found at byte 4120)"),
        (&[(32769, b"CD001")], "a file system, iso9660 (found at byte 32769)"),
        (&[(0, b"SFOZ")], "a file system, zonefs (found at byte 0)"),
    ];
    for (marks, expected) in rows {
        assert_eq!(found(marks), [*expected]);
    }
}

#[test]
fn a_table_of_partitions_is_named_before_what_is_in_them() {
    let mut entry = [0; 16];
    entry[4] = 0x83;
    entry[8] = 1;
    entry[12] = 9;
    let mbr: &[(u64, &[u8])] = &[(446, &entry), (510, &[0x55, 0xAA]), (65600, b"_BHRfS_M")];
    assert_eq!(
        found(mbr),
        [
            "a partition table, dos (1 partition, found at byte 510)",
            "a file system, btrfs (found at byte 65600)",
        ]
    );
    // The two bytes alone are no table: boot sectors of any kind end with them.
    assert_eq!(found(&[(510, &[0x55, 0xAA])]), [""; 0]);

    let mut header = [0; 92];
    header[..8].copy_from_slice(b"EFI PART");
    header[72] = 2;
    header[80] = 128;
    header[84] = 128;
    entry[4] = 0xEE;
    let kind = [7_u8; 16];
    let gpt: &[(u64, &[u8])] =
        &[(446, &entry), (510, &[0x55, 0xAA]), (512, &header), (1024, &kind), (1152, &kind)];
    assert_eq!(found(gpt), ["a partition table, gpt (2 partitions, found at byte 512)"]);
    let copy: &[(u64, &[u8])] = &[(LEN_BYTES - 512, &header)];
    assert!(found(copy)[0].starts_with("a partition table, gpt ("), "{:?}", found(copy));
}

#[test]
fn blocks_that_cannot_be_read_hide_nothing_else() {
    let disk = drive(&[(65600, b"_BHRfS_M")]);
    disk.damage(BlockRange::new(Lba::new(0), Blocks::new(3)));
    let found = foreign_content(&disk).unwrap();
    assert_eq!(found.len(), 1, "{found:?}");

    // The first zone of a zoned drive is conventional, the next ones are empty and refuse reads.
    let zoned = SimDisk::tiny_zoned(8, Blocks::new(4));
    zoned.write(Lba::new(0), &[b"XFSB".as_slice(), &[0; 4092]].concat(), Persist::Cached).unwrap();
    let found = foreign_content(&zoned).unwrap();
    assert_eq!(found[0].name, "xfs");
}
