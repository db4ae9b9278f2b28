//! Block traces: who wrote or read how many bytes where, and when.
//!
//! ```text
//!   file, plain or .zst or .gz --> format, from the first bytes --> TraceRequest, TraceRequest, ...
//! ```
//!
//! | format | a request |
//! |---|---|
//! | ours | `time_us,op,offset_bytes,size_bytes`; op is r or w |
//! | MSR Cambridge | `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`; units of 100 ns |
//! | SYSTOR '17 | `Timestamp,Response,IOType,LUN,Offset,Size`; seconds with a fraction |
//! | CloudPhysics vscsi 1 and 2 | records of 32 and 40 bytes; microseconds, sectors of 512 bytes |
//!
//! Requests are read one by one: a trace may be longer than memory.
//!
//! Invariants
//!   T1  Time begins with the first request and never goes back: a request that the file has too late
//!       is taken to come with the one before it, and counted.
//!   T2  A line or record that is not understood, or 2^62 ns or more later than the first request, ends the
//!       reading with an error that names it. What says that it is neither a read nor a write, or is of no
//!       bytes, is skipped and counted.
//!
//! Sources: the README files of the MSR Cambridge and SYSTOR '17 traces; the record layout in
//! libCacheSim's vscsi reader; `docs/block_traces.md` for ours.
//! Traces are made too, of a given shape ([`Shape`]), and recorded from any disk ([`Recorder`]); some come with
//! the program ([`BundledTrace`]).
//!
//! Not here: what is done with the requests (`replay`).

mod bundled;
mod lines;
mod synthetic;
mod vscsi;

pub use bundled::{BUNDLED, BundledTrace};
pub use synthetic::{Shape, Sizes, WriteOrder};

use lines::Lines;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use synthetic::Made;
use vscsi::Records;

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

/// How a trace file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TraceFormat {
    /// Ours: `time_us,op,offset_bytes,size_bytes`
    Csv,
    /// MSR Cambridge
    Msr,
    /// SYSTOR '17
    Systor,
    /// CloudPhysics vscsi, version 1
    Vscsi1,
    /// CloudPhysics vscsi, version 2
    Vscsi2,
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TraceFormat::Csv => "time_us,op,offset_bytes,size_bytes",
            TraceFormat::Msr => "MSR Cambridge",
            TraceFormat::Systor => "SYSTOR '17",
            TraceFormat::Vscsi1 => "vscsi, version 1",
            TraceFormat::Vscsi2 => "vscsi, version 2",
        })
    }
}

/// A trace that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be opened or read.
    #[error("trace {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No format that we know begins so.
    #[error(
        "trace {path}: no known format begins with {got:?}; expected a line of CSV (ours, MSR \
         Cambridge, SYSTOR '17) or vscsi records"
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// How it begins.
        got: String,
    },
    /// A line that is none of the format's.
    #[error("trace {path}, line {line}: expected {expected}, got {got:?}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Which, counted from 1.
        line: u64,
        /// What should be there.
        expected: &'static str,
        /// What is.
        got: String,
    },
    /// A record that is none of the format's.
    #[error("trace {path}, byte {offset}: expected {expected}, got {got}")]
    Record {
        /// The file.
        path: PathBuf,
        /// Where the record begins, decompressed.
        offset: u64,
        /// What should be there.
        expected: &'static str,
        /// What is.
        got: String,
    },
}

/// What was wrong with a piece, before its place is known.
#[derive(Debug)]
struct Fault {
    expected: &'static str,
    got: String,
}

impl Fault {
    fn new(expected: &'static str, got: impl Into<String>) -> Fault {
        let mut got: String = got.into();
        if got.chars().count() > 100 {
            got = got.chars().take(100).chain("...".chars()).collect();
        }
        Fault { expected, got }
    }
}

/// What a line or a record says.
#[derive(Debug)]
enum Parsed {
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
fn request(at_ns: u64, op: TraceOp, offset_bytes: u64, len_bytes: u64) -> Result<Parsed, Fault> {
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
const LEN_NS_MAX: u64 = 1 << 62;
const TIME_EXPECTED: &str = "a time below 2^62 ns from the first request on";

/// So many times `unit_ns`, as a time of the file's own clock.
fn time_ns(count: u64, unit_ns: u64) -> Result<u64, Fault> {
    count
        .checked_mul(unit_ns)
        .ok_or_else(|| Fault::new(TIME_EXPECTED, format!("{count} times {unit_ns} ns")))
}

enum Pieces {
    Lines(Lines),
    Records(Records),
    Made(Box<Made>),
}

impl Pieces {
    /// What is wrong with the piece read last.
    fn refusal(&self, fault: Fault) -> TraceError {
        match self {
            Pieces::Lines(lines) => lines.refusal(fault),
            Pieces::Records(records) => records.refusal(fault),
            Pieces::Made(_) => unreachable!("what is made is over in weeks: {fault:?}"),
        }
    }
}

/// Where a trace comes from: it can be read more than once.
#[derive(Clone, Debug)]
pub enum TraceSource {
    /// A file.
    File {
        /// Which.
        path: PathBuf,
        /// How it is written; found out if `None`.
        format: Option<TraceFormat>,
    },
    /// One that comes with the program.
    Bundled(BundledTrace),
    /// Made as it is read.
    Made {
        /// What it looks like.
        shape: Shape,
        /// Of what it draws.
        seed: u64,
    },
}

impl TraceSource {
    /// Its requests, from the first.
    ///
    /// # Errors
    /// As [`TraceReader::open`].
    pub fn open(&self) -> Result<TraceReader, TraceError> {
        match self {
            TraceSource::File { path, format } => TraceReader::open(path, *format),
            TraceSource::Bundled(trace) => trace.open(),
            TraceSource::Made { shape, seed } => {
                let pieces = Pieces::Made(Box::new(Made::new(*shape, *seed)));
                Ok(TraceReader::over(pieces, None))
            }
        }
    }
}

impl fmt::Display for TraceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceSource::File { path, .. } => write!(f, "trace {}", path.display()),
            TraceSource::Bundled(trace) => write!(f, "trace {}", trace.name),
            TraceSource::Made { shape, .. } => write!(f, "synthetic {}", shape.name),
        }
    }
}

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

/// How many bytes tell the format.
const HEAD_LEN_BYTES: usize = 256;

impl TraceReader {
    /// Opens `path`, and finds out its format unless `format` says it.
    ///
    /// # Errors
    /// [`TraceError::Io`], [`TraceError::Unknown`].
    pub fn open(path: &Path, format: Option<TraceFormat>) -> Result<TraceReader, TraceError> {
        let io_error = |source| TraceError::Io { path: path.to_owned(), source };
        let file = std::fs::File::open(path).map_err(io_error)?;
        TraceReader::of(path, Box::new(file), format)
    }

    /// Reads what `bytes` gives; `path` names it in errors.
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

    fn over(pieces: Pieces, format: Option<TraceFormat>) -> TraceReader {
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

    /// How the file is written, if it is one.
    pub fn format(&self) -> Option<TraceFormat> {
        self.format
    }

    /// How many lines or records were neither reads nor writes, so far.
    pub fn skipped_count(&self) -> u64 {
        self.skipped_count
    }

    /// How many requests the file had behind later ones, so far.
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
                Pieces::Made(made) => made.next().map(|request| Ok(Parsed::Request(request))),
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

/// The bytes themselves, whatever they were packed with.
pub fn decompressed(bytes: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    const ZSTD: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];
    const GZIP: &[u8] = &[0x1F, 0x8B];
    let mut bytes = BufReader::new(bytes);
    let head = bytes.fill_buf()?;
    if head.starts_with(ZSTD) {
        return Ok(Box::new(zstd::Decoder::with_buffer(bytes)?));
    }
    if head.starts_with(GZIP) {
        return Ok(Box::new(flate2::bufread::MultiGzDecoder::new(bytes)));
    }
    Ok(Box::new(bytes))
}

/// The format of what begins so.
fn detect(head: &[u8]) -> Option<TraceFormat> {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    if !line.is_empty() && line.iter().all(is_text) {
        return lines::detect(&String::from_utf8_lossy(line));
    }
    vscsi::detect(head)
}

#[cfg(test)]
mod tests;
