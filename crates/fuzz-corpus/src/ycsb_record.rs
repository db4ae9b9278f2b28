//! A YCSB record as a value of a store.

use crate::target::Target;
use bytes::Bytes;
use imbrex_workload::ycsb::record::{Record, Wanted};
use std::sync::Arc;

pub(crate) const TARGET: Target = Target { name: "ycsb_record", feed, seeds };

/// Asserts that a record has only one encoding, and that reading one field gives the same as
/// reading all.
fn feed(bytes: &[u8]) {
    let value = Bytes::copy_from_slice(bytes);
    let Ok(record) = Record::decode(value.clone(), Wanted::All) else { return };
    assert!(record.encode() == bytes, "what is read is written as it was");
    if let Some((name, field)) = record.fields().last() {
        let names = [Arc::from(name)];
        let alone = Record::decode(value, Wanted::Named(&names)).expect("the value is a record");
        assert!(alone == Record::new(vec![(name, field)]));
    }
}

fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let record = |fields: &[(&str, &str)]| Record::new(fields.to_vec()).encode();
    vec![("empty", record(&[])), ("two", record(&[("field0", "a value"), ("field1", "")]))]
}
