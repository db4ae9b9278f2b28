//! The file systems: the commands that make, mount and check them.

use crate::packages::Need;

/// A file system of the kernel.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ext4,
    Xfs,
    Btrfs,
}

/// The options of a file system, drawn from a seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) kind: Kind,
    /// The block that the file system writes as a whole.
    pub(super) block_len: usize,
    /// The sector length of the network block device and of the loop device.
    pub(super) sector_len: usize,
    /// Deleted space is trimmed at once, not only by fstrim.
    is_discarding: bool,
}

impl Kind {
    pub(super) const ALL: [Kind; 3] = [Kind::Ext4, Kind::Xfs, Kind::Btrfs];

    /// The name for mount and in /proc/filesystems.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Ext4 => "ext4",
            Kind::Xfs => "xfs",
            Kind::Btrfs => "btrfs",
        }
    }

    pub(super) fn needs(self) -> &'static [Need] {
        match self {
            Kind::Ext4 => &[("/usr/sbin/mkfs.ext4", "e2fsprogs")],
            Kind::Xfs => &[("/usr/sbin/mkfs.xfs", "xfsprogs")],
            Kind::Btrfs => &[("/usr/bin/btrfs", "btrfs-progs")],
        }
    }

    /// The command that checks it without a change.
    pub(super) fn check(self) -> &'static [&'static str] {
        match self {
            Kind::Ext4 => &["e2fsck", "-f", "-n"],
            Kind::Xfs => &["xfs_repair", "-n"],
            Kind::Btrfs => &["btrfs", "check", "--readonly"],
        }
    }
}

impl Shape {
    pub(super) fn of_seed(kind: Kind, seed: u64) -> Shape {
        // btrfs supports only blocks of a page.
        let block_len = if kind != Kind::Btrfs && seed.is_multiple_of(2) { 1024 } else { 4096 };
        let sector_len = if block_len == 4096 && seed.is_multiple_of(3) { 4096 } else { 512 };
        Shape { kind, block_len, sector_len, is_discarding: seed % 5 > 2 }
    }

    /// The usual options.
    pub(super) fn usual(kind: Kind) -> Shape {
        Shape { kind, block_len: 4096, sector_len: 512, is_discarding: false }
    }

    /// The command that makes it, without the device.
    pub(super) fn make(self) -> Vec<String> {
        let Shape { kind, block_len, .. } = self;
        let line = match kind {
            Kind::Ext4 => format!("mkfs.ext4 -q -F -b {block_len}"),
            Kind::Xfs => format!("mkfs.xfs -q -f -b size={block_len}"),
            // On a small device data and metadata share the space, as mkfs advises.
            Kind::Btrfs => "mkfs.btrfs -q -f --mixed".to_owned(),
        };
        line.split(' ').map(str::to_owned).collect()
    }

    pub(super) fn mount_options(self) -> &'static str {
        match (self.kind, self.is_discarding) {
            (_, true) => "noatime,discard",
            (Kind::Btrfs, false) => "noatime,nodiscard",
            (Kind::Ext4 | Kind::Xfs, false) => "noatime",
        }
    }
}
