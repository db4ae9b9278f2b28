//! Readers of records: JSON lines, CSV and TSV. A malformed record is returned with its line number.

use crate::error::CliError;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, BufRead, ErrorKind, Read};

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
    reader: Box<dyn BufRead>,
    name: String,
    fields: Fields,
    line: u64,
    buf: Vec<u8>,
}

/// The longest line. A value of 1 GiB fits unless most of it is escaped.
const LINE_LEN_BYTES_MAX: u64 = 3 << 30;

impl JsonLines {
    pub(super) fn new(reader: Box<dyn BufRead>, name: &str, fields: Fields) -> JsonLines {
        JsonLines { reader, name: name.to_owned(), fields, line: 0, buf: Vec::new() }
    }
}

impl Records for JsonLines {
    fn next(&mut self) -> Result<Option<Result<Record, BadLine>>, CliError> {
        loop {
            self.buf.clear();
            let len = (&mut self.reader)
                .take(LINE_LEN_BYTES_MAX)
                .read_until(b'\n', &mut self.buf)
                .map_err(|error| unreadable(&self.name, self.line, &error))?;
            if len == 0 {
                return Ok(None);
            }
            self.line += 1;
            if len as u64 == LINE_LEN_BYTES_MAX {
                let message = format!("{}: line {} is longer than 3 GiB", self.name, self.line);
                return Err(CliError::data(message));
            }
            if self.buf.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let line = self.line;
            let record = parse_json(&self.buf, &self.fields);
            return Ok(Some(match record {
                Ok((key, value)) => Ok(Record { line, key, value }),
                Err(reason) => Err(BadLine { line, reason }),
            }));
        }
    }
}

/// The error of an unreadable source. An error without a system error code comes from the decompressor:
/// its input is malformed or cut short.
fn unreadable(name: &str, line: u64, error: &io::Error) -> CliError {
    let is_malformed = error.raw_os_error().is_none()
        && matches!(
            error.kind(),
            ErrorKind::InvalidData
                | ErrorKind::InvalidInput
                | ErrorKind::UnexpectedEof
                | ErrorKind::Other
        );
    let told = CliError::of(format!("cannot read {name} after line {line}"), error);
    if is_malformed { CliError::data(told.to_string()) } else { told }
}

fn parse_json(line: &[u8], fields: &Fields) -> Result<(Vec<u8>, Vec<u8>), String> {
    // The line end is cut off, so that an error at the end has a column on this line.
    let text = std::str::from_utf8(line.trim_ascii_end()).map_err(|e| format!("not UTF-8: {e}"))?;
    let object: BTreeMap<Cow<'_, str>, &RawValue> =
        serde_json::from_str(text).map_err(|error| {
            // The error's own line number counts within this text, and is always 1.
            let what = error.to_string();
            let what = what.split(" at line ").next().unwrap_or(&what);
            format!("not a JSON object: {what} at column {}", error.column())
        })?;
    let bytes = |name: &str, is_key: bool| -> Result<Vec<u8>, String> {
        if let Some(raw) = object.get(name) {
            return json_bytes(raw, name, is_key);
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

fn json_bytes(raw: &RawValue, name: &str, is_key: bool) -> Result<Vec<u8>, String> {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'"') => serde_json::from_str::<String>(text)
            .map(String::into_bytes)
            .map_err(|e| format!("field {name:?}: {e}")),
        Some(b'n') => Err(format!("field {name:?} is null")),
        Some(b'{' | b'[') if is_key => {
            Err(format!("field {name:?} is neither a string nor a number"))
        }
        _ => Ok(text.as_bytes().to_vec()),
    }
}

/// Lines of separated fields; the first line names them if `has_header`.
pub(super) struct Delimited {
    reader: csv::Reader<Box<dyn BufRead>>,
    name: String,
    key_at: usize,
    value_at: usize,
    record: csv::ByteRecord,
}

impl Delimited {
    pub(super) fn new(
        reader: Box<dyn BufRead>,
        name: &str,
        fields: &Fields,
        separator: u8,
        has_header: bool,
    ) -> Result<Delimited, CliError> {
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(separator)
            // TSV has no quoting: a quote is an ordinary character.
            .quoting(separator != b'\t')
            .has_headers(has_header)
            .flexible(true)
            .from_reader(reader);
        let (key_at, value_at) = if has_header {
            let header = reader.byte_headers();
            let header = header.map_err(|error| unreadable_fields(name, 0, &error))?.clone();
            (column(&header, &fields.key, name)?, column(&header, &fields.value, name)?)
        } else {
            (number(&fields.key)?, number(&fields.value)?)
        };
        let record = csv::ByteRecord::new();
        Ok(Delimited { reader, name: name.to_owned(), key_at, value_at, record })
    }
}

fn unreadable_fields(name: &str, line: u64, error: &csv::Error) -> CliError {
    match error.kind() {
        csv::ErrorKind::Io(error) => unreadable(name, line, error),
        _ => CliError::of(format!("cannot read {name} after line {line}"), error),
    }
}

fn column(header: &csv::ByteRecord, field: &str, name: &str) -> Result<usize, CliError> {
    header.iter().position(|cell| cell == field.as_bytes()).ok_or_else(|| {
        let cells: Vec<_> = header.iter().map(String::from_utf8_lossy).collect();
        CliError::data(format!(
            "{name}: line 1 names no column {field:?}; it names {}; choose columns with --key-field and \
             --value-field, or pass --no-header",
            cells.join(", ")
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
        let line_before = self.reader.position().line();
        match self.reader.read_byte_record(&mut self.record) {
            Ok(false) => return Ok(None),
            Ok(true) => {}
            Err(error) => return Err(unreadable_fields(&self.name, line_before, &error)),
        }
        let line = self.record.position().map_or(line_before, csv::Position::line);
        let cell = |at: usize| {
            self.record.get(at).map(<[u8]>::to_vec).ok_or_else(|| BadLine {
                line,
                reason: format!(
                    "it has {} fields, but field {} is needed",
                    self.record.len(),
                    at + 1
                ),
            })
        };
        let record = match (cell(self.key_at), cell(self.value_at)) {
            (Ok(key), Ok(value)) => Ok(Record { line, key, value }),
            (Err(bad), _) | (_, Err(bad)) => Err(bad),
        };
        Ok(Some(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut records: impl Records) -> Vec<Result<(u64, String, String), String>> {
        let mut found = Vec::new();
        while let Some(next) = records.next().unwrap() {
            let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
            found.push(match next {
                Ok(record) => Ok((record.line, text(record.key), text(record.value))),
                Err(bad) => Err(format!("line {}: {}", bad.line, bad.reason)),
            });
        }
        found
    }

    fn fields(key: &str, value: &str) -> Fields {
        Fields { key: key.to_owned(), value: value.to_owned() }
    }

    fn json(text: &'static str) -> Vec<Result<(u64, String, String), String>> {
        all(JsonLines::new(Box::new(text.as_bytes()), "x", fields("key", "value")))
    }

    fn ok(line: u64, key: &str, value: &str) -> Result<(u64, String, String), String> {
        Ok((line, key.to_owned(), value.to_owned()))
    }

    #[test]
    fn json_values_are_strings_or_their_own_text() {
        let text = concat!(
            "{\"key\": \"a\", \"value\": \"b\\n\\u00e4\"}\n",
            "\n",
            "{\"value\": {\"z\": 1, \"a\": [2]}, \"key\": 17}\n",
            "{\"key_hex\": \"6b\", \"value\": \"\"}",
        );
        assert_eq!(
            json(text),
            [ok(1, "a", "b\nä"), ok(3, "17", "{\"z\": 1, \"a\": [2]}"), ok(4, "k", "")]
        );
    }

    #[test]
    fn a_malformed_line_is_reported_and_the_rest_is_read() {
        let text = "{\"key\": \"a\"\n[1]\n{\"key\": 1}\n{\"key\": null, \"value\": 1}\n\
                    {\"key\": \"k\", \"value\": \"v\"}\n";
        let found = json(text);
        assert_eq!(found.len(), 5);
        let errors: Vec<_> = found.iter().filter_map(|r| r.as_ref().err()).collect();
        assert_eq!(errors.len(), 4);
        assert!(errors[0].starts_with("line 1: not a JSON object: EOF"), "{}", errors[0]);
        assert!(errors[1].starts_with("line 2: not a JSON object"), "{}", errors[1]);
        assert_eq!(errors[2], "line 3: the object has no field \"value\"");
        assert_eq!(errors[3], "line 4: field \"key\" is null");
        assert_eq!(found[4], ok(5, "k", "v"));
    }

    #[test]
    fn csv_line_numbers_count_line_breaks_in_quotes() {
        let text = "id,body\n1,\"two\nlines\"\n2\n3,\"say \"\"x\"\"\"\n";
        let records =
            Delimited::new(Box::new(text.as_bytes()), "x", &fields("id", "body"), b',', true);
        assert_eq!(
            all(records.unwrap()),
            [
                ok(2, "1", "two\nlines"),
                Err("line 4: it has 1 fields, but field 2 is needed".to_owned()),
                ok(5, "3", "say \"x\""),
            ]
        );
    }

    #[test]
    fn tsv_without_a_header_numbers_columns_and_keeps_quotes() {
        let text = "b\t\"x\ta\n";
        let records =
            Delimited::new(Box::new(text.as_bytes()), "x", &fields("3", "2"), b'\t', false);
        assert_eq!(all(records.unwrap()), [ok(1, "a", "\"x")]);
    }

    #[test]
    fn the_error_for_a_missing_column_lists_the_columns() {
        let text = "id,body\n";
        let error =
            Delimited::new(Box::new(text.as_bytes()), "x", &fields("key", "body"), b',', true)
                .err()
                .unwrap();
        assert!(error.to_string().contains("it names id, body"), "{error}");
    }
}
