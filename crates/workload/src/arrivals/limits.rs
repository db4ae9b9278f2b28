//! How long and how dense a series may be.

/// The highest rate: an operation a nanosecond.
pub const RATE_PER_S_MAX: f64 = 1e9;
/// No series has more operations: a double counts them all.
pub const OPERATION_COUNT_MAX: u64 = 1 << 53;
/// No series is longer: 146 years.
pub const LEN_NS_MAX: u64 = 1 << 62;
