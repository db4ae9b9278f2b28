//! An iterator over a sorted run: tables that follow one another without overlap.
//!
//! A table is opened when the iterator reaches it, so that a short scan of a wide level opens one
//! table. A scan that moves on to the next table reads ahead as far as it did in the one before.
//! Tables outside the bounds of the cursor are never opened. A seek to a key between two tables stays at
//! the border of the next one, and reads nothing until the merge of the runs has come so far.

use super::block::compare_user_keys;
use super::iter::{FirstReadBy, TableIter, TableReadOptions};
use super::reader::Table;
use crate::EngineError;
use crate::first_reads::{FirstRead, SeekTo};
use crate::iter::{InternalIter, IterBounds};
use crate::key::{ApartEntry, InternalKey, Trailer};
use bytes::Bytes;
use std::cmp::Ordering;
use std::fmt::Debug;
use std::sync::Arc;

/// Tables in key order whose entries do not overlap. Versions of one user key may continue from one
/// table to the next, newest first.
pub(crate) trait SortedRun: Send + Sync + Debug {
    /// The number of tables.
    fn table_count(&self) -> usize;

    /// A user key at or before all entries of table `index`.
    fn smallest_user_key(&self, index: usize) -> &[u8];

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
    bounds: IterBounds,
    table_index: usize,
    iter: Option<TableIter>,
    /// Whether the cursor is at a border of the current table, which need not be open.
    border: Option<Border>,
}

/// A border of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Border {
    First,
    Last,
}

impl<R: SortedRun> LevelIter<R> {
    /// Creates a cursor over `run`.
    pub(crate) fn new(run: R, options: TableReadOptions) -> LevelIter<R> {
        let bounds = IterBounds::default();
        LevelIter { run, options, bounds, table_index: 0, iter: None, border: None }
    }

    /// The same cursor, which need not find entries outside `bounds`. At a bounded end it is moved to
    /// the bound instead of the first or last entry.
    pub(crate) fn within(self, bounds: &IterBounds) -> LevelIter<R> {
        LevelIter { bounds: bounds.clone(), ..self }
    }

    /// Whether table `index` exists and may have an entry within the bounds.
    fn is_wanted(&self, index: usize) -> bool {
        index < self.run.table_count() && {
            let run = &self.run;
            self.bounds.overlap(run.smallest_user_key(index), run.largest_user_key(index))
        }
    }

    /// Makes table `index` the current one. Returns false if it does not exist or is out of bounds.
    fn open(&mut self, index: usize) -> Result<bool, EngineError> {
        self.border = None;
        if !self.is_wanted(index) {
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

    /// Moves to `to`, or returns the read that the move needs first in its first table.
    fn seek_to(
        &mut self,
        to: SeekTo<'_>,
        read_by: FirstReadBy,
    ) -> Result<Option<FirstRead>, EngineError> {
        let Some(last) = self.run.table_count().checked_sub(1) else { return Ok(None) };
        let mut index = match to {
            SeekTo::First => 0,
            SeekTo::Last => last,
            // Versions of one user key may span tables, so the search continues in the next one.
            SeekTo::AtOrAfter(target) => self.find(target, Ordering::is_lt),
            // The table after one that ends with this user key may have older versions of it.
            SeekTo::Before(target) => {
                let mut index = self.find(target, Ordering::is_le).min(last);
                while index > 0 && self.is_beyond(index, target) {
                    index -= 1;
                }
                index
            }
        };
        if read_by == FirstReadBy::Caller
            && let Some(border) = self.border_before(to, index)
        {
            self.border = Some(border);
            if self.table_index != index {
                (self.table_index, self.iter) = (index, None);
            }
            return Ok(None);
        }
        let mut read_by = read_by;
        while self.open(index)? {
            if let Some(read) = self.current_mut().seek_to(to, read_by)? {
                return Ok(Some(read));
            }
            let next = match to {
                SeekTo::First | SeekTo::AtOrAfter(_) => Some(index + 1),
                SeekTo::Last | SeekTo::Before(_) => index.checked_sub(1),
            };
            match next {
                Some(next) if !self.valid() => index = next,
                _ => break,
            }
            read_by = FirstReadBy::Iterator;
        }
        Ok(None)
    }

    /// The border of table `index` that a move to `to` reaches before any of the table's entries.
    fn border_before(&self, to: SeekTo<'_>, index: usize) -> Option<Border> {
        if !self.is_wanted(index) {
            return None;
        }
        match to {
            SeekTo::AtOrAfter(target) => {
                (target.user_key < self.run.smallest_user_key(index)).then_some(Border::First)
            }
            SeekTo::Before(target) => {
                (self.run.largest_user_key(index) < target.user_key).then_some(Border::Last)
            }
            SeekTo::First | SeekTo::Last => None,
        }
    }

    /// Whether all entries of table `index` that the bounds allow are after those before `target`.
    fn is_beyond(&self, index: usize, target: InternalKey<'_>) -> bool {
        let smallest = self.run.smallest_user_key(index);
        smallest > target.user_key
            || self.bounds.upper.as_ref().is_some_and(|upper| smallest >= upper)
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
        self.seek_to(SeekTo::First, FirstReadBy::Iterator).map(|_| ())
    }

    fn seek_to_last(&mut self) -> Result<(), EngineError> {
        self.seek_to(SeekTo::Last, FirstReadBy::Iterator).map(|_| ())
    }

    fn seek(&mut self, target: InternalKey<'_>) -> Result<(), EngineError> {
        self.seek_to(SeekTo::AtOrAfter(target), FirstReadBy::Iterator).map(|_| ())
    }

    fn seek_before(&mut self, target: InternalKey<'_>) -> Result<(), EngineError> {
        self.seek_to(SeekTo::Before(target), FirstReadBy::Iterator).map(|_| ())
    }

    fn begin(&mut self, to: SeekTo<'_>) -> Result<Option<FirstRead>, EngineError> {
        self.seek_to(to, FirstReadBy::Caller)
    }

    fn is_at_bound(&self) -> bool {
        self.border.is_some()
    }

    fn leave_bound(&mut self) -> Result<(), EngineError> {
        let index = self.table_index;
        match self.border.take() {
            Some(Border::First) => {
                if self.open(index)? {
                    self.current_mut().seek_to_first()?;
                }
                self.skip_forward()
            }
            Some(Border::Last) => {
                if self.open(index)? {
                    self.current_mut().seek_to_last()?;
                }
                self.skip_backward()
            }
            None => Ok(()),
        }
    }

    fn accept(&mut self, offset: u64, bytes: &[u8]) {
        if let Some(iter) = &mut self.iter {
            iter.accept(offset, bytes);
        }
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
        self.border.is_some() || self.iter.as_ref().is_some_and(InternalIter::valid)
    }

    #[inline]
    fn key(&self) -> InternalKey<'_> {
        match self.border {
            None => self.current().key(),
            Some(Border::First) => {
                InternalKey::new(self.run.smallest_user_key(self.table_index), Trailer(u64::MAX))
            }
            Some(Border::Last) => {
                InternalKey::new(self.run.largest_user_key(self.table_index), Trailer(0))
            }
        }
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

    fn apart(&self) -> Option<ApartEntry> {
        self.current().apart()
    }
}
