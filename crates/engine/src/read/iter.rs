//! The user's cursor: the newest visible version of every live key, in both directions.
//!
//! ```text
//!   Forward    merged cursor ->  | a#9 | a#4 | b#2 |       the value is the merged cursor's; the
//!                                  ^ stands here           key is a copy, used to skip a#4
//!   Backward   | a#9 | a#4 | b#2 |  <- merged cursor       key and value are copies: the newest
//!                        ^ stands before all of `b`        version of a key comes last
//! ```
//!
//! Invariants
//!   I1  Forward, the merged cursor stands on the current entry. Backward, it stands before every
//!       version of the current key.
//!   I2  A cursor shows the same state for its whole life: its sources gain only entries newer than
//!       its snapshot, and it takes the range tombstones when it is made.

use crate::EngineError;
use crate::iter::{InternalIter, IterBounds};
use crate::key::{InternalKey, Kind, Seq, Trailer};
use crate::losses::{Losses, LostKeys};
use crate::merge::MergingIter;
use crate::read::covers::{Covers, TombstoneView};
use std::any::Any;
use std::sync::Arc;

/// The number of entries to step over one by one. With more versions of one key, a seek is cheaper.
const STEP_COUNT_MAX: usize = 8;

/// Reads the value that an entry of kind [`Kind::PutApart`] names, for its key, into a buffer.
pub(crate) type ReadApart =
    dyn Fn(&[u8], &[u8], &mut Vec<u8>) -> Result<(), EngineError> + Send + Sync;

/// The sources of a cursor.
pub(crate) struct IterSources {
    /// Memtables and tables, the newest first.
    pub(crate) entries: Vec<Box<dyn InternalIter>>,
    /// The range tombstones of all sources, in any order.
    pub(crate) tombstones: Vec<TombstoneView>,
    /// Reads values that are apart from their entries, if some may be.
    pub(crate) read_apart: Option<Arc<ReadApart>>,
    /// The record of skipped damage. Without one, damage is an error.
    pub(crate) losses: Option<Arc<Losses>>,
    /// An object that must live as long as the cursor, such as a version or a snapshot.
    pub(crate) pin: Option<Box<dyn Any + Send>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Nowhere,
    Forward,
    Backward,
}

/// A cursor over the live keys of a keyspace, as they were when the cursor was made.
///
/// A new cursor has no position: seek first. A move that fails leaves it without one. A cursor
/// keeps the files it reads from being freed, so a long-lived cursor keeps their space in use.
pub struct Iter {
    merged: MergingIter<Box<dyn InternalIter>>,
    covers: Covers,
    read_apart: Option<Arc<ReadApart>>,
    losses: Option<Arc<Losses>>,
    snapshot: Seq,
    bounds: IterBounds,
    state: State,
    /// The current key. During a forward search: the last key whose versions are to be skipped.
    key: Vec<u8>,
    /// The current value, if the direction is backward or the value is apart from its entry.
    value: Vec<u8>,
    is_apart: bool,
    _pin: Option<Box<dyn Any + Send>>,
}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter")
            .field("state", &self.state)
            .field("snapshot", &self.snapshot)
            .field("bounds", &self.bounds)
            .finish_non_exhaustive()
    }
}

impl Iter {
    pub(crate) fn new(sources: IterSources, snapshot: Seq, bounds: IterBounds) -> Iter {
        Iter {
            merged: MergingIter::new(sources.entries),
            covers: Covers::new(sources.tombstones, snapshot),
            read_apart: sources.read_apart,
            losses: sources.losses,
            snapshot,
            bounds,
            state: State::Nowhere,
            key: Vec::new(),
            value: Vec::new(),
            is_apart: false,
            _pin: sources.pin,
        }
    }

    /// Whether the cursor is on a key.
    #[inline]
    pub fn valid(&self) -> bool {
        self.state != State::Nowhere
    }

    /// The current key; empty if the cursor has no position.
    #[inline]
    pub fn key(&self) -> &[u8] {
        if self.valid() { &self.key } else { &[] }
    }

    /// The current value; empty if the cursor has no position.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match self.state {
            State::Forward if self.is_apart => &self.value,
            State::Forward => self.merged.value(),
            State::Backward => &self.value,
            State::Nowhere => &[],
        }
    }

    /// Moves to the first key.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`] and [`EngineError::Files`]. All other moves return the same errors.
    pub fn seek_to_first(&mut self) -> Result<(), EngineError> {
        self.state = State::Nowhere;
        match &self.bounds.lower {
            Some(lower) => {
                let trailer = Trailer::seek(self.snapshot);
                self.merged.seek(InternalKey::new(lower, trailer))?;
            }
            None => self.merged.seek_to_first()?,
        }
        self.find_forward(false)
    }

    /// Moves to the last key.
    ///
    /// # Errors
    /// Like [`Iter::seek_to_first`].
    pub fn seek_to_last(&mut self) -> Result<(), EngineError> {
        self.state = State::Nowhere;
        match &self.bounds.upper {
            Some(upper) => self.merged.seek_before(before_all(upper))?,
            None => self.merged.seek_to_last()?,
        }
        self.find_backward()
    }

    /// Moves to the first key at or after `target`.
    ///
    /// # Errors
    /// Like [`Iter::seek_to_first`].
    pub fn seek(&mut self, target: impl AsRef<[u8]>) -> Result<(), EngineError> {
        self.state = State::Nowhere;
        let target = target.as_ref();
        let lower = self.bounds.lower.as_deref().unwrap_or_default();
        let target = InternalKey::new(target.max(lower), Trailer::seek(self.snapshot));
        self.merged.seek(target)?;
        self.find_forward(false)
    }

    /// Moves to the last key at or before `target`.
    ///
    /// # Errors
    /// Like [`Iter::seek_to_first`].
    pub fn seek_for_prev(&mut self, target: impl AsRef<[u8]>) -> Result<(), EngineError> {
        let target = target.as_ref();
        if self.bounds.upper.as_ref().is_some_and(|upper| target >= upper) {
            return self.seek_to_last();
        }
        self.state = State::Nowhere;
        self.merged.seek_before(after_all(target))?;
        self.find_backward()
    }

    /// Moves to the next key. After the last key, the cursor loses its position. A cursor without a
    /// position stays without one.
    ///
    /// # Errors
    /// Like [`Iter::seek_to_first`].
    #[expect(clippy::should_implement_trait, reason = "a cursor lends its entry and may fail")]
    pub fn next(&mut self) -> Result<(), EngineError> {
        match std::mem::replace(&mut self.state, State::Nowhere) {
            State::Nowhere => Ok(()),
            State::Forward => {
                self.merged.next()?;
                self.find_forward(true)
            }
            State::Backward => {
                self.merged.seek(after_all(&self.key))?;
                self.find_forward(false)
            }
        }
    }

    /// Moves to the previous key. Before the first key, the cursor loses its position. A cursor
    /// without a position stays without one.
    ///
    /// # Errors
    /// Like [`Iter::seek_to_first`].
    pub fn prev(&mut self) -> Result<(), EngineError> {
        match std::mem::replace(&mut self.state, State::Nowhere) {
            State::Nowhere => Ok(()),
            State::Forward => {
                self.merged.seek_before(before_all(&self.key))?;
                self.find_backward()
            }
            State::Backward => self.find_backward(),
        }
    }

    /// Searches forward from the merged cursor for the next key to show. If `is_key_done`, versions
    /// of `self.key` are skipped.
    fn find_forward(&mut self, mut is_key_done: bool) -> Result<(), EngineError> {
        let (mut old_count, mut unseen_count) = (0, 0);
        while self.merged.valid() {
            let InternalKey { user_key, trailer } = self.merged.key();
            if trailer.seq() > self.snapshot {
                unseen_count += 1;
                if unseen_count > STEP_COUNT_MAX {
                    unseen_count = 0;
                    self.value.clear();
                    self.value.extend_from_slice(user_key);
                    let target = InternalKey::new(&self.value, Trailer::seek(self.snapshot));
                    self.merged.seek(target)?;
                } else {
                    self.merged.next()?;
                }
                continue;
            }
            if is_key_done && is_same(user_key, &self.key) {
                old_count += 1;
                if old_count > STEP_COUNT_MAX {
                    old_count = 0;
                    self.merged.seek(after_all(&self.key))?;
                } else {
                    self.merged.next()?;
                }
                continue;
            }
            if self.bounds.upper.as_ref().is_some_and(|upper| user_key >= upper) {
                break;
            }
            self.is_apart = trailer.kind() == Some(Kind::PutApart);
            let is_put = self.is_apart || trailer.kind() == Some(Kind::Put);
            let is_live = is_put && !self.covers.covers(user_key, trailer.seq());
            self.key.clear();
            self.key.extend_from_slice(user_key);
            if is_live && self.loads_value()? {
                self.state = State::Forward;
                break;
            }
            (is_key_done, old_count) = (true, 0);
            self.merged.next()?;
        }
        Ok(())
    }

    /// Loads the value of `self.key`. Returns false if the value is damaged and damage is skipped.
    #[inline]
    fn loads_value(&mut self) -> Result<bool, EngineError> {
        let mut loaded = self.merged.load_value();
        if self.is_apart && loaded.is_ok() {
            let entry = self.merged.value().to_vec();
            loaded = self.read_apart(&entry);
        }
        self.is_shown(loaded)
    }

    /// Reads the value of `self.key` that `entry` names.
    #[cold]
    fn read_apart(&mut self, entry: &[u8]) -> Result<u64, EngineError> {
        let Some(read) = &self.read_apart else {
            return Err(EngineError::Corrupt {
                structure: "value",
                file: "a table".to_owned(),
                offset: 0,
                reason: "its value is in another table, which this reader has not".to_owned(),
            });
        };
        read(&self.key, entry, &mut self.value).map(|()| 0)
    }

    /// Whether to show `self.key`, given how loading its value went. Returns false if the value is
    /// damaged and damage is skipped.
    #[inline]
    fn is_shown(&self, loaded: Result<u64, EngineError>) -> Result<bool, EngineError> {
        match (loaded, &self.losses) {
            (Ok(_), _) => Ok(true),
            (Err(error), None) => Err(error),
            (Err(error), Some(losses)) => {
                losses.pass(error, &format!("key {}", self.key.escape_ascii()))?;
                let key = Some(self.key.to_vec());
                losses.note_keys(LostKeys { from: key.clone(), upto: key, ..LostKeys::default() });
                Ok(false)
            }
        }
    }

    /// Searches backward from the merged cursor for the next key to show. Its newest visible
    /// version is the last one in this direction. Damage to the value of an older version is
    /// ignored.
    fn find_backward(&mut self) -> Result<(), EngineError> {
        // How loading went for the newest version of `self.key` found so far; `None` if that
        // version is deleted.
        let mut found: Option<Result<u64, EngineError>> = None;
        while self.merged.valid() {
            let InternalKey { user_key, trailer } = self.merged.key();
            if found.is_some()
                && user_key != self.key
                && let Some(loaded) = found.take()
                && self.is_shown(loaded)?
            {
                self.state = State::Backward;
                return Ok(());
            }
            if self.bounds.lower.as_ref().is_some_and(|lower| user_key < lower) {
                break;
            }
            if trailer.seq() <= self.snapshot {
                let is_apart = trailer.kind() == Some(Kind::PutApart);
                let is_put = is_apart || trailer.kind() == Some(Kind::Put);
                found = None;
                if is_put && !self.covers.covers(user_key, trailer.seq()) {
                    self.key.clear();
                    self.key.extend_from_slice(user_key);
                    let mut loaded = self.merged.load_value();
                    if loaded.is_ok() {
                        self.value.clear();
                        self.value.extend_from_slice(self.merged.value());
                    }
                    if is_apart && loaded.is_ok() {
                        let entry = std::mem::take(&mut self.value);
                        loaded = self.read_apart(&entry);
                    }
                    found = Some(loaded);
                }
            }
            self.merged.prev()?;
        }
        if let Some(loaded) = found
            && self.is_shown(loaded)?
        {
            self.state = State::Backward;
        }
        Ok(())
    }
}

/// Equality of keys that usually differ. Most such keys differ in their first or last 8 bytes.
#[inline]
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let (ends_a, ends_b) =
        ((a.first_chunk::<8>(), a.last_chunk::<8>()), (b.first_chunk(), b.last_chunk()));
    ends_a == ends_b && a == b
}

/// A seek target after every version of `user_key`.
fn after_all(user_key: &[u8]) -> InternalKey<'_> {
    InternalKey::new(user_key, Trailer(0))
}

/// A seek target before every version of `user_key`.
fn before_all(user_key: &[u8]) -> InternalKey<'_> {
    InternalKey::new(user_key, Trailer(u64::MAX))
}

#[cfg(test)]
mod tests;
