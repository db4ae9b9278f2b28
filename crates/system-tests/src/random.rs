//! The seed's own numbers, for tests that draw what they do.

/// SplitMix64.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        // Mixed first: streams that begin one step apart would be one stream.
        Random(mixed(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Below a power of two that is drawn first, so that small numbers are as likely as large ones.
    pub(crate) fn below_some(&mut self, bits_max: u64) -> u64 {
        let bits = self.below(bits_max + 1);
        self.below(1 << bits)
    }
}

/// A bijection that leaves no trace of how near its arguments were.
pub(crate) fn mixed(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
