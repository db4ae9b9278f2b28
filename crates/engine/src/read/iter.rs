//! The user's cursor: the newest visible version of every live key, both ways.
//!
//! ```text
//!   Forward    merged cursor ->  | a#9 | a#4 | b#2 |       the value is the merged cursor's, the
//!                                  ^ stands here           key a copy, to pass over a#4
//!   Backward   | a#9 | a#4 | b#2 |  <- merged cursor       key and value are copies: the newest
//!                        ^ stands before all of `b`        version of a key comes last
//! ```
//!
//! Invariants
//!   I1  Forward, the merged cursor stands on the current entry. Backward, it stands before every
//!       version of the current key.
//!   I2  What is seen does not change while the cursor lives: sources only gain entries above the
//!       snapshot, and tombstones are taken when the cursor is made.

use crate::EngineError;
use crate::iter::InternalIter;
use crate::key::{InternalKey, Kind, Seq, Trailer};
use crate::losses::Losses;
use crate::merge::MergingIter;
use crate::range_del::{Cover, FragmentedTombstones};
use bytes::Bytes;
use std::any::Any;
use std::sync::Arc;

/// So many versions of one key are stepped over one by one; then a seek is cheaper.
const STEP_COUNT_MAX: usize = 8;

/// What a cursor reads from.
pub(crate) struct IterSources {
    /// Memtables and tables, the newest first.
    pub(crate) entries: Vec<Box<dyn InternalIter>>,
    /// The range tombstones of all of them, in any order.
    pub(crate) tombstones: Vec<Arc<FragmentedTombstones>>,
    /// Where damage is noted that is passed over.
    pub(crate) losses: Option<Arc<Losses>>,
    /// Whatever must stay alive as long as the cursor: a version, a snapshot.
    pub(crate) pin: Option<Box<dyn Any + Send>>,
}

/// Which keys a cursor shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct IterBounds {
    /// The first key, if there is a bound.
    pub(crate) lower: Option<Bytes>,
    /// The key after the last one, if there is a bound.
    pub(crate) upper: Option<Bytes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Nowhere,
    Forward,
    Backward,
}

/// A cursor over the live keys of a keyspace, as they were when it was made.
///
/// It starts nowhere: seek first. A move that fails leaves it nowhere. It keeps the files it reads
/// from being freed, so a cursor that is kept for long keeps space.
pub struct Iter {
    merged: MergingIter<Box<dyn InternalIter>>,
    covers: Covers,
    losses: Option<Arc<Losses>>,
    snapshot: Seq,
    bounds: IterBounds,
    state: State,
    /// The current key; while looking forward, the last one that is done with.
    key: Vec<u8>,
    /// Backward: the current value.
    value: Vec<u8>,
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
            losses: sources.losses,
            snapshot,
            bounds,
            state: State::Nowhere,
            key: Vec::new(),
            value: Vec::new(),
            _pin: sources.pin,
        }
    }

    /// Whether the cursor stands on a key.
    #[inline]
    pub fn valid(&self) -> bool {
        self.state != State::Nowhere
    }

    /// The current key; empty if the cursor is nowhere.
    #[inline]
    pub fn key(&self) -> &[u8] {
        if self.valid() { &self.key } else { &[] }
    }

    /// The current value; empty if the cursor is nowhere.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match self.state {
            State::Forward => self.merged.value(),
            State::Backward => &self.value,
            State::Nowhere => &[],
        }
    }

    /// Moves to the first key.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`], [`EngineError::Files`]; so do all moves.
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
    /// As [`Iter::seek_to_first`].
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
    /// As [`Iter::seek_to_first`].
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
    /// As [`Iter::seek_to_first`].
    pub fn seek_for_prev(&mut self, target: impl AsRef<[u8]>) -> Result<(), EngineError> {
        let target = target.as_ref();
        if self.bounds.upper.as_ref().is_some_and(|upper| target >= upper) {
            return self.seek_to_last();
        }
        self.state = State::Nowhere;
        self.merged.seek_before(after_all(target))?;
        self.find_backward()
    }

    /// Moves to the next key; nowhere after the last. A cursor that is nowhere stays there.
    ///
    /// # Errors
    /// As [`Iter::seek_to_first`].
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

    /// Moves to the key before; nowhere before the first. A cursor that is nowhere stays there.
    ///
    /// # Errors
    /// As [`Iter::seek_to_first`].
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

    /// From the merged cursor on, finds the first key to show. With `is_key_done`, versions of
    /// `self.key` are passed over.
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
            let is_put = trailer.kind() == Some(Kind::Put);
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

    /// Loads the value of `self.key`; false if it is damaged and is passed over with its key.
    #[inline]
    fn loads_value(&mut self) -> Result<bool, EngineError> {
        let loaded = self.merged.load_value();
        self.is_shown(loaded)
    }

    /// Whether `self.key` is shown, whose value was `loaded`; false if that is damaged and is passed over.
    #[inline]
    fn is_shown(&self, loaded: Result<u64, EngineError>) -> Result<bool, EngineError> {
        match (loaded, &self.losses) {
            (Ok(_), _) => Ok(true),
            (Err(error), None) => Err(error),
            (Err(error), Some(losses)) => {
                losses.pass(error, &format!("key {}", self.key.escape_ascii()))?;
                Ok(false)
            }
        }
    }

    /// From the merged cursor back, finds the last key to show, and its newest visible version,
    /// which is the last one met. What cannot be read of the others hurts nobody.
    fn find_backward(&mut self) -> Result<(), EngineError> {
        // How loading went where the newest version of `self.key` so far is live.
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
                let is_put = trailer.kind() == Some(Kind::Put);
                found = None;
                if is_put && !self.covers.covers(user_key, trailer.seq()) {
                    self.key.clear();
                    self.key.extend_from_slice(user_key);
                    let loaded = self.merged.load_value();
                    if loaded.is_ok() {
                        self.value.clear();
                        self.value.extend_from_slice(self.merged.value());
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

/// Equality of keys that mostly differ: most of these differ in their first or last 8 bytes.
#[inline]
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let (ends_a, ends_b) =
        ((a.first_chunk::<8>(), a.last_chunk::<8>()), (b.first_chunk(), b.last_chunk()));
    ends_a == ends_b && a == b
}

/// Where a seek goes that passes over every version of `user_key`.
fn after_all(user_key: &[u8]) -> InternalKey<'_> {
    InternalKey::new(user_key, Trailer(0))
}

/// Where a seek goes that stops before every version of `user_key`.
fn before_all(user_key: &[u8]) -> InternalKey<'_> {
    InternalKey::new(user_key, Trailer(u64::MAX))
}

/// The range tombstones of all sources, and what they say about the keys around the last one asked.
struct Covers {
    views: Vec<Arc<FragmentedTombstones>>,
    snapshot: Seq,
    around: Cover,
}

impl Covers {
    fn new(mut views: Vec<Arc<FragmentedTombstones>>, snapshot: Seq) -> Covers {
        views.retain(|view| !view.is_empty());
        // No key lies in it: the first question looks.
        let nowhere = Cover { start: None, end: Some(Bytes::new()), seq: None };
        Covers { views, snapshot, around: nowhere }
    }

    /// Whether an entry is deleted by a range tombstone that the reader sees (R3).
    #[inline]
    fn covers(&mut self, user_key: &[u8], seq: Seq) -> bool {
        !self.views.is_empty() && self.covers_among(user_key, seq)
    }

    fn covers_among(&mut self, user_key: &[u8], seq: Seq) -> bool {
        if !self.around.contains(user_key) {
            let everywhere = Cover { start: None, end: None, seq: None };
            self.around = self
                .views
                .iter()
                .map(|view| view.cover_around(user_key, self.snapshot))
                .fold(everywhere, Cover::intersect);
        }
        self.around.seq.is_some_and(|deleted| seq < deleted)
    }
}

#[cfg(test)]
mod tests;
