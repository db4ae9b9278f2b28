//! Records, and their reader for JSON lines. A malformed record is returned with its line number.
//!
//! Not here: CSV and TSV (`delimited`).

use super::lines::LineReader;
use crate::error::CliError;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::BufRead;

/// A key and its value, and the line they came from (counted from 1).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) line: u64,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

/// A malformed line; the lines after it may be well formed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadLine {
    pub(super) line: u64,
    pub(super) reason: String,
}

/// The names of the fields that hold the key and the value.
#[derive(Clone, Debug)]
pub(super) struct Fields {
    pub(super) key: String,
    pub(super) value: String,
}

/// A source of records; `Ok(None)` is the end.
pub(super) trait Records {
    fn next(&mut self) -> Result<Option<Result<Record, BadLine>>, CliError>;
}

/// One JSON object per line: `{"key": "a", "value": "b"}`.
///
/// A string stands for its UTF-8 bytes, any other value for its JSON text. A field `key_hex` or
/// `value_hex` holds bytes in hexadecimal; `scan --format json` writes bytes that are not UTF-8 so.
pub(super) struct JsonLines {
    lines: LineReader,
    fields: Fields,
    buf: Vec<u8>,
}

impl JsonLines {
    pub(super) fn new(reader: Box<dyn BufRead>, name: &str, fields: Fields) -> JsonLines {
        JsonLines { lines: LineReader::new(reader, name), fields, buf: Vec::new() }
    }
}

impl Records for JsonLines {
    fn next(&mut self) -> Result<Option<Result<Record, BadLine>>, CliError> {
        while self.lines.read(&mut self.buf)? {
            if self.buf.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let line = self.lines.number();
            return Ok(Some(match parse_json(&self.buf, &self.fields) {
                Ok((key, value)) => Ok(Record { line, key, value }),
                Err(reason) => Err(BadLine { line, reason }),
            }));
        }
        Ok(None)
    }
}

fn parse_json(line: &[u8], fields: &Fields) -> Result<(Vec<u8>, Vec<u8>), String> {
    // The line end is cut off, so that an error at the end has a column on this line.
    let text = std::str::from_utf8(line.trim_ascii_end()).map_err(|e| format!("not UTF-8: {e}"))?;
    let object: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(text)
        .map_err(|error| format!("not a JSON object: {}", at_column(text, text, &error)))?;
    let bytes = |name: &str, is_key: bool| -> Result<Vec<u8>, String> {
        if let Some(raw) = object.get(name) {
            return json_bytes(text, raw.get(), name, is_key);
        }
        let hex_name = format!("{name}_hex");
        let Some(raw) = object.get(hex_name.as_str()) else {
            return Err(format!("the object has no field {name:?}"));
        };
        let hex: String = serde_json::from_str(raw.get())
            .map_err(|_| format!("field {hex_name:?} is not a string"))?;
        crate::key::from_hex(&hex).map_err(|e| format!("field {hex_name:?}: {e}"))
    };
    Ok((bytes(&fields.key, true)?, bytes(&fields.value, false)?))
}

fn json_bytes(line: &str, text: &str, name: &str, is_key: bool) -> Result<Vec<u8>, String> {
    match text.as_bytes().first() {
        Some(b'"') => serde_json::from_str::<String>(text)
            .map(String::into_bytes)
            .map_err(|error| format!("field {name:?}: {}", at_column(line, text, &error))),
        Some(b'n') => Err(format!("field {name:?} is null")),
        Some(b'{' | b'[') if is_key => {
            Err(format!("field {name:?} is neither a string nor a number"))
        }
        _ => Ok(text.as_bytes().to_vec()),
    }
}

/// An error of the parser in `text`, a part of `line`, with its column on that line. The parser's
/// own line number counts within `text`: it is always 1, and wrong on every line but the first.
fn at_column(line: &str, text: &str, error: &serde_json::Error) -> String {
    let what = error.to_string();
    let what = what.split(" at line ").next().unwrap_or(&what);
    let before = text.as_ptr().addr() - line.as_ptr().addr();
    format!("{what} at column {}", before + error.column())
}

#[cfg(test)]
mod tests;
