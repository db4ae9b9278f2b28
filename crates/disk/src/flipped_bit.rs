//! Finds a flipped bit from the checksum over it.
//!
//! ```text
//!   data ......0110100...... | stored checksum        computed ^ stored: a pattern that no other
//!                  ^ flipped                          single bit of data or checksum gives
//! ```
//!
//! CRC-32C keeps any two contents of up to 2^31 bits at least four bits apart, the checksum included
//! (Koopman, "32-Bit Cyclic Redundancy Codes for Internet Applications", DSN 2002). One flipped bit is
//! therefore nearer to the right content than to any other, and two are never taken for one.
//! Damage of other kinds passes for one flipped bit with a probability of the number of bits in 2^32.

/// CRC-32C in the order of bits that the `crc32c` crate has: the lowest bit of a byte comes first.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// The one bit that was flipped in `len_bytes` bytes followed by their CRC-32C in little-endian
/// order; `None` if no single bit explains the difference between the two checksums. Bit 0 is the
/// lowest of the first byte.
pub fn flipped_bit(len_bytes: usize, stored: u32, computed: u32) -> Option<usize> {
    let pattern = stored ^ computed;
    let len_bits = 8 * len_bytes;
    if pattern.is_power_of_two() {
        return Some(len_bits + pattern.trailing_zeros() as usize);
    }
    // The pattern of the last bit of the data, then those of the bits before it.
    let mut of_bit = POLYNOMIAL;
    (0..len_bits).rev().find(|_| {
        let is_found = of_bit == pattern;
        of_bit = (of_bit >> 1) ^ if of_bit & 1 == 1 { POLYNOMIAL } else { 0 };
        is_found
    })
}
