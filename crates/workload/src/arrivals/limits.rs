//! Bounds on the length and the rate of a series.

/// The highest rate: one operation per nanosecond.
pub const RATE_PER_S_MAX: f64 = 1e9;
/// The largest number of operations, which a double still counts exactly.
pub const OPERATION_COUNT_MAX: u64 = 1 << 53;
/// The longest series: 146 years.
pub const LEN_NS_MAX: u64 = 1 << 62;
