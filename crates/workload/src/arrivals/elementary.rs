//! Logarithm, exponential and sine, computed only by addition, multiplication and division.
//!
//! Libraries differ in the last bits of these functions (the crate `libm` and Java's `StrictMath`
//! in one logarithm of fifty). So each is spelled out here and, in the same steps, in
//! `docs/arrivals.md`. Their error is at most three units in the last place, which does not affect
//! the shape of a series.

use std::f64::consts::{LN_2, SQRT_2};

/// The upper bits of [`LN_2`], chosen so that a small multiple of it is exact, and the rest.
const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// 1 / n! for n = 0 to 13.
const EXP_TERMS: [f64; 14] = {
    let (mut terms, mut factorial) = ([1.0; 14], 1.0);
    let mut n = 1;
    while n < terms.len() {
        factorial *= n as f64;
        terms[n] = 1.0 / factorial;
        n += 1;
    }
    terms
};
const FRACTION_BITS: u32 = 52;
const EXPONENT_BIAS: i64 = 1023;

/// The natural logarithm of `x`, a positive number that is not subnormal.
pub(super) fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> FRACTION_BITS) as i64 - EXPONENT_BIAS;
    let fraction = bits & ((1 << FRACTION_BITS) - 1);
    let mut m = f64::from_bits(fraction | ((EXPONENT_BIAS as u64) << FRACTION_BITS));
    if m > SQRT_2 {
        m /= 2.0;
        exponent += 1;
    }
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut sum = 1.0 / 23.0;
    for odd in (1..=21).rev().step_by(2) {
        sum = sum * z + 1.0 / f64::from(odd);
    }
    exponent as f64 * LN_2 + 2.0 * s * sum
}

/// e to the power `x`, for 0 <= x < 700.
pub(super) fn exp(x: f64) -> f64 {
    let k = (x / LN_2 + 0.5).floor();
    let r = (x - k * LN_2_HIGH) - k * LN_2_LOW;
    let mut sum = 0.0;
    for term in EXP_TERMS.iter().rev() {
        sum = sum * r + term;
    }
    sum * f64::from_bits(((k as i64 + EXPONENT_BIAS) as u64) << FRACTION_BITS)
}

/// The sine of `x`, for 0 <= x <= pi/2.
pub(super) fn sin(x: f64) -> f64 {
    let z = x * x;
    let mut sum = 1.0;
    for n in (1..=11).rev() {
        sum = 1.0 - z * sum / f64::from(2 * n * (2 * n + 1));
    }
    x * sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex_clockwork::Prng;

    /// How far apart two doubles are, in units of the last place.
    fn ulps(a: f64, b: f64) -> u64 {
        (a.to_bits() as i64 - b.to_bits() as i64).unsigned_abs()
    }

    #[test]
    fn they_are_right_to_the_last_places() {
        let mut prng = Prng::new(1);
        for _ in 0..100_000 {
            let share = ((prng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
            let x = share * 700.0;
            assert!(ulps(ln(share), libm::log(share)) <= 3, "ln {share}");
            assert!(ulps(exp(x), libm::exp(x)) <= 3, "exp {x}");
            let x = share * std::f64::consts::FRAC_PI_2;
            assert!(ulps(sin(x), libm::sin(x)) <= 3, "sin {x}");
        }
        assert_eq!((ln(1.0), exp(0.0), sin(0.0)), (0.0, 1.0, 0.0));
    }
}
