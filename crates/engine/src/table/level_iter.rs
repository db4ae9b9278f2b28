//! An iterator over a sorted run: tables that follow one another without overlap.
//!
//! A table is opened when the iterator reaches it, so that a short scan of a wide level opens one
//! table. A scan that moves on to the next table reads ahead as far as it did in the one before.

use super::block::compare_user_keys;
use super::iter::{TableIter, TableReadOptions};
use super::reader::Table;
use crate::EngineError;
use crate::iter::InternalIter;
use crate::key::InternalKey;
use bytes::Bytes;
use std::cmp::Ordering;
use std::fmt::Debug;
use std::sync::Arc;

/// Tables in key order whose entries do not overlap. Versions of one user key may continue from one
/// table to the next, newest first.
pub(crate) trait SortedRun: Send + Sync + Debug {
    /// The number of tables.
    fn table_count(&self) -> usize;

    /// The largest user key of table `index`.
    fn largest_user_key(&self, index: usize) -> &[u8];

    /// The key from which table `index` is read, if its file has entries before that.
    fn front(&self, index: usize) -> Option<&Bytes>;

    /// Returns table `index`, opening it if necessary.
    fn open(&self, index: usize) -> Result<Arc<Table>, EngineError>;
}

/// A cursor over a sorted run.
#[derive(Debug)]
pub(crate) struct LevelIter<R> {
    run: R,
    options: TableReadOptions,
    table_index: usize,
    iter: Option<TableIter>,
}

impl<R: SortedRun> LevelIter<R> {
    /// Creates a cursor over `run`.
    pub(crate) fn new(run: R, options: TableReadOptions) -> LevelIter<R> {
        LevelIter { run, options, table_index: 0, iter: None }
    }

    /// Makes table `index` the current one. Returns false if it does not exist.
    fn open(&mut self, index: usize) -> Result<bool, EngineError> {
        if index >= self.run.table_count() {
            self.iter = None;
            return Ok(false);
        }
        if self.iter.is_none() || self.table_index != index {
            self.iter = None;
            self.table_index = index;
            let iter = self.run.open(index)?.iter(self.options.clone());
            self.iter = Some(iter.starting_at_front(self.run.front(index)));
        }
        Ok(true)
    }

    /// Like `open`, for a scan that moves on from the current table.
    fn go_on_in(&mut self, index: usize) -> Result<bool, EngineError> {
        let before = self.iter.take();
        let is_there = self.open(index)?;
        if let (Some(iter), Some(before)) = (&mut self.iter, before) {
            iter.go_on_from(&before);
        }
        Ok(is_there)
    }

    /// The run and the index of the current table. After an error, that is the table that failed.
    pub(crate) fn place(&self) -> (&R, usize) {
        (&self.run, self.table_index)
    }

    /// The first table whose largest user key, compared with that of `target`, is not `is_before`.
    fn find(&self, target: InternalKey<'_>, is_before: fn(Ordering) -> bool) -> usize {
        let (mut low, mut high) = (0, self.run.table_count());
        while low < high {
            let middle = (low + high) / 2;
            let largest = self.run.largest_user_key(middle);
            if is_before(compare_user_keys(largest, target.user_key)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Moves to the first entry of the next table, while the current one has no more entries.
    fn skip_forward(&mut self) -> Result<(), EngineError> {
        while self.iter.as_ref().is_some_and(|iter| !iter.valid()) {
            if self.go_on_in(self.table_index + 1)?
                && let Some(iter) = &mut self.iter
            {
                iter.seek_to_first()?;
            }
        }
        Ok(())
    }

    /// Moves to the last entry of the previous table, while the current one has no earlier entries.
    fn skip_backward(&mut self) -> Result<(), EngineError> {
        while self.iter.as_ref().is_some_and(|iter| !iter.valid()) {
            let Some(before) = self.table_index.checked_sub(1) else {
                self.iter = None;
                return Ok(());
            };
            self.go_on_in(before)?;
            if let Some(iter) = &mut self.iter {
                iter.seek_to_last()?;
            }
        }
        Ok(())
    }

    #[inline]
    fn current(&self) -> &TableIter {
        self.iter.as_ref().expect("key, value, next and prev are called only while valid")
    }

    #[inline]
    fn current_mut(&mut self) -> &mut TableIter {
        self.iter.as_mut().expect("key, value, next and prev are called only while valid")
    }
}

impl<R: SortedRun> InternalIter for LevelIter<R> {
    fn seek_to_first(&mut self) -> Result<(), EngineError> {
        if self.open(0)? {
            self.current_mut().seek_to_first()?;
        }
        self.skip_forward()
    }

    fn seek_to_last(&mut self) -> Result<(), EngineError> {
        let Some(last) = self.run.table_count().checked_sub(1) else { return Ok(()) };
        self.open(last)?;
        self.current_mut().seek_to_last()?;
        self.skip_backward()
    }

    fn seek(&mut self, target: InternalKey<'_>) -> Result<(), EngineError> {
        // Versions of one user key may span tables, so the search continues in the next one.
        for index in self.find(target, Ordering::is_lt)..=self.run.table_count() {
            if !self.open(index)? {
                break;
            }
            self.current_mut().seek(target)?;
            if self.valid() {
                break;
            }
        }
        Ok(())
    }

    fn seek_before(&mut self, target: InternalKey<'_>) -> Result<(), EngineError> {
        // The table after one that ends with this user key may have older versions of it.
        let Some(last) = self.run.table_count().checked_sub(1) else { return Ok(()) };
        let first_above = self.find(target, Ordering::is_le).min(last);
        for index in (0..=first_above).rev() {
            self.open(index)?;
            self.current_mut().seek_before(target)?;
            if self.valid() {
                break;
            }
        }
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<(), EngineError> {
        let iter = self.current_mut();
        iter.next()?;
        if iter.valid() { Ok(()) } else { self.skip_forward() }
    }

    #[inline]
    fn prev(&mut self) -> Result<(), EngineError> {
        let iter = self.current_mut();
        iter.prev()?;
        if iter.valid() { Ok(()) } else { self.skip_backward() }
    }

    #[inline]
    fn valid(&self) -> bool {
        self.iter.as_ref().is_some_and(InternalIter::valid)
    }

    #[inline]
    fn key(&self) -> InternalKey<'_> {
        self.current().key()
    }

    #[inline]
    fn load_value(&mut self) -> Result<u64, EngineError> {
        self.current_mut().load_value()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.current().value()
    }

    #[inline]
    fn value_len(&self) -> usize {
        self.current().value_len()
    }
}
