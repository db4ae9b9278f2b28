//! Values of the normal distribution, with the same bits on every machine.

use imbrex_clockwork::Prng;
use std::f64::consts::PI;

/// Two independent values of the normal distribution with mean 0 and variance 1, by Box and Muller.
pub fn normals(prng: &mut Prng) -> (f64, f64) {
    let mut share = || ((prng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    let (radius, angle) = (libm::sqrt(-2.0 * libm::log(share())), 2.0 * PI * share());
    (radius * libm::cos(angle), radius * libm::sin(angle))
}
