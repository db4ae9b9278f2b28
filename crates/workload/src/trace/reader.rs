//! Reads the requests of a trace one by one, in any format.

use super::error::TraceError;
use super::lines::{self, Lines};
use super::request::{Fault, LEN_NS_MAX, Parsed, TIME_EXPECTED, TraceRequest};
use super::synthetic::SyntheticTrace;
use super::trace_format::TraceFormat;
use super::vscsi::{self, Records};
use crate::byte_order_mark::without_byte_order_mark;
use crate::decompress::decompressed;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// The requests of a file, one by one; the first error is the last item.
pub struct TraceReader {
    pieces: Pieces,
    format: Option<TraceFormat>,
    start_ns: Option<u64>,
    last_ns: u64,
    skipped_count: u64,
    late_count: u64,
    has_failed: bool,
}

impl fmt::Debug for TraceReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceReader({:?})", self.format)
    }
}

/// The number of bytes used to detect the format.
const HEAD_LEN_BYTES: usize = 256;

impl TraceReader {
    /// Opens `path` and detects its format unless `format` is given.
    ///
    /// # Errors
    /// [`TraceError::Io`], [`TraceError::Unknown`].
    pub fn open(path: &Path, format: Option<TraceFormat>) -> Result<TraceReader, TraceError> {
        let io_error = |source| TraceError::Io { path: path.to_owned(), source };
        let file = std::fs::File::open(path).map_err(io_error)?;
        TraceReader::of(path, Box::new(file), format)
    }

    /// Reads from `bytes`; errors name `path`.
    ///
    /// # Errors
    /// As [`TraceReader::open`].
    pub fn of(
        path: &Path,
        bytes: Box<dyn Read + Send>,
        format: Option<TraceFormat>,
    ) -> Result<TraceReader, TraceError> {
        let io_error = |source| TraceError::Io { path: path.to_owned(), source };
        let mut from = decompressed(bytes).map_err(io_error)?;
        let mut head = Vec::new();
        from.by_ref().take(HEAD_LEN_BYTES as u64).read_to_end(&mut head).map_err(io_error)?;
        let format = format.or_else(|| detect(&head)).ok_or_else(|| TraceError::Unknown {
            path: path.to_owned(),
            got: String::from_utf8_lossy(&head[..head.len().min(40)]).into_owned(),
        })?;
        let from = Box::new(BufReader::with_capacity(1 << 16, io::Cursor::new(head).chain(from)));
        let pieces = match format {
            TraceFormat::Vscsi1 | TraceFormat::Vscsi2 => {
                Pieces::Records(Records::new(path, from, format))
            }
            _ => Pieces::Lines(Lines::new(path, from, format)),
        };
        Ok(TraceReader::over(pieces, Some(format)))
    }

    pub(super) fn over(pieces: Pieces, format: Option<TraceFormat>) -> TraceReader {
        TraceReader {
            pieces,
            format,
            start_ns: None,
            last_ns: 0,
            skipped_count: 0,
            late_count: 0,
            has_failed: false,
        }
    }

    /// The format of the file; `None` for a synthetic trace.
    pub fn format(&self) -> Option<TraceFormat> {
        self.format
    }

    /// The number of lines or records so far that were neither reads nor writes.
    pub fn skipped_count(&self) -> u64 {
        self.skipped_count
    }

    /// The number of requests so far that the file has after later ones.
    pub fn late_count(&self) -> u64 {
        self.late_count
    }
}

impl Iterator for TraceReader {
    type Item = Result<TraceRequest, TraceError>;

    fn next(&mut self) -> Option<Result<TraceRequest, TraceError>> {
        while !self.has_failed {
            let piece = match &mut self.pieces {
                Pieces::Lines(lines) => lines.next_piece(),
                Pieces::Records(records) => records.next_piece(),
                Pieces::Synthetic(made) => made.next().map(|request| Ok(Parsed::Request(request))),
            };
            match piece? {
                Ok(Parsed::Skipped) => self.skipped_count += 1,
                Ok(Parsed::Request(request)) => {
                    let start_ns = *self.start_ns.get_or_insert(request.at_ns);
                    let at_ns = request.at_ns.saturating_sub(start_ns);
                    if at_ns >= LEN_NS_MAX {
                        self.has_failed = true;
                        let fault = Fault::new(TIME_EXPECTED, format!("{at_ns} ns"));
                        return Some(Err(self.pieces.refusal(fault)));
                    }
                    self.late_count += u64::from(at_ns < self.last_ns || request.at_ns < start_ns);
                    self.last_ns = self.last_ns.max(at_ns);
                    return Some(Ok(TraceRequest { at_ns: self.last_ns, ..request }));
                }
                Err(error) => {
                    self.has_failed = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

pub(super) enum Pieces {
    Lines(Lines),
    Records(Records),
    Synthetic(Box<SyntheticTrace>),
}

impl Pieces {
    /// The error for the piece read last.
    fn refusal(&self, fault: Fault) -> TraceError {
        match self {
            Pieces::Lines(lines) => lines.refusal(fault),
            Pieces::Records(records) => records.refusal(fault),
            Pieces::Synthetic(_) => {
                unreachable!("a synthetic trace lasts weeks at most: {fault:?}")
            }
        }
    }
}

/// The format of a file that begins with `head`.
fn detect(head: &[u8]) -> Option<TraceFormat> {
    let text = without_byte_order_mark(head);
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    if !line.is_empty() && line.iter().all(is_text) {
        return lines::detect(&String::from_utf8_lossy(line));
    }
    vscsi::detect(head)
}
