//! A record of YCSB as a value of a store.

use crate::Target;
use bytes::Bytes;
use imbrex_bench::ycsb::{Record, Wanted};
use std::sync::Arc;

pub(crate) const TARGET: Target = Target { name: "ycsb_record", feed, seeds };

/// Asserts that a record has one form, and that a field is the same whether it is read alone or with all.
fn feed(bytes: &[u8]) {
    let value = Bytes::copy_from_slice(bytes);
    let Ok(record) = Record::decode(&value, Wanted::All) else { return };
    assert!(record.encode() == bytes, "what is read is written as it was");
    if let Some((name, field)) = record.fields().last() {
        let names = [Arc::clone(name)];
        let alone = Record::decode(&value, Wanted::Named(&names)).expect("the value is a record");
        assert!(alone.fields() == [(Arc::clone(name), field.clone())]);
    }
}

fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let record = |fields: &[(&str, &'static str)]| {
        let fields = fields.iter().map(|&(name, value)| (Arc::from(name), Bytes::from(value)));
        Record::new(fields.collect()).encode()
    };
    vec![("empty", record(&[])), ("two", record(&[("field0", "a value"), ("field1", "")]))]
}
