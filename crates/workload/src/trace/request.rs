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
    /// When it came, counted from the first request: below 2^62.
    pub at_ns: u64,
    /// What it does.
    pub op: TraceOp,
    /// Its first byte.
    pub offset_bytes: u64,
    /// How many bytes: 1 to 2^30, and the last of them below 2^63.
    pub len_bytes: u64,
}

/// What was wrong with a piece, before its place is known.
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

/// What a line or a record says.
#[derive(Debug)]
pub(super) enum Parsed {
    /// A request, its time by the file's own clock.
    Request(TraceRequest),
    /// Neither a read nor a write.
    Skipped,
}

/// The last byte of a request lies below this.
const END_MAX: u64 = 1 << 63;
/// No drive takes a longer request, and whoever replays one holds its bytes.
const LEN_BYTES_MAX: u64 = 1 << 30;

/// A request if it has bytes, not too many, and an end that can be counted.
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

/// Times lie below this from the first request on: whatever a run adds to them is still a number. By the
/// file's own clock they may be larger: MSR's begin with the year 1601.
pub(super) const LEN_NS_MAX: u64 = 1 << 62;
pub(super) const TIME_EXPECTED: &str = "a time below 2^62 ns from the first request on";

/// So many times `unit_ns`, as a time of the file's own clock.
pub(super) fn time_ns(count: u64, unit_ns: u64) -> Result<u64, Fault> {
    count
        .checked_mul(unit_ns)
        .ok_or_else(|| Fault::new(TIME_EXPECTED, format!("{count} times {unit_ns} ns")))
}
