#![doc = include_str!("../../../../../docs/formats/ycsb_record.md")]

use super::{Record, Span, Wanted};
use bytes::Bytes;

const FORMAT_VERSION: u8 = 1;

const VERSION: usize = 0;
const RESERVED: usize = VERSION + 1;
const FIELD_COUNT: usize = RESERVED + 3;
const FIELDS: usize = FIELD_COUNT + 4;
const _: () = assert!(FIELDS == 8);

const NAME_LEN: usize = 0;
const VALUE_LEN: usize = NAME_LEN + 4;
const NAME: usize = VALUE_LEN + 4;

/// Errors of decoding a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The value ends too early.
    #[error("the value ends at byte {len}, inside of {what}")]
    Short {
        /// Its length in bytes.
        len: usize,
        /// The part in which it ends.
        what: &'static str,
    },
    /// The value has another version, or is not a record at all.
    #[error("format version {got}, expected {FORMAT_VERSION}")]
    Version {
        /// The version in the value.
        got: u8,
    },
    /// Its reserved bytes are not zero.
    #[error("reserved bytes are not zero")]
    Reserved,
    /// A name is not UTF-8, or not greater than the one before.
    #[error("the name of field {at} is not UTF-8, or not after the one before")]
    Name {
        /// The index of the field, from 0.
        at: u32,
    },
    /// There are bytes after the last field.
    #[error("{count} bytes after the last field")]
    Trailing {
        /// How many.
        count: usize,
    },
}

/// Encodes `record`.
///
/// # Panics
/// If a field is longer than 4 GiB, which exceeds the longest value of a store.
pub(super) fn encode(record: &Record) -> Vec<u8> {
    let len = |bytes: usize| {
        u32::try_from(bytes).expect("a field is shorter than the longest value of a store")
    };
    let fields = record.fields();
    let content: usize = record.spans.iter().map(|span| NAME + span.end - span.name_at).sum();
    let mut bytes = Vec::with_capacity(FIELDS + content);
    bytes.extend([FORMAT_VERSION, 0, 0, 0]);
    bytes.extend(len(fields.len()).to_le_bytes());
    for (name, value) in fields {
        bytes.extend(len(name.len()).to_le_bytes());
        bytes.extend(len(value.len()).to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.extend(value);
    }
    bytes
}

/// Decodes the wanted fields of `value`; the whole value is checked.
///
/// # Errors
/// The value is not a record.
pub(super) fn decode(value: Bytes, wanted: Wanted<'_>) -> Result<Record, RecordError> {
    let short = |what| RecordError::Short { len: value.len(), what };
    let header = value.get(..FIELDS).ok_or(short("the header"))?;
    if header[VERSION] != FORMAT_VERSION {
        return Err(RecordError::Version { got: header[VERSION] });
    }
    if header[RESERVED..FIELD_COUNT] != [0; 3] {
        return Err(RecordError::Reserved);
    }
    let field_count = u32_at(header, FIELD_COUNT);
    // If a value claims more fields than it has space for, the checks below find it too short.
    let mut spans = Vec::with_capacity((field_count as usize).min(value.len() / NAME));
    let mut last_name: Option<&str> = None;
    let mut at = FIELDS;
    for field in 0..field_count {
        let lens = value.get(at..at + NAME).ok_or(short("the lengths of a field"))?;
        let (name_len, value_len) = (u32_at(lens, NAME_LEN), u32_at(lens, VALUE_LEN));
        let name_at = at + NAME;
        let value_at = name_at + name_len as usize;
        let end = value_at + value_len as usize;
        let name = value.get(name_at..value_at).ok_or(short("a name"))?;
        let name = std::str::from_utf8(name).ok().filter(|name| last_name < Some(name));
        let name = name.ok_or(RecordError::Name { at: field })?;
        if end > value.len() {
            return Err(short("a value"));
        }
        if wanted.has(name) {
            spans.push(Span { name_at, value_at, end });
        }
        last_name = Some(name);
        at = end;
    }
    match value.len() - at {
        0 => Ok(Record { bytes: value, spans }),
        count => Err(RecordError::Trailing { count }),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let field = bytes[at..at + 4].try_into();
    u32::from_le_bytes(field.expect("four bytes are four bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex_clockwork::Prng;
    use std::sync::Arc;

    fn sample() -> Record {
        let fields = [("field0", "zero"), ("field1", ""), ("field10", "ten")];
        Record::new(fields.to_vec())
    }

    #[test]
    fn golden_bytes() {
        let mut want = vec![1, 0, 0, 0, 3, 0, 0, 0];
        want.extend(b"\x06\0\0\0\x04\0\0\0field0zero");
        want.extend(b"\x06\0\0\0\0\0\0\0field1");
        want.extend(b"\x07\0\0\0\x03\0\0\0field10ten");
        assert_eq!(encode(&sample()), want);
        assert_eq!(decode(want.into(), Wanted::All), Ok(sample()));
        assert_eq!(encode(&Record::default()), [1, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn only_the_wanted_fields_come_back() {
        let names: [Arc<str>; 2] = ["field1".into(), "field2".into()];
        let got = decode(encode(&sample()).into(), Wanted::Named(&names)).unwrap();
        assert_eq!(got, Record::new(vec![("field1", "")]));
    }

    #[test]
    fn invalid_records_are_refused() {
        let valid = encode(&sample());
        for len in 0..valid.len() {
            decode(Bytes::copy_from_slice(&valid[..len]), Wanted::All).unwrap_err();
        }
        let mut longer = valid.clone();
        longer.push(0);
        let error = decode(longer.into(), Wanted::All).unwrap_err();
        assert_eq!(error, RecordError::Trailing { count: 1 });
        let damaged = |at: usize, byte: u8| {
            let mut bytes = valid.clone();
            bytes[at] = byte;
            decode(bytes.into(), Wanted::All).unwrap_err()
        };
        assert_eq!(damaged(0, 2), RecordError::Version { got: 2 });
        assert_eq!(damaged(2, 1), RecordError::Reserved);
        assert_eq!(damaged(16, 0xff), RecordError::Name { at: 0 });
        assert_eq!(damaged(21, b'9'), RecordError::Name { at: 1 }, "field9 is not before field1");
    }

    #[test]
    fn garbage_is_refused_or_encodes_back_to_itself() {
        let mut prng = Prng::new(4);
        let valid = encode(&sample());
        for round in 0..20_000 {
            let mut bytes = valid.clone();
            if round % 2 == 0 {
                bytes.truncate(prng.below(bytes.len() as u64 + 1) as usize);
            }
            for _ in 0..prng.below(4) {
                let bit = prng.below(8 * valid.len() as u64) as usize;
                if let Some(byte) = bytes.get_mut(bit / 8) {
                    *byte ^= 1 << (bit % 8);
                }
            }
            let bytes = Bytes::from(bytes);
            if let Ok(record) = decode(bytes.clone(), Wanted::All) {
                assert_eq!(encode(&record), bytes, "one record has one form");
            }
        }
    }
}
