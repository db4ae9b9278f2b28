//! The keys of a run.

use super::model::Bytes;
use imbrex_clockwork::Prng;

/// How many keys there are: few, so that versions accumulate.
pub(crate) const KEY_COUNT: u64 = 240;

pub(crate) fn draw_key(prng: &mut Prng) -> Bytes {
    let n = prng.below(KEY_COUNT);
    key_of(n)
}

/// Key number `n`. Some keys are prefixes of each other, some are long, some have bytes beyond
/// ASCII.
pub(crate) fn key_of(n: u64) -> Bytes {
    let mut key = format!("k{:03}", n / 3).into_bytes();
    match n % 3 {
        0 => {}
        1 => key.push((n % 256) as u8 | 0x80),
        _ => key.resize(4 + n as usize / 4, 0),
    }
    key.into()
}
