//! The line formats: ours (described below), MSR Cambridge and SYSTOR '17.
//!
#![doc = include_str!("../../../../docs/block_traces.md")]

use super::error::TraceError;
use super::request::{Fault, Parsed, TraceOp, request, time_ns};
use super::trace_format::TraceFormat;
use crate::byte_order_mark::without_byte_order_mark;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

/// A longer line does not belong to a trace.
const LINE_LEN_BYTES_MAX: usize = 4096;

/// The lines of a file.
pub(super) struct Lines {
    path: PathBuf,
    from: Box<dyn BufRead + Send>,
    format: TraceFormat,
    line: u64,
    buf: Vec<u8>,
}

/// The format of a file whose first line this is.
pub(super) fn detect(line: &str) -> Option<TraceFormat> {
    let fields: Vec<&str> = line.trim().split(',').collect();
    match fields.as_slice() {
        [_, op, _, _] if *op == "op" || op_of(op).is_some() => Some(TraceFormat::Csv),
        [_, _, op, ..] if fields.len() == 6 => {
            let is_one = matches!(*op, "IOType" | "") || op_of(op).is_some();
            is_one.then_some(TraceFormat::Systor)
        }
        [_, _, _, op, ..] if fields.len() == 7 => {
            (*op == "Type" || op_of(op).is_some()).then_some(TraceFormat::Msr)
        }
        _ => None,
    }
}

impl Lines {
    pub(super) fn new(path: &Path, from: Box<dyn BufRead + Send>, format: TraceFormat) -> Lines {
        Lines { path: path.to_owned(), from, format, line: 0, buf: Vec::new() }
    }

    pub(super) fn next_piece(&mut self) -> Option<Result<Parsed, TraceError>> {
        loop {
            self.buf.clear();
            self.line += 1;
            let mut bounded = self.from.by_ref().take(LINE_LEN_BYTES_MAX as u64);
            match bounded.read_until(b'\n', &mut self.buf) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(source) => {
                    return Some(Err(TraceError::Io { path: self.path.clone(), source }));
                }
            }
            let start = if self.line == 1 { without_byte_order_mark(&self.buf) } else { &self.buf };
            let text = String::from_utf8_lossy(start);
            let text = text.trim_end_matches(['\n', '\r']);
            if self.buf.len() == LINE_LEN_BYTES_MAX {
                // The rest of it would be read as the next line.
                let fault = Fault::new("a line of less than 4096 bytes", text);
                return Some(Err(self.refusal(fault)));
            }
            if text.is_empty() || is_header(text) {
                continue;
            }
            return Some(parse(self.format, text).map_err(|fault| self.refusal(fault)));
        }
    }

    /// The error for the line read last.
    pub(super) fn refusal(&self, fault: Fault) -> TraceError {
        let (path, line) = (self.path.clone(), self.line);
        TraceError::Line { path, line, expected: fault.expected, got: fault.got }
    }
}

/// SYSTOR has one file per hour. A concatenation of them has a header line before each hour.
fn is_header(text: &str) -> bool {
    text.starts_with("time_us,") || text.starts_with("Timestamp,")
}

fn parse(format: TraceFormat, text: &str) -> Result<Parsed, Fault> {
    let fields: Vec<&str> = text.split(',').map(str::trim).collect();
    match (format, fields.as_slice()) {
        (TraceFormat::Csv, &[time, op, offset, size]) => {
            let at_ns = time_ns(number("a time in microseconds", time)?, 1000)?;
            let op = op_of(op).ok_or_else(|| Fault::new("the operation r or w", op))?;
            request(at_ns, op, offset_of(offset)?, size_of(size)?)
        }
        (TraceFormat::Msr, &[time, _host, _disk, op, offset, size, _response]) => {
            let at_ns = time_ns(number("a time in units of 100 ns", time)?, 100)?;
            let op = op_of(op).ok_or_else(|| Fault::new("the type Read or Write", op))?;
            request(at_ns, op, offset_of(offset)?, size_of(size)?)
        }
        (TraceFormat::Systor, &[time, _response, op, _lun, offset, size]) => {
            let at_ns = seconds(time)?;
            if op.is_empty() {
                return Ok(Parsed::Skipped);
            }
            let op = op_of(op).ok_or_else(|| Fault::new("the type R or W, or none", op))?;
            request(at_ns, op, offset_of(offset)?, size_of(size)?)
        }
        (TraceFormat::Csv, _) => Err(Fault::new("time_us,op,offset_bytes,size_bytes", text)),
        (TraceFormat::Msr, _) => {
            Err(Fault::new("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime", text))
        }
        _ => Err(Fault::new("Timestamp,Response,IOType,LUN,Offset,Size", text)),
    }
}

fn op_of(text: &str) -> Option<TraceOp> {
    match text {
        "r" | "R" | "Read" | "read" => Some(TraceOp::Read),
        "w" | "W" | "Write" | "write" => Some(TraceOp::Write),
        _ => None,
    }
}

fn offset_of(text: &str) -> Result<u64, Fault> {
    number("an offset in bytes", text)
}

fn size_of(text: &str) -> Result<u64, Fault> {
    number("a size in bytes", text)
}

fn number(expected: &'static str, text: &str) -> Result<u64, Fault> {
    text.parse().map_err(|_| Fault::new(expected, text))
}

/// Seconds with a fraction of at most nine digits, as nanoseconds.
fn seconds(text: &str) -> Result<u64, Fault> {
    let wrong = || Fault::new("a time in seconds, such as 1456135200.013118000", text);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let ns = digits.fold(0, |ns, digit| ns * 10 + u64::from(digit - b'0'));
    whole.checked_mul(1_000_000_000).and_then(|at| at.checked_add(ns)).ok_or_else(wrong)
}
