//! CSV and TSV: rows of separated fields, and the records in them.
//!
//! ```text
//!   b,"say ""x""",<CR><LF>      b | say "x" |             three fields, the last one empty
//!   b,"two<LF>lines"<LF>        b | two<LF>lines          one row on two lines
//!   b,two"<CR>lines<LF>         b | two"<CR>lines         neither a quote nor a CR inside a field ends it
//! ```
//!
//! Rules
//!   D1  A row ends at a LF or at CR LF outside quotes. A CR elsewhere belongs to its field.
//!   D2  A field of CSV that begins with a quote ends at the next quote that is not doubled. Other
//!       quotes belong to their field; TSV has no quoting.
//!   D3  Only a separator or the end of the row follows a closing quote. Anything else is a
//!       malformed line: the quote was likely meant for another field, and rows were swallowed.
//!   D4  A quote that is open at the end of the source ends the load, even if malformed lines are
//!       skipped: the rows behind it cannot be distinguished from the text of its field.
//!   D5  An empty line is no row.
//!
//! Source: RFC 4180, more lenient than it about quotes in the middle of a field.

use super::lines::{LINE_LEN_BYTES_MAX, LineReader};
use super::record::{BadLine, Fields, Record, Records};
use crate::error::CliError;
use std::io::BufRead;

/// Rows of separated fields; the first row names them if there is a header.
pub(super) struct Delimited {
    rows: Rows,
    key_at: usize,
    value_at: usize,
}

impl Delimited {
    pub(super) fn new(
        reader: Box<dyn BufRead>,
        name: &str,
        fields: &Fields,
        separator: u8,
        has_header: bool,
    ) -> Result<Delimited, CliError> {
        let mut rows = Rows::new(LineReader::new(reader, name), separator);
        let (key_at, value_at) = if has_header {
            if let Some(Err(bad)) = rows.next()? {
                return Err(rows.lines.wrong(bad.line, &bad.reason));
            }
            (column(&rows.row, &fields.key, name)?, column(&rows.row, &fields.value, name)?)
        } else {
            (number(&fields.key)?, number(&fields.value)?)
        };
        Ok(Delimited { rows, key_at, value_at })
    }
}

/// A file without a header has its first row here, which may be long.
const LISTED_NAME_COUNT_MAX: usize = 12;
const LISTED_NAME_LEN_MAX: usize = 40;

/// The names of the columns, as a message lists them.
fn listed(header: &Row) -> String {
    let shown = |cell: &[u8]| {
        let name = String::from_utf8_lossy(cell).escape_debug().to_string();
        match name.char_indices().nth(LISTED_NAME_LEN_MAX) {
            Some((at, _)) => format!("{}...", &name[..at]),
            None => name,
        }
    };
    let mut names: Vec<_> = header.cells().take(LISTED_NAME_COUNT_MAX).map(shown).collect();
    let more_count = header.cells().count() - names.len();
    if more_count > 0 {
        names.push(format!("and {more_count} more"));
    }
    names.join(", ")
}

fn column(header: &Row, field: &str, name: &str) -> Result<usize, CliError> {
    header.cells().position(|cell| cell == field.as_bytes()).ok_or_else(|| {
        CliError::data(format!(
            "{name}: line {} names no column {field:?}; it names {}; choose columns with --key-field \
             and --value-field, or pass --no-header",
            header.line.max(1),
            listed(header)
        ))
    })
}

fn number(field: &str) -> Result<usize, CliError> {
    match field.parse::<usize>() {
        Ok(at) if at > 0 => Ok(at - 1),
        _ => Err(CliError::usage(format!(
            "with --no-header a column is a number from 1; got {field:?}"
        ))),
    }
}

impl Records for Delimited {
    fn next(&mut self) -> Result<Option<Result<Record, BadLine>>, CliError> {
        match self.rows.next()? {
            None => return Ok(None),
            Some(Err(bad)) => return Ok(Some(Err(bad))),
            Some(Ok(())) => {}
        }
        let row = &self.rows.row;
        let cell = |at: usize| {
            row.cell(at).map(<[u8]>::to_vec).ok_or_else(|| BadLine {
                line: row.line,
                reason: format!("it has {} fields, but field {} is needed", row.ends.len(), at + 1),
            })
        };
        Ok(Some(match (cell(self.key_at), cell(self.value_at)) {
            (Ok(key), Ok(value)) => Ok(Record { line: row.line, key, value }),
            (Err(bad), _) | (_, Err(bad)) => Err(bad),
        }))
    }
}

/// The fields of one row.
#[derive(Debug, Default)]
struct Row {
    /// The first line of the row; 0 if there is no row.
    line: u64,
    /// The fields one after the other, without quoting.
    text: Vec<u8>,
    /// The end of each field in `text`.
    ends: Vec<usize>,
}

impl Row {
    fn begin(&mut self, line: u64) {
        self.line = line;
        self.text.clear();
        self.ends.clear();
    }

    fn end_field(&mut self) {
        self.ends.push(self.text.len());
    }

    fn cell(&self, at: usize) -> Option<&[u8]> {
        let end = *self.ends.get(at)?;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        Some(&self.text[start..end])
    }

    fn cells(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).filter_map(|at| self.cell(at))
    }
}

/// Splits lines into fields.
struct Rows {
    lines: LineReader,
    separator: u8,
    has_quotes: bool,
    /// The line read last, with its end.
    line: Vec<u8>,
    row: Row,
}

impl Rows {
    fn new(lines: LineReader, separator: u8) -> Rows {
        let has_quotes = separator != b'\t';
        Rows { lines, separator, has_quotes, line: Vec::new(), row: Row::default() }
    }

    /// Reads the next row into `row`; `None` at the end of the source.
    fn next(&mut self) -> Result<Option<Result<(), BadLine>>, CliError> {
        loop {
            if !self.lines.read(&mut self.line)? {
                return Ok(None);
            }
            if content_len(&self.line) > 0 {
                break;
            }
        }
        self.row.begin(self.lines.number());
        let mut at = 0;
        loop {
            let is_quoted = self.has_quotes && self.line.get(at) == Some(&b'"');
            at = if is_quoted { self.quoted_field(at + 1)? } else { self.plain_field(at) };
            self.row.end_field();
            let end = content_len(&self.line);
            if at == end {
                return Ok(Some(Ok(())));
            }
            if self.line[at] != self.separator {
                return Ok(Some(Err(self.after_quote())));
            }
            at += 1;
        }
    }

    /// Adds the text of the field that begins at `at`, and returns its end.
    fn plain_field(&mut self, at: usize) -> usize {
        let rest = &self.line[at..content_len(&self.line)];
        let len = rest.iter().position(|&byte| byte == self.separator).unwrap_or(rest.len());
        self.row.text.extend_from_slice(&rest[..len]);
        at + len
    }

    /// Adds the text of the field whose text begins at `at`, behind its quote. Returns the end of
    /// its closing quote, which may be on a later line.
    fn quoted_field(&mut self, mut at: usize) -> Result<usize, CliError> {
        let opened = self.lines.number();
        loop {
            let rest = &self.line[at..];
            match rest.iter().position(|&byte| byte == b'"') {
                Some(len) if rest.get(len + 1) == Some(&b'"') => {
                    self.row.text.extend_from_slice(&rest[..=len]);
                    at += len + 2;
                }
                Some(len) => {
                    self.row.text.extend_from_slice(&rest[..len]);
                    return Ok(at + len + 1);
                }
                None => {
                    self.row.text.extend_from_slice(rest);
                    if self.row.text.len() as u64 > LINE_LEN_BYTES_MAX {
                        let reason = "a quote opens and does not close within 3 GiB";
                        return Err(self.lines.wrong(opened, reason));
                    }
                    if !self.lines.read(&mut self.line)? {
                        return Err(self.lines.wrong(
                            opened,
                            "a quote opens and never closes; close it, or write it twice and quote the \
                             whole field",
                        ));
                    }
                    at = 0;
                }
            }
        }
    }

    fn after_quote(&self) -> BadLine {
        let line = self.row.line;
        let closed = self.lines.number();
        let place = if closed == line { String::new() } else { format!(" on line {closed}") };
        let reason = format!(
            "text follows the closing quote of field {}{place}; a quote inside a quoted field is \
             written twice",
            self.row.ends.len()
        );
        BadLine { line, reason }
    }
}

/// The length of `line` without its line end.
fn content_len(line: &[u8]) -> usize {
    match line {
        [content @ .., b'\r', b'\n'] | [content @ .., b'\n'] => content.len(),
        _ => line.len(),
    }
}

#[cfg(test)]
mod tests;
