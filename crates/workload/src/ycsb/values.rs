//! The values of fields: random, or verifiable.
//!
//! A verifiable value (`dataintegrity`) follows from key and field name, as in YCSB: both joined by
//! a colon, then repeatedly a colon and Java's hash of everything so far, cut at the field's
//! length. So a store loaded by YCSB can be verified here, and vice versa.

use super::lengths::Lengths;
use super::record::Record;
use imbrex_clockwork::Prng;
use std::fmt::Write;
use std::sync::Arc;

/// Makes fields.
#[derive(Clone, Debug)]
pub struct FieldMaker {
    /// Sorted by bytes, as in a record.
    pub(crate) names: Arc<[Arc<str>]>,
    pub(crate) lengths: Lengths,
    /// Whether values follow from key and name, so that they can be verified.
    pub(crate) is_recognisable: bool,
    pub(crate) prng: Prng,
}

impl FieldMaker {
    /// The name of any field.
    pub fn any_name(&mut self) -> Arc<str> {
        let at = self.prng.below(self.names.len() as u64) as usize;
        Arc::clone(&self.names[at])
    }

    /// New values for all fields of the record of `key`.
    pub fn all(&mut self, key: &str) -> Record {
        let names = Arc::clone(&self.names);
        Record::of_names(names.iter().map(|name| &**name), |name, to| self.value(key, name, to))
    }

    /// A new value for one random field of it.
    pub fn one(&mut self, key: &str) -> Record {
        let name = self.any_name();
        Record::of_names([&*name].into_iter(), |name, to| self.value(key, name, to))
    }

    /// Whether all fields of `record` have the values written under `key`; false for a record
    /// without fields.
    pub fn recognises(&mut self, key: &str, record: &Record) -> bool {
        let length = self.lengths.next(&mut self.prng);
        !record.is_empty()
            && record.fields().all(|(name, value)| recognisable(key, name, length) == value)
    }

    /// Appends a value to `to`.
    fn value(&mut self, key: &str, name: &str, to: &mut Vec<u8>) {
        let length = self.lengths.next(&mut self.prng);
        if self.is_recognisable {
            to.extend(recognisable(key, name, length));
        } else {
            printable(&mut self.prng, length as usize, to);
        }
    }
}

/// Random printable ASCII.
fn printable(prng: &mut Prng, length: usize, to: &mut Vec<u8>) {
    let at = to.len();
    to.resize(at + length, 0);
    let value = &mut to[at..];
    prng.fill(value);
    for byte in value {
        // Maps 256 byte values to 95 printable ones: 66 of them three times, the other 29 twice.
        *byte = b' ' + ((u16::from(*byte) * 95) >> 8) as u8;
    }
}

/// The value of `length` characters that follows from `key` and `name`.
fn recognisable(key: &str, name: &str, length: u64) -> Vec<u8> {
    let length = length as usize;
    let mut value = format!("{key}:{name}");
    let mut hashed = 0;
    let mut hash = 0_i32;
    while value.len() < length {
        value.push(':');
        hash = value[hashed..]
            .encode_utf16()
            .fold(hash, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
        hashed = value.len();
        write!(value, "{hash}").expect("writing to a string never fails");
    }
    let mut value = value.into_bytes();
    value.truncate(length);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maker(is_recognisable: bool) -> FieldMaker {
        let names = ["field0", "field1", "field10", "field2"].map(Arc::from);
        FieldMaker {
            names: Arc::from(names.to_vec()),
            lengths: Lengths::Constant(100),
            is_recognisable,
            prng: Prng::new(9),
        }
    }

    #[test]
    fn values_are_printable_and_as_long_as_asked() {
        let mut maker = maker(false);
        let record = maker.all("user1");
        assert_eq!(record.fields().len(), 4);
        let bytes: Vec<u8> = record.fields().flat_map(|(_, value)| value.to_vec()).collect();
        assert_eq!(bytes.len(), 400);
        assert!(bytes.iter().all(|byte| (b' '..=b'~').contains(byte)));
        let mut long = Vec::new();
        printable(&mut Prng::new(1), 100_000, &mut long);
        let mut counts = [0_u32; 256];
        long.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        let printable = &counts[usize::from(b' ')..=usize::from(b'~')];
        assert!(printable.iter().all(|count| (600..1_400).contains(count)), "{printable:?}");
        assert_ne!(maker.one("user1"), maker.one("user1"));
    }

    #[test]
    fn values_to_be_recognised_are_those_of_ycsb() {
        let value = |length| String::from_utf8(recognisable("user1", "field0", length));
        // Java's hash of "user1:field0:" is -1268391216.
        assert_eq!(value(60).unwrap(), HASHED);
        assert_eq!(value(4).unwrap(), "user");
        assert_eq!(value(0).unwrap(), "");
    }

    #[test]
    fn only_written_values_are_recognised() {
        let mut maker = maker(true);
        let record = maker.all("user1");
        assert!(maker.recognises("user1", &record));
        assert!(!maker.recognises("user2", &record));
        assert!(!maker.recognises("user1", &Record::default()));
        let mut fields: Vec<(&str, &[u8])> = record.fields().collect();
        fields[1].1 = b"user1:field1";
        assert!(!maker.recognises("user1", &Record::new(fields)));
        let one = maker.one("user1");
        assert!(maker.recognises("user1", &one));
    }

    const HASHED: &str = "user1:field0:-1268391216:957204686:-1707619825:1341038322:17";
}
