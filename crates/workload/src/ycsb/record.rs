//! A record: named fields, and their encoding as one value of the store.

mod format;

pub use format::RecordError;

use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// The fields of one record, or some of them, sorted by name.
///
/// All fields are in one buffer, that of the value they were read from. Separate allocations would
/// cost a scan a thousand times.
#[derive(Clone, Default)]
pub struct Record {
    bytes: Bytes,
    spans: Vec<Span>,
}

/// The position of a field: its name, then its value.
#[derive(Clone, Debug)]
struct Span {
    name_at: usize,
    value_at: usize,
    end: usize,
}

impl Record {
    /// A record of `fields`. If a name occurs twice, the later field counts.
    pub fn new<N: AsRef<str>, V: AsRef<[u8]>>(mut fields: Vec<(N, V)>) -> Record {
        fn name<N: AsRef<str>, V>(field: &(N, V)) -> &str {
            field.0.as_ref()
        }
        if !fields.is_sorted_by(|a, b| name(a) < name(b)) {
            fields.reverse();
            fields.sort_by(|a, b| name(a).cmp(name(b)));
            fields.dedup_by(|later, earlier| name(later) == name(earlier));
        }
        let mut values = fields.iter().map(|(_, value)| value.as_ref());
        let next = |_: &str, bytes: &mut Vec<u8>| bytes.extend(values.next().unwrap_or_default());
        Record::of_names(fields.iter().map(name), next)
    }

    /// A record of the fields `names`, which are sorted. `append` appends the value of a name to
    /// the buffer.
    pub fn of_names<'a>(
        names: impl Iterator<Item = &'a str>,
        mut append: impl FnMut(&str, &mut Vec<u8>),
    ) -> Record {
        let mut bytes = Vec::new();
        let spans = names.map(|name| {
            let name_at = bytes.len();
            bytes.extend(name.as_bytes());
            let value_at = bytes.len();
            append(name, &mut bytes);
            Span { name_at, value_at, end: bytes.len() }
        });
        let spans = spans.collect();
        Record { bytes: bytes.into(), spans }
    }

    /// Names and values, sorted by name.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = (&str, &[u8])> {
        self.spans.iter().map(|span| {
            let name = str::from_utf8(&self.bytes[span.name_at..span.value_at]);
            (name.expect("a record's names are text"), &self.bytes[span.value_at..span.end])
        })
    }

    /// Whether it has no field.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Bytes of all values.
    pub fn len_bytes(&self) -> u64 {
        self.spans.iter().map(|span| (span.end - span.value_at) as u64).sum()
    }

    /// The record as one value of a store.
    ///
    /// # Panics
    /// If a field is longer than 4 GiB, which exceeds the longest value of a store.
    pub fn encode(&self) -> Vec<u8> {
        format::encode(self)
    }

    /// The wanted fields of `value`; the whole value is checked.
    ///
    /// # Errors
    /// [`RecordError`]: the value is not a record.
    pub fn decode(value: Bytes, wanted: Wanted<'_>) -> Result<Record, RecordError> {
        format::decode(value, wanted)
    }

    /// Replaces and adds the fields of `newer`.
    pub fn merge(&mut self, newer: &Record) {
        *self = Record::new(self.fields().chain(newer.fields()).collect());
    }
}

impl PartialEq for Record {
    fn eq(&self, other: &Record) -> bool {
        self.fields().eq(other.fields())
    }
}

impl Eq for Record {}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.fields()).finish()
    }
}

/// A selection of fields.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// All fields.
    All,
    /// These fields, sorted by bytes.
    Named(&'a [Arc<str>]),
}

impl Wanted<'_> {
    /// Whether the selection contains `name`.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Wanted::All => true,
            Wanted::Named(names) => names.binary_search_by(|n| (**n).cmp(name)).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(fields: &[(&str, &str)]) -> Record {
        Record::new(fields.to_vec())
    }

    #[test]
    fn fields_are_in_order_and_the_later_one_counts() {
        let got = record(&[("b", "1"), ("a", "2"), ("b", "3")]);
        assert_eq!(got, record(&[("a", "2"), ("b", "3")]));
        assert_eq!(got.len_bytes(), 2);
        let mut merged = got;
        merged.merge(&record(&[("a", "new"), ("aa", "more")]));
        assert_eq!(merged, record(&[("a", "new"), ("aa", "more"), ("b", "3")]));
    }
}
