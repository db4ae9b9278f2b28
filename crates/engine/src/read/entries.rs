//! A range of keys as a Rust iterator that works from both ends.

use super::Iter;
use crate::EngineError;
use bytes::Bytes;

/// The entries of a range in key order, from the front or from the back. The iterator ends after
/// the first error.
///
/// Cost: each change between front and back costs a seek.
#[derive(Debug)]
pub struct Entries {
    iter: Iter,
    /// The last key returned at each end.
    front: Option<Bytes>,
    back: Option<Bytes>,
    /// The end at which the cursor is, on the last key returned there.
    at: Option<Side>,
    is_done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Front,
    Back,
}

/// The smallest key after all keys that start with `prefix`, or `None` if no key is.
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

impl From<Iter> for Entries {
    fn from(iter: Iter) -> Entries {
        Entries { iter, front: None, back: None, at: None, is_done: false }
    }
}

impl Entries {
    fn step_front(&mut self) -> Result<Option<(Bytes, Bytes)>, EngineError> {
        match (&self.front, self.at) {
            (None, _) => self.iter.seek_to_first()?,
            (Some(_), Some(Side::Front)) => self.iter.next()?,
            (Some(front), _) => {
                self.iter.seek(front)?;
                self.iter.next()?;
            }
        }
        self.at = Some(Side::Front);
        if !self.iter.valid() || self.back.as_ref().is_some_and(|back| self.iter.key() >= back) {
            return Ok(None);
        }
        let key = Bytes::copy_from_slice(self.iter.key());
        self.front = Some(key.clone());
        Ok(Some((key, Bytes::copy_from_slice(self.iter.value()))))
    }

    fn step_back(&mut self) -> Result<Option<(Bytes, Bytes)>, EngineError> {
        match (&self.back, self.at) {
            (None, _) => self.iter.seek_to_last()?,
            (Some(_), Some(Side::Back)) => self.iter.prev()?,
            (Some(back), _) => {
                self.iter.seek_for_prev(back)?;
                self.iter.prev()?;
            }
        }
        self.at = Some(Side::Back);
        if !self.iter.valid() || self.front.as_ref().is_some_and(|front| self.iter.key() <= front) {
            return Ok(None);
        }
        let key = Bytes::copy_from_slice(self.iter.key());
        self.back = Some(key.clone());
        Ok(Some((key, Bytes::copy_from_slice(self.iter.value()))))
    }

    fn give(
        &mut self,
        step: impl FnOnce(&mut Entries) -> Result<Option<(Bytes, Bytes)>, EngineError>,
    ) -> Option<Result<(Bytes, Bytes), EngineError>> {
        if self.is_done {
            return None;
        }
        let item = step(self).transpose();
        self.is_done = !matches!(item, Some(Ok(_)));
        item
    }
}

impl Iterator for Entries {
    type Item = Result<(Bytes, Bytes), EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.give(Entries::step_front)
    }
}

impl DoubleEndedIterator for Entries {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.give(Entries::step_back)
    }
}

impl std::iter::FusedIterator for Entries {}
