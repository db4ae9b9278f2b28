//! CloudPhysics vscsi traces, as recorded by VMware's vscsiStats: fixed-length little-endian
//! records.
//!
//! ```text
//!   version 1, 32 bytes          version 2, 40 bytes
//!   0   serial number  u32       0   command        u16
//!   4   length         u32       2   version        u16, in its upper byte
//!   8   segments       u32       4   serial number  u32
//!   12  command        u16       8   length         u32, bytes
//!   14  version        u16       12  segments       u32
//!   16  block          u64       16  block          u64, sectors of 512 bytes
//!   24  time           u64       24  time           u64, microseconds
//!                                32  response time  u64
//! ```
//!
//! A command is a SCSI operation code. Commands that neither read nor write are skipped.

use super::error::TraceError;
use super::request::{Fault, Parsed, TraceOp, request, time_ns};
use super::trace_format::TraceFormat;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

const SECTOR_LEN_BYTES: u64 = 512;

/// The offsets of the fields that we need.
struct Layout {
    version: u16,
    len_bytes: usize,
    command_at: usize,
    version_at: usize,
    length_at: usize,
}

const BLOCK_AT: usize = 16;
const TIME_AT: usize = 24;
const VERSION_1: Layout =
    Layout { version: 1, len_bytes: 32, command_at: 12, version_at: 14, length_at: 4 };
const VERSION_2: Layout =
    Layout { version: 2, len_bytes: 40, command_at: 0, version_at: 2, length_at: 8 };

/// The records of a file.
pub(super) struct Records {
    path: PathBuf,
    from: Box<dyn BufRead + Send>,
    layout: &'static Layout,
    /// The start and the end of the record read last.
    offset: u64,
    end: u64,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let mut field = [0; 2];
    field.copy_from_slice(&bytes[at..at + 2]);
    u16::from_le_bytes(field)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}

/// The format of a file with this head: all records of the head have the same version.
pub(super) fn detect(head: &[u8]) -> Option<TraceFormat> {
    let is = |layout: &Layout| {
        let mut records = head.chunks_exact(layout.len_bytes);
        let versions = |record: &[u8]| u16_at(record, layout.version_at) >> 8 == layout.version;
        head.len() >= layout.len_bytes && records.all(versions)
    };
    match (is(&VERSION_1), is(&VERSION_2)) {
        (true, _) => Some(TraceFormat::Vscsi1),
        (_, true) => Some(TraceFormat::Vscsi2),
        _ => None,
    }
}

impl Records {
    pub(super) fn new(path: &Path, from: Box<dyn BufRead + Send>, format: TraceFormat) -> Records {
        let layout = if format == TraceFormat::Vscsi1 { &VERSION_1 } else { &VERSION_2 };
        Records { path: path.to_owned(), from, layout, offset: 0, end: 0 }
    }

    pub(super) fn next_piece(&mut self) -> Option<Result<Parsed, TraceError>> {
        let mut record = Vec::with_capacity(self.layout.len_bytes);
        let read = self.from.by_ref().take(self.layout.len_bytes as u64).read_to_end(&mut record);
        if let Err(source) = read {
            return Some(Err(TraceError::Io { path: self.path.clone(), source }));
        }
        if record.is_empty() {
            return None;
        }
        self.offset = self.end;
        self.end += record.len() as u64;
        Some(self.parse(&record).map_err(|fault| self.refusal(fault)))
    }

    /// The error for the record read last.
    pub(super) fn refusal(&self, fault: Fault) -> TraceError {
        let (path, offset) = (self.path.clone(), self.offset);
        TraceError::Record { path, offset, expected: fault.expected, got: fault.got }
    }

    fn parse(&self, record: &[u8]) -> Result<Parsed, Fault> {
        let layout = self.layout;
        if record.len() < layout.len_bytes {
            let got = format!("{} bytes and the end of the file", record.len());
            let whole = ["a record of 32 bytes", "a record of 40 bytes"];
            return Err(Fault::new(whole[usize::from(layout.version) - 1], got));
        }
        let version = u16_at(record, layout.version_at) >> 8;
        if version != layout.version {
            let expected = ["version 1 in the record", "version 2 in the record"];
            let got = format!("version {version}");
            return Err(Fault::new(expected[usize::from(layout.version) - 1], got));
        }
        let op = match u16_at(record, layout.command_at) {
            0x08 | 0x28 | 0x88 | 0xA8 => TraceOp::Read,
            0x0A | 0x2A | 0x8A | 0xAA => TraceOp::Write,
            _ => return Ok(Parsed::Skipped),
        };
        let block = u64_at(record, BLOCK_AT);
        let Some(offset_bytes) = block.checked_mul(SECTOR_LEN_BYTES) else {
            return Err(Fault::new("a block below 2^54", format!("block {block}")));
        };
        let at_ns = time_ns(u64_at(record, TIME_AT), 1000)?;
        request(at_ns, op, offset_bytes, u64::from(u32_at(record, layout.length_at)))
    }
}
