//! The text form of keys and values, on the command line and in output.

use crate::error::CliError;
use clap::Args;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The notation of keys on the command line.
#[derive(Args, Debug)]
pub(crate) struct KeyNotation {
    /// Keys on the command line are hexadecimal, such as 00ff
    #[arg(long)]
    hex_keys: bool,
}

impl KeyNotation {
    /// The bytes of a key given as `text`, which need not be UTF-8.
    pub(crate) fn bytes(&self, text: &OsStr) -> Result<Vec<u8>, CliError> {
        if !self.hex_keys {
            return Ok(text.as_bytes().to_vec());
        }
        from_hex(&text.to_string_lossy())
            .map_err(|error| CliError::usage(format!("key {text:?}: {error}")))
    }
}

/// Decodes an even number of hexadecimal digits.
pub(crate) fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    match digits {
        Some(digits) if digits.len().is_multiple_of(2) => {
            Ok(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
        }
        _ => Err("not an even number of hexadecimal digits".to_owned()),
    }
}

/// Two hexadecimal digits for each byte.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
        .map(char::from)
        .collect()
}

/// `{"key": ..., "value": ...}`, with `key_hex` or `value_hex` for bytes that are not UTF-8.
///
/// `load` reads this form back.
pub(crate) fn entry_json(key: &[u8], value: Option<&[u8]>) -> Value {
    let mut entry = json!({});
    for (name, bytes) in [("key", Some(key)), ("value", value)] {
        match bytes.map(std::str::from_utf8) {
            None => {}
            Some(Ok(text)) => entry[name] = text.into(),
            Some(Err(_)) => entry[format!("{name}_hex")] = to_hex(bytes.unwrap_or_default()).into(),
        }
    }
    entry
}

/// A key in a message: quoted if it is text, hexadecimal otherwise, and cut if it is long.
pub(crate) fn shown(key: &[u8]) -> String {
    const SHOWN_CHARS: usize = 60;
    let text = match std::str::from_utf8(key) {
        Ok(text) => format!("{text:?}"),
        Err(_) => format!("0x{}", to_hex(key)),
    };
    if text.chars().count() <= SHOWN_CHARS {
        return text;
    }
    let start: String = text.chars().take(SHOWN_CHARS).collect();
    format!("{start}... ({} bytes)", key.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_round_trips() {
        assert_eq!(from_hex("00fFa0"), Ok(vec![0, 255, 160]));
        assert_eq!(to_hex(&[0, 255, 160]), "00ffa0");
        for wrong in ["0", "0g", "0x00", "é0"] {
            assert!(from_hex(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_in_hexadecimal() {
        assert_eq!(entry_json(b"k", Some(b"v")), json!({"key": "k", "value": "v"}));
        assert_eq!(entry_json(&[255], Some(&[254])), json!({"key_hex": "ff", "value_hex": "fe"}));
        assert_eq!(entry_json(b"k", None), json!({"key": "k"}));
        assert_eq!(shown(b"a\"b"), "\"a\\\"b\"");
        assert_eq!(shown(&[255]), "0xff");
        assert!(shown(&[b'x'; 1000]).ends_with("... (1000 bytes)"));
    }
}
