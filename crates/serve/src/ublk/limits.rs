//! The limits of a device that the kernel must respect in its requests.

use crate::BlockDevice;

/// The unit of the kernel's numbers, independent of the device's sectors.
pub(crate) const KERNEL_SECTOR_LEN_BYTES: u64 = 512;

/// The longest read and write: the length of a request's buffer.
pub(crate) const IO_LEN_BYTES_MAX: u32 = 512 << 10;

/// The longest discard. Discarding is faster than writing, but still takes time.
const DISCARD_LEN_BYTES_MAX: u64 = 1 << 30;

/// The longest run of zeros, because a device may have to write them.
const ZEROES_LEN_BYTES_MAX: u64 = 32 << 20;

/// The preferred unit: a write of a partial block costs a read, so requests should not end inside a block.
const BLOCK_SHIFT: u8 = 12;

/// The limits in the kernel's form: sectors of 512 bytes, some lengths as powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) len_sectors: u64,
    pub(crate) sector_shift: u8,
    pub(crate) block_shift: u8,
    pub(crate) preferred_shift: u8,
    pub(crate) io_sectors_max: u32,
    pub(crate) discard_sectors_max: u32,
    pub(crate) zeroes_sectors_max: u32,
    pub(crate) is_read_only: bool,
    pub(crate) is_rotational: bool,
}

impl Limits {
    pub(crate) fn of(device: &dyn BlockDevice, is_read_only: bool) -> Limits {
        let shift = |len_bytes: u32| len_bytes.trailing_zeros() as u8;
        let sectors = |len_bytes: u64| (len_bytes / KERNEL_SECTOR_LEN_BYTES) as u32;
        // The kernel need not send requests that the device refuses.
        let change = |len_bytes: u64| if is_read_only { 0 } else { sectors(len_bytes) };
        Limits {
            len_sectors: device.len_bytes() / KERNEL_SECTOR_LEN_BYTES,
            sector_shift: shift(device.sector_len_bytes()),
            block_shift: BLOCK_SHIFT,
            preferred_shift: shift(device.preferred_len_bytes().next_power_of_two()),
            io_sectors_max: sectors(u64::from(IO_LEN_BYTES_MAX)),
            discard_sectors_max: change(DISCARD_LEN_BYTES_MAX),
            zeroes_sectors_max: change(ZEROES_LEN_BYTES_MAX),
            is_read_only,
            is_rotational: device.is_rotational(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SectorDevice, SectorLen};
    use imbrex_disk::{Blocks, Geometry, GeometrySpec, Rule};
    use imbrex_disk_sim::SimDisk;
    use std::sync::Arc;

    fn limits(sector_len: SectorLen, is_read_only: bool) -> Limits {
        let spec = GeometrySpec { len: Blocks::new(1000), rule: Rule::Anywhere };
        let disk = SimDisk::builder(Geometry::new(spec).unwrap()).memory().unwrap();
        Limits::of(&SectorDevice::new(Arc::new(disk), sector_len).unwrap(), is_read_only)
    }

    #[test]
    fn the_kernel_gets_the_devices_limits() {
        let short = limits(SectorLen::Bytes512, false);
        let told = Limits {
            len_sectors: 8000,
            sector_shift: 9,
            block_shift: 12,
            preferred_shift: 12,
            io_sectors_max: 1024,
            discard_sectors_max: 1 << 21,
            zeroes_sectors_max: 1 << 16,
            is_read_only: false,
            is_rotational: true,
        };
        assert_eq!(short, told);
        assert_eq!(limits(SectorLen::Bytes4096, false), Limits { sector_shift: 12, ..told });
        let refusing =
            Limits { discard_sectors_max: 0, zeroes_sectors_max: 0, is_read_only: true, ..told };
        assert_eq!(limits(SectorLen::Bytes512, true), refusing);
    }
}
