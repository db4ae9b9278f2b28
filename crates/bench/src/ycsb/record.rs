//! A record: named fields, and how they become one value of the store.

pub(crate) mod format;

use bytes::Bytes;
use format::RecordError;
use std::sync::Arc;

/// The fields of one record, or some of them, in order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    fields: Vec<(Arc<str>, Bytes)>,
}

impl Record {
    /// A record of `fields`; where a name comes twice the later one counts.
    pub fn new(mut fields: Vec<(Arc<str>, Bytes)>) -> Record {
        if !fields.is_sorted_by(|(a, _), (b, _)| a < b) {
            fields.reverse();
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            fields.dedup_by(|(later, _), (earlier, _)| later == earlier);
        }
        Record { fields }
    }

    /// Names and values, in order of the names.
    pub fn fields(&self) -> &[(Arc<str>, Bytes)] {
        &self.fields
    }

    /// Bytes of all values.
    pub fn len_bytes(&self) -> u64 {
        self.fields.iter().map(|(_, value)| value.len() as u64).sum()
    }

    /// The record as one value of a store.
    ///
    /// # Panics
    /// If a field is longer than 4 GiB, which no value of a store may be.
    pub fn encode(&self) -> Vec<u8> {
        format::encode(self)
    }

    /// The fields of `value` that are wanted; all of it is checked.
    ///
    /// # Errors
    /// [`RecordError`]: it is no record.
    pub fn decode(value: &Bytes, wanted: Wanted<'_>) -> Result<Record, RecordError> {
        format::decode(value, wanted, &mut Names::default())
    }

    /// Replaces and adds what `newer` has.
    pub fn merge(&mut self, newer: &Record) {
        for (name, value) in &newer.fields {
            match self.fields.binary_search_by(|(n, _)| n.cmp(name)) {
                Ok(at) => self.fields[at].1 = value.clone(),
                Err(at) => self.fields.insert(at, (Arc::clone(name), value.clone())),
            }
        }
    }
}

/// The names of a record read before. Those of a table are alike, so that the next one has no need to make them again.
#[derive(Debug, Default)]
pub(crate) struct Names(Vec<Arc<str>>);

impl Names {
    /// How many.
    fn count(&self) -> usize {
        self.0.len()
    }

    /// `name`, the one at `at` of those that are wanted of a record.
    pub(crate) fn of(&mut self, at: usize, name: &str) -> Arc<str> {
        match self.0.get(at) {
            Some(known) if **known == *name => Arc::clone(known),
            _ => {
                let name: Arc<str> = name.into();
                self.0.truncate(at);
                self.0.push(Arc::clone(&name));
                name
            }
        }
    }
}

/// Which fields of a record are wanted.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// All there are.
    All,
    /// These, in order of their bytes.
    Named(&'a [Arc<str>]),
}

impl Wanted<'_> {
    /// Whether the field `name` is wanted.
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

    fn record(fields: &[(&str, &'static str)]) -> Record {
        Record::new(fields.iter().map(|&(name, value)| (name.into(), value.into())).collect())
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
