//! The stream of operations, and the records they use.

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

/// An operation; the number is that of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YcsbOp {
    /// Read a record.
    Read(u64),
    /// Write some of its fields, or all.
    Update(u64),
    /// Insert the next record.
    Insert(u64),
    /// Read records in order, from this one on: the second number is how many.
    Scan(u64, u64),
    /// Read a record, then update it.
    ReadModifyWrite(u64),
}

/// The frequencies of the kinds of operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mix {
    weights: Vec<(OpKind, u64)>,
    weight_sum: u64,
}

impl Mix {
    /// A mix in which the frequency of each kind is its share of all weights. At least one weight
    /// is not 0.
    pub(crate) fn new(weights: &[(OpKind, u64)]) -> Mix {
        let weight_sum = weights.iter().map(|(_, weight)| weight).sum();
        assert!(weight_sum > 0, "a mix has an operation");
        Mix { weights: weights.to_vec(), weight_sum }
    }

    /// The share of operations of this kind.
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
        unreachable!("the number drawn is below the sum of the weights")
    }
}

/// The operations of one client, from a seed.
#[derive(Clone, Debug)]
pub struct YcsbStream {
    pub(crate) mix: Mix,
    pub(crate) keys: KeyChooser,
    pub(crate) scan_lengths: Lengths,
    /// The existing records, shared by all clients of a run.
    pub(crate) records: Arc<InsertSequence>,
    pub(crate) prng: Prng,
}

impl YcsbStream {
    /// The number of records after the operations that have ended.
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

    /// Records that `op` has ended, successfully or not. From now on, other operations may choose a
    /// record that it inserted.
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
