//! A summary as values, for a model of a drive that keeps no data: it keeps the values, and makes the
//! block from them when it is read.
//!
//! Not here: the driver's own summaries (`summaries`), and their bytes (`format`).

use super::format::{STRETCH_LEN, Sum, decode_summary, encode_summary, summary_names};
use imbrex_disk::{BLOCK_LEN_BYTES, Lba};

/// What a summary says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryValues {
    /// The device.
    pub id: u64,
    /// The generation of the zone's content.
    pub generation: u64,
    /// The host's address and the checksum of each block of the stretch, in order.
    pub sums: Vec<(Lba, u32)>,
}

impl SummaryValues {
    /// How many blocks a stretch with its summary has.
    pub const SPAN: u64 = STRETCH_LEN + 1;
    /// What a summary says of a block that is never read.
    pub const NONE: (Lba, u32) = (Sum::NONE.lba, Sum::NONE.crc);

    /// The values of the summary `block` at the place `at`; `None` if it is no summary of that place.
    pub fn read(at: Lba, block: &[u8; BLOCK_LEN_BYTES]) -> Option<SummaryValues> {
        let (id, generation) = summary_names(block);
        let sums = decode_summary(id, at, generation, block)?;
        let sums = sums.into_iter().map(|sum| (sum.lba, sum.crc)).collect();
        Some(SummaryValues { id, generation, sums })
    }

    /// The block for the place `at`.
    pub fn block(&self, at: Lba) -> [u8; BLOCK_LEN_BYTES] {
        let sums: Vec<Sum> = self.sums.iter().map(|&(lba, crc)| Sum { lba, crc }).collect();
        encode_summary(self.id, at, self.generation, &sums)
    }
}

/// The checksum of the host's block `lba` in a data zone.
pub fn data_checksum(lba: Lba, block: &[u8]) -> u32 {
    Sum::of(lba, block).crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_made_again_from_its_values() {
        let sums = vec![(Lba::new(7), 8), (Lba::new(1 << 40), u32::MAX), SummaryValues::NONE];
        let values = SummaryValues { id: 3, generation: 9, sums };
        let at = Lba::new(127);
        let block = values.block(at);
        assert_eq!(SummaryValues::read(at, &block), Some(values));
        assert_eq!(SummaryValues::read(Lba::new(255), &block), None, "it belongs elsewhere");
        let mut rotten = block;
        rotten[100] ^= 1;
        assert_eq!(SummaryValues::read(at, &rotten), None);
    }
}
