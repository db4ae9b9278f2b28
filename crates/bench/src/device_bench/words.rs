//! The content of the host's blocks: one word again and again, made of the number of the write.
//!
//! A number and an address give the block, and its checksum in a data zone. The checksum is linear in
//! the bits of both (over the field of two elements), so a table has what each byte adds to it.

use imbrex_disk::{BLOCK_LEN_BYTES, Lba};
use imbrex_translate::model::data_checksum;

const WORD_LEN_BYTES: usize = 8;

/// What the host writes in one request, or in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WriteNumber(pub(super) u32);

impl WriteNumber {
    /// Of a block that was never written, or was discarded: it is all zeros.
    pub(super) const NONE: WriteNumber = WriteNumber(0);

    /// The number in the lower half and its complement in the upper: no word of another block looks so.
    fn word(self) -> u64 {
        if self == WriteNumber::NONE { 0 } else { u64::from(!self.0) << 32 | u64::from(self.0) }
    }

    /// The number of the write that wrote `block`; `None` if its bytes are anything else.
    pub(super) fn of(block: &[u8]) -> Option<WriteNumber> {
        let (first, rest) = block.split_first_chunk::<WORD_LEN_BYTES>()?;
        let word = u64::from_le_bytes(*first);
        let number = WriteNumber(word as u32);
        let is_one = number.word() == word && *rest == block[..rest.len()];
        is_one.then_some(number)
    }

    /// Fills whole blocks.
    pub(super) fn fill(self, blocks: &mut [u8]) {
        let Some(first) = blocks.first_chunk_mut::<WORD_LEN_BYTES>() else { return };
        *first = self.word().to_le_bytes();
        let mut filled = WORD_LEN_BYTES;
        while filled < blocks.len() {
            let more = filled.min(blocks.len() - filled);
            blocks.copy_within(..more, filled);
            filled += more;
        }
    }
}

/// Checksums of blocks, by table.
#[derive(Debug)]
pub(super) struct Checksums {
    /// Of the block of zeros at address 0.
    zero: u32,
    /// What a byte of the address adds.
    by_lba: Box<[[u32; 256]; 8]>,
    /// What a byte of the word adds.
    by_word: Box<[[u32; 256]; 8]>,
}

impl Checksums {
    pub(super) fn new() -> Checksums {
        let mut block = vec![0; BLOCK_LEN_BYTES];
        let zero = data_checksum(Lba::new(0), &block);
        let mut by_lba = Box::new([[0; 256]; 8]);
        let mut by_word = by_lba.clone();
        for place in 0..8 {
            for byte in 0..=255u8 {
                let value = u64::from(byte) << (8 * place);
                block.fill(0);
                by_lba[place][usize::from(byte)] = zero ^ data_checksum(Lba::new(value), &block);
                for slot in block.chunks_exact_mut(WORD_LEN_BYTES) {
                    slot.copy_from_slice(&value.to_le_bytes());
                }
                by_word[place][usize::from(byte)] = zero ^ data_checksum(Lba::new(0), &block);
            }
        }
        Checksums { zero, by_lba, by_word }
    }

    /// The checksum of the block that write `number` wrote to `lba`.
    pub(super) fn of(&self, lba: Lba, number: WriteNumber) -> u32 {
        self.zero ^ added(&self.by_lba, lba.get()) ^ added(&self.by_word, number.word())
    }
}

fn added(tables: &[[u32; 256]; 8], value: u64) -> u32 {
    tables
        .iter()
        .zip(value.to_le_bytes())
        .fold(0, |sum, (table, byte)| sum ^ table[usize::from(byte)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex_clockwork::Prng;

    #[test]
    fn a_block_names_its_write_and_no_other_block_does() {
        let mut block = vec![0; BLOCK_LEN_BYTES];
        assert_eq!(WriteNumber::of(&block), Some(WriteNumber::NONE));
        WriteNumber(77).fill(&mut block);
        assert_eq!(WriteNumber::of(&block), Some(WriteNumber(77)));
        block[4095] ^= 1;
        assert_eq!(WriteNumber::of(&block), None);
        block.fill(7);
        assert_eq!(WriteNumber::of(&block), None);
    }

    #[test]
    fn checksums_by_table_are_those_of_the_format() {
        let (sums, mut prng) = (Checksums::new(), Prng::new(1));
        let mut block = vec![0; BLOCK_LEN_BYTES];
        for _ in 0..200 {
            let (lba, number) = (Lba::new(prng.next_u64()), WriteNumber(prng.next_u64() as u32));
            number.fill(&mut block);
            assert_eq!(sums.of(lba, number), data_checksum(lba, &block));
        }
    }
}
