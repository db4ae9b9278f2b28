//! The seek curve: how long the arm takes for a distance.
//!
//! ```text
//!     ns ^                        ____---- full_stroke_ns   linear: coasting at top speed
//!        |           ___----'''''
//!        |      _--'  knee_ns                               root: speeding up, slowing down
//!        |   .'
//!        |--'  settle_ns
//!        +-----------+------------------------> cylinders
//!        1          knee                    all
//! ```
//!
//! Distances are shares of the whole stroke, so a scaled drive keeps its curve.
//!
//! Source: Ruemmler and Wilkes, "An introduction to disk drive modeling" (1994), section 2.

use serde::Deserialize;

/// Three points of a seek curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeekSpec {
    /// The shortest seek, to the next cylinder: mostly settling on the track.
    pub(crate) settle_ns: u64,
    /// Where the root ends and the line begins, in millionths of the whole stroke.
    pub(crate) knee_stroke_ppm: u64,
    /// The time at the knee.
    pub(crate) knee_ns: u64,
    /// The time from the outermost to the innermost cylinder.
    pub(crate) full_stroke_ns: u64,
    /// How much longer a write settles than a read, because it must not touch the neighbouring
    /// track.
    pub(crate) write_settle_ns: u64,
}

/// The curve of one drive.
#[derive(Clone, Debug)]
pub(crate) struct SeekCurve {
    spec: SeekSpec,
    cylinder_count: u64,
    knee_cylinders: u64,
}

impl SeekCurve {
    /// The curve of a drive with `cylinder_count` cylinders.
    pub(crate) fn new(spec: SeekSpec, cylinder_count: u64) -> SeekCurve {
        let knee = u128::from(cylinder_count) * u128::from(spec.knee_stroke_ppm) / 1_000_000;
        SeekCurve { spec, cylinder_count, knee_cylinders: (knee as u64).max(1) }
    }

    /// How long a seek over `distance` cylinders takes. Distance 0 is a head switch.
    pub(crate) fn ns(&self, distance: u64) -> u64 {
        let SeekSpec { settle_ns, knee_ns, full_stroke_ns, .. } = self.spec;
        if distance <= self.knee_cylinders {
            // sqrt(distance / knee) in 16 fractional bits.
            let root =
                ((u128::from(distance) << 32) / u128::from(self.knee_cylinders)).isqrt() as u64;
            return settle_ns + (((knee_ns - settle_ns) * root) >> 16);
        }
        let coasted = u128::from(distance - self.knee_cylinders);
        let coast = u128::from((self.cylinder_count - self.knee_cylinders).max(1));
        knee_ns + (u128::from(full_stroke_ns - knee_ns) * coasted / coast) as u64
    }

    /// What a write adds to a seek.
    pub(crate) fn write_settle_ns(&self) -> u64 {
        self.spec.write_settle_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_passes_its_points_and_never_falls() {
        let spec = SeekSpec {
            settle_ns: 1_000_000,
            knee_stroke_ppm: 200_000,
            knee_ns: 7_000_000,
            full_stroke_ns: 15_000_000,
            write_settle_ns: 500_000,
        };
        let curve = SeekCurve::new(spec, 100_000);
        assert_eq!(curve.ns(0), 1_000_000);
        assert_eq!(curve.ns(5_000), 4_000_000, "a quarter of the knee: half of the root's rise");
        assert_eq!(curve.ns(20_000), 7_000_000);
        assert_eq!(curve.ns(60_000), 11_000_000);
        assert_eq!(curve.ns(100_000), 15_000_000);
        let falls = (1..100_000).find(|&d| curve.ns(d) < curve.ns(d - 1));
        assert_eq!(falls, None);
        // The same share of a smaller stroke takes the same time.
        assert_eq!(SeekCurve::new(spec, 100).ns(60), 11_000_000);
    }
}
