//! The only random number generator: xoshiro256**, fixed forever, so that a seed determines a run.
//!
//! Source: Blackman and Vigna, "Scrambled linear pseudorandom number generators" (2018); seeded
//! through SplitMix64 as its authors advise.

/// A deterministic stream of random numbers.
///
/// Each run has one seed. Each component derives its own stream by name ([`Prng::derive`]), so that
/// a new component does not reshuffle the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prng {
    state: [u64; 4],
}

impl Prng {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Prng {
        let mut mix = seed;
        Prng { state: std::array::from_fn(|_| split_mix(&mut mix)) }
    }

    /// A stream for the component `name`. The current stream does not advance, but the result
    /// depends on its position. For streams that do not depend on later draws, derive before the
    /// first draw.
    pub fn derive(&self, name: &str) -> Prng {
        // FNV-1a of the name. Any fixed hash that distinguishes names would do.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Prng::new(self.state[0] ^ self.state[2].rotate_left(17) ^ hash)
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = &mut self.state;
        let result = s1.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *s1 << 17;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= shifted;
        *s3 = s3.rotate_left(45);
        result
    }

    /// A number in `0..bound`, each equally likely up to one part in 2^64.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no random member");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True `numerator` times out of `denominator`.
    ///
    /// # Panics
    /// If `denominator` is 0.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// Fills `buf` with random bytes.
    pub fn fill(&mut self, buf: &mut [u8]) {
        for chunk in buf.chunks_mut(8) {
            let bytes = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
