//! A cursor over a memtable. On a frozen memtable it walks the tree itself; on a live one it walks
//! batches of entries copied from the tree.
//!
//! A batch is filled while the read lock is held once, in the direction of movement. The first
//! batch is small, so that a seek followed by one read copies little. At its end, the next batch
//! starts at the key of the last entry (M2).

use super::Memtable;
use super::arena::Value;
use super::tree::{Cursor, Tree};
use crate::EngineError;
use crate::iter::InternalIter;
use crate::key::{InternalKey, Trailer};
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

/// The number of entries in the first batch after a seek. Each following batch has twice as many.
const BATCH_COUNT_MIN: usize = 8;
const BATCH_COUNT_MAX: usize = 256;

/// A batch ends early when it reaches this many bytes.
const BATCH_LEN_BYTES: usize = 16 << 10;

/// A cursor over the entries of a memtable. It keeps the memtable alive.
#[derive(Debug)]
pub(crate) struct MemtableIter {
    memtable: Arc<Memtable>,
    place: Position,
    batch: Batch,
}

#[derive(Debug)]
enum Position {
    Nowhere,
    /// On an entry of the frozen tree.
    Frozen(Arc<Tree>, Cursor),
    /// On an entry of the batch, by index.
    Copied(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// Entries copied from the live tree, in the direction of movement.
#[derive(Debug)]
struct Batch {
    bytes: Vec<u8>,
    entries: Vec<Copied>,
    direction: Direction,
    count_max: usize,
}

#[derive(Debug)]
struct Copied {
    user_key: Range<usize>,
    trailer: Trailer,
    value: CopiedValue,
}

#[derive(Debug)]
enum CopiedValue {
    Inline(Range<usize>),
    Large(Bytes),
}

impl Batch {
    fn fill(&mut self, tree: &Tree, from: Option<Cursor>, direction: Direction) {
        self.bytes.clear();
        self.entries.clear();
        self.direction = direction;
        let mut cursor = from;
        while let Some(at) = cursor {
            let (key, value) = tree.entry(at);
            let user_key = self.copy(key.user_key);
            let value = match value {
                Value::Inline(slice) => CopiedValue::Inline(self.copy(slice)),
                Value::Large(bytes) => CopiedValue::Large(bytes.clone()),
            };
            self.entries.push(Copied { user_key, trailer: key.trailer, value });
            if self.entries.len() >= self.count_max || self.bytes.len() >= BATCH_LEN_BYTES {
                break;
            }
            cursor = match direction {
                Direction::Forward => tree.next(at),
                Direction::Backward => tree.prev(at),
            };
        }
        self.count_max = (self.count_max * 2).min(BATCH_COUNT_MAX);
    }

    fn copy(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    fn key(&self, at: usize) -> InternalKey<'_> {
        let entry = &self.entries[at];
        InternalKey::new(&self.bytes[entry.user_key.clone()], entry.trailer)
    }
}

impl MemtableIter {
    pub(super) fn new(memtable: Arc<Memtable>) -> MemtableIter {
        let batch = Batch {
            bytes: Vec::new(),
            entries: Vec::new(),
            direction: Direction::Forward,
            count_max: BATCH_COUNT_MIN,
        };
        MemtableIter { memtable, place: Position::Nowhere, batch }
    }

    /// Moves to the entry that `find` returns, prepared to move on in `direction`.
    fn start(&mut self, direction: Direction, find: impl FnOnce(&Tree) -> Option<Cursor>) {
        if self.memtable.entry_count() == 0 {
            self.place = Position::Nowhere;
            return;
        }
        if let Some(tree) = self.memtable.frozen.get() {
            self.place = match find(tree) {
                Some(cursor) => Position::Frozen(Arc::clone(tree), cursor),
                None => Position::Nowhere,
            };
            return;
        }
        self.batch.count_max = BATCH_COUNT_MIN;
        let batch = &mut self.batch;
        self.memtable.with_tree(|tree| batch.fill(tree, find(tree), direction));
        self.stand_on_first();
    }

    fn stand_on_first(&mut self) {
        let is_empty = self.batch.entries.is_empty();
        self.place = if is_empty { Position::Nowhere } else { Position::Copied(0) };
    }

    fn step(&mut self, direction: Direction) {
        match &mut self.place {
            Position::Nowhere => {}
            Position::Frozen(tree, cursor) => {
                let moved = match direction {
                    Direction::Forward => tree.next_of_many(*cursor),
                    Direction::Backward => tree.prev(*cursor),
                };
                match moved {
                    Some(moved) => *cursor = moved,
                    None => self.place = Position::Nowhere,
                }
            }
            Position::Copied(at) => {
                let moved = if direction == self.batch.direction {
                    Some(*at + 1).filter(|&at| at < self.batch.entries.len())
                } else {
                    at.checked_sub(1)
                };
                match moved {
                    Some(moved) => *at = moved,
                    None => self.refill(direction),
                }
            }
        }
    }

    /// Moves past the end of the batch: finds the current key again and copies the entries beyond
    /// it.
    #[cold]
    fn refill(&mut self, direction: Direction) {
        let Position::Copied(at) = self.place else { return };
        let key = self.batch.key(at);
        let (user_key, trailer) = (key.user_key.to_vec(), key.trailer);
        let key = InternalKey::new(&user_key, trailer);
        let batch = &mut self.batch;
        self.memtable.with_tree(|tree| {
            let from = match direction {
                Direction::Backward => tree.last_before(key),
                Direction::Forward => match tree.lower_bound(key) {
                    Some(cursor) if tree.entry(cursor).0 == key => tree.next(cursor),
                    found => found,
                },
            };
            batch.fill(tree, from, direction);
        });
        self.stand_on_first();
    }
}

impl InternalIter for MemtableIter {
    fn seek_to_first(&mut self) -> Result<(), EngineError> {
        self.start(Direction::Forward, Tree::first);
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<(), EngineError> {
        self.start(Direction::Backward, Tree::last);
        Ok(())
    }

    fn seek(&mut self, target: InternalKey<'_>) -> Result<(), EngineError> {
        self.start(Direction::Forward, |tree| tree.lower_bound(target));
        Ok(())
    }

    fn seek_before(&mut self, target: InternalKey<'_>) -> Result<(), EngineError> {
        self.start(Direction::Backward, |tree| tree.last_before(target));
        Ok(())
    }

    fn next(&mut self) -> Result<(), EngineError> {
        self.step(Direction::Forward);
        Ok(())
    }

    fn prev(&mut self) -> Result<(), EngineError> {
        self.step(Direction::Backward);
        Ok(())
    }

    fn valid(&self) -> bool {
        !matches!(self.place, Position::Nowhere)
    }

    fn key(&self) -> InternalKey<'_> {
        match &self.place {
            Position::Frozen(tree, cursor) => tree.entry(*cursor).0,
            Position::Copied(at) => self.batch.key(*at),
            Position::Nowhere => InternalKey::new(&[], Trailer(0)),
        }
    }

    fn value(&self) -> &[u8] {
        match &self.place {
            Position::Frozen(tree, cursor) => tree.entry(*cursor).1.as_slice(),
            Position::Copied(at) => match &self.batch.entries[*at].value {
                CopiedValue::Inline(range) => &self.batch.bytes[range.clone()],
                CopiedValue::Large(bytes) => bytes,
            },
            Position::Nowhere => &[],
        }
    }
}
