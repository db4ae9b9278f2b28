//! One request, and the bounds that every format keeps.

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceOp {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// The arrival time since the first request: below 2^62.
    pub at_ns: u64,
    /// What it does.
    pub op: TraceOp,
    /// Its first byte.
    pub offset_bytes: u64,
    /// The length: 1 to 2^30 bytes, and the last byte below 2^63.
    pub len_bytes: u64,
}

/// The error in a piece, before its position is added.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) expected: &'static str,
    pub(super) got: String,
}

impl Fault {
    pub(super) fn new(expected: &'static str, got: impl Into<String>) -> Fault {
        let mut got: String = got.into();
        if got.chars().count() > 100 {
            got = got.chars().take(100).chain("...".chars()).collect();
        }
        Fault { expected, got }
    }
}

/// A parsed line or record.
#[derive(Debug)]
pub(super) enum Parsed {
    /// A request with the time of the file's own clock.
    Request(TraceRequest),
    /// Neither a read nor a write.
    Skipped,
}

/// The bound for the end of a request.
const END_MAX: u64 = 1 << 63;
/// The longest request. No drive takes a longer one, and a replay holds its bytes in memory.
const LEN_BYTES_MAX: u64 = 1 << 30;

/// Builds a request, unless it has no bytes, too many bytes, or an end that does not fit.
pub(super) fn request(
    at_ns: u64,
    op: TraceOp,
    offset_bytes: u64,
    len_bytes: u64,
) -> Result<Parsed, Fault> {
    let end = offset_bytes.checked_add(len_bytes).filter(|&end| end < END_MAX);
    match end {
        _ if len_bytes == 0 => Ok(Parsed::Skipped),
        _ if len_bytes > LEN_BYTES_MAX => {
            Err(Fault::new("a request of at most 2^30 bytes", format!("{len_bytes} bytes")))
        }
        None => {
            let got = format!("offset {offset_bytes} and size {len_bytes}");
            Err(Fault::new("a request that ends below 2^63", got))
        }
        Some(_) => Ok(Parsed::Request(TraceRequest { at_ns, op, offset_bytes, len_bytes })),
    }
}

/// The bound for times since the first request, so that a run can add to them without overflow. In
/// the file's own clock times may be larger: MSR's start in the year 1601.
pub(super) const LEN_NS_MAX: u64 = 1 << 62;
pub(super) const TIME_EXPECTED: &str = "a time below 2^62 ns from the first request on";

/// `count` units of `unit_ns`, as a time of the file's own clock.
pub(super) fn time_ns(count: u64, unit_ns: u64) -> Result<u64, Fault> {
    count
        .checked_mul(unit_ns)
        .ok_or_else(|| Fault::new(TIME_EXPECTED, format!("{count} times {unit_ns} ns")))
}
