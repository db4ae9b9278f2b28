//! A recorded series: a file with one time per line.

use super::error::ArrivalError;
use super::limits::LEN_NS_MAX;
use crate::byte_order_mark::{BYTE_ORDER_MARK_LEN_BYTES, without_byte_order_mark};
use crate::decompress::decompressed;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A longer line is not a time.
const LINE_LEN_BYTES_MAX: usize = 256;
/// The longest line with a byte order mark and its line end. More of a longer line is not needed.
const READ_LEN_BYTES_MAX: usize = BYTE_ORDER_MARK_LEN_BYTES + LINE_LEN_BYTES_MAX + 2;
const EXPECTED_LINE: &str = "a line of at most 256 bytes";
const EXPECTED: &str = "a time below 2^62 ns, digits and at most one point";

/// Header lines, with the number of decimals that their unit leaves to nanoseconds.
const HEADERS: [(&str, u32); 4] = [("time_ns", 0), ("time_us", 3), ("time_ms", 6), ("time_s", 9)];

/// The series in a file, relative to its first operation.
///
/// # Errors
/// Those of [`ArrivalReader`], and [`ArrivalError::Empty`].
pub fn read_recorded(path: &Path) -> Result<Arc<[u64]>, ArrivalError> {
    let io_error = |source| ArrivalError::Io { path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(io_error)?;
    let mut times = ArrivalReader::new(path, Box::new(file))?.collect::<Result<Vec<u64>, _>>()?;
    let first = *times.first().ok_or_else(|| ArrivalError::Empty { path: path.to_owned() })?;
    times.iter_mut().for_each(|at| *at -= first);
    Ok(times.into())
}

/// The times of a file in nanoseconds, one by one; the first error is the last item.
///
/// A file may be compressed with zstd or gzip. `docs/arrivals.md` has its format.
pub struct ArrivalReader {
    path: PathBuf,
    from: Box<dyn BufRead>,
    line: u64,
    decimal_count: u32,
    last_ns: u64,
    has_failed: bool,
    buf: Vec<u8>,
}

impl std::fmt::Debug for ArrivalReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ArrivalReader({}, line {})", self.path.display(), self.line)
    }
}

impl ArrivalReader {
    /// Reads from `bytes`; errors name `path`.
    ///
    /// # Errors
    /// [`ArrivalError::Io`].
    pub fn new(path: &Path, bytes: Box<dyn Read + Send>) -> Result<ArrivalReader, ArrivalError> {
        let from = decompressed(bytes)
            .map_err(|source| ArrivalError::Io { path: path.to_owned(), source })?;
        Ok(ArrivalReader {
            path: path.to_owned(),
            from: Box::new(BufReader::with_capacity(1 << 16, from)),
            line: 0,
            decimal_count: 0,
            last_ns: 0,
            has_failed: false,
            buf: Vec::new(),
        })
    }

    fn next_time(&mut self) -> Option<Result<u64, ArrivalError>> {
        loop {
            self.buf.clear();
            self.line += 1;
            let mut bounded = self.from.by_ref().take(READ_LEN_BYTES_MAX as u64);
            match bounded.read_until(b'\n', &mut self.buf) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(source) => {
                    return Some(Err(ArrivalError::Io { path: self.path.clone(), source }));
                }
            }
            let start = if self.line == 1 { without_byte_order_mark(&self.buf) } else { &self.buf };
            let text = start.trim_ascii();
            let (path, line) = (|| self.path.clone(), self.line);
            let wrong = |expected| {
                let got = String::from_utf8_lossy(&text[..text.len().min(60)]).into_owned();
                Some(Err(ArrivalError::Line { path: path(), line, expected, got }))
            };
            if start.len() - line_end_len_bytes(start) > LINE_LEN_BYTES_MAX {
                return wrong(EXPECTED_LINE);
            }
            let header = HEADERS.iter().find(|(name, _)| name.as_bytes() == text);
            if let (1, Some(&(_, decimal_count))) = (self.line, header) {
                self.decimal_count = decimal_count;
                continue;
            }
            if text.is_empty() {
                return Some(Err(ArrivalError::Gap { path: path(), line }));
            }
            let Some(got_ns) = nanoseconds(text, self.decimal_count) else {
                return wrong(EXPECTED);
            };
            let before_ns = std::mem::replace(&mut self.last_ns, got_ns);
            if got_ns < before_ns {
                let error = ArrivalError::Disorder { path: path(), line, before_ns, got_ns };
                return Some(Err(error));
            }
            return Some(Ok(got_ns));
        }
    }
}

impl Iterator for ArrivalReader {
    type Item = Result<u64, ArrivalError>;

    fn next(&mut self) -> Option<Result<u64, ArrivalError>> {
        if self.has_failed {
            return None;
        }
        let item = self.next_time();
        self.has_failed = !matches!(item, Some(Ok(_)));
        item
    }
}

fn line_end_len_bytes(line: &[u8]) -> usize {
    if line.ends_with(b"\r\n") { 2 } else { usize::from(line.ends_with(b"\n")) }
}

/// Parses digits with at most one point as nanoseconds, where `decimal_count` decimals are whole
/// nanoseconds. Further decimals are cut off.
fn nanoseconds(text: &[u8], decimal_count: u32) -> Option<u64> {
    let mut parts = text.splitn(2, |&byte| byte == b'.');
    let (whole, fraction) = (parts.next()?, parts.next().unwrap_or_default());
    if whole.is_empty() || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let decimals = fraction.iter().copied().chain(std::iter::repeat(b'0'));
    let digits = whole.iter().copied().chain(decimals.take(decimal_count as usize));
    let mut ns: u64 = 0;
    for digit in digits {
        let digit = digit.is_ascii_digit().then_some(u64::from(digit.wrapping_sub(b'0')))?;
        ns = ns.checked_mul(10)?.checked_add(digit)?;
    }
    (ns < LEN_NS_MAX).then_some(ns)
}
