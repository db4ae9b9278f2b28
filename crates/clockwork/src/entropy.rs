//! The only source of ambient randomness: a number that no other run is likely to draw.
//!
//! It is for identities only. The id of a drive image is one. The id of a format distinguishes its
//! records from those that an earlier format left on the same blocks, and a pair of drives from
//! other pairs. No decision of a run may follow from it. It is therefore called only where no
//! caller gave a number: by the command line without `--seed`, and by `Layout::format` for a pair.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Sixty-four bits from the operating system's entropy, different at every call.
///
/// The standard library draws them, for the keys of its hash maps: a keyed hash of nothing is as
/// good as the key.
#[expect(clippy::disallowed_methods, reason = "the one place where ambient randomness enters")]
pub fn entropy_u64() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_number_comes_twice() {
        let drawn: BTreeSet<u64> = (0..1000).map(|_| entropy_u64()).collect();
        assert_eq!(drawn.len(), 1000);
        assert!(drawn.iter().any(|n| n >> 63 == 0) && drawn.iter().any(|n| n >> 63 == 1));
    }
}
