//! Logarithms and powers that come out the same on every machine.
//!
//! The standard library's `ln` and `powf` are the platform's, and platforms differ in the last bit:
//! enough to make two runs of one seed part ways. These use only IEEE 754's exactly rounded basic
//! operations. Good to about 14 digits, which is far more than a request distribution needs.

/// Natural logarithm of 2.
const LN_2: f64 = std::f64::consts::LN_2;

/// The natural logarithm of a positive, finite `x`; minus infinity for anything else.
pub(crate) fn ln(x: f64) -> f64 {
    if !(x > 0.0 && x.is_finite()) {
        return f64::NEG_INFINITY;
    }
    // x = m * 2^e with m near 1: halving and doubling are exact.
    let (mut m, mut e) = (x, 0.0);
    while m > std::f64::consts::SQRT_2 {
        m /= 2.0;
        e += 1.0;
    }
    while m < std::f64::consts::FRAC_1_SQRT_2 {
        m *= 2.0;
        e -= 1.0;
    }
    // ln m = 2 artanh((m - 1) / (m + 1)); the argument is below 0.172, so 12 terms are plenty.
    let t = (m - 1.0) / (m + 1.0);
    let square = t * t;
    let (mut power, mut sum) = (t, 0.0);
    for k in 0..12_u32 {
        sum += power / f64::from(2 * k + 1);
        power *= square;
    }
    2.0 * sum + e * LN_2
}

/// e to the `x`.
pub(crate) fn exp(x: f64) -> f64 {
    if x > 700.0 {
        return f64::INFINITY;
    }
    if x < -700.0 {
        return 0.0;
    }
    // x = n ln 2 + r with |r| below 0.35.
    let n = (x / LN_2).round();
    let r = x - n * LN_2;
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..16_u32 {
        term *= r / f64::from(k);
        sum += term;
    }
    let factor = if n < 0.0 { 0.5 } else { 2.0 };
    (0..n.abs() as u32).fold(sum, |value, _| value * factor)
}

/// `x` to the power of `y`, for `x >= 0`.
pub(crate) fn pow(x: f64, y: f64) -> f64 {
    if x == 0.0 {
        return if y == 0.0 { 1.0 } else { 0.0 };
    }
    exp(y * ln(x))
}

/// The logarithm to base 10.
pub(crate) fn log10(x: f64) -> f64 {
    ln(x) / std::f64::consts::LN_10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_to_the_platforms_own() {
        let near = |got: f64, want: f64| (got - want).abs() <= 1e-13 * want.abs().max(1.0);
        for x in [1e-12, 0.017, 0.5, 0.99, 1.0, 1.5, 2.0, 10.0, 12_345.678, 1e15] {
            assert!(near(ln(x), x.ln()), "ln {x}: {}", ln(x));
            for y in [-1.5, -0.99, 0.0, 0.01, 0.99, 1.0, 3.7] {
                let (got, want) = (pow(x, y), x.powf(y));
                assert!((got / want - 1.0).abs() < 1e-11, "{x} ^ {y}: {got} {want}");
            }
        }
        for x in [-20.0, -1.0, 0.0, 0.3, 1.0, 25.0] {
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-13, "exp {x}");
        }
        assert_eq!(ln(0.0), f64::NEG_INFINITY);
        assert_eq!(pow(0.0, 2.0), 0.0);
        assert!(near(log10(1000.0), 3.0));
    }
}
