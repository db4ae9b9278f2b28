//! Addresses and lengths in blocks. Each is a separate type, so the compiler keeps them apart.
//!
//! Address + length = address; address - address = length; there is no address + address.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};

/// The unit of every transfer and every address, in bytes.
///
/// 4096 bytes is the physical block of all drives since "Advanced Format" (2011), and the smallest
/// write that a host-managed drive takes without a read-modify-write inside the drive.
pub const BLOCK_LEN_BYTES: usize = 4096;

/// A length in blocks of [`BLOCK_LEN_BYTES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Blocks(u64);

impl Blocks {
    /// No blocks at all.
    pub const ZERO: Blocks = Blocks(0);

    /// `count` blocks.
    pub const fn new(count: u64) -> Self {
        Blocks(count)
    }

    /// The fewest blocks that hold `len_bytes` bytes.
    pub const fn holding(len_bytes: u64) -> Self {
        Blocks(len_bytes.div_ceil(BLOCK_LEN_BYTES as u64))
    }

    /// The count.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The length in bytes.
    pub const fn bytes(self) -> u64 {
        self.0 * BLOCK_LEN_BYTES as u64
    }

    /// `self - other`, or zero if `other` is longer.
    pub const fn saturating_sub(self, other: Blocks) -> Blocks {
        Blocks(self.0.saturating_sub(other.0))
    }

    /// Whether this length is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Add for Blocks {
    type Output = Blocks;
    fn add(self, other: Blocks) -> Blocks {
        Blocks(self.0 + other.0)
    }
}
impl AddAssign for Blocks {
    fn add_assign(&mut self, other: Blocks) {
        self.0 += other.0;
    }
}
impl Sub for Blocks {
    type Output = Blocks;
    fn sub(self, other: Blocks) -> Blocks {
        Blocks(self.0 - other.0)
    }
}
impl SubAssign for Blocks {
    fn sub_assign(&mut self, other: Blocks) {
        self.0 -= other.0;
    }
}
impl std::iter::Sum for Blocks {
    fn sum<I: Iterator<Item = Blocks>>(iter: I) -> Blocks {
        iter.fold(Blocks::ZERO, Add::add)
    }
}
impl fmt::Display for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} blocks", self.0)
    }
}

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// The address of block number `block`, counted from the start of the disk.
            pub const fn new(block: u64) -> Self {
                $name(block)
            }

            /// The block number.
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The distance in bytes from the start of the disk.
            pub const fn bytes(self) -> u64 {
                self.0 * BLOCK_LEN_BYTES as u64
            }
        }
        impl Add<Blocks> for $name {
            type Output = $name;
            fn add(self, len: Blocks) -> $name {
                $name(self.0 + len.0)
            }
        }
        impl AddAssign<Blocks> for $name {
            fn add_assign(&mut self, len: Blocks) {
                self.0 += len.0;
            }
        }
        impl Sub<Blocks> for $name {
            type Output = $name;
            fn sub(self, len: Blocks) -> $name {
                $name(self.0 - len.0)
            }
        }
        impl Sub for $name {
            type Output = Blocks;
            fn sub(self, other: $name) -> Blocks {
                Blocks(self.0 - other.0)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} {}", stringify!($name).to_lowercase(), self.0)
            }
        }
    };
}

address! {
    /// A block as the host of a disk names it.
    Lba
}
address! {
    /// A block as the platter lays it out. Only the crate `translate` turns an [`Lba`] into a
    /// `Pba`.
    Pba
}

/// The number of a zone, counted from the start of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneId(pub u32);

impl fmt::Display for ZoneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zone {}", self.0)
    }
}

/// A half-open run of blocks, `start .. start + len`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockRange {
    /// The first block.
    pub start: Lba,
    /// How many blocks.
    pub len: Blocks,
}

impl BlockRange {
    /// The run of `len` blocks from `start`.
    pub const fn new(start: Lba, len: Blocks) -> Self {
        BlockRange { start, len }
    }

    /// The first block after the run.
    pub fn end(self) -> Lba {
        self.start + self.len
    }

    /// Whether the run holds `at`.
    pub fn contains(self, at: Lba) -> bool {
        self.start <= at && at < self.end()
    }

    /// Whether two runs share a block.
    pub fn overlaps(self, other: BlockRange) -> bool {
        self.start < other.end() && other.start < self.end()
    }
}

impl fmt::Display for BlockRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start.get(), self.end().get())
    }
}
