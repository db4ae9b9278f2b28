//! The lines of a source, with their numbers.
//!
//! Invariants
//!   N1  A line ends behind a LF or at the end of the source. A CR ends no line.
//!   N2  The first line is read without a byte order mark (U+FEFF in UTF-8), which some programs
//!       write in front of text.
//!   N3  `number` is the line read last, counted from 1; 0 before the first.
//!
//! Not here: the fields of a line (`record`, `delimited`).

use crate::error::CliError;
use std::io::{self, BufRead, ErrorKind, Read};

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The longest line. A value of 1 GiB fits unless most of it is escaped.
pub(super) const LINE_LEN_BYTES_MAX: u64 = 3 << 30;

/// Reads lines and counts them.
pub(super) struct LineReader {
    reader: Box<dyn BufRead>,
    name: String,
    number: u64,
}

impl LineReader {
    /// Reads from `reader`; errors name it `name`.
    pub(super) fn new(reader: Box<dyn BufRead>, name: &str) -> LineReader {
        LineReader { reader, name: name.to_owned(), number: 0 }
    }

    /// The number of the line read last (N3).
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Replaces the content of `line` with the next line and its line end; false at the end of the
    /// source.
    pub(super) fn read(&mut self, line: &mut Vec<u8>) -> Result<bool, CliError> {
        line.clear();
        let len = (&mut self.reader)
            .take(LINE_LEN_BYTES_MAX)
            .read_until(b'\n', line)
            .map_err(|error| self.unreadable(&error))?;
        if len == 0 {
            return Ok(false);
        }
        self.number += 1;
        if len as u64 == LINE_LEN_BYTES_MAX {
            return Err(self.wrong(self.number, "it is longer than 3 GiB"));
        }
        if self.number == 1 && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(true)
    }

    /// The error that ends the load because of line `number`.
    pub(super) fn wrong(&self, number: u64, reason: &str) -> CliError {
        CliError::data(format!("{}: line {number}: {reason}", self.name))
    }

    /// The error of an unreadable source. An error without a system error code comes from the
    /// decompressor: its input is malformed or cut short.
    fn unreadable(&self, error: &io::Error) -> CliError {
        let is_malformed = error.raw_os_error().is_none()
            && matches!(
                error.kind(),
                ErrorKind::InvalidData
                    | ErrorKind::InvalidInput
                    | ErrorKind::UnexpectedEof
                    | ErrorKind::Other
            );
        let told =
            CliError::of(format!("cannot read {} after line {}", self.name, self.number), error);
        if is_malformed { CliError::data(told.to_string()) } else { told }
    }
}
