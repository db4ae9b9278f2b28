//! Which operation comes next, and for which record.

use super::keys::{InsertSequence, KeyChooser};
use super::lengths::Lengths;
use imbrex_clockwork::Prng;
use std::sync::Arc;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OpKind {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

/// What to do next; the number is a record's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YcsbOp {
    /// Read a record.
    Read(u64),
    /// Write some of its fields, or all.
    Update(u64),
    /// The next record that is not there yet.
    Insert(u64),
    /// Read records in order, from this one on: the second number is how many.
    Scan(u64, u64),
    /// Read a record, then update it.
    ReadModifyWrite(u64),
}

/// How often each kind of operation comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mix {
    weights: Vec<(OpKind, u64)>,
    weight_sum: u64,
}

impl Mix {
    /// Each kind as often as its weight is a share of all; not all are 0.
    pub(crate) fn new(weights: &[(OpKind, u64)]) -> Mix {
        let weight_sum = weights.iter().map(|(_, weight)| weight).sum();
        assert!(weight_sum > 0, "a mix has an operation");
        Mix { weights: weights.to_vec(), weight_sum }
    }

    /// How many operations of one are of this kind.
    pub(crate) fn share(&self, kind: OpKind) -> f64 {
        let weights = self.weights.iter().filter(|(other, _)| *other == kind);
        weights.map(|(_, weight)| weight).sum::<u64>() as f64 / self.weight_sum as f64
    }

    fn next(&self, prng: &mut Prng) -> OpKind {
        let mut left = prng.below(self.weight_sum);
        for (kind, weight) in &self.weights {
            if left < *weight {
                return *kind;
            }
            left -= weight;
        }
        unreachable!("what was drawn lies below the sum of the weights")
    }
}

/// The operations of one client, from a seed.
#[derive(Clone, Debug)]
pub struct YcsbStream {
    pub(crate) mix: Mix,
    pub(crate) keys: KeyChooser,
    pub(crate) scan_lengths: Lengths,
    /// Which records are there; all clients of a run have the same.
    pub(crate) records: Arc<InsertSequence>,
    pub(crate) prng: Prng,
}

impl YcsbStream {
    /// How many records there are after the operations that have ended.
    pub fn record_count(&self) -> u64 {
        self.records.record_count()
    }

    /// The next operation.
    pub fn next_op(&mut self) -> YcsbOp {
        match self.mix.next(&mut self.prng) {
            OpKind::Read => YcsbOp::Read(self.record()),
            OpKind::Update => YcsbOp::Update(self.record()),
            OpKind::Insert => YcsbOp::Insert(self.records.begin()),
            OpKind::Scan => {
                let first = self.record();
                YcsbOp::Scan(first, self.scan_lengths.next(&mut self.prng))
            }
            OpKind::ReadModifyWrite => YcsbOp::ReadModifyWrite(self.record()),
        }
    }

    /// `op` has been done, or has failed: from now on others may choose a record that it inserted.
    pub fn ended(&self, op: YcsbOp) {
        if let YcsbOp::Insert(number) = op {
            self.records.end(number);
        }
    }

    fn record(&mut self) -> u64 {
        self.keys.next(&mut self.prng, self.records.record_count())
    }
}

#[cfg(test)]
impl YcsbOp {
    pub(crate) fn kind(self) -> OpKind {
        match self {
            YcsbOp::Read(_) => OpKind::Read,
            YcsbOp::Update(_) => OpKind::Update,
            YcsbOp::Insert(_) => OpKind::Insert,
            YcsbOp::Scan(..) => OpKind::Scan,
            YcsbOp::ReadModifyWrite(_) => OpKind::ReadModifyWrite,
        }
    }

    pub(crate) fn record(self) -> u64 {
        let (YcsbOp::Read(number)
        | YcsbOp::Update(number)
        | YcsbOp::Insert(number)
        | YcsbOp::Scan(number, _)
        | YcsbOp::ReadModifyWrite(number)) = self;
        number
    }
}
