//! An iterator of the store and its twin over a map, moved in step.

use super::keys::draw_key;
use super::model::{Bytes, Map, describe, key_in_words};
use crate::rig::Rig;
use imbrex_engine::{EngineError, Iter};
use std::ops::Bound;
use std::sync::Arc;

/// The two, and the position of the twin.
pub(crate) struct Cursor {
    iter: Iter,
    /// The keys within the bounds, as of the iterator's creation.
    map: Map,
    at: Option<Bytes>,
}

/// Why a walk ended early.
pub(crate) enum Trouble {
    /// The store failed.
    Store(EngineError),
    /// The store answered wrongly.
    Wrong(String),
}

impl From<EngineError> for Trouble {
    fn from(error: EngineError) -> Trouble {
        Trouble::Store(error)
    }
}

impl Cursor {
    /// Twins over `map`, within the bounds of `iter`.
    pub(crate) fn new(
        iter: Iter,
        map: &Map,
        lower: Option<&Bytes>,
        upper: Option<&Bytes>,
    ) -> Cursor {
        let inside = |key: &Bytes| {
            lower.is_none_or(|lower| lower <= key) && upper.is_none_or(|upper| key < upper)
        };
        let map = map.iter().filter(|(key, _)| inside(key));
        Cursor { iter, map: map.map(|(k, v)| (k.clone(), v.clone())).collect(), at: None }
    }

    /// Makes `count` seeded moves, and compares after each.
    pub(crate) fn walk(&mut self, rig: &mut Rig, count: u64) -> Result<(), Trouble> {
        let forward = rig.prng.chance(1, 2);
        for _ in 0..count {
            match self.step(rig, forward) {
                Ok(what) => self.compare(&what)?,
                Err(error) => {
                    // A move that fails leaves the iterator without a position.
                    self.at = None;
                    self.compare("a failure")?;
                    return Err(Trouble::Store(error));
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, rig: &mut Rig, forward: bool) -> Result<String, EngineError> {
        let is_placed = self.at.is_some();
        match rig.prng.below(12) {
            0 => self.first(),
            1 => self.last(),
            2 => self.seek(draw_key(&mut rig.prng)),
            3 => self.seek_for_prev(draw_key(&mut rig.prng)),
            _ if !is_placed && forward => self.first(),
            _ if !is_placed => self.last(),
            4..=10 if forward => self.next(),
            11 if forward => self.prev(),
            4..=10 => self.prev(),
            _ => self.next(),
        }
    }

    fn first(&mut self) -> Result<String, EngineError> {
        self.iter.seek_to_first()?;
        self.at = self.map.keys().next().cloned();
        Ok("seek to first".to_string())
    }

    fn last(&mut self) -> Result<String, EngineError> {
        self.iter.seek_to_last()?;
        self.at = self.map.keys().next_back().cloned();
        Ok("seek to last".to_string())
    }

    fn seek(&mut self, key: Bytes) -> Result<String, EngineError> {
        self.iter.seek(&key)?;
        self.at = self.map.range(Arc::clone(&key)..).next().map(|(k, _)| k.clone());
        Ok(format!("seek {}", key_in_words(&key)))
    }

    fn seek_for_prev(&mut self, key: Bytes) -> Result<String, EngineError> {
        self.iter.seek_for_prev(&key)?;
        self.at = self.map.range(..=Arc::clone(&key)).next_back().map(|(k, _)| k.clone());
        Ok(format!("seek for prev {}", key_in_words(&key)))
    }

    fn next(&mut self) -> Result<String, EngineError> {
        self.iter.next()?;
        self.at = self.at.take().and_then(|at| {
            let after = (Bound::Excluded(at), Bound::Unbounded);
            self.map.range::<Bytes, _>(after).next().map(|(k, _)| k.clone())
        });
        Ok("next".to_string())
    }

    fn prev(&mut self) -> Result<String, EngineError> {
        self.iter.prev()?;
        self.at =
            self.at.take().and_then(|at| self.map.range(..at).next_back().map(|(k, _)| k.clone()));
        Ok("prev".to_string())
    }

    fn compare(&self, what: &str) -> Result<(), Trouble> {
        let expected = self.at.as_ref().map(|at| (&**at, &*self.map[at]));
        let got = self.iter.valid().then(|| (self.iter.key(), self.iter.value()));
        if expected == got {
            return Ok(());
        }
        let words = |pair: Option<(&[u8], &[u8])>| match pair {
            None => "the end".to_string(),
            Some((key, value)) => format!("{} = {}", key_in_words(key), describe(Some(value))),
        };
        let (expected, got) = (words(expected), words(got));
        Err(Trouble::Wrong(format!("iterator after {what}: expected {expected}, got {got}")))
    }
}
